"""What is durable, as the coordinator sees it: the start from it, and the keeper's tasks one at a time.

A snapshot is due when changes have come to rest, or when so many came since the last one that a start would
have to replay them for long. Backups, restores and verifications are asked for by clients and waited for by
asking again (`job`); nothing of this keeps the coordinator from its sockets.
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from pubsub_cluster.coordinator.backup import exchange
from pubsub_cluster.coordinator.children import child_environment, put_behind
from pubsub_cluster.coordinator.engine_language import check_stored
from pubsub_cluster.coordinator.keeper import KeeperTask
from pubsub_cluster.coordinator.snapshots import newest_snapshot, remove_foreign
from pubsub_cluster.language.errors import (
    BusyError,
    ProtocolError,
    PubSubError,
    SegmentError,
    StartError,
    StoreError,
    error_from_dict,
)
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.lifeline import BEHIND_NICENESS

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.registry import Registry
    from pubsub_cluster.coordinator.runtime import Coordinator

BEHIND_MODULE = "pubsub_cluster.shm.behind"
KEEPER_MODULE = "pubsub_cluster.coordinator.keeper"
VERIFIER_MODULE = "pubsub_cluster.verification"  # it knows the engine, of which nothing here does
REST_S = 2.0
TAIL_WHILE_CHANGING = 10
"""While changes go on, a snapshot waits for so many times `snapshot_after`, or a third of what is live."""

WORK_SHARE = 10
"""A snapshot begins at the earliest when so many times the duration of the last one has passed, unless the
catalogue has grown by as much as a snapshot waits for, as in a bulk load: a start takes far longer for a
change than for a subscription of a snapshot."""

FAILURE_PAUSE_S = 60.0
CHECK_AFTER_S = 10.0
JOBS_KEPT = 64
JOB_NUMBERS = 1 << 32  # they begin anywhere: who asks for a job of a life before finds none, not another's
JOBS_WAITING_MAX = 8
STOP_S = 5.0
ATTEMPTS_MAX = 4
SAMPLE_DEFAULT, SAMPLE_MAX = 1_000, 1_000_000
log = logging.getLogger("pubsub_cluster.coordinator")


@dataclass(slots=True)
class Job:
    """A task of the keeper; `answer` is there when it is done, `error` when it failed."""

    number: int
    kind: str
    request: str = ""
    path: str = ""
    sample: int = 0
    state: str = "waiting"
    attempts: int = 0
    seconds: float = 0.0
    answer: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        """Return what a client is told of it."""
        names = ("number", "kind", "state", "seconds", "answer", "error")
        return {name: getattr(self, name) for name in names}


class KeeperDesk:
    """Starts from what is durable, and has the keeper work on it.

    Parameters
    ----------
    coordinator : Coordinator
    given_schema : Schema
        That the cluster was started with; the empty one takes what is stored.
    jobs : dict of int to Job
        Of the lives before in this process.
    """

    def __init__(self, coordinator: Coordinator, given_schema: Schema, jobs: dict[int, Job]) -> None:
        self._coordinator = coordinator
        given = orjson.dumps(given_schema.to_json()).decode()
        self._given_schema = None if given_schema == EMPTY_SCHEMA else given
        self._jobs = jobs
        # What was asked for while a backup was restored is still asked for.
        self._waiting = deque(job for job in jobs.values() if job.state == "waiting")
        self._running: Job | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0
        self.restoring: Job | None = None
        self.snapshot_version = 0
        self.snapshot: dict[str, Any] = {}
        self.damage: dict[str, Any] | None = None
        self._seen = (0, 0.0)  # the version, and since when it is that
        self._not_before_s = self._rests_until_s = time.monotonic()
        self._check_at_s: float | None = None

    # ---- the start -----------------------------------------------------------------------------

    def recover(self, registry: Registry, go_on: Callable[[], bool]) -> None:
        """Take over what is durable: the newest good snapshot, and the changes after it.

        Raises
        ------
        StoreError
            The change table is damaged.
        StartError
            A subscription cannot be taken over under this schema, these limits or this engine.
        """
        store, data_dir = self._coordinator.store, self._coordinator.resources.data_dir
        remove_foreign(data_dir, store.lineage)
        schema = store.stored_schema() or "null"
        with newest_snapshot(data_dir, store.lineage, schema, store.end.version) as snapshot:
            if snapshot is not None:
                try:
                    registry.take_over(snapshot, go_on)
                except PubSubError as error:
                    raise StartError(
                        f"the stored subscriptions do not fit: {error.condition}",
                        seen=error.seen,
                        limit=error.limit,
                        remedy=error.remedy
                        if isinstance(error, SegmentError)
                        else "Start with the limits under which they were made, or larger ones.",
                    ) from error
                self.snapshot_version = snapshot.facts.version
                self._check_at_s = time.monotonic() + CHECK_AFTER_S  # not all of the table is read now
        go_on()
        registry.replay(partial(store.replay, self.snapshot_version), go_on)
        check_stored(self._coordinator.config, registry)
        registry.start_at(max(store.end.version, registry.version), store.end.handle + 1)

    # ---- tasks ---------------------------------------------------------------------------------

    def submit(self, kind: str, request: str, path: Any = None, sample: Any = None) -> Job:
        """Enter a task that a client asks for; a request that is sent again is the same task.

        Raises
        ------
        ProtocolError
            The path is not absolute or cannot be one, or the sample is no number.
        BusyError
            Too many wait already.
        """
        for job in self._jobs.values():
            if (job.kind, job.request) == (kind, request):
                return job
        if kind != "verify" and not (isinstance(path, str) and Path(path).is_absolute()):
            raise ProtocolError("the path is absolute, for the cluster's machine", seen=path)
        if path is not None and "\0" in path:
            raise ProtocolError("no path has a zero character", seen=path, remedy="Give another path.")
        sample = SAMPLE_DEFAULT if sample is None else sample
        if type(sample) is not int or not 0 <= sample <= SAMPLE_MAX:
            raise ProtocolError("`sample` is a number of subscriptions", seen=sample, limit=SAMPLE_MAX)
        if len(self._waiting) >= JOBS_WAITING_MAX or self.restoring is not None:
            raise BusyError(
                "too many tasks wait for the keeper",
                seen=len(self._waiting),
                limit=JOBS_WAITING_MAX,
                remedy="Send again after `retry_after_s`.",
                retry_after_s=1.0,
            )
        last = max(self._jobs, default=random.randrange(JOB_NUMBERS))
        job = Job(last + 1, kind, request, path or "", sample)
        self._jobs[job.number] = job
        for number in list(self._jobs)[:-JOBS_KEPT]:
            del self._jobs[number]
        self._waiting.append(job)
        return job

    def job(self, number: Any) -> dict[str, Any]:
        """Return how a task is doing.

        Raises
        ------
        ProtocolError
            There is none of this number.
        """
        if type(number) is not int or number not in self._jobs:
            raise ProtocolError(
                "no such job", seen=number, remedy="The cluster has been restarted since, or it is long past."
            )
        return self._jobs[number].facts()

    def status(self) -> dict[str, Any]:
        """Return what an operator is told of what is durable."""
        return {
            "snapshot_version": self.snapshot_version,
            "changes_since": self._coordinator.registry.version - self.snapshot_version,
            "snapshot": self.snapshot,
            "working_on": self._running.kind if self._running else None,
            "damage": self.damage,
        }

    def tick(self, now_s: float) -> None:
        """Do what is due."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._finish(now_s)
            return
        if self._waiting:
            self._start(self._waiting.popleft(), now_s)
        elif self._check_at_s is not None and now_s >= self._check_at_s:
            self._check_at_s = None
            self._start(Job(0, "check"), now_s)
        elif self._snapshot_is_due(now_s):
            self._start(Job(0, "snapshot"), now_s)

    def _snapshot_is_due(self, now_s: float) -> bool:
        registry = self._coordinator.registry
        version = registry.version
        if version != self._seen[0]:
            self._seen = (version, now_s)
        tail = version - self.snapshot_version
        least = self._coordinator.config.snapshot_after
        enough = max(TAIL_WHILE_CHANGING * least, registry.live_count // 3)
        has_grown = registry.live_count - self.snapshot.get("subscriptions", 0) >= enough
        if tail < least or now_s < self._not_before_s or (now_s < self._rests_until_s and not has_grown):
            return False
        return now_s - self._seen[1] >= REST_S or tail >= enough

    @fault_point("keeper.spawn")
    def _start(self, job: Job, now_s: float) -> None:
        job.attempts += 1
        try:
            self._process = _spawned(self._task(job), job.kind)
        except StoreError as error:  # the table was taken away, say
            self._failed(job, error.to_dict(), now_s)
        except OSError as error:  # no room for another process, or no more files may be open
            failure = StoreError(
                "the keeper could not be started",
                seen=f"{error.strerror} (errno {error.errno})",
                remedy="Look at the limits of processes, open files and memory; then ask again.",
            )
            self._failed(job, failure.to_dict(), now_s)
        else:
            job.state, self._running, self._started_s = "running", job, now_s

    def _task(self, job: Job) -> KeeperTask:
        coordinator = self._coordinator
        catalogue, generation = (
            coordinator.resources.catalogue,
            coordinator.scheduler.generations[coordinator.scheduler.current],
        )
        return KeeperTask(
            job.kind,
            str(coordinator.resources.data_dir),
            coordinator.store.lineage,
            coordinator.store.stored_schema() or "null",
            coordinator.registry.version,
            coordinator.registry.next_handle,
            catalogue.name,
            tuple(catalogue.counts()),
            asdict(coordinator.config.limits),
            job.path,
            generation.segment if generation.catalogue == catalogue.name else None,
            tuple(generation.base_counts),
            generation.number,
            job.sample,
            self._given_schema,
            coordinator.store.marks.clock_us,
        )

    @fault_point("keeper.message")
    def _finish(self, now_s: float) -> None:
        job, process = self._running, self._process
        assert job is not None and process is not None and process.stdout is not None
        with process.stdout as pipe:
            text = pipe.read()
        self._running = self._process = None
        job.seconds = round(now_s - self._started_s, 3)
        try:
            said = orjson.loads(text)
        except orjson.JSONDecodeError:
            if job.attempts < ATTEMPTS_MAX:  # it left nothing that counts; another one begins anew
                log.warning("the keeper ended with status %d at a %s", process.returncode, job.kind)
                self._again(job)
                return
            failure = StoreError("the keeper died at its work", seen=f"exit status {process.returncode}")
            said = {"ok": False, "error": failure.to_dict()}
        if said["ok"]:
            self._done(job, said["done"], now_s)
        else:
            self._failed(job, said["error"], now_s)

    def _done(self, job: Job, answer: dict[str, Any], now_s: float) -> None:
        job.answer = answer
        if job.number == 0:
            self.damage = None
        if job.kind == "snapshot":
            self.snapshot_version, self.snapshot = answer["version"], {**answer, "seconds": job.seconds}
            self._rests_until_s = now_s + WORK_SHARE * job.seconds
        if job.kind == "restore":
            self.restoring = job  # it is done when it is in force
            self._coordinator.restart()
            return
        if job.kind == "statistics":
            try:
                self._coordinator.knobs.take_statistics(answer)
            except PubSubError as error:
                self._failed(job, error.to_dict(), now_s)
                return
        job.state = "done"

    def _failed(self, job: Job, error: dict[str, Any], now_s: float) -> None:
        if error["code"] == SegmentError.code and job.attempts < ATTEMPTS_MAX:  # a layout exchanged just now
            self._again(job)
            return
        job.state, job.error = "failed", error
        if job.number == 0:
            log.error("%s: %s", job.kind, error_from_dict(error))
            self.damage = error
            self._not_before_s = now_s + FAILURE_PAUSE_S

    def _again(self, job: Job) -> None:
        job.state = "waiting"
        self._waiting.appendleft(job)

    # ---- the end -------------------------------------------------------------------------------

    def exchange(self) -> bool:
        """Put a prepared backup into force, for the next life; return False when there is none."""
        job, coordinator = self.restoring, self._coordinator
        if job is None:
            return False
        coordinator.store.close()
        try:
            exchange(
                coordinator.resources.data_dir,
                job.answer["lineage"],
                coordinator.registry.version,
                coordinator.registry.next_handle,
            )
        except PubSubError as error:
            job.state, job.error = "failed", error.to_dict()
            log.error("restore: %s", error)
        else:
            job.state = "done"
            del job.answer["lineage"]
        return True

    def close(self) -> None:
        """End the keeper; what it was at is left as if it had not begun."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


def _spawned(task: KeeperTask, kind: str) -> subprocess.Popen[bytes]:
    """Start a keeper at its task; raises `OSError` when there is no room for one."""
    with os.fdopen(os.memfd_create("task"), "w+b") as file:  # a pipe might have to be waited for
        file.write(msgspec.json.encode(task))
        file.seek(0)
        module = VERIFIER_MODULE if kind == "verify" else KEEPER_MODULE
        process = subprocess.Popen(
            [sys.executable, "-m", BEHIND_MODULE, module, "--parent", str(os.getpid())],
            stdin=file,
            stdout=subprocess.PIPE,
            env=child_environment(),
            process_group=0,
        )
    put_behind(process.pid, BEHIND_NICENESS)
    return process
