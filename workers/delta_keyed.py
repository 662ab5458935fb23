"""Delta rows by key: clauses with an equality, in the labels of the layout that the delta belongs to.

The layout's encoder has given every value of a batch its label already; a row of the delta whose constants
the layout knows is a matter of these labels. Each of its clauses hangs off a key, one equality or two, so
that an event meets only clauses whose equalities it has (`workers.kernels.keyed`), and a row is added at the
cost of its literals (`workers.kernels.keyed_rows`).

Which pairs of attributes are worth looking for in every event is chosen from the rows themselves, again and
again while they become more: `choose_pairs`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.blob import code_shifts
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.catalogue_rows import clause_ranges, is_removed, literal_ranges
from pubsub_cluster.shm.code_space import F8, I4, I8, U1, expand_slices
from pubsub_cluster.shm.layout import LayoutView, frozen
from pubsub_cluster.workers.delta_together import Together
from pubsub_cluster.workers.encoder import EncodedBatch
from pubsub_cluster.workers.kernels import keyed as match_kernels
from pubsub_cluster.workers.kernels import keyed_prune as prune_kernels
from pubsub_cluster.workers.kernels import keyed_rows as row_kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.keyed_tables import (
    CLAUSES,
    CODE_BITS,
    ENTRIES,
    ENTRY_WIDTH,
    HUNG_PAIRS,
    KEPT_MAX,
    KEY_WIDTH,
    KEYS,
    LIST_ROOM_FIRST,
    LITERALS,
    LONGEST,
    NEEDED,
    PREDICATES,
    PRUNED,
    ROW_LITERALS_MAX,
    SET_LABELS,
    SET_LABELS_MAX,
    SETS,
    SEVERAL_CLAUSES,
    USED_SIZE,
    KeyedAccess,
    KeyedFacts,
    KeyedTables,
)
from pubsub_cluster.workers.kernels.keyed_tests import ConstantSource, LabelSource, PredicateSource
from pubsub_cluster.workers.kernels.lookup import Lookup
from pubsub_cluster.workers.kernels.tables import PENDING_MAX
from pubsub_cluster.workers.pairs import PairArrays, Pairs, Step

SLOTS_MAX = 1 << 31
"""A key is two label slots in 63 bits."""
REVIEW_FIRST = 256
REVIEW_FACTOR = 4
SAMPLE_CLAUSES = 1_024
PREDICATES_FIRST = 4_096
"""Predicates at which it is first asked whether any row still has them, and then at each doubling."""
POINTS_MAX = 8
PAIRS_MAX = 16
PROBE_NS, CANDIDATE_NS = 12.0, 2.0
"""What looking for one pair costs an event, and each clause in a list that it finds."""

PRUNE_SHARE = 1 / 6
"""Of the clauses, that are of removed rows: then the others are copied."""

_HASHED = ("predicate_slot", "key")
_COPIED = ("clause_row", "clause_first", "clause_start", "stamp", "literal", "entry", "entry_clause")
_COUNTED = [CLAUSES, LITERALS, KEYS, ENTRIES, LONGEST, SEVERAL_CLAUSES]
_add_rows = Settled(row_kernels.add_rows)
_rehash_predicates = Settled(row_kernels.rehash_predicates)
_rehash_keys = Settled(row_kernels.rehash_keys)
_keep_live = Settled(prune_kernels.keep_live)
_match_keyed = Settled(match_kernels.match_keyed)


def choose_pairs(clause: I4, attribute: I4, share: F8, expected_count: int) -> list[tuple[int, int]]:
    """Choose the pairs of attributes that are worth a look in every event: the greedy way.

    Parameters
    ----------
    clause, attribute : int32[k]
        Equalities of a sample of clauses, those of a clause side by side, attributes ascending.
    share : float64[k]
        Of the events that each is taken to hold for.
    expected_count : int
        Clauses for which the choice is made.

    Returns
    -------
    list of (int, int)
        At most `PAIRS_MAX`, the smaller attribute first.
    """
    if not len(clause):
        return []
    clause_count = int(clause[-1]) + 1
    best = np.ones(clause_count)
    np.minimum.at(best, clause, share)
    owner, low, high, both = [], [], [], []
    for step in range(1, POINTS_MAX):
        same = np.flatnonzero((clause[step:] == clause[:-step]) & (attribute[step:] != attribute[:-step]))
        owner.append(clause[same])
        low.append(attribute[same])
        high.append(attribute[same + step])
        both.append(share[same] * share[same + step])
    mine, product = np.concatenate(owner), np.concatenate(both)
    keys = np.concatenate(low).astype(np.int64) << 32 | np.concatenate(high)
    distinct, number = np.unique(keys, return_inverse=True)
    scale = CANDIDATE_NS * expected_count / len(np.unique(clause))
    chosen: list[tuple[int, int]] = []
    while len(chosen) < min(PAIRS_MAX, len(distinct)):
        saved = np.maximum(best[mine] - product, 0.0)
        gain = scale * np.bincount(number, saved, len(distinct))
        pair = int(np.argmax(gain))
        if gain[pair] <= PROBE_NS:
            break
        chosen.append((int(distinct[pair] >> 32), int(distinct[pair] & 0xFFFFFFFF)))
        taken = number == pair
        np.minimum.at(best, mine[taken], product[taken])
    return chosen


class KeyedRows:
    """Rows of one shard by key.

    Parameters
    ----------
    catalogue : CatalogueReader
    layout : LayoutView
        Whose labels the events come in; see `can_be_keyed`.
    lookup : Lookup
        Of its encoder.
    """

    def __init__(self, catalogue: CatalogueReader, layout: LayoutView, lookup: Lookup) -> None:
        columns = catalogue.columns
        self._columns = columns
        self._rows = row_kernels.RowSource(
            *(frozen(getattr(columns, name)) for name in row_kernels.RowSource._fields)
        )
        attribute_of = np.full(int(layout.attribute_catalogue.max(initial=-1)) + 1, -1, np.int32)
        attribute_of[layout.attribute_catalogue] = np.arange(len(layout.attribute_catalogue), dtype=np.int32)
        self._label_start: I8 = frozen(layout.label_start)
        self._sources = (
            PredicateSource(*(frozen(getattr(columns, name)) for name in PredicateSource._fields)),
            ConstantSource(*(frozen(getattr(columns, name)) for name in ConstantSource._fields)),
            LabelSource(frozen(attribute_of), lookup, self._label_start),
        )
        attribute_count = len(layout.attribute_catalogue)
        self._facts = KeyedFacts(
            np.zeros(2 * attribute_count, np.int32),
            np.zeros(2 * attribute_count, np.uint8),
            np.zeros(4 * attribute_count, np.int64),
            np.zeros(KEPT_MAX, np.int64),
            np.zeros(4 * PENDING_MAX, np.int32),
        )
        self._together = Together(self._facts)
        self._code_shift: U1 = frozen(code_shifts(np.diff(layout.label_start), CODE_BITS))
        self._point_of = np.full(attribute_count, -1, np.int32)
        self._pairs: list[tuple[int, int]] = []
        self._stamp = 1
        self._review_at = REVIEW_FIRST
        self._predicates_max = PREDICATES_FIRST
        self.clear()

    @property
    def clause_count(self) -> int:
        """Clauses held."""
        return int(self._tables.used[CLAUSES])

    @property
    def pruned_version(self) -> int:
        """Rows that were removed at this version or before may be missing."""
        return int(self._tables.used[PRUNED])

    def clear(self) -> None:
        """Forget all rows; the choice of pairs stays."""
        self._tables = _empty_tables()
        attribute_count = len(self._point_of)
        start = np.zeros(attribute_count + 1, np.int32)
        hung = np.zeros(attribute_count, np.uint8)
        pairs = np.array(sorted(self._pairs), np.int32).reshape(-1, 2)
        hung[pairs[:, 0]] = HUNG_PAIRS
        np.cumsum(np.bincount(pairs[:, 0], minlength=attribute_count), out=start[1:])
        self._access = KeyedAccess(
            self._label_start, start, np.ascontiguousarray(pairs[:, 1]), hung, self._code_shift
        )
        self._hung = _places(hung)

    def add(self, first: int, stop: int, shard: tuple[int, int], version: int) -> I4:
        """Add the rows [first, stop) of a shard, but for those that were removed at `version` or before.

        Parameters
        ----------
        first, stop : int
        shard : tuple of (int, int)
            Shard and shard count.
        version : int

        Returns
        -------
        int32[m]
            Rows that keys cannot hold; they are not here.
        """
        left = np.empty(stop - first, np.int32)
        found: list[I4] = []
        while True:
            span = (first, stop, *shard, version)
            status, first, count = _add_rows(
                span, self._rows, self._sources, self._access, self._tables, self._point_of, left
            )
            found.append(left[:count].copy())
            if status == OK:
                self._hung = _places(self._access.hung)
                return np.concatenate(found)
            self._tables = _with_more_room(self._tables)

    def review(self) -> bool:
        """Choose pairs anew if the rows have become many more; true if they are not those in use.

        Then `clear` and add all rows again.
        """
        if self.clause_count < self._review_at:
            return False
        self._review_at = REVIEW_FACTOR * self.clause_count
        pairs = choose_pairs(*self._sample(), self._review_at)
        if set(pairs) == set(self._pairs):
            return False
        self._pairs = pairs
        return True

    def prune(self, version: int) -> bool:
        """Forget rows that were removed at `version` or before, if they are not a few.

        Returns
        -------
        bool
            Whether there are many predicates that only such rows had; then `clear` and add all rows again.
        """
        clause_count = self.clause_count
        if self._dead_count(version) < PRUNE_SHARE * clause_count:
            return False
        old = self._tables
        fresh = {name: np.zeros_like(getattr(old, name)) for name in _COPIED}
        new = old._replace(used=old.used.copy(), key=np.full_like(old.key, -1), **fresh)
        new.used[_COUNTED] = 0
        _keep_live(old, new, self._rows.removed_version, version, np.empty(clause_count, np.int32))
        self._tables = new
        if new.used[PREDICATES] <= self._predicates_max:
            return False
        self._predicates_max = 2 * int(new.used[PREDICATES])
        return True

    def _dead_count(self, version: int) -> int:
        """Return how many clauses are of rows that were removed at `version` or before."""
        rows = self._tables.clause_row[: self.clause_count]
        return int(np.count_nonzero(is_removed(self._columns, rows, version)))

    def match(self, encoded: EncodedBatch, row_stop: int, version: int, pairs: Pairs) -> None:
        """Put the matches of rows below `row_stop` that are not removed at `version` into `pairs`."""
        keys = self._tables, self._access, self._hung
        removed_version = self._rows.removed_version
        if self._together.pays(encoded, self._tables, self._access):
            self._together.match(encoded, keys, (row_stop, version), removed_version, pairs)
            return
        events = encoded[1:4]

        def run(event: int, count: int, out: PairArrays) -> Step:
            stamp, self._stamp = self._stamp, self._stamp + encoded.event_count
            bounds = (event, row_stop, version, stamp, count)
            step: Step = _match_keyed(*keys, self._facts, events, bounds, removed_version, out)
            return step

        pairs.fill(run, 0)

    def warm_up(self, encoded: EncodedBatch, pairs: Pairs) -> None:
        """Compile or load whatever may be called; there are no rows."""
        self.prune(0)
        self._tables = _with_more_room(self._tables, everything=True)
        self.match(encoded, 0, 0, pairs)
        keys = self._tables, self._access, self._hung
        self._together.match(encoded, keys, (0, 0), self._rows.removed_version, pairs)

    def _sample(self) -> tuple[I4, I4, F8]:
        """Return clause, attribute and share of the equalities of the newest clauses."""
        tables = self._tables
        rows = np.unique(tables.clause_row[max(self.clause_count - SAMPLE_CLAUSES, 0) : self.clause_count])
        first, count, _ = clause_ranges(self._columns, rows)
        literal_first, literal_count = literal_ranges(self._columns, expand_slices(first, count))
        literal = self._columns.literal[expand_slices(literal_first, literal_count)]
        clause = np.repeat(np.arange(len(literal_count), dtype=np.int32), literal_count)
        known = tables.predicate_catalogue[: tables.used[PREDICATES]]
        order = np.argsort(known)
        local = order[np.searchsorted(known, literal >> 1, sorter=order)]
        attribute, lo, hi, reference = tables.predicate_test.reshape(-1, 4)[local].T
        is_point = (literal & 1 == 0) & (reference < 0) & (lo == hi)
        share = 1.0 / np.diff(self._label_start)[attribute]
        clause, attribute, share = clause[is_point], attribute[is_point], share[is_point]
        order = np.lexsort((share, clause))
        rank = np.arange(len(order)) - np.searchsorted(clause, clause[order])
        kept = np.sort(order[rank < POINTS_MAX])
        kept = kept[np.lexsort((attribute[kept], clause[kept]))]
        return clause[kept], attribute[kept], share[kept]


def can_be_keyed(layout: LayoutView) -> bool:
    """Tell whether the labels of a layout fit into keys."""
    return len(layout.row_catalogue) > 0 and int(layout.label_start[-1]) < SLOTS_MAX


def _places(marks: npt.NDArray[np.uint8]) -> I4:
    """Return where there is a mark, int32."""
    return frozen(np.flatnonzero(marks).astype(np.int32))


def _empty_tables() -> KeyedTables:
    return KeyedTables(
        used=np.zeros(USED_SIZE, np.int64),
        predicate_slot=np.full(1_024, -1, np.int32),
        predicate_catalogue=np.zeros(512, np.int32),
        predicate_test=np.zeros(4 * 512, np.int32),
        set_start=np.zeros(129, np.int32),
        set_label=np.zeros(8_192, np.int32),
        clause_row=np.zeros(1_024, np.int32),
        clause_first=np.zeros(1_024, np.int32),
        clause_start=np.zeros(1_025, np.int32),
        stamp=np.zeros(1_024, np.int64),
        literal=np.zeros(4_096, np.int32),
        key=np.full(KEY_WIDTH * 2_048, -1, np.int64),
        entry=np.zeros(ENTRY_WIDTH * 4_096, np.uint32),
        entry_clause=np.zeros(4_096, np.int32),
    )


def _with_more_room(tables: KeyedTables, everything: bool = False) -> KeyedTables:
    """Return the same tables, with twice the room where it is scarce (`keyed_rows.has_room`)."""
    used = tables.used.tolist()
    clause_count = used[NEEDED]
    predicates = used[PREDICATES] + ROW_LITERALS_MAX
    entries = used[ENTRIES] + clause_count * (2 * used[LONGEST] + LIST_ROOM_FIRST)
    scarce = {
        ("predicate_slot",): 2 * predicates > len(tables.predicate_slot),
        ("predicate_catalogue", "predicate_test"): predicates > len(tables.predicate_catalogue),
        ("set_start",): used[SETS] + ROW_LITERALS_MAX >= len(tables.set_start),
        ("set_label",): used[SET_LABELS] + ROW_LITERALS_MAX * SET_LABELS_MAX > len(tables.set_label),
        ("clause_row", "clause_first", "clause_start", "stamp"): (
            used[CLAUSES] + clause_count >= len(tables.clause_row)
        ),
        ("literal",): used[LITERALS] + ROW_LITERALS_MAX > len(tables.literal),
        ("key",): 2 * KEY_WIDTH * (used[KEYS] + clause_count) > len(tables.key),
        ("entry", "entry_clause"): entries > len(tables.entry_clause),
    }
    grown: dict[str, npt.NDArray[np.generic]] = {}
    for names, is_scarce in scarce.items():
        for name in names if is_scarce or everything else ():
            column = getattr(tables, name)
            empty = np.full_like(column, -1) if name in _HASHED else np.zeros_like(column)
            grown[name] = np.concatenate((empty if name in _HASHED else column, empty))
    larger = tables._replace(**grown)
    if "predicate_slot" in grown:
        _rehash_predicates(larger)
    if "key" in grown:
        _rehash_keys(tables.key, larger)
    return larger
