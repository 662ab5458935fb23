"""The floor: what the memory alone would cost, had the kernel nothing to compute.

Rule 5 of the benchmarks: prefetched, independent reads of random cache lines over as many bytes as the index
has; per event two lines for each probed place of a table (its entry, its blob), one for each cluster of a
slot, and one more per 16 candidates. How many there are is counted by the kernel's own first stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel
from pubsub_cluster.workers.kernels.observe import CANDIDATES, PLACES, PROBES
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.layout_index import Observation

LINES_AHEAD = 256  # one event's lines are asked for together, at most so many


@kernel
def read_lines(memory: Any, lines: Any, per_event: Any) -> Any:
    """Read `lines` (positions of 8-byte words), `per_event` at a time: asked for together, then read."""
    total = 0
    for first in range(0, lines.shape[0] - per_event + 1, per_event):
        for at in range(first, first + per_event):
            prefetch(memory, lines[at])
        for at in range(first, first + per_event):
            total += memory[lines[at]]
    return total


def work_per_event(observed: Observation) -> dict[str, float]:
    """Return probed keys, table places, slot clusters and candidates per event."""
    work = observed.work / max(observed.event_count, 1)
    return {
        "probes": float(work[:-1, PROBES].sum()),
        "places": float(work[:-1, PLACES].sum()),
        "slot_clusters": float(work[-1, PLACES]),
        "candidates": float(work[:, CANDIDATES].sum()),
    }


def lines_per_event(work: dict[str, float]) -> float:
    """Return the cache lines of rule 5."""
    return 2 * work["probes"] + work["slot_clusters"] + work["candidates"] / 16


class Floor:
    """A run that reads as much as the kernel must.

    Parameters
    ----------
    index_bytes : int
    lines : float
        Per event.
    event_count : int
        How many events' worth a pass reads.
    """

    def __init__(self, index_bytes: int, lines: float, event_count: int) -> None:
        rng = np.random.Generator(np.random.PCG64(1))
        word_count = max(index_bytes // 8, 64)
        self._memory = np.ones(word_count, np.int64)
        per_event = max(1, min(round(lines), LINES_AHEAD))
        total = max(per_event, round(lines * event_count))
        total -= total % per_event
        line = rng.integers(0, max(word_count // 8, 1), total)
        self._lines = line * 8
        self._per_event = per_event
        self._counts = np.zeros(event_count, np.int64)
        self._expected = total

    def run(self) -> Any:
        """Read everything; the zeros it returns are what `interleaved` expects."""
        assert read_lines(self._memory, self._lines, self._per_event) == self._expected
        return self._counts
