"""Generations over their lives: mapped by every worker, in force, and unlinked when nobody needs them.

The part of the scheduler that knows nothing of batches but how many are bound to each generation.
"""

from __future__ import annotations

from pubsub_cluster.coordinator.dealing import Generation
from pubsub_cluster.coordinator.instructions import (
    GenerationPublished,
    Instruction,
    SendWorker,
    UnlinkSegment,
)
from pubsub_cluster.coordinator.team import Worker
from pubsub_cluster.workers import messages as wire


class Generations:
    """Which generations there are.

    Parameters
    ----------
    workers : dict of int to Worker
    catalogue : str
        The first epoch's segment.

    Attributes
    ----------
    generations : dict of int to Generation
    current : int
        New batches are bound to it.
    pending : int or None
        About to become current.
    is_held : bool
        The pending one does not become current by itself.
    """

    def __init__(self, workers: dict[int, Worker], catalogue: str) -> None:
        self.workers = workers
        self.generations = {0: Generation(0, None, (), 0, catalogue=catalogue)}
        self.current = 0
        self.pending: int | None = None
        self.is_held = False

    @property
    def is_mapped(self) -> bool:
        """There is a pending generation, and every ready worker has it mapped."""
        ready = [worker for worker in self.workers.values() if worker.ready]
        return bool(ready) and all(self.pending in worker.attached for worker in ready)

    def _await(self, generation: Generation, is_held: bool) -> list[Instruction]:
        """Have a new generation mapped by everybody."""
        if generation.number <= max(self.generations):
            raise AssertionError(f"{generation.number} is not new; known {sorted(self.generations)}")
        self.generations[generation.number] = generation
        self.pending, self.is_held = generation.number, is_held
        return [self._attach(worker, generation) for worker in self.workers.values() if worker.greeted]

    def _attach_all(self, worker: Worker) -> list[Instruction]:
        """Have a new worker map what is in use; its setup names the catalogue of the empty generation."""
        out: list[Instruction] = [
            self._attach(worker, self.generations[number]) for number in sorted(self.generations) if number
        ]
        if 0 not in self.generations:
            out.append(SendWorker(worker.worker_idx, wire.DropLayout(0)))
        return out

    def _attach(self, worker: Worker, generation: Generation) -> SendWorker:
        shard_of_partition = generation.shard_of_partition(worker.team.shards)
        mine = bytes(1 if shard == worker.shard_idx else 0 for shard in shard_of_partition)
        named = generation.number, generation.segment or "", generation.base_counts
        message = wire.AttachLayout(*named, mine, generation.catalogue)
        worker.attaching.add(generation.number)
        return SendWorker(worker.worker_idx, message)

    def _publish_if_attached(self) -> list[Instruction]:
        if self.pending is None or self.is_held or not self.is_mapped:
            return []
        self.current, self.pending = self.pending, None
        return [GenerationPublished(self.current), *self._retire()]

    def _retire(self) -> list[Instruction]:
        out: list[Instruction] = []
        for number, generation in list(self.generations.items()):
            if number in (self.current, self.pending) or generation.bound_batches:
                continue
            if any(number in worker.attaching for worker in self.workers.values()):
                continue  # told to map it, and not yet heard of: the name must still be there
            if number == 0 and generation.catalogue == self.generations[self.current].catalogue:
                continue
            del self.generations[number]
            for worker in self.workers.values():
                if worker.greeted:
                    worker.attached.discard(number)
                    out.append(SendWorker(worker.worker_idx, wire.DropLayout(number)))
            if generation.segment:
                out.append(UnlinkSegment(generation.segment))
            if all(other.catalogue != generation.catalogue for other in self.generations.values()):
                out.append(UnlinkSegment(generation.catalogue))
        return out
