"""Kills: which process, when; and the restart of a coordinator as a supervisor does it.

A kill is at a random instant, or at a named one: then a file is put where `shm.fault_points` looks, and the
process that comes by kills itself. Children are found in ``/proc``, so that one that has just been started,
and has said nothing yet, is killed as well.

A retainer's death counts when its coordinator has noticed it: what is handed to a dead one until then is lost
with it.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pubsub_cluster import Cluster
from pubsub_cluster.language.errors import PubSubError, StartError
from pubsub_cluster.shm.owner import list_segments

WORKER, TUNER, COORDINATOR = "worker", "tuner", "coordinator"
RETAINER, KEEPER = "retainer", "keeper"
_MODULES = {
    WORKER: b"workers.process",
    TUNER: b"tuner.process",
    RETAINER: b"workers.retainer",
    KEEPER: b"coordinator.keeper",
}
_KEEPING = (
    "keeper.task keeper.send packed.add packed.sync packed.finish packed.rename packed.names "
    "snapshot.write snapshot.prune compaction.write compaction.replace backup.write"
)
POINTS = {
    WORKER: (
        "worker.message worker.send page.write layout.attach",
        "worker.configure worker.message worker.send layout.attach",
    ),
    TUNER: (
        "tuner.sample tuner.fold tuner.message tuner.send layout.write epoch.write epoch.numbers",
        "tuner.message tuner.send tuner.fold layout.write",
    ),
    RETAINER: (
        "retainer.message retainer.send retainer.retain retainer.work",
        "retainer.configure retainer.message retainer.send",
    ),
    KEEPER: (_KEEPING, _KEEPING),
    COORDINATOR: (
        "outbox.write outbox.report ring.create "
        "store.insert store.write store.report catalogue.apply catalogue.append catalogue.remove slab.write "
        "child.send child.message client.send client.message page.read segment.unlink "
        "epoch.built epoch.begin epoch.finish marks.write keeper.spawn keeper.message child.spawn seat.take "
        "seat.give",
        "lock.take segment.sweep segment.create seat.take facts.write child.spawn child.message "
        "snapshot.foreign snapshot.read snapshot.take_over store.replay catalogue.append",
    ),
}
"""By kind: the names of instants while it serves, and (second) those of a start."""
RESTORE_POINTS = {
    KEEPER: "restore.prepare restore.copy packed.sync packed.rename snapshot.write keeper.send",
    COORDINATOR: "keeper.message restore.write restore.exchange snapshot.foreign snapshot.read client.send",
}
SHAPES = ((1, 1), (2, 1), (1, 2))
POINT_WAIT_S = 2.0
NUDGE_AFTER_S = 0.1  # without a death by then what many instants need is asked for
DEATH_WAIT_S = 5.0
NOTICE_S_MAX = 30.0  # from a child's death until its coordinator knows of it, where a machine is busy
STARTS_MAX = 20
STARTS_KILLED = 0.3  # this share
RESTORE_S_MAX = 10.0


class Killer:
    """Kills the processes of one cluster and brings its coordinator back.

    Parameters
    ----------
    cluster : Cluster
        Started with the environment variable of the fault points set to `points_dir`.
    points_dir : Path
    draw : random.Random
    breach : callable
        Told of every promise that is broken.
    """

    def __init__(
        self, cluster: Cluster, points_dir: Path, draw: random.Random, breach: Callable[[str], None]
    ) -> None:
        self.cluster = cluster
        self.kills: Counter[str] = Counter()
        self.named: Counter[str] = Counter()
        self.restart_s: list[float] = []
        self._points_dir = points_dir
        self._draw = draw
        self._breach = breach

    def kill(self, kind: str) -> bool:
        """Kill a process of this kind, at a named instant or now; return whether one was killed."""
        chance = self._draw.random()
        if chance < 0.5:
            done = self._at_point(self._point(POINTS[kind][0]), kind)
        else:
            done = self._now(kind)
            if (
                done and chance < 0.6 and kind in (WORKER, TUNER, RETAINER)
            ):  # and its successor while it starts
                self._at_point(self._point(POINTS[kind][1]), kind)
        if done and kind == COORDINATOR:
            self._bring_back()
        return done

    def _point(self, names: str) -> str:
        return f"{self._draw.choice(('before', 'after'))}.{self._draw.choice(names.split())}"

    def _now(self, kind: str) -> bool:
        coordinator = self._coordinator_pid()
        pids = [coordinator] if kind == COORDINATOR else children_of(coordinator, _MODULES[kind])
        if not pids:
            return False
        pid = self._draw.choice(pids)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self._count(kind, pid)
            return True
        return False

    def _at_point(self, point: str, kind: str) -> bool:
        """Let whoever comes by this instant next die; return False when nobody did in time."""
        path = self._points_dir / point
        path.touch()
        start_s = time.monotonic()
        nudged = False
        while path.exists() and time.monotonic() < start_s + POINT_WAIT_S:
            time.sleep(0.002)
            if not nudged and time.monotonic() > start_s + NUDGE_AFTER_S:
                nudged = True
                self._nudge(point.partition(".")[2])
        pid = _taken_by(path)
        if pid is None:
            return False
        self._count(kind, pid, point)
        return True

    def _count(self, kind: str, pid: int, point: str | None = None) -> None:
        """Count a kill, at a named instant or not, that this process has died of or is about to."""
        if kind == RETAINER and not _reaped(pid):
            self._breach(f"for {NOTICE_S_MAX:g} s the coordinator did not notice its retainer's death")
        self.kills[kind] += 1
        if point is not None:
            self.named[point] += 1

    def _nudge(self, name: str) -> None:
        """Have the cluster do something that passes by an instant."""
        with suppress(PubSubError), self.cluster.client(timeout_s=1.0) as client:
            if name in ("child.spawn", "seat.take", "seat.give"):
                client.resize(*self._draw.choice(SHAPES), wait=False)
            elif name.partition(".")[0] in ("keeper", "packed", "backup"):
                client.backup(self.cluster.data_dir.parent / "nudged.backup", timeout_s=0.0)
            else:
                client.tune_now()

    def restore(self, path: Path) -> bool:
        """Restore a backup, killing somebody at it; bring the cluster back; return whether anybody died."""
        kind = self._draw.choice((KEEPER, COORDINATOR))
        name = self._point(RESTORE_POINTS[kind])
        point = self._points_dir / name
        point.touch()
        deadline_s = time.monotonic() + RESTORE_S_MAX
        try:
            with self.cluster.client(timeout_s=1.0) as client:
                client.restore(path, timeout_s=0.0)
        except PubSubError:
            pass  # it goes on
        process = self.cluster._process
        assert process is not None
        while point.exists() and time.monotonic() < deadline_s:
            time.sleep(0.002)
        pid = _taken_by(point)
        if pid is None:
            return False
        self._count(kind, pid, name)
        if kind == COORDINATOR:
            self._bring_back()
        return True

    def _coordinator_pid(self) -> int:
        process = self.cluster._process
        assert process is not None
        return process.pid

    def _bring_back(self) -> None:
        """Start the coordinator again, as often as it takes: some of these starts are killed as well."""
        begin_s = time.monotonic()
        orphans = children_of(self._coordinator_pid(), b"pubsub_cluster")
        left = set(list_segments(self.cluster.started["cluster_id"]))
        for _ in range(STARTS_MAX):
            if self._start():
                break
        else:
            raise AssertionError("the coordinator was never ready")
        self.restart_s.append(time.monotonic() - begin_s)
        alive = [pid for pid in orphans if not _gone(pid)]
        if alive:
            self._breach(f"processes outlive their coordinator: {alive}")
        still = left & set(list_segments(self.cluster.started["cluster_id"]))
        if still:
            self._breach(f"segments outlive their coordinator: {sorted(still)}")

    def _start(self) -> bool:
        """Start the coordinator once, perhaps kill it meanwhile; return whether it serves."""
        self.cluster.kill()
        point = self._points_dir / self._point(POINTS[COORDINATOR][1])
        if self._draw.random() < STARTS_KILLED:
            point.touch()
        ready = True
        try:
            self.cluster.start()
        except StartError as error:
            if "ended before it was ready" not in str(error):
                self._breach(f"the coordinator does not start again: {error}")
                raise
            ready = False
        pid = _taken_by(point)
        if pid is not None:  # before it was ready, or in that very moment
            self._count(COORDINATOR, pid, point.name)
            return False
        if not ready:
            self._breach("the coordinator ended by itself while it started")
        return ready


def children_of(pid: int, command: bytes) -> list[int]:
    """Return the children of a process whose command line contains `command`."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in listing.read_text().split()]
    return [child for child in found if command in _command(child)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _taken_by(point: Path) -> int | None:
    """Withdraw an instant's file; return the pid of the process that came by before, or None."""
    point.unlink(missing_ok=True)
    for taken in point.parent.glob(f"{point.name}.*"):
        taken.unlink()
        return int(taken.suffix[1:])
    return None


def _reaped(pid: int) -> bool:
    """Wait until a dead process has been collected by its parent, which knows of its death then."""
    deadline_s = time.monotonic() + NOTICE_S_MAX
    while time.monotonic() < deadline_s:
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.002)
    return False


def _gone(pid: int) -> bool:
    deadline_s = time.monotonic() + DEATH_WAIT_S
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False
