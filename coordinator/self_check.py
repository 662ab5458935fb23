"""Answers of live events against brute force: which events are checked, and what came of it.

The tuner compares (`tuner.self_check`), at its low priority, when it has borrowed a batch to sample anyway.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pubsub_cluster.tuner.messages import Check, SampleTaken

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.batches import OpenBatch

INTERVAL_S = 1.0
KEPT_DIFFERENCES = 16
MATCHES_MAX = 100_000
"""Of an event that is checked: its answer travels in a message, which the coordinator has to write."""

log = logging.getLogger("pubsub_cluster.coordinator")


@dataclass(slots=True)
class SelfCheck:
    """State of the self-check.

    Attributes
    ----------
    row_count : int
        Subscriptions that one event a second is compared with; 0: none. May be set at any time.
    checks, rows, differences : int
        What was done in this life.
    """

    row_count: int
    checks: int = 0
    rows: int = 0
    differences: int = 0
    _at_s: float = 0.0
    _kept: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEPT_DIFFERENCES))

    def pick(self, batch: OpenBatch, now_s: float) -> Check | None:
        """Return the answer to an event of a batch, if it is time to check one."""
        if not self.row_count or batch.merged is None or now_s - self._at_s < INTERVAL_S:
            return None
        if not batch.event_count:
            return None
        event_idx = random.randrange(batch.event_count)
        if event_idx in batch.refused:
            return None
        self._at_s = now_s
        first, stop = batch.merged.offsets[event_idx : event_idx + 2].tolist()
        if stop - first > MATCHES_MAX:
            return None
        rows: list[int] = batch.merged.rows[first:stop].tolist()
        counts = batch.counts
        moment = (counts.rows, counts.windows, batch.version, batch.now_us)
        return Check(event_idx, rows, *moment, self.row_count, batch.catalogue.name)

    def told(self, message: SampleTaken) -> None:
        """Count a check; a difference is an alarm."""
        if not message.checked_rows:
            return
        self.checks += 1
        self.rows += message.checked_rows
        self.differences += len(message.differences)
        for found in message.differences:
            shown = {
                "subscription": found.subscription_id,
                "handle": found.handle,
                "should_match": found.expected,
                "event": found.event,
            }
            self._kept.append(shown)
            log.error("ALARM: the self-check found a wrong answer: %s", shown)

    def status(self) -> dict[str, Any]:
        """Return what ``status`` tells of it."""
        return {
            "rows_per_event": self.row_count,
            "events": self.checks,
            "rows": self.rows,
            "differences": self.differences,
            "wrong": list(self._kept),
        }
