"""``start`` and ``stop``: the life of a cluster.

In the foreground the coordinator runs in this process. With ``--detach`` it runs in a session of its own
and writes to ``coordinator.log``; through a pipe it tells this command that it is ready, or why it cannot
start. With ``--supervise`` a supervisor (`coordinator.supervisor`) stands between the two.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from pubsub_cluster.cli.common import cluster_options, data_option, emit_json, is_running, json_option, note
from pubsub_cluster.cli.render import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubsub_cluster.client import Client
    from pubsub_cluster.coordinator.config import ClusterConfig

READY_WAIT_S_MAX = 120.0
STOP_WAIT_S_MAX = 60.0
POLL_S = 0.05
SLOW_START_S = 3.0
SLOW_START_NOTE = "Compiling kernels, first start only ..."
LOG_NAME = "coordinator.log"
LOG_TAIL_LINES = 8


@click.command()
@click.option("--workers", type=click.IntRange(1), help="Worker processes: shards times replicas.")
@click.option(
    "--shards", type=click.IntRange(1), help="Parts of the catalogue that one batch visits at once."
)
@click.option("--replicas", type=click.IntRange(1), help="Groups of shards that batches are spread over.")
@data_option
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Settings in TOML; options given here win.",
)
@click.option("--schema", help="File with the declared attributes, in JSON.")
@click.option(
    "--engine",
    metavar="NAME",
    help="Match by a matcher of the papers, for small catalogues: naive, s-tree, ... [default: layout].",
)
@click.option(
    "--layout",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Layout folder (pipeline build) that an empty data directory takes its subscriptions from.",
)
@click.option(
    "--listen",
    metavar="tcp://HOST:PORT",
    help="Let clients connect there too, and to the next port; for trusted networks only.",
)
@click.option("--durability", type=click.Choice(["full", "normal"]), help="Survive a power loss, or a crash.")
@click.option("--pin/--no-pin", default=None, help="Bind each worker to a CPU of its own [default: pin].")
@click.option(
    "--detach", is_flag=True, help="Return when the cluster is ready; it goes on in the background."
)
@click.option(
    "--supervise", is_flag=True, help="Start the coordinator again when it ends without being told to."
)
@json_option
def start(config_file: Path | None, detach: bool, supervise: bool, as_json: bool, **options: Any) -> None:
    """Start a cluster; Ctrl-C stops it.

    Without numbers, two shards (one on a single CPU) are started for every two CPUs that may be used.

    \b
    Example:
      pubsub-cluster start --shards 2 --data ./data
      pubsub-cluster start --config cluster.toml --detach --supervise
      pubsub-cluster start --layout ./layout --data ./data
      pubsub-cluster start --engine s-tree --shards 1

    \b
    cluster.toml:
      data_dir = "/srv/alerts"
      shards = 2
      durability = "full"
      [limits]
      events_per_batch_max = 10000

    All settings, and the schema file: docs/configuration.md. Where systemd or the like starts a coordinator
    again, --supervise is not needed: docs/operating.md.
    """
    from pubsub_cluster.cli.config_file import cluster_config, read_settings
    from pubsub_cluster.language.errors import StartError

    settings = {} if config_file is None else read_settings(config_file)
    for name in ("schema", "layout"):
        if options[name] is not None:
            options[name] = str(Path(options[name]).absolute())
    settings.update((name, value) for name, value in options.items() if value is not None)
    config = cluster_config(settings, None if config_file is None else config_file.parent)
    if is_running(config.data_dir):
        raise StartError(
            "a cluster is already running on this data directory",
            seen=str(config.data_dir),
            remedy="Use it, stop it with `pubsub-cluster stop`, or choose another directory with --data.",
        )
    if detach:
        _start_detached(config, as_json, supervise)
    elif supervise:
        sys.exit(_run_supervised(config, as_json))
    else:
        sys.exit(_run_here(config, as_json))


def _run_here(config: ClusterConfig, as_json: bool) -> int:
    from pubsub_cluster.coordinator.running import run_coordinator

    note(f"Starting {counted(config.workers, 'worker')} on {config.data_dir} ...")
    with contextlib.ExitStack() as stack:
        stack.enter_context(saying_why_it_takes_long())

        def on_ready(status: dict[str, Any]) -> None:
            stack.close()
            _print_ready(config, status, as_json, "Ctrl-C stops it.")

        exit_code = run_coordinator(config, on_ready=on_ready)
    note("Stopped.")
    return exit_code


def _run_supervised(config: ClusterConfig, as_json: bool) -> int:
    from pubsub_cluster.coordinator.supervisor import Supervisor
    from pubsub_cluster.language.errors import error_from_dict

    note(f"Starting {counted(config.workers, 'worker')} on {config.data_dir} ...")
    read_fd, write_fd = os.pipe()
    told: dict[str, Any] = {}

    def take_news() -> None:
        with os.fdopen(read_fd, "rb") as news, saying_why_it_takes_long():
            told.update(json.loads(news.readline() or b"{}"))
        if "ready" in told:
            _print_ready(config, told["ready"], as_json, "Ctrl-C stops it.")

    reader = threading.Thread(target=take_news, daemon=True)
    reader.start()
    exit_code = Supervisor(json.dumps(config.to_json()).encode(), write_fd).run()
    reader.join()
    if "error" in told:
        raise error_from_dict(told["error"])
    note("Stopped.")
    return exit_code


def _start_detached(config: ClusterConfig, as_json: bool, supervise: bool) -> None:
    from pubsub_cluster.coordinator.children import child_environment
    from pubsub_cluster.language.errors import StartError, error_from_dict
    from pubsub_cluster.language.paths import ensure_private_dir

    log = ensure_private_dir(config.data_dir) / LOG_NAME
    module = "pubsub_cluster.coordinator." + ("supervisor" if supervise else "main")
    read_fd, write_fd = os.pipe()
    with os.fdopen(read_fd, "rb") as news, log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", module, "--ready-fd", str(write_fd)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(write_fd,),
            env=child_environment(),
        )
        os.close(write_fd)
        try:
            assert child.stdin is not None
            child.stdin.write(json.dumps(config.to_json()).encode())
            child.stdin.close()
            line = _await_news(news)
        except BaseException:
            child.terminate()  # Ctrl-C: a cluster that nobody was told about must not stay
            raise
    told = json.loads(line) if line else {}
    if "error" in told:
        raise error_from_dict(told["error"])
    if "ready" in told:
        _print_ready(config, told["ready"], as_json, f"Stop it: pubsub-cluster stop --data {config.data_dir}")
        return
    child.terminate()
    raise StartError(
        "the cluster did not become ready",
        seen=_tail(log) or f"nothing in {log}",
        limit=f"{READY_WAIT_S_MAX:.0f} s",
        remedy=f"The whole log is in {log}; `pubsub-cluster doctor` checks this machine.",
    )


def _await_news(news: BinaryIO) -> bytes:
    """Return the line that the coordinator writes when it is ready or cannot start; empty without any."""
    with saying_why_it_takes_long():
        has_news = select.select([news], [], [], READY_WAIT_S_MAX)[0]
    return news.readline() if has_news else b""


@contextlib.contextmanager
def saying_why_it_takes_long(say: Callable[[str], None] = note) -> Iterator[None]:
    """Say that kernels are being compiled when what is within takes more than `SLOW_START_S` for that reason.

    That is so on a machine's first start only: compiled kernels are kept.
    """
    begin_s = time.time()

    def look() -> None:
        if _is_compiling(begin_s):
            say(SLOW_START_NOTE)

    timer = threading.Timer(SLOW_START_S, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_compiling(since_s: float) -> bool:
    """Say whether the cache of kernels is empty, or something has been put into it since an instant."""
    from pubsub_cluster.cli.doctor_checks import kernel_cache_root

    root = kernel_cache_root()
    folder = root / "pubsub-cluster" if (root / "pubsub-cluster").is_dir() else root
    try:
        written_s = [path.stat().st_mtime for path in folder.rglob("*.nbi")]
    except OSError:
        return False
    return not written_s or max(written_s) >= since_s


def _print_ready(config: ClusterConfig, status: dict[str, Any], as_json: bool, how_to_stop: str) -> None:
    from pubsub_cluster.language.paths import client_endpoint

    endpoint = client_endpoint(config.data_dir)
    pids = process_ids(status)
    if as_json:
        emit_json({"ready": True, "endpoint": endpoint, "data_dir": str(config.data_dir), "pids": pids})
        return
    workers = counted(config.workers, "worker")
    lines = [
        f"READY  {endpoint}",
        f"  shards    {config.shards} x {counted(config.replicas, 'replica')} = {workers}",
        "  pids      " + ", ".join(f"{name} {pid}" for name, pid in pids.items()),
        f"  next      pubsub-cluster subscribe 'price > 100' --owner me --data {config.data_dir}",
        f"            {how_to_stop}",
    ]
    click.echo("\n".join(lines))


def process_ids(status: dict[str, Any]) -> dict[str, int]:
    """Return the process ids that a status names: coordinator, tuner, workers."""
    found = {"coordinator": status.get("pid"), "tuner": status.get("tuner", {}).get("pid")}
    found.update((f"worker {worker['worker']}", worker["pid"]) for worker in status.get("workers", []))
    return {name: int(pid) for name, pid in found.items() if pid is not None}


def _tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:])


@click.command()
@cluster_options
@json_option
def stop(connect: Callable[[], Client], as_json: bool) -> None:
    """Stop a cluster; wait until it is gone.

    Accepted batches are answered first; every acknowledged subscription is kept for the next start.

    \b
    Example:
      pubsub-cluster stop --data ./data
    """
    from pubsub_cluster.language.errors import ClusterError

    begin = time.monotonic()
    with connect() as client:
        pids = process_ids(client.status())
        client.stop_cluster()
    left = _wait_gone(pids, STOP_WAIT_S_MAX)
    if left:
        raise ClusterError(
            "the cluster was told to stop but some of its processes are still there",
            seen=", ".join(f"{name} {pid}" for name, pid in left.items()),
            limit=f"{STOP_WAIT_S_MAX:.0f} s",
            remedy="A process that hangs can be killed: no acknowledged change is lost.",
        )
    seconds = round(time.monotonic() - begin, 3)
    if as_json:
        emit_json({"stopped": True, "seconds": seconds, "pids": pids})
    else:
        gone = "process is" if len(pids) == 1 else "processes are"
        click.echo(f"Stopped in {seconds:.1f} s; {len(pids)} {gone} gone.")


def _wait_gone(pids: dict[str, int], wait_s: float) -> dict[str, int]:
    """Wait until the processes have ended; return those that have not."""
    until = time.monotonic() + wait_s
    left = dict(pids)
    while left and time.monotonic() < until:
        left = {name: pid for name, pid in left.items() if _is_alive(pid)}
        if left:
            time.sleep(POLL_S)
    return left


def _is_alive(pid: int) -> bool:
    """Say whether a process runs; one that is dead but not yet collected by its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
