"""The scheduler of batches, workers and generations: a pure state machine.

Events go in as method calls, with the time passed in; instructions come out as a list. Nothing here
opens a socket, reads a clock or touches a segment, so every interleaving can be explored in a test.

Rules of the file
- A batch is bound at acceptance to (generation, counts) and has one task per shard. A task runs on
  any ready worker of its shard that has the generation mapped and a free result slot. Tasks that wait
  take turns by their publishers (`coordinator.fair_queue`).
- A worker that dies gives its tasks back. The one that it was at, by a word that it left in shared memory, is
  the suspect: a batch that was the suspect in two deaths of the same shard is refused as poison.
- A batch is bound to the team of its acceptance too (`coordinator.team`): a resize to another number of
  shards starts another team, which takes over when all its workers are ready.
- A generation becomes current when every ready worker has it mapped, and its rows are the catalogue's: one
  over a new catalogue segment, an *epoch*, is held until the runtime lets it go. It is dropped and unlinked
  when it is not current, no worker is about to map it, and no unanswered batch is bound to it; never before.
  A catalogue is unlinked with the last generation over it.
"""

from __future__ import annotations

import msgspec

from pubsub_cluster.coordinator.config import DOUBLINGS_MAX, TASKS_PER_WORKER_MAX
from pubsub_cluster.coordinator.dealing import Generation
from pubsub_cluster.coordinator.generations import Generations
from pubsub_cluster.coordinator.instructions import (
    BatchDivided,
    BatchDone,
    BatchRefused,
    DiscardPages,
    Instruction,
    KillWorker,
    Resized,
    SendWorker,
    SpawnWorker,
    WorkerGone,
)
from pubsub_cluster.coordinator.team import Batch, Crew, Running, Worker
from pubsub_cluster.language.errors import PoisonBatchError, PubSubError
from pubsub_cluster.workers import messages as wire

KILLS_PER_TASK_MAX = 2
STARTS_APART_S = 0.25  # in a resize: a process takes part of that before it can give way to others
RESPAWN_DELAY_S_MIN = 0.05
RESPAWN_DELAY_S_MAX = 5.0
START_S_MAX = 300.0  # a first start compiles the kernels
QUIET_LIFE_S = 30.0  # a worker that lived so long is not part of a crash loop


class Scheduler(Generations):
    """Schedules batches on workers and generations over their lives.

    Parameters
    ----------
    shards, replicas : int
    task_timeout_s : float
        A worker with a task that has not been heard of for so long is killed.
    worker_silence_s : float
        So is one without a task; never sooner than one with.
    catalogue : str
        The first epoch's segment.
    """

    def __init__(
        self,
        shards: int,
        replicas: int,
        task_timeout_s: float,
        worker_silence_s: float = 10.0,
        catalogue: str = "",
    ) -> None:
        self.task_timeout_s = task_timeout_s
        self.idle_silence_s = max(task_timeout_s, worker_silence_s)
        self.crew = Crew(shards, replicas)
        super().__init__(self.crew.workers, catalogue)
        self.batches: dict[int, Batch] = {}
        self._next_task_id = 1
        self._next_batch_no = 1

    # ---- workers -------------------------------------------------------------------------------

    def start(self) -> list[Instruction]:
        """Ask for every worker."""
        return [SpawnWorker(worker_idx, 0.0) for worker_idx in self.workers]

    def worker_spawned(self, worker_idx: int, now_s: float) -> None:
        """A process was started for this worker."""
        worker = self.workers[worker_idx]
        worker.alive = True
        worker.started_at_s = worker.heard_at_s = now_s
        worker.tell(now_s, "spawned")

    def worker_hello(self, worker_idx: int, setup: wire.Setup, now_s: float) -> list[Instruction]:
        """The process speaks: give it its setup and every generation that is in use.

        The empty generation is over the first catalogue, also when its batches are the only ones left there.
        """
        worker = self.workers[worker_idx]
        if worker.dismissed:
            return []
        worker.greeted, worker.heard_at_s = True, now_s
        worker.attached, worker.attaching = set(), {0}  # the empty layout, over the catalogue of the setup
        worker.free_slots = list(range(TASKS_PER_WORKER_MAX))
        worker.tell(now_s, "hello")
        catalogue = self.generations[0 if 0 in self.generations else self.current].catalogue
        setup = msgspec.structs.replace(setup, catalogue_segment=catalogue)
        out: list[Instruction] = [SendWorker(worker_idx, setup)]
        return out + self._attach_all(worker)

    def worker_ready(self, worker_idx: int, now_s: float) -> list[Instruction]:
        """Kernels are compiled; the worker takes tasks."""
        worker = self.workers[worker_idx]
        worker.ready, worker.heard_at_s = not worker.dismissed, now_s
        worker.attaching.discard(0)
        worker.attached.add(0)
        worker.tell(now_s, "ready")
        return self._advance() + self._retire() + self._schedule(now_s)

    def worker_heard(self, worker_idx: int, now_s: float) -> None:
        """Any sign of life."""
        self.workers[worker_idx].heard_at_s = now_s

    def worker_died(self, worker_idx: int, at_task: int, now_s: float) -> list[Instruction]:
        """The process is gone, at this task or (0) at none: a new one is asked for, its tasks wait again."""
        worker = self.workers[worker_idx]
        out: list[Instruction] = []
        runs = list(worker.running.values())
        for run in runs:
            batch = self.batches[run.batch_no]
            batch.running.discard(worker.shard_idx)
            out.append(DiscardPages(batch.batch_no, worker.shard_idx))
            kills = batch.kills.get(worker.shard_idx, 0) + (run.task_id == at_task)
            batch.kills[worker.shard_idx] = kills
            if kills >= (1 if batch.is_group else KILLS_PER_TASK_MAX) and batch.error is None:
                batch.error = PoisonBatchError(
                    "the batch was being matched when its worker died, twice",
                    seen=kills,
                    limit=KILLS_PER_TASK_MAX - 1,
                    remedy="The batch is kept in the poison folder of the data directory; report it.",
                    story=list(worker.story)[-8:],
                )
            if batch.error is None:
                batch.waiting.add(worker.shard_idx)
        requeued = [run.batch_no for run in runs if self.batches[run.batch_no].error is None]
        worker.team.queues[worker.shard_idx].put_back(requeued)
        ended = [run.batch_no for run in runs]
        worker.running.clear()
        worker.alive = worker.greeted = worker.ready = False
        worker.attached, worker.attaching = set(), set()
        worker.restarts += 1
        worker.quick_deaths = worker.quick_deaths + 1 if now_s - worker.started_at_s < QUIET_LIFE_S else 0
        worker.tell(now_s, f"died at task {at_task}")
        for batch_no in ended:
            out += self._finish_if_over(batch_no)
        if self.crew.is_over(worker):
            self.crew.gone(worker)
            out.append(WorkerGone(worker_idx))
        else:
            doublings = min(max(0, worker.quick_deaths - 1), DOUBLINGS_MAX)
            delay_s = min(RESPAWN_DELAY_S_MIN * 2**doublings, RESPAWN_DELAY_S_MAX)
            out.append(SpawnWorker(worker_idx, delay_s))
        return out + self._advance() + self._retire() + self._schedule(now_s)

    def tick(self, now_s: float) -> list[Instruction]:
        """Find workers that hang: idle ones speak every second, those that start have their time."""
        out: list[Instruction] = []
        for worker in self.workers.values():
            patience_s = self.task_timeout_s if worker.running else self.idle_silence_s
            patience_s = patience_s if worker.ready or worker.dismissed else START_S_MAX
            if worker.alive and now_s - worker.heard_at_s > patience_s:
                worker.heard_at_s = now_s  # told once, its death follows
                out.append(KillWorker(worker.worker_idx))
        return out

    # ---- resizing ------------------------------------------------------------------------------

    def resize(self, shards: int, replicas: int, seats: list[int]) -> list[Instruction]:
        """Change the number of workers; every batch is answered by the team that it was accepted for.

        Parameters
        ----------
        shards, replicas : int
        seats : list of int
            Indices that no worker has, as many as `Crew.missing` says.

        Raises
        ------
        BusyError
            Workers of the last resize have not left yet.
        """
        new = self.crew.resize(shards, replicas, seats)
        spawned: list[Instruction] = [
            SpawnWorker(worker.worker_idx, number * STARTS_APART_S, gently=True)
            for number, worker in enumerate(new)
        ]
        return spawned + self._dismiss()

    def _take_over(self) -> list[Instruction]:
        team = self.crew.next_team
        if team is None or not all(w.ready and self.current in w.attached for w in team.members):
            return []
        self.crew.take_over()
        return [Resized(team.shards, team.replica_count)]

    def _dismiss(self) -> list[Instruction]:
        out: list[Instruction] = []
        for worker in self.crew.dispensable():
            if not worker.alive:
                self.crew.gone(worker)
                out.append(WorkerGone(worker.worker_idx))
            elif worker.ready:
                out.append(SendWorker(worker.worker_idx, wire.Shutdown()))
            else:  # it may be compiling for a while yet
                out.append(KillWorker(worker.worker_idx))
            worker.dismissed, worker.greeted, worker.ready = True, False, False
        return out

    # ---- generations ---------------------------------------------------------------------------

    def layout_built(
        self,
        number: int,
        segment: str,
        base_counts: wire.Counts,
        version: int,
        partition_cost: list[float],
        new_catalogue: str = "",
    ) -> list[Instruction]:
        """A generation is complete in its segment: have it mapped by everybody.

        One over a new catalogue is held until `let_go` or `withdraw`.
        """
        catalogue = new_catalogue or self.generations[self.current].catalogue
        generation = Generation(number, segment, base_counts, version, partition_cost, catalogue)
        return self._await(generation, bool(new_catalogue)) + self._advance()

    def layout_attached(self, worker_idx: int, number: int, now_s: float) -> list[Instruction]:
        """A worker has mapped a generation."""
        worker = self.workers[worker_idx]
        worker.attaching.discard(number)
        worker.attached.add(number)
        worker.heard_at_s = now_s
        worker.tell(now_s, f"attached {number}")
        return self._advance() + self._retire() + self._schedule(now_s)

    def let_go(self) -> list[Instruction]:
        """The rows of the generation that was held are the catalogue's now."""
        self.is_held = False
        return self._advance()

    def withdraw(self) -> list[Instruction]:
        """The generation that was held will never be used."""
        self.pending, self.is_held = None, False
        return self._retire()

    def layout_refused(self, worker_idx: int, number: int, now_s: float) -> list[Instruction]:
        """A worker cannot map a generation: one that nobody uses yet is given up, by all of them.

        A worker that cannot map one in use, or one that is held, is of no use for it, and starts anew.
        """
        worker = self.workers[worker_idx]
        worker.attaching.discard(number)
        worker.heard_at_s = now_s
        worker.tell(now_s, f"refused {number}")
        found = self.generations.get(number)
        if number == self.pending and not self.is_held:
            self.pending = None
        elif found is not None and (number in (self.current, self.pending) or found.bound_batches):
            return [KillWorker(worker_idx)]
        return self._retire()

    def _advance(self) -> list[Instruction]:
        return self._publish_if_attached() + self._take_over()

    # ---- batches -------------------------------------------------------------------------------

    def batch_accepted(
        self,
        moment: tuple[wire.Counts, int, int],
        chunk_idx: int,
        now_s: float,
        is_group: bool = False,
        line: str | None = None,
    ) -> tuple[int, list[Instruction]]:
        """Bind a batch to a moment (counts, version and time) and queue its tasks; return its number.

        It takes turns with those of other lines: a publisher's, or None for what comes from the intake.
        """
        batch_no = self._next_batch_no
        self._next_batch_no += 1
        team = self.crew.team
        shards = set(range(team.shards))
        self.batches[batch_no] = Batch(batch_no, team, self.current, moment, chunk_idx, shards, is_group)
        self.generations[self.current].bound_batches += 1
        team.bound_batches += 1
        for queue in team.queues:
            queue.append(line, batch_no)
        return batch_no, self._schedule(now_s)

    @property
    def has_room(self) -> bool:
        """True when a batch from the intake would go out at once, or next after other lines' batches.

        It is enough that one waits: the longer the others, the more small publications it has.
        """
        team, current = self.crew.team, self.current
        for shard_idx, queue in enumerate(team.queues):
            if None in queue or (not queue and team.idlest(shard_idx, current) is None):
                return False
        return True

    def run_of(self, worker_idx: int, task_id: int) -> Running | None:
        """Return the worker's attempt with this id, or None when it is stale."""
        return self.workers[worker_idx].running.get(task_id)

    def page_read(self, worker_idx: int, task_id: int, more: bool, now_s: float) -> list[Instruction]:
        """A page of the task was read from its slot; `more` follow."""
        worker = self.workers[worker_idx]
        worker.heard_at_s = now_s
        run = self.run_of(worker_idx, task_id)
        if run is None:
            return []
        if more:
            return [SendWorker(worker_idx, wire.Continue(task_id))]
        self._end_run(worker, run)
        return self._finish_if_over(run.batch_no) + self._schedule(now_s)

    def page_refused(
        self, worker_idx: int, task_id: int, error: PubSubError, now_s: float
    ) -> list[Instruction]:
        """A page cannot be kept: the batch is refused, and the worker must not keep its answer either."""
        forget: list[Instruction] = [SendWorker(worker_idx, wire.Forget(task_id))]
        return forget + self.task_failed(worker_idx, task_id, error, now_s)

    def task_failed(
        self, worker_idx: int, task_id: int, error: PubSubError, now_s: float
    ) -> list[Instruction]:
        """A shard cannot answer: the whole batch is refused once its other tasks are over."""
        worker = self.workers[worker_idx]
        worker.heard_at_s = now_s
        run = self.run_of(worker_idx, task_id)
        if run is None:
            return []
        self._end_run(worker, run)
        batch = self.batches[run.batch_no]
        batch.error = batch.error or error
        return self._finish_if_over(run.batch_no) + self._schedule(now_s)

    def _end_run(self, worker: Worker, run: Running) -> None:
        del worker.running[run.task_id]
        worker.free_slots.append(run.slot_idx)
        self.batches[run.batch_no].running.discard(worker.shard_idx)

    def _finish_if_over(self, batch_no: int) -> list[Instruction]:
        batch = self.batches.get(batch_no)
        if batch is None:
            return []
        if batch.error is not None:
            for shard_idx in batch.waiting:
                batch.team.queues[shard_idx].remove(batch_no)
            batch.waiting.clear()
        if batch.waiting or batch.running:
            return []
        del self.batches[batch_no]
        self.generations[batch.generation].bound_batches -= 1
        batch.team.bound_batches -= 1
        return [_verdict(batch), *self._retire()]

    def _schedule(self, now_s: float) -> list[Instruction]:
        out: list[Instruction] = []
        for team in self.crew.teams:
            for shard_idx, queue in enumerate(team.queues):
                while queue:
                    batch = self.batches[queue.head]
                    worker = team.idlest(shard_idx, batch.generation)
                    if worker is None:
                        break
                    queue.pop()
                    out.append(self._begin_run(worker, batch, now_s))
        return out + self._dismiss() if self.crew.leaving else out

    def _begin_run(self, worker: Worker, batch: Batch, now_s: float) -> SendWorker:
        run = Running(self._next_task_id, batch.batch_no, worker.free_slots.pop())
        self._next_task_id += 1
        if not worker.running and worker.heard_at_s < now_s:
            worker.heard_at_s = now_s
        worker.running[run.task_id] = run
        batch.waiting.discard(worker.shard_idx)
        batch.running.add(worker.shard_idx)
        task = wire.Task(run.task_id, batch.generation, *batch.moment, batch.chunk_idx, run.slot_idx)
        return SendWorker(worker.worker_idx, task)


def _verdict(batch: Batch) -> Instruction:
    if batch.error is None:
        return BatchDone(batch.batch_no)
    return BatchDivided(batch.batch_no) if batch.is_group else BatchRefused(batch.batch_no, batch.error)
