"""Messages between the coordinator and a worker: small, typed, MessagePack on the socket.

Bulk data never travels here: a task names a chunk of the batch slab, a page names a result slot.
Each message is complete in itself, so a restarted worker needs no history. The segment that a message
names is complete before the message is sent (docs/ARCHITECTURE.md, memory contract).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

Counts: TypeAlias = tuple[int, ...]
AttributeLookup: TypeAlias = tuple[str, str, int, str, int]
"""An attribute's name; how its numbers are looked up (``search``, ``direct``, ``hash``), how many constants;
the same for its texts."""


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """Worker: I am up and want my setup."""

    worker_idx: int
    pid: int


class Setup(msgspec.Struct, tag="setup", frozen=True):
    """Coordinator: the segments to map and the place in the cluster.

    An `engine` other than ``layout`` is a matcher's name (`workers.matcher_engine`).
    """

    shard_idx: int
    shard_count: int
    catalogue_segment: str
    slab_segment: str
    results_segment: str
    counters_segment: str
    counter_slot: int
    schema: dict[str, Any]
    limits: dict[str, int]
    engine: str = "layout"


class AttachLayout(msgspec.Struct, tag="attach", frozen=True):
    """Coordinator: map this generation; `partition_mine` has a byte per partition, 1 where it is yours.

    Its rows are those of `catalogue_segment`.
    """

    generation: int
    segment: str
    base_counts: Counts
    partition_mine: bytes
    catalogue_segment: str


class DropLayout(msgspec.Struct, tag="drop", frozen=True):
    """Coordinator: no batch will ask for this generation again; a catalogue goes with its last one."""

    generation: int


class SchemaExtended(msgspec.Struct, tag="schema", frozen=True):
    """Coordinator: the schema, extended; batches after this message are read by it."""

    schema: dict[str, Any]


class Task(msgspec.Struct, tag="task", frozen=True):
    """Coordinator: match the batch in `chunk_idx` as of this moment; answer into `slot_idx`."""

    task_id: int
    generation: int
    counts: Counts
    version: int
    now_us: int
    chunk_idx: int
    slot_idx: int


class Continue(msgspec.Struct, tag="continue", frozen=True):
    """Coordinator: the page of this task is read; write the next one."""

    task_id: int


class Forget(msgspec.Struct, tag="forget", frozen=True):
    """Coordinator: the rest of this task's answer is not wanted."""

    task_id: int


class Shutdown(msgspec.Struct, tag="shutdown", frozen=True):
    """Coordinator: finish and leave."""


class LayoutAttached(msgspec.Struct, tag="attached", frozen=True):
    """Worker: generation mapped and ready for tasks; how it looks the attributes' values up."""

    generation: int
    lookups: list[AttributeLookup] = []


class LayoutRefused(msgspec.Struct, tag="refused", frozen=True):
    """Worker: this generation cannot be mapped here; the error says why. The others stay as they are."""

    generation: int
    error: dict[str, Any]


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """Worker: kernels compiled, segments mapped; tasks welcome."""

    warm_up_ms: int
    pinned_cpu: int | None


class Page(msgspec.Struct, tag="page", frozen=True):
    """Worker: a page of the task's matches stands in its result slot.

    `refused` (first page only) maps event indices to error dictionaries; `more` asks for `Continue`.
    """

    task_id: int
    more: bool
    refused: dict[int, dict[str, Any]]
    decode_us: int
    base_us: int
    delta_us: int


class Observed(msgspec.Struct, tag="observed", frozen=True):
    """Worker: what matching a few events took.

    `work` has probes, clusters met and candidates of each table, then those of the slots.
    """

    generation: int
    event_count: int
    work: list[int]


class TaskFailed(msgspec.Struct, tag="failed", frozen=True):
    """Worker: the whole batch cannot be answered; the error says why."""

    task_id: int
    error: dict[str, Any]


class Heartbeat(msgspec.Struct, tag="heartbeat", frozen=True):
    """Worker: alive and idle."""


ToWorker: TypeAlias = Setup | SchemaExtended | AttachLayout | DropLayout | Task | Continue | Forget | Shutdown
FromWorker: TypeAlias = (
    Hello | Ready | LayoutAttached | LayoutRefused | Page | Observed | TaskFailed | Heartbeat
)

encode = msgspec.msgpack.encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_from_worker = msgspec.msgpack.Decoder(FromWorker).decode
