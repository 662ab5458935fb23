"""Everything a coordinator holds on the machine: directory, lock, segments; taken in order, given back.

What can be wrong with the machine is said here, before any process is started: a directory that
another cluster uses or another user owns, a shared-memory file system that is too small.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import resource
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from pubsub_cluster.coordinator.config import TASKS_PER_WORKER_MAX, WORKERS_MAX, ClusterConfig
from pubsub_cluster.coordinator.delivery.broadcast import Broadcast
from pubsub_cluster.coordinator.team import Worker
from pubsub_cluster.language.errors import LimitError, SegmentError, StartError
from pubsub_cluster.language.paths import (
    RECORDS_SOCKET_NAME,
    client_endpoint,
    ensure_private_dir,
    records_endpoint,
    socket_path,
)
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.broadcast_ring import BroadcastRing
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_store import FIRST_EPOCH, CatalogueStore, rows_for
from pubsub_cluster.shm.counters import CounterSegment
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.owner import current_owner, list_segments, parse_name, sweep_dead, unlink_segment
from pubsub_cluster.shm.result_slots import ResultSlots
from pubsub_cluster.shm.slab import BatchSlab
from pubsub_cluster.tuner import messages as tuner_wire
from pubsub_cluster.workers import messages as worker_wire

LOCK_FILE = "owner.lock"
FACTS_FILE = "cluster.json"
WORKER_SOCKET_NAME = "workers.sock"
COORDINATOR_COUNTERS = (
    "batches_accepted",
    "batches_answered",
    "batches_refused",
    "events_refused",
    "events_matched",
    "matches",
    "messages_refused",
    "changes_applied",
    "notifications_sent",
    "notifications_dropped",
    "worker_restarts",
    "tuner_restarts",
    "generations",
)
_lives = itertools.count(1)  # of this process: a restore begins another one
WORKER_COUNTERS = ("tasks", "events", "busy_us")


class Resources:
    """The directory, lock and segments of a running cluster.

    Parameters
    ----------
    config : ClusterConfig

    Raises
    ------
    StartError
        Something here cannot be had; everything taken so far is given back.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self.config = config
        self._undo = contextlib.ExitStack()
        self._next_segment = 1
        try:
            self._take(config)
        except SegmentError as error:
            self._undo.close()
            raise StartError(
                f"shared memory for the cluster cannot be had: {error.condition}",
                seen=error.seen,
                limit=error.limit,
                remedy=error.remedy or "Give /dev/shm more room, or lower slab_chunks.",
            ) from error
        except OSError as error:
            self._undo.close()
            raise StartError(
                f"the data directory cannot be used: {error.strerror}",
                seen=error.filename or str(config.data_dir),
                remedy="Make it writable and free some disk space, or choose another with --data.",
            ) from error
        except BaseException:
            self._undo.close()
            raise

    def _take(self, config: ClusterConfig) -> None:
        # libzmq aborts the process when accept finds no descriptor free: take all that may be had.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.data_dir = ensure_private_dir(config.data_dir)
        self.cluster_id = hashlib.sha256(os.fsencode(os.path.realpath(self.data_dir))).hexdigest()[:8]
        self._lock()
        self.swept = sweep_dead()
        self.owner = current_owner(self.cluster_id)
        self.life = f"{self.owner.pid}-{self.owner.start_time_ticks}-{next(_lives)}"
        self._undo.callback(self._unlink_all)
        self.client_endpoint = client_endpoint(self.data_dir)
        self.client_endpoints = [self.client_endpoint, *([config.listen] if config.listen else [])]
        self.worker_endpoint = f"ipc://{socket_path(self.data_dir, WORKER_SOCKET_NAME)}"
        self._records_endpoint = f"ipc://{socket_path(self.data_dir, RECORDS_SOCKET_NAME)}"
        for endpoint in (self.client_endpoint, self.worker_endpoint, self._records_endpoint):
            path = Path(endpoint.removeprefix("ipc://"))
            path.unlink(missing_ok=True)  # the lock is ours: the socket of a dead coordinator
            self._undo.callback(_remove_socket, path, self.data_dir)
        rows_max = rows_for(config.limits.subscriptions_max)
        self.take_catalogue(CatalogueWriter(CatalogueStore.create(rows_max, self.owner, FIRST_EPOCH)))
        self.slab = BatchSlab.create(
            self.owner, config.slab_chunks, config.limits.batch_size_bytes_max, reserve=True
        )
        self.results: dict[int, ResultSlots] = {}
        self.take_seats(config.workers)
        names = COORDINATOR_COUNTERS + WORKER_COUNTERS
        self.counters = CounterSegment.create(self.owner, names, WORKERS_MAX + 1)
        self.count = self.counters.writer(0)
        self._write_facts()

    @fault_point("seat.take")
    def take_seats(self, count: int) -> list[int]:
        """Return so many indices for new workers; each has its result slots.

        Raises
        ------
        LimitError
            There would be too many workers.
        SegmentError
            Shared memory is too small; no seat is taken.
        """
        seats = [idx for idx in range(WORKERS_MAX) if idx not in self.results][:count]
        if len(seats) < count:
            raise LimitError(
                "too many workers while a resize is under way, old and new ones",
                seen=len(self.results) + count,
                limit=WORKERS_MAX,
                remedy="Resize in two steps, or to fewer workers.",
                limit_name="WORKERS_MAX",
            )
        try:
            for idx in seats:
                self.results[idx] = ResultSlots.create(
                    self.owner, TASKS_PER_WORKER_MAX, self.config.result_slot_bytes, self._next_segment
                )
                self._next_segment += 1
        except SegmentError:
            for idx in seats:
                self.give_seat(idx)
            raise
        return seats

    @fault_point("seat.give")
    def give_seat(self, worker_idx: int) -> None:
        """Take back what a worker had that is gone for good."""
        slots = self.results.pop(worker_idx, None)
        if slots is not None:
            slots.unlink()
            slots.close()

    def worker_setup(self, worker: Worker, schema: Schema) -> worker_wire.Setup:
        """Return what a worker needs to begin."""
        return worker_wire.Setup(
            worker.shard_idx,
            worker.team.shards,
            self.catalogue.name,
            self.slab.name,
            self.results[worker.worker_idx].name,
            self.counters.name,
            1 + worker.worker_idx,
            schema.to_json(),
            asdict(self.config.limits),
            self.config.engine,
        )

    def tuner_setup(self, schema: Schema) -> tuner_wire.TunerSetup:
        """Return what the tuner needs to begin."""
        return tuner_wire.TunerSetup(
            self.slab.name,
            *self.owner,
            schema.to_json(),
            asdict(self.config.limits),
            self.config.partitions,
        )

    @fault_point("ring.create")
    def open_broadcast(self, life: bytes) -> Broadcast:
        """Return the way to groups of listeners, with a ring of `broadcast_ring_bytes` and topics of a life.

        Raises
        ------
        SegmentError
            Shared memory is too small.
        StartError
            The port beside that of `listen` is taken.
        """
        ring = BroadcastRing.create(self.owner, self.config.broadcast_ring_bytes)
        remote = [] if self.config.listen is None else [records_endpoint(self.config.listen)]
        return Broadcast([self._records_endpoint, *remote], ring, life)

    def take_catalogue(self, catalogue: CatalogueWriter) -> None:
        """Make this the catalogue."""
        self.catalogue = catalogue
        self.catalogue_reader = CatalogueReader.of(catalogue)

    def worker_counters(self) -> dict[int, dict[str, int]]:
        """Return the workers' counters by worker and name."""
        found = {idx: self.counters.of_slot(1 + idx) for idx in self.results}
        return {idx: {name: slot[name] for name in WORKER_COUNTERS} for idx, slot in found.items()}

    def task_of(self, worker_idx: int) -> int:
        """Return the task that a worker is at, or was when it died; 0: none."""
        return self.counters.task(1 + worker_idx)

    def own_counters(self) -> dict[str, int]:
        """Return the coordinator's own counters."""
        own = self.counters.of_slot(0)
        return {name: own[name] for name in COORDINATOR_COUNTERS}

    def close(self) -> None:
        """Give everything back."""
        self._undo.close()

    @fault_point("lock.take")
    def _lock(self) -> None:
        path = self.data_dir / LOCK_FILE
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._undo.callback(os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StartError(
                "the data directory is in use by another coordinator",
                seen=f"pid {os.pread(handle, 32, 0).decode(errors='replace').strip() or 'unknown'}",
                remedy=f"Stop it (pubsub-cluster stop --data {self.data_dir}) or choose another --data.",
                path=str(self.data_dir),
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)

    @fault_point("facts.write")
    def _write_facts(self) -> None:
        facts: dict[str, Any] = {
            "pid": self.owner.pid,
            "life": self.life,
            "cluster_id": self.cluster_id,
            "endpoint": self.client_endpoint,
            "counters_segment": self.counters.name,
        }
        path = self.data_dir / FACTS_FILE
        path.write_bytes(orjson.dumps(facts))
        self._undo.callback(path.unlink, missing_ok=True)

    def check_segments(self) -> None:
        """Raise `SegmentError` when somebody has removed segments: no new worker could begin with them."""
        used = {self.catalogue.name, self.slab.name, self.counters.name}
        used.update(slots.name for slots in self.results.values())
        missing = used - set(list_segments(self.cluster_id))
        if missing:
            raise SegmentError(
                "segments of this cluster were removed from /dev/shm while it runs",
                seen=sorted(missing),
                remedy="Nothing acknowledged is lost: start the cluster again, as a system user where logind "
                "removes what users have there when they log out (RemoveIPC).",
            )

    def _unlink_all(self) -> None:
        for name in list_segments(self.cluster_id):
            parts = parse_name(name)
            if parts is not None and parts.owner == self.owner:
                unlink_segment(name)


def _remove_socket(path: Path, data_dir: Path) -> None:
    """Remove a socket file and, where it had to stand in a short directory of its own, that."""
    path.unlink(missing_ok=True)
    if path.parent != Path(os.path.realpath(data_dir)):
        with contextlib.suppress(OSError):
            path.parent.rmdir()
