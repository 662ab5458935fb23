"""What is to be done for a swap of generations, in slices between batches, so that none of them waits long.

A new generation begins with a delta of everything that came while it was built. It is said to be attached
when that delta is there, so that its first batch takes no longer than the others. The one before it is let go
of when nothing else is to be done: right after a swap there are the batches that waited for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.workers import messages as wire
from pubsub_cluster.workers.engine import MatchEngine

SLICE_ROWS = 2_048
SLICE_S = 0.000_3  # of unmapping


class SwapWork:
    """The generations that are mapped and not yet said to be attached."""

    def __init__(self) -> None:
        self._waiting: list[tuple[wire.LayoutAttached, MatchEngine, tuple[int, int], str]] = []
        self._newest: tuple[str, CatalogueCounts, int] | None = None
        self._unneeded: list[int] = []
        self._forgetting: Iterator[None] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether there is something to do."""
        return bool(self._waiting or self._unneeded)

    def saw(self, catalogue: str, counts: CatalogueCounts, version: int) -> None:
        """Take note of what a batch is bound to: generations are made ready for batches like it.

        Parameters
        ----------
        catalogue : str
            Segment that the counts are of; those of another epoch say nothing of its rows.
        counts : CatalogueCounts
        version : int
        """
        newest = self._newest
        if newest is None or newest[0] != catalogue or counts.rows >= newest[1].rows:
            self._newest = catalogue, counts, version

    def add(
        self, attached: wire.LayoutAttached, engine: MatchEngine, shard: tuple[int, int], catalogue: str
    ) -> None:
        """Make a mapped generation ready, then say so.

        Parameters
        ----------
        attached : LayoutAttached
            What is to be said.
        engine : MatchEngine
            That has it.
        shard : tuple of (int, int)
            Shard and shard count.
        catalogue : str
            Segment that the generation is of.
        """
        self._waiting.append((attached, engine, shard, catalogue))

    def let_go(self, generation: int) -> list[int]:
        """Take note of a generation that no batch needs any more; return the one to be unmapped instead.

        A worker that is never idle holds one of them, and not all that have ever been.
        """
        before, self._unneeded, self._forgetting = self._unneeded, [generation], None
        return before

    def idle(self, forget: Callable[[int], Iterator[None]]) -> list[int]:
        """Forget some pages of the generation that no batch needs, now that nothing else is to be done.

        Parameters
        ----------
        forget : callable
            Takes the pages of a generation out of this process's tables, slice by slice.

        Returns
        -------
        list of int
            The generation, to be unmapped, when all its pages are forgotten.
        """
        if not self._unneeded:
            return []
        self._forgetting = self._forgetting or forget(self._unneeded[0])
        stop_s = time.monotonic() + SLICE_S
        for _ in self._forgetting:
            if time.monotonic() >= stop_s:
                return []
        before, self._unneeded, self._forgetting = self._unneeded, [], None
        return before

    def work(self) -> list[wire.LayoutAttached]:
        """Do one slice; return what is to be said after it."""
        if not self._waiting:
            return []
        attached, engine, shard, catalogue = self._waiting[0]
        if self._newest is not None and self._newest[0] == catalogue:
            _, counts, version = self._newest
            if not engine.prepare(attached.generation, counts, *shard, version, SLICE_ROWS):
                return []
        del self._waiting[0]
        return [attached]
