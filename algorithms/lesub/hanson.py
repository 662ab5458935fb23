"""Hanson's matcher: each subscription is found by its most selective predicate, and the others are evaluated.

Idea (LESUB, section "Matching algorithms", after Hanson, Chaabouni, Kim, Wang, SIGMOD 1990): for each
attribute there is an interval binary search tree (`hanson_kernels`); a subscription stands in one of them,
with the interval that its predicates on that attribute make. A value's path through the tree gives those
whose interval holds it, and these are evaluated predicate by predicate up to the first that fails.

How selective an interval is, is guessed from the constants of the catalogue: the share of the attribute's
distinct constants that are inside. With ``index="least selective"`` the worst one is taken: what happens to
whoever does not know (LESUB).

Cost: a search of the tree (binary logarithm of its keys) for each attribute that an event has, and the
candidates. Insertion and deletion are logarithmic in the number of keys, apart from what a rotation has to
move. Keys that no interval has any more stay until more is deleted than is there; then all is built anew.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub import hanson_kernels
from pubsub_cluster.algorithms.lesub.gather import everywhere, gathered
from pubsub_cluster.algorithms.lesub.hanson_kernels import DEPTH_MAX, PLACE_MARKS_MAX
from pubsub_cluster.algorithms.lesub.intervals import Intervals, hulls_of
from pubsub_cluster.algorithms.lesub.store import NOTHING, Store, grown

Index: TypeAlias = Literal["most selective", "least selective"]


class Hanson:
    """See the module; implements `conjunctions.Core`.

    Parameters
    ----------
    index : {"most selective", "least selective"}

    Attributes
    ----------
    work : int64[events, 3]
        Of each event of the last batch: keys compared, candidates, and predicates evaluated for them.
    """

    def __init__(self, index: Index = "most selective") -> None:
        self._index = index
        self.build(NOTHING)

    def build(self, catalogue: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self.work = np.zeros((0, 3), np.int64)
        self._store = Store(NOTHING)
        self._constants = _constants_of(catalogue)
        self._tree_of: dict[int, int] = {}  # by attribute
        self._attributes, self._roots = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._keys, self._links = np.zeros(0), np.zeros((0, hanson_kernels.LINKS), np.int32)
        self._marks, self._own = np.zeros((0, 6), np.int32), np.zeros(0, np.int32)
        self._seen = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._first = np.zeros(0, np.int64)
        self._always = np.zeros(0, np.int64)
        self._sizes = np.array([0, 0, -1, 0, -1], np.int64)
        self._work = np.zeros(DEPTH_MAX, np.int32), np.zeros((2, DEPTH_MAX))
        self._add(catalogue)

    def insert(self, more: Conjunctions) -> None:
        """See `conjunctions.Core`."""
        self._add(more)

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        places = self._store.delete(owner)
        hanson_kernels.remove(places.start, places.stop, self._forest)
        if self._store.is_wasteful:
            self.build(self._store.live())

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `conjunctions.Core`."""
        self.work = np.zeros((len(values), 3), np.int64)
        store = self._store
        columns = self._first, store.stops, store.attribute, store.comparison, store.constant
        trees = self._attributes, self._roots

        def search(begin: int, stops: I8, found: np.ndarray) -> int:
            rest = columns, begin, stops, found, self.work
            return int(hanson_kernels.search(values, trees, self._forest, *rest))

        event, place = gathered(search, len(values))
        more_event, more_place = everywhere(self._always, len(values))
        return store.answer(np.concatenate((event, more_event)), np.concatenate((place, more_place)))

    @property
    def attributes(self) -> I4:
        """The attribute of each tree."""
        return self._attributes

    @property
    def mark_count(self) -> int:
        """Number of marks of all trees."""
        return int(self._sizes[3])

    @property
    def key_counts(self) -> I8:
        """Number of keys of each tree."""
        children = self._links[:, :2]
        found = np.zeros(len(self._roots), np.int64)
        tree, level = np.arange(len(self._roots)), self._roots.astype(np.int64)
        while len(level):
            found += np.bincount(tree, minlength=len(found))
            tree, level = np.repeat(tree, 2), children[level].reshape(-1).astype(np.int64)
            tree, level = tree[level >= 0], level[level >= 0]
        return found

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        node_count, mark_count = (int(size) for size in self._sizes[:2])
        per_node = self._keys.itemsize + self._links.itemsize * hanson_kernels.LINKS
        per_mark = self._marks.itemsize * self._marks.shape[1]
        per_place = self._own.itemsize + self._first.itemsize
        rest = self._store.bytes + self._store.predicate_bytes + self._store.count * per_place
        return node_count * per_node + mark_count * per_mark + rest

    def _add(self, more: Conjunctions) -> None:
        hulls, of = hulls_of(more)
        chosen = self._choose(hulls, len(more.owner))
        more, kept = _indexed_first(more, chosen, of)
        begin, end = self._store.add(more)
        self._first = grown(self._first, end)
        self._first[begin:end] = self._store.stops[begin:end] + kept
        is_always = np.diff(more.stops) == 0
        self._always = np.concatenate((self._always, begin + np.flatnonzero(is_always)))
        chosen = chosen[chosen >= 0]
        # What can never hold is in no tree.
        chosen = chosen[hulls.lo[chosen] <= hulls.hi[chosen]]
        trees = self._trees(hulls.attribute[chosen])
        self._make_room(end, len(chosen))
        intervals = begin + hulls.place[chosen], trees, hulls.lo[chosen], hulls.hi[chosen]
        done = 0
        while done < len(chosen):
            done = hanson_kernels.insert(done, intervals, self._roots, self._work, self._forest)
            if done < len(chosen):
                self._marks = grown(self._marks, len(self._marks) + len(chosen) + PLACE_MARKS_MAX)

    @property
    def _forest(self) -> Any:
        heads = self._links.reshape(-1)
        return self._keys, self._links, heads, self._marks, self._own, self._seen, self._sizes

    def _make_room(self, places: int, more: int) -> None:
        """Have room for the numbers of intervals, and for twice as many keys as there are new ones."""
        self._own = grown(self._own, places, -1)
        self._seen = grown(self._seen[0], places, -1), grown(self._seen[1], places, -1)
        size = int(self._sizes[0]) + 2 * more
        self._keys, self._links = grown(self._keys, size), grown(self._links, size)

    def _trees(self, attribute: np.ndarray) -> np.ndarray:
        """Return the tree of each attribute, a new one at need."""
        kinds, which = np.unique(attribute, return_inverse=True)
        for one in kinds.tolist():
            if one not in self._tree_of:
                self._tree_of[one] = len(self._roots)
                self._attributes = np.append(self._attributes, np.int32(one))
                self._roots = np.append(self._roots, np.int32(-1))
        return np.array([self._tree_of[one] for one in kinds.tolist()], np.int32)[which]

    def _choose(self, hulls: Intervals, count: int) -> I8:
        """Return which hull each conjunction is indexed by; -1: it has none."""
        share = np.ones(len(hulls.lo))
        for attribute, known in self._constants.items():
            mine = np.flatnonzero(hulls.attribute == attribute)
            inside = np.searchsorted(known, hulls.hi[mine], "right") - np.searchsorted(known, hulls.lo[mine])
            share[mine] = np.maximum(inside, 0) / len(known)
        if self._index == "least selective":
            share = -share
        order = np.lexsort((share, hulls.place))
        chosen = np.full(count, -1, np.int64)
        chosen[hulls.place[order[::-1]]] = order[::-1]
        return chosen


def _constants_of(catalogue: Conjunctions) -> dict[int, F8]:
    """Return the distinct constants of each attribute, ascending."""
    kinds = np.unique(catalogue.attribute).tolist()
    return {one: np.unique(catalogue.constant[catalogue.attribute == one]) for one in kinds}


def _indexed_first(more: Conjunctions, chosen: I8, of: I8) -> tuple[Conjunctions, I8]:
    """Return conjunctions with the predicates first that their intervals settle, and how many these are.

    ``!=`` makes no interval, and is always evaluated.
    """
    place = np.repeat(np.arange(len(more.owner)), np.diff(more.stops))
    is_settled = (of == chosen[place]) & (more.comparison != Comparison.NE)
    order = np.lexsort((~is_settled, place))
    ordered = more._replace(
        attribute=more.attribute[order], comparison=more.comparison[order], constant=more.constant[order]
    )
    return ordered, np.bincount(place[is_settled], minlength=len(more.owner))
