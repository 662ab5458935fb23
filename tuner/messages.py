"""Messages between the coordinator and the tuner: small, typed, MessagePack on the socket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import INT64_MIN

Counts: TypeAlias = tuple[int, ...]

STATISTICS_KIND, STATISTICS_FORMAT = "statistics", 1
"""Of a packed file with frequencies (`tuner.frequencies_file`)."""

STATISTICS_FILE = "statistics.packed"
"""Its name, in a folder that somebody counted into."""


class TunerHello(msgspec.Struct, tag="tuner_hello", frozen=True):
    """Tuner: I am up and want my setup."""

    pid: int


class TunerSetup(msgspec.Struct, tag="tuner_setup", frozen=True):
    """Coordinator: the segments to read, and whose name new segments carry."""

    slab_segment: str
    cluster_id: str
    owner_pid: int
    owner_start_ticks: int
    schema: dict[str, Any]
    limits: dict[str, int]
    partition_count: int


class SchemaExtended(msgspec.Struct, tag="schema", frozen=True):
    """Coordinator: the schema, extended; batches after this message are read by it."""

    schema: dict[str, Any]


class TunerReady(msgspec.Struct, tag="tuner_ready", frozen=True):
    """Tuner: mapped and waiting."""


class Measured(msgspec.Struct, tag="measured", frozen=True):
    """Tuner: the constants of the cost model on this machine, nanoseconds."""

    constants: dict[str, float]


class DeliveryMeasured(msgspec.Struct, tag="delivery_measured", frozen=True):
    """Tuner: what the ways of delivery cost on this machine, nanoseconds; empty: it could not be measured."""

    costs: dict[str, float]


class Check(msgspec.Struct, frozen=True):
    """What was answered to one event of a batch: rows of a catalogue, and the moment it was matched at.

    `row_count` rows of the `total_rows` are to be compared; the first `window_count` windows were there then.
    """

    event_idx: int
    rows: list[int]
    total_rows: int
    window_count: int
    version: int
    now_us: int
    row_count: int
    catalogue_segment: str


class Difference(msgspec.Struct, frozen=True):
    """A subscription that was in an answer and should not have been, or the other way round (`expected`)."""

    subscription_id: str
    handle: int
    expected: bool
    event: dict[str, Any]


class Sample(msgspec.Struct, tag="sample", frozen=True):
    """Coordinator: the batch in this chunk is yours to sample until you answer `SampleTaken`."""

    chunk_idx: int
    check: Check | None = None


class SampleTaken(msgspec.Struct, tag="sample_taken", frozen=True):
    """Tuner: the chunk is free; `event_count` events were taken, the sample now holds `held_count`.

    Of the check, if there was one: how many rows were compared, and what was not as it should be.
    """

    chunk_idx: int
    event_count: int
    held_count: int
    checked_rows: int = 0
    differences: list[Difference] = []


class Fold(msgspec.Struct, tag="fold", frozen=True):
    """Coordinator: build `generation` from this catalogue as of (counts, version).

    With an `epoch`, copy what is live at `version` into a new catalogue of that number first, without what
    was over at `now_us`, and build the generation over that. One that `can_wait` gives way to all others.
    """

    generation: int
    counts: Counts
    version: int
    catalogue_segment: str
    epoch: int = 0
    now_us: int = INT64_MIN
    can_wait: bool = False


class Built(msgspec.Struct, tag="built", frozen=True):
    """Tuner: the generation is complete in `segment`; the coordinator owns it from here.

    With a new epoch, `counts` are those of the new catalogue and `moved_segment` tells where everything went.
    """

    generation: int
    segment: str
    counts: Counts
    version: int
    partition_cost: list[float]
    summary: dict[str, Any]
    catalogue_segment: str = ""
    moved_segment: str = ""


class BuildFailed(msgspec.Struct, tag="build_failed", frozen=True):
    """Tuner: no generation; the old one stays in force."""

    generation: int
    error: dict[str, Any]


@dataclass(frozen=True)
class Thresholds:
    """What an operator has set; None: adaptive.

    Attributes
    ----------
    bm_max : float, optional
        Expected checks per event.
    b_min, rp_min : float, optional
        Subscriptions; `b_min` may not be above `rp_min`, or a new table would be removed at once.

    Raises
    ------
    LimitError
        One is negative, or both contradict each other.
    """

    bm_max: float | None = None
    b_min: float | None = None
    rp_min: float | None = None

    def __post_init__(self) -> None:
        for name in ("bm_max", "b_min", "rp_min"):
            value = getattr(self, name)
            if value is not None and not value >= 0.0:
                raise LimitError(
                    f"`{name}` is not a number from 0 on",
                    seen=value,
                    remedy="Set another, or `auto`: then it follows from measured costs.",
                )
        if self.b_min is not None and self.rp_min is not None and self.b_min > self.rp_min:
            raise LimitError(
                "`b_min` is above `rp_min`: a new table would be removed at once",
                seen=self.b_min,
                limit=self.rp_min,
                remedy="Lower `b_min` or raise `rp_min`.",
            )


class FormGroups(msgspec.Struct, tag="form_groups", frozen=True):
    """Coordinator: form at most so many groups of these owners of a catalogue as of (counts, version).

    `number` counts these requests; the segment has it too.
    """

    number: int
    counts: Counts
    version: int
    catalogue_segment: str
    owners: list[int]
    group_count: int


class GroupsFormed(msgspec.Struct, tag="groups_formed", frozen=True):
    """Tuner: the groups are complete in `segment`; the coordinator owns it from here.

    Without a segment there is nothing to form groups of: too few owners or events, or nothing that tells the
    owners apart.
    """

    number: int
    segment: str
    summary: dict[str, Any]


class GroupsFailed(msgspec.Struct, tag="groups_failed", frozen=True):
    """Tuner: no groups; the old ones stay in force."""

    number: int
    error: dict[str, Any]


class FrozenTable(msgspec.Struct, frozen=True):
    """A table that stays, told by what no generation and no epoch numbers anew.

    Attributes
    ----------
    attributes : tuple of str
        Names.
    slices : tuple of int
        Of each: how many slices it is cut in; 0 where it is looked up by label.
    """

    attributes: tuple[str, ...]
    slices: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse what no tuner could build: a file may have been edited."""
        if len(set(self.attributes)) != len(self.slices) or len(self.attributes) != len(self.slices):
            raise ValueError(f"a frozen table has {self.slices} for the slices of {self.attributes}")


class Tune(msgspec.Struct, tag="tune", frozen=True):
    """Coordinator: from the next fold on these are the dynamic algorithm's thresholds.

    Where there are frozen tables, generations have these and no others, and nothing is decided. Tables are
    chosen by the statistics in a file, where one is named, and else by a sample of events. `tree` says
    whether conjunctions of ranges are matched by a tree; None: where the cost model says so.
    """

    thresholds: Thresholds
    frozen: tuple[FrozenTable, ...] | None = None
    statistics: str | None = None
    tree: bool | None = None


class DropSegment(msgspec.Struct, tag="drop_segment", frozen=True):
    """Coordinator: this segment, a layout or a catalogue, is unlinked; let go of it."""

    segment: str


class TunerHeartbeat(msgspec.Struct, tag="tuner_heartbeat", frozen=True):
    """Tuner: alive and idle."""


class TunerShutdown(msgspec.Struct, tag="tuner_shutdown", frozen=True):
    """Coordinator: leave."""


ToTuner: TypeAlias = (
    TunerSetup | SchemaExtended | Sample | Tune | Fold | FormGroups | DropSegment | TunerShutdown
)
FromTuner: TypeAlias = (
    TunerHello
    | TunerReady
    | Measured
    | DeliveryMeasured
    | SampleTaken
    | Built
    | BuildFailed
    | GroupsFormed
    | GroupsFailed
    | TunerHeartbeat
)

encode = msgspec.msgpack.encode
decode_to_tuner = msgspec.msgpack.Decoder(ToTuner).decode
decode_from_tuner = msgspec.msgpack.Decoder(FromTuner).decode
