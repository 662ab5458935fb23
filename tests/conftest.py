"""What every test gets: a check that it leaves nothing behind, and a data directory for clusters.

Left behind would be a child process, a process below one, or a shared-memory segment. Other test runs may
be at work on the same machine, so only what is provably ours counts: processes are recognised by a variable
in their environment, segments by the process in their name. Set ``PUBSUB_CLUSTER_TESTS_ALONE=1`` where no
other cluster runs (the CI does) to also count the segments of processes that have died. A cluster that
several tests share (a fixture of a wider scope) may start processes and make segments in any of them.

With pytest-xdist, tests are dealt to all processes, those with clusters too: each process knows its own by a
mark of its own. Tests that share what takes long to make stay together: a file's cluster, Spark's session,
compiled kernels of the papers' matchers.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from pubsub_cluster import Cluster

RUN_VARIABLE = "PUBSUB_CLUSTER_TEST_RUN"
ALONE_VARIABLE = "PUBSUB_CLUSTER_TESTS_ALONE"
SPARK_FIXTURE = "spark"
MATCHER_TESTS = ("test_algorithms", "test_reproductions")
ROOT = Path(__file__).parent.parent
LEAVE_S_MAX = 30.0
CLIENT_TIMEOUT_S = 120.0
CLUSTER_TEST_S_MAX = 400  # starts of several processes, and a keeper with the lowest priority of all
Item = TypeVar("Item")
_left_behind: list[str] = []  # by the whole run
SEGMENT_DIR = Path("/dev/shm")
# Started by multiprocessing itself, once per process, and gone with it.
HARMLESS_COMMANDS = (b"multiprocessing.resource_tracker", b"multiprocessing.forkserver")

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.register_profile("same", settings.get_profile("default"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    """Mark this run, and with it every process that its tests start."""
    os.environ[RUN_VARIABLE] = uuid.uuid4().hex
    connect = Cluster.client  # where a test says nothing else it is patient: the machine may be slow, or busy

    def patient(self: Cluster, **options: Any) -> Any:
        return connect(self, **{"timeout_s": CLIENT_TIMEOUT_S, **options})

    Cluster.client = patient  # type: ignore[method-assign]
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None) and "PYTHONPYCACHEPREFIX" not in os.environ:
        # Every process of every cluster would compile all modules again, a quarter of a second of its start.
        folder = tempfile.mkdtemp(prefix="psc-bytecode-")
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that share Spark's session; be patient with those that start clusters."""
    for item in items:
        if SPARK_FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CLUSTER_TEST_S_MAX))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile the kernels where many tests need them, and spare collections of garbage what stays.

    The processes of pytest-xdist share the compiling, which each would do for itself as it goes. Where there
    are clusters, it would fall into the time that a test gives its first answer. Modules and tests take a
    collection half a second to look at.
    """
    is_one_of_several = hasattr(session.config, "workerinput")
    with_clusters = any(item.get_closest_marker("cluster") for item in session.items)
    if (is_one_of_several or with_clusters) and not session.config.getoption("collectonly"):
        from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
        from pubsub_cluster.workers.engine import MatchEngine

        MatchEngine(CatalogueReader.of(CatalogueWriter.in_memory(1))).warm_up()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal tests one by one, but those together that share something: see `_group`.

    Groups would do, but with pytest 9 pytest-xdist 3.8 does not see them.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(ROOT / nodeid.partition("::")[0]) or nodeid

    return Grouped(config, log)


@functools.cache
def _group(path: Path) -> str | None:
    """Return what the tests of a file stay together under; None: each is dealt alone."""
    source = path.read_text()
    if f"{SPARK_FIXTURE}: SparkSession" in source:
        return SPARK_FIXTURE
    named = re.search(r'xdist_group\("(\w+)"\)', source)
    if named is not None:
        return named[1]
    is_shared = 'scope="module"' in source or path.name.startswith(MATCHER_TESTS)
    return str(path) if is_shared else None


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process or a segment behind, after a bounded wait."""
    thorough = request.node.get_closest_marker("cluster") is not None
    find = _our_processes if thorough else _children
    before = set(find())
    segments_before = set(_our_segments(with_dead=thorough))
    start_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
    yield
    left = _wait_until_gone(lambda: [pid for pid in find() if not before.intersection(_line_of(pid))])
    assert not left, f"processes left behind: {[f'{pid}: {_command(pid)!r}' for pid in left]}"
    segments = _wait_until_gone(lambda: sorted(set(_our_segments(start_ticks, thorough)) - segments_before))
    assert not segments, f"shared-memory segments left behind: {segments}"


@pytest.fixture
def small_heap() -> None:
    """Leave everything that is there out of collections of garbage, for tests that ask for many of them."""
    gc.freeze()


@pytest.fixture
def tmp_data_dir() -> Iterator[Path]:
    """Return a private directory whose path is short enough for socket files; it is removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="psc-", dir="/tmp"))
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the whole run when a process of some test is still there, whoever adopted it."""
    worker_output = getattr(session.config, "workeroutput", None)
    if worker_output is not None or not session.config.getoption("numprocesses", None):
        left = _wait_until_gone(_our_processes)
        _left_behind.extend(f"{pid}: {_command(pid)!r}" for pid in left)
    if worker_output is not None:
        worker_output["left_behind"] = _left_behind  # a worker's exit status is not looked at
    elif _left_behind and session.exitstatus == 0:
        print(f"\nprocesses left behind by the run: {_left_behind}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist says was left behind."""
    _left_behind.extend(getattr(node, "workeroutput", {}).get("left_behind", []))


def _wait_until_gone(find: Callable[[], list[Item]]) -> list[Item]:
    deadline_s = time.monotonic() + LEAVE_S_MAX
    while (left := find()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return left


def _children() -> list[int]:
    """Return our direct children, without reading the whole of /proc."""
    found: list[int] = []
    for listing in Path("/proc/self/task").glob("*/children"):
        try:
            found.extend(int(pid) for pid in listing.read_text().split())
        except OSError:
            continue  # the thread has ended
    return [pid for pid in found if not _harmless(pid)]


def _our_processes() -> list[int]:
    """Return every process of this run except this one, also those whose parent has died."""
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    found = set(_children())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue  # another user's, or gone
    return sorted(pid for pid in found if not _harmless(pid))


def _our_segments(start_ticks: float = math.inf, with_dead: bool = True) -> list[str]:
    """Return segments of this process, of dead ones, and of processes started after `start_ticks`."""
    found = []
    for entry in SEGMENT_DIR.glob("pubsub-*"):
        parts = entry.name.split("-")
        if len(parts) < 4 or not (parts[2].isdigit() and parts[3].isdigit()):
            continue
        pid = int(parts[2])
        shared = pid != os.getpid() and int(parts[3]) < start_ticks < math.inf
        ours = pid == os.getpid() or (_is_marked(pid) and not shared)
        dead = not Path(f"/proc/{pid}").exists()
        if ours or (with_dead and dead and os.environ.get(ALONE_VARIABLE) == "1"):
            found.append(entry.name)
    return found


def _is_marked(pid: int) -> bool:
    mark = f"{RUN_VARIABLE}={os.environ[RUN_VARIABLE]}".encode()
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _line_of(pid: int) -> Iterator[int]:
    """Yield a process and its ancestors: a cluster that was there before has processes that start others."""
    while pid > 0:
        yield pid
        pid = _parent(pid)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone"


def _harmless(pid: int) -> bool:
    command = _command(pid).encode()
    return any(name in command for name in HARMLESS_COMMANDS)
