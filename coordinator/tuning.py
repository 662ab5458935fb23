"""The tuner as the coordinator sees it: its process, the batches lent to it, the build under way.

The tuner borrows a chunk of the slab to sample its events, and builds one generation at a time. When it
dies, what it borrowed is taken back, a half-written segment is removed, and a new process is started;
the generation in force is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pubsub_cluster.coordinator.config import DOUBLINGS_MAX
from pubsub_cluster.coordinator.folding import CAN_WAIT, FoldPolicy
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.catalogue_rows import is_removed
from pubsub_cluster.shm.catalogue_store import FIRST_EPOCH, CatalogueColumns
from pubsub_cluster.shm.owner import Owner, SegmentName, unlink_segment
from pubsub_cluster.tuner import messages as wire

SAMPLE_INTERVAL_S = 1.0
"""The tuner looks at all of a batch, and an event that comes alone is answered before it has woken up."""
FIRST_SAMPLES, FIRST_SAMPLES_INTERVAL_S = 1_536, 0.05
HURRIED_EVENTS_MIN = 32
"""So many events are wanted soon, of batches that bring many: tables that were chosen by a hundred are
visibly worse, and where each event comes alone, haste would be work beside every twentieth of a second."""
LOOKED_AT_ROWS_MAX = 16_384  # evenly of a large delta: all of ten million take tens of milliseconds
RESPAWN_DELAY_S = 0.5
FAILURE_PAUSE_S_MAX = 60.0
EPOCH_PAUSE_S_MAX = 600.0
SILENCE_S_MAX = 30.0  # idle, it speaks every second
BUILD_S_MAX = 900.0
HISTORY_LENGTH = 64


@dataclass(slots=True)
class Build:
    """A generation being built."""

    generation: int
    reason: str
    started_s: float
    epoch: int = 0


@dataclass(slots=True)
class TunerDesk:
    """State of the tuner.

    Attributes
    ----------
    owner : Owner
        In whose name the tuner's segments are created.
    policy : FoldPolicy
    grouping_since_s : float or None
        When it was asked for groups that it is forming.
    """

    owner: Owner
    policy: FoldPolicy
    ready: bool = False
    lent_chunk: int | None = None
    sampled_at_s: float = 0.0
    building: Build | None = None
    next_generation: int = 1
    next_epoch: int = FIRST_EPOCH + 1
    restarts: int = 0
    failures: int = 0
    epoch_failures: int = 0
    paused_until_s: float = 0.0
    heard_at_s: float = 0.0
    grouping_since_s: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, float] = field(default_factory=dict)

    def wants_sample(self, event_count: int, now_s: float) -> bool:
        """Lend it the batch of so many events that was just answered?"""
        hurries = event_count >= HURRIED_EVENTS_MIN and self.policy.sample_count < FIRST_SAMPLES
        interval_s = FIRST_SAMPLES_INTERVAL_S if hurries else SAMPLE_INTERVAL_S
        return self.ready and self.lent_chunk is None and now_s - self.sampled_at_s >= interval_s

    def lend(self, chunk_idx: int, now_s: float, check: wire.Check | None = None) -> wire.Sample:
        """Lend a chunk until `taken_back`; an answer of its batch may be checked too."""
        self.lent_chunk, self.sampled_at_s = chunk_idx, now_s
        return wire.Sample(chunk_idx, check)

    def taken_back(self, message: wire.SampleTaken) -> int | None:
        """The tuner is done with the chunk; return it for release."""
        self.policy.sample_count = message.held_count
        self.policy.sampled_since_build += message.event_count
        chunk_idx, self.lent_chunk = self.lent_chunk, None
        return chunk_idx

    def fold(
        self, catalogue: CatalogueWriter, version: int, now_us: int, pending: bool, now_s: float
    ) -> wire.Fold | None:
        """Return the request for a new generation if one is due; `pending`: one is still being attached.

        It comes with a new epoch when enough of the catalogue is dead at `version`, or over at `now_us`.
        """
        if not self.ready or self.building is not None or pending or now_s < self.paused_until_s:
            return None
        counts = catalogue.counts()

        def live_from(row: int) -> int:
            return estimate_live(catalogue.columns, row, counts.rows, version)

        reason = self.policy.reason(now_s, live_from)
        if reason is None:
            return None
        epoch = self.next_epoch if self.policy.reclaims(now_s) else 0
        self.building = Build(self.next_generation, reason, now_s, epoch)
        self.next_generation += 1
        self.next_epoch += bool(epoch)
        self.policy.started()
        named = self.building.generation, tuple(counts), version, catalogue.name
        # After a failure it does not wait: it may have hung for want of the processor.
        return wire.Fold(*named, epoch, now_us, reason in CAN_WAIT and not self.failures)

    def built(self, message: wire.Built, now_s: float) -> None:
        """A generation is complete; remember how it came about."""
        build, self.building = self.building, None
        self.failures = 0
        self.policy.build_s = now_s - build.started_s if build else 0.0
        self.policy.build_cpu_s = message.summary.get("build_cpu_ms", 0) / 1e3
        record = {
            "generation": message.generation,
            "reason": build.reason if build else "",
            "seconds": round(now_s - build.started_s, 3) if build else 0.0,
            "version": message.version,
            "epoch": build.epoch if build else 0,
            **message.summary,
        }
        brief = {name: value for name, value in record.items() if name != "tables"}
        self.history = [*self.history[1 - HISTORY_LENGTH :], brief]
        self.summary = record

    def failed(self, message: wire.BuildFailed, now_s: float) -> None:
        """No generation; it will be tried again, later each time.

        One that came with an epoch is tried without: what is dead waits, matching does not.
        """
        if self.building is None or self.building.epoch:
            self._pause_epochs(now_s)
        else:
            self._pause(now_s)
        self.building = None
        record = {"generation": message.generation, "error": message.error}
        self.history = [*self.history[1 - HISTORY_LENGTH :], record]

    def moved(self) -> None:
        """A new epoch is in force."""
        self.epoch_failures = 0

    def _pause_epochs(self, now_s: float) -> None:
        self.epoch_failures += 1
        self.policy.reclaim_from_s = now_s + min(
            EPOCH_PAUSE_S_MAX, 5.0 * 2.0 ** min(self.epoch_failures, DOUBLINGS_MAX)
        )

    def refused(self, generation: int, error: dict[str, Any], now_s: float) -> None:
        """A worker cannot map a complete generation: it is built again, later each time."""
        self._pause(now_s)
        self.policy.asked = True
        record = {"generation": generation, "error": error}
        self.history = [*self.history[1 - HISTORY_LENGTH :], record]

    def _pause(self, now_s: float) -> None:
        self.failures += 1
        self.paused_until_s = now_s + min(FAILURE_PAUSE_S_MAX, 2.0 ** min(self.failures, DOUBLINGS_MAX))

    def hangs(self, now_s: float) -> bool:
        """Tell whether it has been silent for longer than it can be at its work."""
        if not self.ready:
            return False
        if self.building is not None:
            return now_s - self.building.started_s > BUILD_S_MAX
        if self.grouping_since_s is not None:
            return now_s - self.grouping_since_s > BUILD_S_MAX
        return now_s - self.heard_at_s > SILENCE_S_MAX

    def died(self, now_s: float) -> int | None:
        """The process is gone; return the chunk that it had borrowed."""
        if self.building is not None:
            self._pause(now_s)
            if self.building.epoch:
                self._pause_epochs(now_s)
            # Its name is known, so a half-written segment does not outlive its writer.
            unlink_segment(str(SegmentName(self.owner, "layout", self.building.generation)))
            for kind in ("catalogue", "moved"):
                if self.building.epoch:
                    unlink_segment(str(SegmentName(self.owner, kind, self.building.epoch)))
            self.policy.asked = True
        self.building = self.grouping_since_s = None
        self.ready = False
        self.restarts += 1
        self.policy.sample_count = self.policy.built_sample_count = 0
        chunk_idx, self.lent_chunk = self.lent_chunk, None
        return chunk_idx


def estimate_live(columns: CatalogueColumns, first: int, stop: int, version: int) -> int:
    """Estimate how many rows of [first, stop) are not removed at `version`; of few rows it is the number."""
    step = (stop - first) // LOOKED_AT_ROWS_MAX + 1
    return step * int(np.count_nonzero(~is_removed(columns, slice(first, stop, step), version)))
