"""When to build a new generation: a pure rule over a few numbers.

A generation is worth building when the delta costs the workers a tenth of their kernel time and has cost them
as much as the last build, when it has grown large in any case, when a change of some size has come to rest,
when a tenth of its rows are dead, or when the sample of events has become so much better, or so different,
that its access predicates are stale.

Where subscriptions come and go fast, the next delta is as large as the last one, and a build is of little
use. So a costly delta is borne until it has cost as much as a build takes: whatever comes, that is at most
twice what would have been best (the rule of those who rent skis until they have paid the price of a pair).
And where most of the delta is gone before a build of it is there, it is borne several times as long: the next
delta is judged by what has come in the time that a build takes and is still there. Not for ever: a build may
help in another way, since constants that come again and again are then known to the layout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

DELTA_COST_SHARE_MAX = 0.10
DELTA_ROWS_MIN = 256  # below this a fold costs more than it can save
DELTA_ROWS_LARGE_MIN = 16_384
DELTA_ROWS_LARGE_SHARE = 1.0
"""Of the layout's rows: while a load doubles them, all builds together cost two of the last."""
LEFT_SHARE_MAX = 0.5
"""Of a costly delta, that would be there again after a build."""
BORNE_FACTOR = 8.0  # of a build's cost, where it would be there again
LOOK_INTERVAL_S = 1.0
MOMENT_S, MOMENTS_MAX = 0.25, 256  # how many rows there were, for about a minute: builds take less
QUIET_S = 0.5
QUIET_SHARE = 0.01
SAMPLE_GROWTH = 4.0
DEAD_SHARE_MAX = 0.10
BUILD_TIME_FACTOR = 20.0  # building for statistics alone takes at most a twentieth of the tuner's time
CAN_WAIT = frozenset(("asked for", "delta at rest", "better statistics", "new statistics"))
"""Reasons that do not grow while a generation is built; it may take longer, so that no batch does."""
SMOOTHING = 0.2
# Dead rows go with a new epoch when they are a third of all, or fewer but nothing else is going on.
RECLAIM_ROWS_MIN = 4_096
RECLAIM_SHARE = 1 / 3
RECLAIM_REST_S = 2.0
RECLAIM_REST_SHARE = 0.02


@dataclass(slots=True)
class FoldPolicy:
    """Decides when the tuner is asked for a new generation.

    Attributes
    ----------
    retune_interval_s : float
        Least time between two generations built for better statistics alone.
    delta_cost_us : int
        What the delta has cost the workers since the generation in force was published.
    samples_count : bool
        Whether tables are chosen by the sample; else another sample is no reason to build.
    moments : deque of (float, int)
        When there were how many rows.
    look_at_s : float
        Not before is a costly delta looked at again.
    build_s, build_cpu_s : float
        What the last build took, and took of a processor: it gives way to everything else.
    """

    retune_interval_s: float
    base_us: float = 0.0
    delta_us: float = 0.0
    delta_cost_us: int = 0
    base_rows: int = 0
    rows: int = 0
    changed_at_s: float = 0.0
    built_at_s: float = 0.0
    built_sample_count: int = 0
    sample_count: int = 0
    sampled_since_build: int = 0
    build_s: float = 0.0
    build_cpu_s: float = 0.0
    removed_since_build: int = 0
    dead_rows: int = 0
    reclaim_from_s: float = 0.0
    asked: bool = False
    samples_count: bool = True
    moments: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MOMENTS_MAX))
    look_at_s: float = 0.0

    def measured(self, base_us: int, delta_us: int) -> None:
        """Take the time of one task, split into kernel and delta (moving averages)."""
        self.base_us += SMOOTHING * (base_us - self.base_us)
        self.delta_us += SMOOTHING * (delta_us - self.delta_us)
        self.delta_cost_us += delta_us

    def changed(self, rows: int, now_s: float, removed: int = 0, dead_rows: int = 0) -> None:
        """The catalogue now has so many rows, `dead_rows` of them dead, `removed` more in the layout."""
        if rows < self.rows:  # a new epoch has numbered them anew
            self.moments.clear()
        if not self.moments or now_s - self.moments[-1][0] >= MOMENT_S:
            self.moments.append((now_s, rows))
        self.rows, self.dead_rows = rows, dead_rows
        self.removed_since_build += removed
        self.changed_at_s = now_s

    def started(self) -> None:
        """A build has begun."""
        self.asked = False
        self.built_sample_count = self.sample_count
        self.sampled_since_build = 0
        self.removed_since_build = 0

    def published(self, base_rows: int, now_s: float) -> None:
        """A generation that covers `base_rows` is in force."""
        self.base_rows = base_rows
        self.built_at_s = now_s
        self.delta_us, self.delta_cost_us = 0.0, 0

    def reclaims(self, now_s: float) -> bool:
        """Tell whether the next generation should come with a new epoch, which leaves dead rows behind."""
        if now_s < self.reclaim_from_s:
            return False
        if self.asked:
            return self.dead_rows > 0
        is_at_rest = now_s - self.changed_at_s >= RECLAIM_REST_S
        share = RECLAIM_REST_SHARE if is_at_rest else RECLAIM_SHARE
        return self.dead_rows >= max(RECLAIM_ROWS_MIN, share * self.rows)

    def reason(self, now_s: float, live_from: Callable[[int], int]) -> str | None:
        """Return why a generation should be built now, or None.

        Parameters
        ----------
        now_s : float
        live_from : callable
            Given a row, estimates how many from it on are not removed.
        """
        if self.asked:
            return "asked for"
        if self.reclaims(now_s):
            return "dead rows to reclaim"
        delta_rows = self.rows - self.base_rows
        if delta_rows >= max(DELTA_ROWS_LARGE_MIN, DELTA_ROWS_LARGE_SHARE * self.base_rows):
            return "large delta"
        if delta_rows >= DELTA_ROWS_MIN:
            is_costly = self.delta_us > DELTA_COST_SHARE_MAX * self.base_us
            has_cost = is_costly and self.delta_cost_us >= 1e6 * self.build_cpu_s
            if has_cost and now_s >= self.look_at_s:
                if self._is_of_use(now_s, live_from):
                    return "costly delta"
                self.look_at_s = now_s + LOOK_INTERVAL_S
            if now_s - self.changed_at_s >= QUIET_S and delta_rows >= QUIET_SHARE * self.base_rows:
                return "delta at rest"
        if self.removed_since_build >= max(DELTA_ROWS_MIN, DEAD_SHARE_MAX * self.base_rows):
            return "dead rows"
        better = self.sample_count >= max(1.0, SAMPLE_GROWTH * self.built_sample_count)
        fresh = self.sampled_since_build >= max(1, self.sample_count)  # the whole sample is new
        pause_s = max(self.retune_interval_s, BUILD_TIME_FACTOR * self.build_s)
        if self.samples_count and self.base_rows and (better or fresh) and now_s - self.built_at_s >= pause_s:
            return "better statistics" if better else "new statistics"
        return None

    def _is_of_use(self, now_s: float, live_from: Callable[[int], int]) -> bool:
        """Tell whether a build would leave a good deal less of the delta, or it has been borne for long."""
        if self.delta_cost_us >= BORNE_FACTOR * 1e6 * self.build_cpu_s:
            return True
        begun_s = now_s - self.build_s
        rows = next((rows for at_s, rows in reversed(self.moments) if at_s <= begun_s), self.base_rows)
        left = live_from(max(rows, self.base_rows))
        return left < LEFT_SHARE_MAX * live_from(self.base_rows)
