"""The scheduler under every order of events that hypothesis can think of.

The model plays the processes: workers receive their messages in order, answer in pages, attach layouts,
die at any moment. What must hold whatever happens is written as invariants and checked at the end.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pubsub_cluster.coordinator.instructions import (
    BatchDivided,
    BatchDone,
    BatchRefused,
    DiscardPages,
    GenerationPublished,
    Instruction,
    KillWorker,
    Resized,
    SendWorker,
    SpawnWorker,
    UnlinkSegment,
    WorkerGone,
)
from pubsub_cluster.coordinator.state import Scheduler
from pubsub_cluster.language.errors import BusyError, LimitError, PoisonBatchError
from pubsub_cluster.workers import messages as wire

SHARDS, REPLICAS = 2, 2
WORKERS_MAX = 12
RESIZES_MAX = 4
SETUP = wire.Setup(0, SHARDS, "c", "s", "r", "n", 0, {}, {})


class FakeWorker:
    """A process: its inbox, what it has mapped, the pages it still owes."""

    def __init__(self) -> None:
        self.inbox: deque[Any] = deque()
        self.attached = {0}
        self.owed: dict[int, int] = {}
        self.slots: dict[int, int] = {}


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(SHARDS, REPLICAS, task_timeout_s=10.0, catalogue="catalogue1")
        self.epoch_of = {0: 1}  # by generation
        self.now_s = 0.0
        self.workers: dict[int, FakeWorker | None] = {}
        self.to_spawn: set[int] = set()
        self.open: dict[int, int] = {}  # batch -> generation
        self.shards_of: dict[int, int] = {}  # by batch
        self.wanted = (SHARDS, REPLICAS)
        self.resizes = 0
        self.pages: dict[tuple[int, int], list[int]] = {}
        self.answered: dict[int, str] = {}
        self.deaths_with: dict[tuple[int, int], int] = {}  # by batch and shard
        self.failed: set[int] = set()
        self.groups: set[int] = set()
        self.published = [0]
        self.unlinked: set[str] = set()
        self.next_generation = 1
        self.carry_out(self.scheduler.start())

    def carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case SendWorker(worker_idx, message):
                    worker = self.workers.get(worker_idx)
                    assert worker is not None, "a message to a dead worker"
                    if isinstance(message, wire.Setup) and 0 in self.scheduler.generations:
                        assert message.catalogue_segment == "catalogue1", "generation 0 is over it"
                    if isinstance(message, wire.Task):
                        assert message.slot_idx not in worker.slots.values(), "a slot used twice"
                        assert message.generation in self.scheduler.workers[worker_idx].attached
                        worker.slots[message.task_id] = message.slot_idx
                    worker.inbox.append(message)
                case SpawnWorker(worker_idx, _, _):
                    self.to_spawn.add(worker_idx)
                case DiscardPages(batch_no, shard_idx):
                    self.pages.pop((batch_no, shard_idx), None)
                case BatchDone(batch_no):
                    assert self.deaths_at(batch_no) < (1 if batch_no in self.groups else 2)
                    for shard_idx in range(self.shards_of[batch_no]):
                        pages = self.pages.pop((batch_no, shard_idx))
                        assert pages == list(range(pages[0], -1, -1)), "pages of two attempts, or a gap"
                    self.close(batch_no, "done")
                case BatchDivided(batch_no):
                    assert batch_no in self.groups
                    assert self.deaths_at(batch_no) == 1 or batch_no in self.failed
                    self.close(batch_no, "divided")
                case BatchRefused(batch_no, error):
                    assert batch_no not in self.groups
                    if isinstance(error, PoisonBatchError):
                        assert self.deaths_at(batch_no) == 2
                    else:
                        assert isinstance(error, LimitError)
                        assert batch_no in self.failed
                    self.close(batch_no, "refused")
                case GenerationPublished(generation):
                    assert generation > self.published[-1]
                    for idx, worker in self.scheduler.workers.items():
                        assert not worker.ready or generation in worker.attached, idx
                    self.published.append(generation)
                case UnlinkSegment(segment):
                    self.unlinked.add(segment)
                    if segment.startswith("catalogue"):
                        epoch = int(segment.removeprefix("catalogue"))
                        bound = {self.epoch_of[generation] for generation in self.open.values()}
                        assert epoch not in bound, "a catalogue unlinked under an unanswered batch"
                        assert epoch != self.epoch_of[self.published[-1]]
                        continue
                    number = int(segment.removeprefix("layout"))
                    assert number not in self.open.values(), "unlinked under an unanswered batch"
                    assert number != self.published[-1]
                case KillWorker(worker_idx):
                    self.die(worker_idx)
                case WorkerGone(worker_idx):
                    assert self.workers.get(worker_idx) is None, "forgotten and alive"
                    assert worker_idx not in self.scheduler.workers
                    self.to_spawn.discard(worker_idx)
                case Resized(shards, replicas):
                    assert (shards, replicas) == self.wanted
                    team = self.scheduler.crew.team
                    assert len(team.members) == shards * replicas and all(w.ready for w in team.members)

    def deaths_at(self, batch_no: int) -> int:
        """Return how many workers of one shard have died at a batch, of the shard with most."""
        return max((deaths for (no, _), deaths in self.deaths_with.items() if no == batch_no), default=0)

    def close(self, batch_no: int, verdict: str) -> None:
        assert batch_no not in self.answered, "answered twice"
        self.answered[batch_no] = verdict
        del self.open[batch_no]

    def die(self, worker_idx: int, has_begun: bool = True) -> None:
        worker = self.workers[worker_idx]
        assert worker is not None
        # It does one thing after the other, in the order of its inbox, and may have been dead for a while.
        at_task = 0
        if has_begun and worker.inbox and isinstance(worker.inbox[0], wire.Task):
            at_task = worker.inbox[0].task_id
            run = self.scheduler.run_of(worker_idx, at_task)
            assert run is not None
            suspect = (run.batch_no, self.scheduler.workers[worker_idx].shard_idx)
            self.deaths_with[suspect] = self.deaths_with.get(suspect, 0) + 1
        self.workers[worker_idx] = None
        self.carry_out(self.scheduler.worker_died(worker_idx, at_task, self.now_s))

    @initialize(is_ready=st.booleans())
    def begin(self, is_ready: bool) -> None:
        for worker_idx in range(SHARDS * REPLICAS if is_ready else 0):
            self.spawn_if_due(worker_idx)
            self.deliver_next(worker_idx, 1)

    def live(self, number: int) -> int:
        """Return a worker that is alive if any is: a number is drawn, because they change all the time."""
        live = [idx for idx, worker in sorted(self.workers.items()) if worker is not None]
        return live[number % len(live)] if live else 0

    @precondition(lambda self: self.to_spawn)
    @rule(number=st.integers(0, WORKERS_MAX - 1))
    def spawn(self, number: int) -> None:
        self.spawn_if_due(sorted(self.to_spawn)[number % len(self.to_spawn)])

    def spawn_if_due(self, worker_idx: int) -> None:
        if worker_idx in self.to_spawn:
            self.to_spawn.discard(worker_idx)
            self.workers[worker_idx] = FakeWorker()
            self.scheduler.worker_spawned(worker_idx, self.now_s)
            setup = msgspec.structs.replace(SETUP, catalogue_segment=self.catalogue())
            self.carry_out(self.scheduler.worker_hello(worker_idx, setup, self.now_s))

    def catalogue(self) -> str:
        return f"catalogue{self.epoch_of[self.published[-1]]}"

    @precondition(lambda self: len(self.open) < 6)
    @rule(is_group=st.booleans(), line=st.sampled_from([None, "a", "b"]))
    def publish(self, is_group: bool, line: str | None) -> None:
        had_room = self.scheduler.has_room
        queues = self.scheduler.crew.team.queues
        nobody_waited, no_group_waited = not any(queues), not any([None in queue for queue in queues])
        counts = (len(self.answered),)
        batch_no, instructions = self.scheduler.batch_accepted((counts, 0, 0), 0, self.now_s, is_group, line)
        sent = [i for i in instructions if isinstance(i, SendWorker) and isinstance(i.message, wire.Task)]
        shards = self.scheduler.crew.team.shards
        if nobody_waited:
            assert had_room == (len(sent) == shards), "room is what lets a task out to every shard"
        assert no_group_waited or not had_room
        self.shards_of[batch_no] = shards
        if is_group:
            self.groups.add(batch_no)
        self.open[batch_no] = self.published[-1]
        assert self.scheduler.batches[batch_no].generation == self.published[-1]
        self.carry_out(instructions)

    @rule(number=st.integers(0, WORKERS_MAX - 1))
    def refuse_layout(self, number: int) -> None:
        worker_idx = self.live(number)
        worker = self.workers.get(worker_idx)
        if worker is None or not worker.inbox or not isinstance(worker.inbox[0], wire.AttachLayout):
            return
        generation = worker.inbox.popleft().generation
        is_held = self.scheduler.is_held and self.scheduler.pending == generation
        self.carry_out(self.scheduler.layout_refused(worker_idx, generation, self.now_s))
        if is_held:  # its rows are being carried over: the worker starts anew
            assert self.workers[worker_idx] is None
            return
        assert self.scheduler.pending != generation, "what one worker cannot map is not published"
        assert self.workers[worker_idx] is None or generation != self.published[-1]

    @precondition(lambda self: self.scheduler.pending is None)
    @rule(is_epoch=st.booleans())
    def build(self, is_epoch: bool) -> None:
        number, self.next_generation = self.next_generation, self.next_generation + 1
        epoch = number + 1 if is_epoch else self.epoch_of[self.published[-1]]
        self.epoch_of[number] = epoch
        built = (number, f"layout{number}", (0,), 0, [1.0, 2.0, 3.0])
        self.carry_out(self.scheduler.layout_built(*built, f"catalogue{epoch}" if is_epoch else ""))

    @precondition(lambda self: self.scheduler.is_held)
    @rule(is_given_up=st.booleans())
    def move(self, is_given_up: bool) -> None:
        held = self.scheduler.pending
        assert held is not None and held not in self.published
        if is_given_up:
            self.carry_out(self.scheduler.withdraw())
        elif self.scheduler.is_mapped:
            self.carry_out(self.scheduler.let_go())
            assert self.published[-1] == held, "the catalogue has moved and its generation is not in force"

    @rule(worker_idx=st.integers(0, WORKERS_MAX - 1), page_count=st.integers(1, 3), refuse=st.booleans())
    def deliver(self, worker_idx: int, page_count: int, refuse: bool) -> None:
        self.deliver_next(worker_idx, page_count, refuse)

    def deliver_next(self, worker_idx: int, page_count: int, refuse: bool = False) -> None:
        worker = self.workers.get(worker_idx)
        if worker is None or not worker.inbox:
            return
        message = worker.inbox.popleft()
        self.now_s += 0.01
        match message:
            case wire.Setup():
                assert message.catalogue_segment not in self.unlinked, "setup with an unlinked catalogue"
                self.carry_out(self.scheduler.worker_ready(worker_idx, self.now_s))
            case wire.AttachLayout(generation):
                assert f"layout{generation}" not in self.unlinked, "attach of an unlinked segment"
                assert message.catalogue_segment == f"catalogue{self.epoch_of[generation]}"
                assert message.catalogue_segment not in self.unlinked, "attach of an unlinked catalogue"
                self.carry_out(self.scheduler.layout_attached(worker_idx, generation, self.now_s))
            case wire.DropLayout():
                pass
            case wire.Shutdown():
                assert not worker.slots, "told to leave with a task"
                self.die(worker_idx)
            case wire.Forget(task_id):
                assert task_id not in worker.slots
                worker.owed.pop(task_id, None)
            case wire.Task(task_id):
                worker.owed[task_id] = page_count
                self.page(worker_idx, worker, task_id, refuse)
            case wire.Continue(task_id):
                self.page(worker_idx, worker, task_id)

    def page(self, worker_idx: int, worker: FakeWorker, task_id: int, refuse: bool = False) -> None:
        worker.owed[task_id] -= 1
        left = worker.owed[task_id]
        run = self.scheduler.run_of(worker_idx, task_id)
        assert run is not None
        shard_idx = self.scheduler.workers[worker_idx].shard_idx
        self.pages.setdefault((run.batch_no, shard_idx), []).append(left)
        if not left:
            del worker.slots[task_id]
        if refuse and left:
            self.failed.add(run.batch_no)
            del worker.slots[task_id]
            error = LimitError("too many")
            self.carry_out(self.scheduler.page_refused(worker_idx, task_id, error, self.now_s))
            return
        self.carry_out(self.scheduler.page_read(worker_idx, task_id, left > 0, self.now_s))

    @rule(number=st.integers(0, WORKERS_MAX - 1))
    def fail(self, number: int) -> None:
        worker_idx = self.live(number)
        worker = self.workers.get(worker_idx)
        if worker is None or not worker.inbox or not isinstance(worker.inbox[0], wire.Task):
            return
        task_id = worker.inbox.popleft().task_id
        del worker.slots[task_id]
        run = self.scheduler.run_of(worker_idx, task_id)
        assert run is not None
        self.failed.add(run.batch_no)
        self.carry_out(self.scheduler.task_failed(worker_idx, task_id, LimitError("too many"), self.now_s))

    @precondition(lambda self: self.resizes < RESIZES_MAX)
    @rule(shards=st.integers(1, 3), replicas=st.integers(1, 2))
    def resize(self, shards: int, replicas: int) -> None:
        free = [idx for idx in range(WORKERS_MAX + 8) if idx not in self.scheduler.workers]
        seats = free[: self.scheduler.crew.missing(shards, replicas)]
        try:
            instructions = self.scheduler.resize(shards, replicas, seats)
        except BusyError:
            assert self.scheduler.crew.leaving
            return
        self.wanted = (shards, replicas)
        self.resizes += 1
        self.carry_out(instructions)

    @rule(number=st.integers(0, WORKERS_MAX - 1), has_begun=st.booleans())
    def crash(self, number: int, has_begun: bool) -> None:
        worker_idx = self.live(number)
        if self.workers.get(worker_idx) is not None:
            self.die(worker_idx, has_begun)

    @rule(number=st.integers(0, WORKERS_MAX - 1))
    def hang(self, number: int) -> None:
        worker_idx = self.live(number)
        self.now_s += 11.0
        for idx, worker in self.workers.items():
            if idx != worker_idx and worker is not None:
                self.scheduler.worker_heard(idx, self.now_s)
        self.carry_out(self.scheduler.tick(self.now_s))

    @invariant()
    def generations_in_use_exist(self) -> None:
        for generation in self.open.values():
            assert generation in self.scheduler.generations

    def teardown(self) -> None:
        if self.scheduler.is_held:
            self.carry_out(self.scheduler.withdraw())
        for _ in range(200):
            for worker_idx in range(WORKERS_MAX + 8):
                self.spawn_if_due(worker_idx)
                self.deliver_next(worker_idx, 1)
        assert not self.open, "a batch was never answered"
        live = {self.published[-1]} | ({0} if self.catalogue() == "catalogue1" else set())
        assert set(self.scheduler.generations) == live, "an old generation was never given back"
        crew = self.scheduler.crew
        assert (crew.team.shards, crew.team.replica_count) == self.wanted, "a resize never came to its end"
        assert crew.teams == [crew.team] and not crew.leaving
        assert sorted(crew.workers) == sorted(worker.worker_idx for worker in crew.team.members)
        made = {f"catalogue{epoch}" for epoch in self.epoch_of.values()}
        assert made - self.unlinked == {self.catalogue()}, "an old catalogue was never given back"


SchedulerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestScheduler = pytest.mark.timeout(120)(SchedulerMachine.TestCase)
