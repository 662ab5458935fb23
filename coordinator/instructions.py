"""What the scheduler asks the runtime to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.workers import messages as wire


@dataclass(frozen=True, slots=True)
class SendWorker:
    """Send a message to a worker."""

    worker_idx: int
    message: wire.ToWorker


@dataclass(frozen=True, slots=True)
class SpawnWorker:
    """Start a process for this worker after `delay_s`."""

    worker_idx: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class KillWorker:
    """Kill a worker that no longer answers."""

    worker_idx: int


@dataclass(frozen=True, slots=True)
class DiscardPages:
    """Forget what this shard has answered for the batch: its task starts anew."""

    batch_no: int
    shard_idx: int


@dataclass(frozen=True, slots=True)
class BatchDone:
    """Every shard has answered: merge, reply, release the chunk."""

    batch_no: int


@dataclass(frozen=True, slots=True)
class BatchRefused:
    """The batch cannot be answered: reply with the error, release the chunk."""

    batch_no: int
    error: PubSubError


@dataclass(frozen=True, slots=True)
class BatchDivided:
    """The group has failed as a whole: release the chunk, publish its members one by one."""

    batch_no: int


@dataclass(frozen=True, slots=True)
class GenerationPublished:
    """New batches are bound to this generation from now on."""

    generation: int


@dataclass(frozen=True, slots=True)
class UnlinkSegment:
    """Nobody will ask for this segment again."""

    segment: str


Instruction: TypeAlias = (
    SendWorker
    | SpawnWorker
    | KillWorker
    | DiscardPages
    | BatchDone
    | BatchRefused
    | BatchDivided
    | GenerationPublished
    | UnlinkSegment
)
