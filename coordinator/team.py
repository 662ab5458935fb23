"""Workers, and the teams that they form: who matches which part of the catalogue.

A team divides the catalogue among its shards in one way, and a batch is bound to the team of its acceptance.
Replicas join a team and leave it as it is; another number of shards is another team, which takes over when
all its workers are ready, while the old one leaves with the last batch that is bound to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from pubsub_cluster.coordinator.fair_queue import FairQueue
from pubsub_cluster.language.errors import BusyError, PubSubError
from pubsub_cluster.workers.messages import Counts

STORY_LENGTH = 64
LEAVING_RETRY_AFTER_S = 0.1


class Running(msgspec.Struct):
    """One attempt at a task."""

    task_id: int
    batch_no: int
    slot_idx: int


@dataclass(slots=True, eq=False)
class Worker:
    """What the scheduler knows of one worker."""

    worker_idx: int
    team: Team
    shard_idx: int
    replica_idx: int
    alive: bool = False
    greeted: bool = False  # has said hello in this life: before that it must not be spoken to
    ready: bool = False
    attached: set[int] = field(default_factory=set)
    attaching: set[int] = field(default_factory=set)
    running: dict[int, Running] = field(default_factory=dict)  # by task, oldest first
    free_slots: list[int] = field(default_factory=list)
    restarts: int = 0
    quick_deaths: int = 0
    started_at_s: float = 0.0
    heard_at_s: float = 0.0
    surplus: bool = False  # takes no more tasks and leaves after those it has
    dismissed: bool = False  # was told to leave; its end is no accident
    story: deque[str] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    @property
    def place(self) -> int:
        """Its place among the workers of its team, from 0."""
        return self.replica_idx * self.team.shards + self.shard_idx

    def tell(self, now_s: float, what: str) -> None:
        """Remember an event, for the day something goes wrong."""
        self.story.append(f"{now_s:.6f} {what}")


@dataclass(slots=True, eq=False)
class Team:
    """Workers that divide the catalogue among so many shards.

    Attributes
    ----------
    shards : int
    queues : list of FairQueue
        By shard: batches whose task waits for a worker.
    replicas : list of list of Worker
        By shard: who may take its tasks.
    bound_batches : int
        Unanswered batches that were accepted for this team.
    """

    shards: int
    queues: list[FairQueue]
    replicas: list[list[Worker]]
    bound_batches: int = 0

    @classmethod
    def of(cls, shards: int) -> Team:
        """Return a team without workers."""
        return cls(shards, [FairQueue() for _ in range(shards)], [[] for _ in range(shards)])

    @property
    def members(self) -> list[Worker]:
        """Everybody who may take tasks."""
        return [worker for workers in self.replicas for worker in workers]

    @property
    def replica_count(self) -> int:
        """Replicas of each shard."""
        return len(self.replicas[0])

    def grow(self, replicas: int, seats: list[int]) -> list[Worker]:
        """Add workers up to so many replicas; `seats` are the indices of new ones. Return these."""
        new: list[Worker] = []
        for replica_idx in range(self.replica_count, replicas):
            for shard_idx, workers in enumerate(self.replicas):
                worker = Worker(seats[len(new)], self, shard_idx, replica_idx)
                workers.append(worker)
                new.append(worker)
        return new

    def shrink(self, replicas: int) -> list[Worker]:
        """Let go of all replicas but the first so many; return their workers."""
        surplus = [worker for workers in self.replicas for worker in workers[replicas:]]
        for workers in self.replicas:
            del workers[replicas:]
        for worker in surplus:
            worker.surplus = True
        return surplus

    def idlest(self, shard_idx: int, generation: int) -> Worker | None:
        """Return the worker that a task of a shard on this generation goes to, None while all are busy."""
        best: Worker | None = None
        for worker in self.replicas[shard_idx]:
            able = worker.ready and worker.free_slots and generation in worker.attached
            if able and (best is None or len(worker.running) < len(best.running)):
                best = worker
        return best


class Crew:
    """All workers: those of the team in force, of the one that is to take over, and those that leave.

    Parameters
    ----------
    shards, replicas : int

    Attributes
    ----------
    team : Team
        What new batches are bound to.
    next_team : Team or None
        Takes over when all its workers are ready.
    teams : list of Team
        Those with workers.
    workers : dict of int to Worker
    leaving : list of Worker
        Surplus replicas, and the workers of teams that were replaced.
    """

    def __init__(self, shards: int, replicas: int) -> None:
        self.team = Team.of(shards)
        self.next_team: Team | None = None
        self.teams = [self.team]
        self.leaving: list[Worker] = []
        new = self.team.grow(replicas, list(range(shards * replicas)))
        self.workers = {worker.worker_idx: worker for worker in new}

    @property
    def resizing(self) -> tuple[int, int] | None:
        """Shards and replicas of the team that is to take over, None without one."""
        return (self.next_team.shards, self.next_team.replica_count) if self.next_team else None

    def missing(self, shards: int, replicas: int) -> int:
        """Return how many new workers a resize needs."""
        if (shards, replicas) == self.resizing:
            return 0
        have = len(self.team.members) if shards == self.team.shards else 0
        return max(0, shards * replicas - have)

    def resize(self, shards: int, replicas: int, seats: list[int]) -> list[Worker]:
        """Begin a resize; return the new workers. See `Scheduler.resize`."""
        if (shards, replicas) == self.resizing:
            return []
        if self.leaving:
            raise BusyError(
                "workers of the last resize have not left yet",
                seen=len(self.leaving),
                remedy="Send again after `retry_after_s`.",
                retry_after_s=LEAVING_RETRY_AFTER_S,
            )
        if self.next_team is not None:
            self.leaving += self.next_team.members
            self.next_team = None
        if shards != self.team.shards:
            self.next_team = Team.of(shards)
            self.teams.append(self.next_team)
            new = self.next_team.grow(replicas, seats)
        else:
            self.leaving += self.team.shrink(replicas)
            new = self.team.grow(replicas, seats)
        self.workers.update({worker.worker_idx: worker for worker in new})
        return new

    def take_over(self) -> None:
        """Put the next team in force; the present one leaves with its last batch."""
        assert self.next_team is not None
        self.leaving += self.team.members
        self.team, self.next_team = self.next_team, None

    def is_over(self, worker: Worker) -> bool:
        """Say whether a worker is leaving and not needed any more."""
        is_idle = not worker.running and (worker.surplus or not worker.team.bound_batches)
        return is_idle and worker in self.leaving

    def dispensable(self) -> list[Worker]:
        """Return the workers that leave and have nothing left to do, and have not been told so."""
        return [worker for worker in self.leaving if not worker.dismissed and self.is_over(worker)]

    def gone(self, worker: Worker) -> None:
        """Forget a worker."""
        self.leaving.remove(worker)
        del self.workers[worker.worker_idx]
        left = {id(other.team) for other in self.workers.values()}
        self.teams = [team for team in self.teams if id(team) in left]


class Batch(msgspec.Struct):
    """An accepted batch: what it is bound to and which shards still owe an answer."""

    batch_no: int
    team: Team
    generation: int
    moment: tuple[Counts, int, int]  # what the catalogue holds, its version, the time
    chunk_idx: int
    waiting: set[int]
    is_group: bool = False
    running: set[int] = set()
    kills: dict[int, int] = {}  # by shard
    error: PubSubError | None = None
