"""The coordinator's children: worker and tuner processes, their socket, their deaths.

A child is known by its identity on the socket, which carries its pid, so a message of a dead
predecessor is told from one of its successor. Deaths are seen on pidfds, in the same poller as the
sockets.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import zmq

from pubsub_cluster.coordinator.children import Child
from pubsub_cluster.coordinator.sockets import LAST, NOT_LAST, readable
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.tuner import messages as tuner_wire
from pubsub_cluster.workers import messages as worker_wire
from pubsub_cluster.workers import retained_messages as retainer_wire

WORKER_MODULE = "pubsub_cluster.workers.process"
TUNER_MODULE = "pubsub_cluster.tuner.process"
RETAINER_MODULE = "pubsub_cluster.workers.retainer"
MESSAGES_PER_TURN = 64
SPAWN_AGAIN_S = 1.0
log = logging.getLogger("pubsub_cluster.coordinator")

TUNER = None  # stands for the tuner where a worker index is expected
RETAINER = -1  # and for the process that retains events
WORKER_NICENESS = 5
"""Behind the coordinator, which has one thread for everybody: where events keep all processors busy, it would
get too little of them for changes, of which it does some thousand in the time of a worker's one task. What it
takes for a given rate of changes stays the same: fewer steps only let changes wait."""
TUNER_NICENESS = 7  # gives way to workers, yet a saturated machine still gets new generations


class Desk(Protocol):
    """Whoever looks after a child alone: told its messages and its death."""

    def heard(self, body: bytes) -> None: ...

    def died(self) -> None: ...


class ChildMessage(NamedTuple):
    """A message of a live child; `child` is a worker index, or None for the tuner."""

    child: int | None
    body: bytes


class Backend:
    """Children by worker index (None: the tuner).

    Parameters
    ----------
    endpoint : str
    cpus : list of int
        CPUs to pin workers to, one each; those beyond their number run where there is room.
    """

    def __init__(self, endpoint: str, cpus: list[int]) -> None:
        self._endpoint = endpoint
        self._cpus = cpus
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._watched: set[zmq.Socket[bytes] | int] = set()
        self._children: dict[int | None, Child] = {}
        self._child_of: dict[bytes, int | None] = {}  # by the identity on the socket
        self._due: dict[int | None, float] = {}
        self._gentle: set[int | None] = set()  # workers to be started while others answer
        self._places: dict[int | None, int] = {}
        self._desks: dict[int | None, Desk] = {}
        self.pinned: dict[int, int | None] = {}

    # ---- processes -----------------------------------------------------------------------------

    def attach(self, child: int, desk: Desk) -> None:
        """Let a desk look after a child: its messages and its death are told to nobody else."""
        self._desks[child] = desk

    def spawn(self, child: int | None, at_s: float, gently: bool = False, place: int = 0) -> None:
        """Start this child at a monotonic time (at the next `spawn_due` after it).

        A worker may be started `gently`, and has a place among those that share the work.
        """
        self._due[child], self._places[child] = at_s, place
        self._gentle.add(child) if gently else self._gentle.discard(child)

    def spawn_due(self, now_s: float) -> Iterator[int]:
        """Start the children that are due; yield the workers among them."""
        for child, at_s in list(self._due.items()):
            if at_s > now_s:
                continue
            del self._due[child]
            arguments = ["--endpoint", self._endpoint]
            is_worker, gently = child is not None and child >= 0, child in self._gentle
            if is_worker and child is not None:
                arguments += ["--worker", str(child)]
                if self._places[child] < len(self._cpus):
                    arguments += ["--cpu", str(self._cpus[self._places[child]])]
                arguments += ["--gently"] if gently else []
            try:
                niceness = TUNER_NICENESS if child is TUNER else WORKER_NICENESS
                started = Child(_module(child), arguments, niceness, gently)
            except OSError as error:  # no room for another process just now; whoever lives works on
                log.error(
                    "%s cannot be started; seen %s; look at the limits of processes, open files and memory. "
                    "It is tried again in %g s",
                    _name(child), error.strerror, SPAWN_AGAIN_S,
                )  # fmt: skip
                self._due[child] = now_s + SPAWN_AGAIN_S
                continue
            self._children[child] = started
            self._child_of[_identity(child, started)] = child
            self._poller.register(started.pidfd, zmq.POLLIN)
            if is_worker and child is not None:
                yield child

    def kill(self, child: int | None) -> None:
        """Kill a child; its death is reported like any other."""
        if child in self._children:
            self._children[child].kill()

    def forget(self, child: int) -> None:
        """Do not start this child after all, and forget what is known of it."""
        self._due.pop(child, None)
        self._places.pop(child, None)
        self._gentle.discard(child)
        self.pinned.pop(child, None)

    def pid(self, child: int | None) -> int | None:
        """Return the pid of a running child."""
        found = self._children.get(child)
        return found.pid if found else None

    def pids(self) -> dict[str, int]:
        """Return the pids of all running children by their names."""
        return {_name(child).removeprefix("the "): process.pid for child, process in self._children.items()}

    def ended(self, ready: set[object]) -> list[int | None]:
        """Collect children whose pidfd is among `ready`; return them."""
        found = [child for child, process in self._children.items() if process.pidfd in ready]
        for child in found:
            process = self._children.pop(child)
            del self._child_of[_identity(child, process)]
            self._poller.unregister(process.pidfd)
            status = process.reap()
            log.warning("%s (pid %d) ended with status %d", _name(child), process.pid, status)
            if child in self._desks:
                self._desks[child].died()
        return [child for child in found if child not in self._desks]

    # ---- messages ------------------------------------------------------------------------------

    def poll(self, others: list[zmq.Socket[bytes] | int], timeout_ms: int, now_s: float) -> set[object]:
        """Wait for any socket or file descriptor, or a child that is due; return what is ready."""
        for other in others:
            if other not in self._watched:
                self._watched.add(other)
                self._poller.register(other, zmq.POLLIN)
        for at_s in self._due.values():
            timeout_ms = max(0, min(timeout_ms, int((at_s - now_s) * 1_000)))
        return {source for source, _ in self._poller.poll(timeout_ms)}

    def receive(self) -> Iterator[ChildMessage]:
        """Yield what live children have sent, at most a turn's worth."""
        for _ in range(MESSAGES_PER_TURN):
            if not readable(self._socket):
                return
            identity, *frames = self._socket.recv_multipart(LAST)
            if identity not in self._child_of or len(frames) != 1:
                continue
            child = self._child_of[identity]
            if child in self._desks:
                self._desks[child].heard(frames[0])
            else:
                yield ChildMessage(child, frames[0])

    def send_worker(self, worker_idx: int, message: worker_wire.ToWorker) -> None:
        """Send to a worker; one that is gone is about to be reported dead."""
        self.send(worker_idx, worker_wire.encode(message))

    def send_tuner(self, message: tuner_wire.ToTuner) -> None:
        """Send to the tuner; if it is gone that is about to be reported."""
        self.send(TUNER, tuner_wire.encode(message))

    def close(self) -> None:
        """Tell every child to leave, wait for it, kill what does not."""
        for child in list(self._children):
            if child is None:
                self.send_tuner(tuner_wire.TunerShutdown())
            elif child == RETAINER:
                self.send(child, retainer_wire.encode(retainer_wire.RetainerShutdown()))
            else:
                self.send_worker(child, worker_wire.Shutdown())
        for process in self._children.values():
            process.end()
        self._children.clear()
        self._socket.close(linger=0)
        self._context.term()

    @fault_point("child.send")
    def send(self, child: int | None, body: bytes) -> None:
        """Send to a child; if it is gone that is about to be reported."""
        process = self._children.get(child)
        if process is None:
            return
        try:
            self._socket.send(_identity(child, process), NOT_LAST)
            self._socket.send(body, LAST)
        except zmq.ZMQError as error:
            # Not connected yet (nothing was said to it so far) or just died: its hello or its death follows.
            if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                raise


def _module(child: int | None) -> str:
    return {TUNER: TUNER_MODULE, RETAINER: RETAINER_MODULE}.get(child, WORKER_MODULE)


def _identity(child: int | None, process: Child) -> bytes:
    kind = {TUNER: "t", RETAINER: "r"}.get(child, f"w{child}")
    return f"{kind}.{process.pid}".encode()


def _name(child: int | None) -> str:
    return {TUNER: "the tuner", RETAINER: "the retainer"}.get(child, f"worker {child}")
