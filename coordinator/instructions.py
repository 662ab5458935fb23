"""What the scheduler asks the runtime to do."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.workers import messages as wire


class SendWorker(msgspec.Struct, frozen=True, gc=False):
    """Send a message to a worker."""

    worker_idx: int
    message: wire.ToWorker


class SpawnWorker(msgspec.Struct, frozen=True, gc=False):
    """Start a process for this worker after `delay_s`; `gently` where others answer until it is ready."""

    worker_idx: int
    delay_s: float
    gently: bool = False


class KillWorker(msgspec.Struct, frozen=True, gc=False):
    """Kill a worker that no longer answers."""

    worker_idx: int


class WorkerGone(msgspec.Struct, frozen=True, gc=False):
    """This worker has left for good after a resize, or never came: give back what it had."""

    worker_idx: int


class Resized(msgspec.Struct, frozen=True, gc=False):
    """New batches are bound to a team of so many shards and replicas from now on."""

    shards: int
    replicas: int


class DiscardPages(msgspec.Struct, frozen=True, gc=False):
    """Forget what this shard has answered for the batch: its task starts anew."""

    batch_no: int
    shard_idx: int


class BatchDone(msgspec.Struct, frozen=True, gc=False):
    """Every shard has answered: merge, reply, release the chunk."""

    batch_no: int


class BatchRefused(msgspec.Struct, frozen=True, gc=False):
    """The batch cannot be answered: reply with the error, release the chunk."""

    batch_no: int
    error: PubSubError


class BatchDivided(msgspec.Struct, frozen=True, gc=False):
    """The group has failed as a whole: release the chunk, publish its members one by one."""

    batch_no: int


class GenerationPublished(msgspec.Struct, frozen=True, gc=False):
    """New batches are bound to this generation from now on."""

    generation: int


class UnlinkSegment(msgspec.Struct, frozen=True, gc=False):
    """Nobody will ask for this segment again."""

    segment: str


Instruction: TypeAlias = (
    SendWorker
    | SpawnWorker
    | KillWorker
    | WorkerGone
    | Resized
    | DiscardPages
    | BatchDone
    | BatchRefused
    | BatchDivided
    | GenerationPublished
    | UnlinkSegment
)
