"""Epochs: now and then the catalogue's live rows move into a new segment, and the dead go with the old one.

The tuner copies what is live, and builds a generation over the copy, while the coordinator goes on changing
the old catalogue. Then the copy is made the catalogue here, a slice at a time: the writer's dictionaries, and
rows that have been appended since. When nothing is left and every worker has mapped the new generation,
the last few changes follow and the new epoch is the catalogue, in one step: batches from then on are bound to
it, earlier ones stay bound to the old rows until they are answered.

A failure anywhere, or the coordinator's end, costs the copy and nothing else: the old catalogue is complete
until that step, and durable is what the store has, not the catalogue.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from time import monotonic
from typing import Any

from pubsub_cluster.coordinator.instructions import Instruction
from pubsub_cluster.coordinator.pace import Pace
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.state import Scheduler
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.catalogue_copy import Renumbered
from pubsub_cluster.shm.catalogue_move import CatalogueMove, Copy
from pubsub_cluster.shm.catalogue_store import CatalogueStore
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.memory import give_back_memory
from pubsub_cluster.shm.owner import unlink_segment
from pubsub_cluster.tuner import messages as wire

WORK_S, TIDY_UP_S = 0.0025, 0.001  # of one turn of the coordinator's loop
FIRST_SHARE, SHARE = 1 / 3, 2 / 3  # of its time: a bulk load must not outrun what carries its rows over
TIDY_UP_SHARE = 0.1  # nobody waits for it
INDEX_BUCKETS = 1_024  # renumbered in one go: less than half a millisecond
LEFTOVERS = 1_024  # predicates of the old epoch let go of in one go
log = logging.getLogger("pubsub_cluster.coordinator")


class EpochDesk:
    """The change from one epoch to the next.

    Parameters
    ----------
    registry : Registry
    scheduler : Scheduler
    moved : callable
        Called when `registry.catalogue` has become another one.
    failed : callable
        Called with a build that was given up, and why.
    is_in_use : callable
        Tells whether anybody publishes at a moment; see `Pace`.

    Attributes
    ----------
    moves : int
        Epochs that have begun.
    last : dict
        What the last one was: rows, what was dropped, how long the last step took.
    """

    def __init__(
        self,
        registry: Registry,
        scheduler: Scheduler,
        moved: Callable[[], None],
        failed: Callable[[wire.BuildFailed], None],
        is_in_use: Callable[[float], bool],
    ) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._moved = moved
        self._failed = failed
        self._build: wire.Built | None = None
        self._move: CatalogueMove | None = None
        self._leftovers: list[Any] = []
        self._is_settling = False
        self._pace = Pace(FIRST_SHARE, SHARE, is_in_use)
        self._tidy_up_pace = Pace(TIDY_UP_SHARE, TIDY_UP_SHARE, is_in_use)
        self._is_level = False  # nothing was left to carry over when last looked at
        self.moves = 0
        self.last: dict[str, Any] = {}

    @fault_point("epoch.begin")
    def begin(self, built: wire.Built) -> list[Instruction]:
        """Take a generation over a copy of the catalogue; the scheduler knows it and holds it."""
        self._build = built
        try:
            self._move = self._registry.begin_move(_attach(built))
        except Exception as error:
            return self._give_up(error)
        finally:
            unlink_segment(built.moved_segment)
        self._is_level = False
        return []

    def refused(self, error: PubSubError) -> list[Instruction]:
        """Give up the generation that is held: a worker cannot map it."""
        return self._give_up(error) if self._build is not None else []

    @property
    def busy(self) -> bool:
        """There is something to do now, not only to wait for."""
        has_rest = bool(self._leftovers) or self._is_settling
        return has_rest or (self._move is not None and not self._is_level)

    def wait_s(self, now_s: float) -> float:
        """Return when there is something to do, in seconds from a moment by `time.monotonic`."""
        return self._pace_now.rest_s(now_s) if self.busy else math.inf

    @property
    def _pace_now(self) -> Pace:
        return self._tidy_up_pace if self._move is None else self._pace

    def work(self) -> list[Instruction]:
        """Do a little if it is time for it; return what follows from it."""
        pace = self._pace_now
        if (self._move is None and not self.busy) or pace.rest_s(monotonic()):
            return []
        pace.begin()
        instructions = self._go_on(monotonic())
        pace.end()
        return instructions

    def _go_on(self, begin_s: float) -> list[Instruction]:
        if self._move is None:
            while self.busy and monotonic() - begin_s < TIDY_UP_S:
                self._tidy_up()
            if not self.busy:
                give_back_memory()
            return []
        try:
            while self._move.step():
                if monotonic() - begin_s > WORK_S:
                    self._is_level = False
                    return []
            self._registry.ready_move(self._move)
            self._is_level = True
            return self._finish(self._move) if self._scheduler.is_mapped else []
        except Exception as error:
            return self._give_up(error)

    @fault_point("epoch.finish")
    def _finish(self, move: CatalogueMove) -> list[Instruction]:
        started_s = monotonic()
        old = self._registry.catalogue
        dropped = self._registry.dead_count
        self._registry.finish_move(move)
        self._move = self._build = None
        self._moved()
        instructions = self._scheduler.let_go()
        self.moves += 1
        self._leftovers, self._is_settling = old.take_dictionaries(), True
        old.close()
        self.last = {
            "rows": self._registry.catalogue.counts().rows,
            "dropped": dropped,
            "last_step_ms": round(1_000 * (monotonic() - started_s), 3),
        }
        return instructions

    def _tidy_up(self) -> None:
        """Let go of what only the old epoch had, little by little: a million objects take long to free."""
        if self._is_settling:
            self._is_settling = self._registry.settle(INDEX_BUCKETS)
            return
        pool = self._leftovers[-1]
        if not pool:
            self._leftovers.pop()
        elif isinstance(pool, dict):
            for _ in range(min(LEFTOVERS, len(pool))):
                pool.popitem()
        else:
            del pool[-LEFTOVERS:]

    def _give_up(self, error: Exception) -> list[Instruction]:
        assert self._build is not None
        if self._move is not None:
            self._move.give_up()
        build, self._build, self._move = self._build, None, None
        log.error(
            "the catalogue stays in its segment: %s", error, exc_info=not isinstance(error, PubSubError)
        )
        shown = error.to_dict() if isinstance(error, PubSubError) else {"condition": repr(error)}
        self._failed(wire.BuildFailed(build.generation, shown))
        return self._scheduler.withdraw()


def _attach(built: wire.Built) -> Copy:
    """Map what the tuner has written."""
    moved = FamilySegment.attach("moved", built.moved_segment, writable=True)
    rooms = Renumbered(*(moved.column(name) for name in Renumbered._fields))
    known = moved.column("known").tolist()
    numbers = Renumbered(*(room[:count] for room, count in zip(rooms, known, strict=True)))
    moved.close()
    counts = CatalogueCounts(*built.counts)
    store = CatalogueStore.attach(built.catalogue_segment, counts)
    return Copy(store, counts, numbers, built.version, rooms)
