"""Matching the keyed delta for many events at once, where that takes less than one event after the other."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.encoder import EncodedBatch
from pubsub_cluster.workers.kernels import keyed_together as kernels
from pubsub_cluster.workers.kernels._jit import Settled
from pubsub_cluster.workers.kernels.keyed_tables import (
    CLAUSES,
    HUNG_SINGLE,
    KEY_WIDTH,
    KEYS,
    SEVERAL_CLAUSES,
    KeyedAccess,
    KeyedFacts,
    KeyedTables,
)
from pubsub_cluster.workers.kernels.lanes import LANES
from pubsub_cluster.workers.pairs import PairArrays, Pairs, Step

EVENT_NS, KEY_NS, ENTRY_NS = 25.0, 10.0, 1.1
"""What an event takes alone, each of its keys, and each entry of their lists."""
TOGETHER_KEY_NS, TOGETHER_ENTRY_NS = 25.0, 0.4
"""The same for several events that have a key together."""
PLACES_PER_EVENT_MAX = 2
"""Places for keys: with more, fewer than two events have a key together."""
ROOM_MORE = 4
"""A quarter more room than the pairs of the last batch."""

_match_together = Settled(kernels.match_together)
_NO_COLUMNS: I4 = frozen(np.zeros(0, np.int32))


class Together:
    """Memory of `keyed_together` for one layout, and when to use it.

    Parameters
    ----------
    facts : KeyedFacts
        Those of the events one after the other; all but the labels are used.
    """

    def __init__(self, facts: KeyedFacts) -> None:
        self._facts = facts
        self._attribute_count = len(facts.label_of) // 2
        self._room_for = 0
        self._room = kernels.TogetherRoom(
            column_of=np.full(self._attribute_count, -1, np.int32),
            place_of=np.zeros(0, np.int32),
            order=np.zeros(0, np.int32),
            end=np.zeros(0, np.int32),
            row_of=np.zeros(LANES, np.int64),
            code=np.zeros(0, np.uint8),
        )

    def pays(self, encoded: EncodedBatch, tables: KeyedTables, access: KeyedAccess) -> bool:
        """Tell whether a batch can be matched so, and is likely to take less time."""
        if encoded.columns is None or tables.used[SEVERAL_CLAUSES]:
            return False
        if len(tables.key) // KEY_WIDTH > PLACES_PER_EVENT_MAX * encoded.event_count:
            return False
        kinds = len(access.pair_second) + int(np.count_nonzero(access.hung & HUNG_SINGLE))
        entries = tables.used[CLAUSES] / max(int(tables.used[KEYS]), 1)
        alone_ns = EVENT_NS + kinds * (KEY_NS + ENTRY_NS * entries)
        return bool(kinds * (TOGETHER_KEY_NS + TOGETHER_ENTRY_NS * entries) < alone_ns)

    def match(
        self,
        encoded: EncodedBatch,
        keys: tuple[KeyedTables, KeyedAccess, I4],
        bounds: tuple[int, int],
        removed_version: I8,
        pairs: Pairs,
    ) -> None:
        """Add the matches of a batch of which `pays` is true to `pairs`, which has none yet.

        Parameters
        ----------
        encoded : EncodedBatch
        keys : tuple
            Tables, access, and the attributes that keys hang off.
        bounds : tuple of (int, int)
            Row to stop before, and the version at which rows are not removed.
        removed_version : int64[]
        pairs : Pairs

        Raises
        ------
        LimitError
            More pairs than there may be.
        """
        columns = _NO_COLUMNS if encoded.columns is None else encoded.columns
        events = kernels.SameEvents(encoded.event_count, columns, encoded.entry_label)
        self._make_room(encoded.event_count, len(keys[0].key) // KEY_WIDTH)

        def run(_event: int, _count: int, out: PairArrays) -> Step:
            step: Step = _match_together(*keys, self._facts, self._room, events, bounds, removed_version, out)
            return step

        # A batch begins anew when its pairs have no room, and the next one mostly has as many.
        pairs.make_room(self._room_for)
        pairs.fill(run, 0)
        self._room_for = len(pairs) + len(pairs) // ROOM_MORE

    def _make_room(self, event_count: int, places: int) -> None:
        room = self._room
        if not len(room.code):
            self._facts = self._facts._replace(label_of=np.zeros(LANES * self._attribute_count, np.int32))
            room = room._replace(code=np.zeros(LANES * self._attribute_count, np.uint8))
        if event_count > len(room.order):
            room = room._replace(
                place_of=np.empty(event_count, np.int32), order=np.empty(event_count, np.int32)
            )
        if places >= len(room.end):
            room = room._replace(end=np.empty(places + 1, np.int32))
        self._room = room
