"""The scheduler in single cases: partitions, deaths in a row, builds that fail, batches that wait, turns."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest

from pubsub_cluster.coordinator.dealing import deal_partitions
from pubsub_cluster.coordinator.folding import FoldPolicy
from pubsub_cluster.coordinator.instructions import (
    BatchDivided,
    BatchDone,
    BatchRefused,
    GenerationPublished,
    Instruction,
    Resized,
    SendWorker,
    SpawnWorker,
    WorkerGone,
)
from pubsub_cluster.coordinator.state import Scheduler
from pubsub_cluster.coordinator.team import Crew
from pubsub_cluster.coordinator.tuning import Build, TunerDesk, estimate_live
from pubsub_cluster.language.errors import PoisonBatchError
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.owner import Owner
from pubsub_cluster.tuner.messages import BuildFailed, Built
from pubsub_cluster.workers import messages as wire

SETUP = wire.Setup(0, 2, "c", "s", "r", "n", 0, {}, {})


def test_partitions_are_dealt_evenly() -> None:
    shard_of = deal_partitions([5.0, 4.0, 3.0, 3.0, 3.0], 2)
    loads = [
        sum(cost for cost, shard in zip([5, 4, 3, 3, 3], shard_of, strict=True) if shard == s) for s in (0, 1)
    ]
    assert sorted(loads) == [8, 10]
    assert deal_partitions([], 3) == []
    assert deal_partitions([1.0], 3) == [0]


def test_a_respawn_loop_backs_off() -> None:
    scheduler = Scheduler(1, 1, 10.0)
    delays = []
    for number in range(2_000):
        scheduler.worker_spawned(0, float(number))
        (spawn,) = [i for i in scheduler.worker_died(0, 0, number + 0.1) if isinstance(i, SpawnWorker)]
        delays.append(spawn.delay_s)
    assert delays == sorted(delays)
    assert delays[0] < 0.1
    assert delays[9] == delays[-1] == 5.0
    scheduler.worker_spawned(0, 3_000.0)
    (spawn,) = [i for i in scheduler.worker_died(0, 0, 3_100.0) if isinstance(i, SpawnWorker)]
    assert spawn.delay_s < 0.1


def test_builds_that_fail_again_and_again_are_tried_again() -> None:
    desk = TunerDesk(Owner("c", 1, 1), FoldPolicy(30.0))
    for number in range(2_000):
        desk.building = Build(number, "asked for", 0.0)
        desk.failed(BuildFailed(number, {}), 0.0)
    assert desk.paused_until_s == 60.0
    for number in range(2_000):  # with an epoch: the next one waits, not the next generation
        desk.building = Build(number, "asked for", 0.0, epoch=1)
        desk.failed(BuildFailed(number, {}), 0.0)
    assert desk.policy.reclaim_from_s == 600.0


def test_live_rows_are_counted_or_estimated() -> None:
    """A few thousand exactly, many evenly."""
    columns = CatalogueWriter.in_memory(200_000).columns
    columns.removed_version[:100_000] = 7
    columns.removed_version[100_000:150_000:2] = 9
    assert estimate_live(columns, 99_000, 101_000, 9) == 500
    assert estimate_live(columns, 99_000, 101_000, 8) == 1_000
    assert estimate_live(columns, 99_000, 101_000, 6) == 2_000
    assert estimate_live(columns, 101_000, 101_000, 9) == 0
    assert estimate_live(columns, 0, 200_000, 8) == pytest.approx(100_000, rel=0.01)
    assert estimate_live(columns, 0, 200_000, 9) == pytest.approx(75_000, rel=0.01)


@pytest.mark.parametrize(
    ("event_count", "held", "interval_s"),
    [(1, 0, 1.0), (1, 10_000, 1.0), (1_000, 0, 0.05), (1_000, 10_000, 1.0)],
)
def test_samples_are_taken_now_and_then(event_count: int, held: int, interval_s: float) -> None:
    desk = TunerDesk(Owner("c", 1, 1), FoldPolicy(30.0), ready=True)
    desk.policy.sample_count = held
    desk.lend(0, 100.0)
    assert not desk.wants_sample(event_count, 200.0)  # it has not given back what it was lent
    desk.lent_chunk = None
    assert not desk.wants_sample(event_count, 100.0 + 0.9 * interval_s)
    assert desk.wants_sample(event_count, 100.0 + 1.1 * interval_s)


def test_a_build_that_hung_behind_others_does_not_give_way_to_them_again() -> None:
    catalogue, desk = (
        CatalogueWriter.in_memory(1),
        TunerDesk(Owner("c0c0c0c0", 1, 1), FoldPolicy(30.0), ready=True),
    )
    waits = []
    for now_s in (0.0, 1_000.0, 2_000.0):
        desk.policy.asked = desk.ready = True
        request = desk.fold(catalogue, 0, 0, False, now_s)
        assert request is not None
        waits.append(request.can_wait)
        if now_s:
            desk.built(Built(request.generation, "", (), 0, [], {}), now_s)
        else:
            assert desk.hangs(999.0)
            desk.died(999.0)
            desk.paused_until_s = 0.0
    assert waits == [True, False, True]


def test_a_new_worker_maps_the_catalogue_of_the_batches_that_wait() -> None:
    """A batch of the empty generation, an epoch, and only then the death of its worker."""
    scheduler = Scheduler(1, 1, 10.0, catalogue="catalogue1")
    scheduler.worker_spawned(0, 0.0)
    scheduler.worker_hello(0, SETUP, 0.0)
    scheduler.worker_ready(0, 0.0)
    scheduler.batch_accepted(((), 0, 0), 0, 0.0)
    scheduler.layout_built(1, "layout1", (0,), 0, [1.0], "catalogue2")
    scheduler.layout_attached(0, 1, 0.0)
    assert scheduler.let_go() == [GenerationPublished(1)]
    scheduler.worker_died(0, 0, 0.0)
    scheduler.worker_spawned(0, 1.0)
    now = msgspec.structs.replace(SETUP, catalogue_segment="catalogue2")
    setup, attach = [i.message for i in scheduler.worker_hello(0, now, 1.0) if isinstance(i, SendWorker)]
    assert isinstance(setup, wire.Setup) and setup.catalogue_segment == "catalogue1"
    assert isinstance(attach, wire.AttachLayout) and attach.catalogue_segment == "catalogue2"


def test_a_batch_outlives_its_team_and_a_death_in_it() -> None:
    """Two shards take over while a batch waits for the one of before, whose worker dies once."""
    scheduler = Scheduler(1, 1, 10.0)
    scheduler.worker_spawned(0, 0.0)
    scheduler.worker_hello(0, SETUP, 0.0)
    scheduler.worker_ready(0, 0.0)
    batch_no, _ = scheduler.batch_accepted(((), 0, 0), 0, 0.0)
    assert scheduler.crew.missing(2, 1) == 2
    scheduler.resize(2, 1, [1, 2])
    out: list[Instruction] = []
    for worker_idx in (1, 2):
        assert scheduler.crew.team.shards == 1
        scheduler.worker_spawned(worker_idx, 0.0)
        scheduler.worker_hello(worker_idx, SETUP, 0.0)
        out += scheduler.worker_ready(worker_idx, 0.0)
    assert out == [Resized(2, 1)]
    out = scheduler.worker_died(0, 0, 0.0)
    assert [i for i in out if isinstance(i, SpawnWorker)], "nobody is left who could answer"
    scheduler.worker_spawned(0, 1.0)
    scheduler.worker_hello(0, SETUP, 1.0)
    (task,) = [i.message for i in scheduler.worker_ready(0, 1.0) if isinstance(i, SendWorker)]
    assert isinstance(task, wire.Task)
    out = scheduler.page_read(0, task.task_id, False, 1.0)
    assert out == [BatchDone(batch_no), SendWorker(0, wire.Shutdown())]
    assert scheduler.worker_died(0, 0, 1.0) == [WorkerGone(0)]
    assert sorted(scheduler.workers) == [1, 2]


def next_task(scheduler: Scheduler, now_s: float) -> int:
    """Start the only worker; return the first task that it is sent."""
    scheduler.worker_spawned(0, now_s)
    scheduler.worker_hello(0, SETUP, now_s)
    sent = [i.message for i in scheduler.worker_ready(0, now_s) if isinstance(i, SendWorker)]
    return next(message.task_id for message in sent if isinstance(message, wire.Task))


def test_only_deaths_at_a_batch_make_it_poison() -> None:
    """A worker that is dead, which nobody has seen yet, is sent tasks too, and a live one more than one."""
    scheduler = Scheduler(1, 1, 10.0)
    first, _ = scheduler.batch_accepted(((), 0, 0), 0, 0.0)
    second, _ = scheduler.batch_accepted(((), 0, 0), 0, 0.0)
    for now_s in (1.0, 2.0, 3.0):
        task_id = next_task(scheduler, now_s)
        scheduler.worker_died(0, task_id - 1, now_s)  # what its predecessor was at still stands there
    task_id = next_task(scheduler, 4.0)
    scheduler.worker_died(0, task_id + 1, 4.0)  # the first one's page was lost with its worker
    task_id = next_task(scheduler, 5.0)
    scheduler.worker_died(0, task_id, 5.0)
    assert sorted(scheduler.batches) == [first, second], "one death at either of them is no reason"
    task_id = next_task(scheduler, 6.0)
    (refused,) = [i for i in scheduler.worker_died(0, task_id, 6.0) if isinstance(i, BatchRefused)]
    assert refused.batch_no == first and isinstance(refused.error, PoisonBatchError)
    next_task(scheduler, 7.0)
    assert list(scheduler.batches) == [second]


def test_a_group_is_divided_only_when_a_worker_has_begun_it() -> None:
    scheduler = Scheduler(1, 1, 10.0)
    batch_no, _ = scheduler.batch_accepted(((), 0, 0), 0, 0.0, is_group=True)
    next_task(scheduler, 1.0)
    scheduler.worker_died(0, 0, 1.0)
    assert list(scheduler.batches) == [batch_no]
    assert BatchDivided(batch_no) in scheduler.worker_died(0, next_task(scheduler, 2.0), 2.0)


class Line:
    """One worker with a task at a time, and who is answered when."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(1, 1, 10.0)
        self.scheduler.worker_spawned(0, 0.0)
        self.scheduler.worker_hello(0, SETUP, 0.0)
        self.scheduler.workers[0].free_slots = [0]
        self.running: deque[int] = deque()
        self.scheduler.worker_ready(0, 0.0)

    def take(self, instructions: list[Instruction]) -> None:
        sent = [i.message for i in instructions if isinstance(i, SendWorker)]
        self.running += [message.task_id for message in sent if isinstance(message, wire.Task)]

    def publish(self, line: str | None) -> int:
        batch_no, instructions = self.scheduler.batch_accepted(((), 0, 0), 0, 0.0, line=line)
        self.take(instructions)
        return batch_no

    def answer(self) -> int:
        """Let the worker answer its task; return the batch."""
        out = self.scheduler.page_read(0, self.running.popleft(), False, 0.0)
        self.take(out)
        return next(i.batch_no for i in out if isinstance(i, BatchDone))


def test_publishers_take_turns() -> None:
    line = Line()
    flood = [line.publish("flood") for _ in range(8)]
    assert line.scheduler.has_room, "large batches of others keep no group from its turn"
    group = line.publish(None)
    assert not line.scheduler.has_room, "one group that waits is enough"
    other = [line.publish("other") for _ in range(2)]
    answered = [line.answer() for _ in range(11)]
    assert answered == [*flood[:2], group, other[0], flood[2], other[1], *flood[3:]]


def test_who_had_had_a_turn_comes_first_after_a_death() -> None:
    line = Line()
    first, second, other = line.publish("a"), line.publish("a"), line.publish("b")
    line.take(line.scheduler.worker_died(0, 0, 0.0))
    line.running.clear()
    line.scheduler.worker_spawned(0, 1.0)
    line.scheduler.worker_hello(0, SETUP, 1.0)
    line.scheduler.workers[0].free_slots = [0]
    line.take(line.scheduler.worker_ready(0, 1.0))
    assert [line.answer() for _ in range(3)] == [first, second, other]


def test_each_worker_of_a_team_has_a_place_of_its_own() -> None:
    crew = Crew(2, 2)
    assert sorted(worker.place for worker in crew.workers.values()) == [0, 1, 2, 3]
    assert [worker.place for worker in crew.resize(2, 3, [4, 5])] == [4, 5]
    assert [worker.place for worker in crew.resize(3, 1, [6, 7, 8])] == [0, 1, 2], "another team"
