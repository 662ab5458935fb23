"""NEON's tables of operations and predicates.

Idea (LESUB, section "Matching algorithms", after New Era of Networks' rules engine): a relational table has
all predicates of all subscriptions, each as often as it occurs: subscription, event type, attribute,
comparison, value. A table of operations says which (event type, attribute, comparison) there are, and an
index on these three leads from an operation to its predicates. For an event, the operations of its type are
read; all predicates of an operation are evaluated with the event's value; a third table counts those that
hold for each subscription. Here an index is a chain of rows, so insertion appends.

An operation may compare with another attribute in place of a constant: LESUB's extension.

Cost: every predicate on an attribute that the event has. Deletion marks; the tables are built anew when more
is deleted than is there.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, WITH_ATTRIBUTE, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.gather import everywhere, gathered
from pubsub_cluster.algorithms.lesub.store import NOTHING, Store, grown
from pubsub_cluster.algorithms.lesub.tree_kernels import query

Operation: TypeAlias = tuple[int, int, int, int]
"""Event type, attribute, comparison, the attribute to compare with or -1."""
_OPERATION_DTYPES = (np.int32, np.int32, np.int8, np.int32, np.int32)


class Neon:
    """See the module; implements `conjunctions.Core`, and takes more than that asks for.

    Attributes
    ----------
    work : int64[events, 3]
        Of each event of the last batch: operations read, predicates evaluated, predicates that hold.
    """

    def __init__(self) -> None:
        self.build(NOTHING)

    def build(self, catalogue: Conjunctions, kind: I4 | None = None) -> None:
        """See `conjunctions.Core`, and `insert`."""
        self.work = np.zeros((0, 3), np.int64)
        self._store = Store(NOTHING)
        self._kind = np.zeros(0, np.int32)
        self._numbers: dict[Operation, int] = {}
        self._first = np.zeros(0, np.int32)  # of each event type
        self._operations = tuple(np.zeros(0, dtype) for dtype in _OPERATION_DTYPES)
        self._next_row, self._place_of = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._need, self._count = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._always = np.zeros(0, np.int64)
        self.insert(catalogue, kind)

    def insert(self, more: Conjunctions, kind: I4 | None = None) -> None:
        """See `conjunctions.Core`.

        Parameters
        ----------
        more : Conjunctions
            Comparisons with another attribute too (`conjunctions.WITH_ATTRIBUTE`).
        kind : int32[n], optional
            The event type of each conjunction, from 0 on; all are of type 0 without it.
        """
        begin, end = self._store.add(more)
        first, stop = self._store.predicate_count - len(more.attribute), self._store.predicate_count
        self._kind = grown(self._kind, end)
        self._kind[begin:end] = 0 if kind is None else kind
        size = np.diff(more.stops)
        self._need, self._count = grown(self._need, end), grown(self._count, end)
        self._need[begin:end] = size
        self._always = np.concatenate((self._always, begin + np.flatnonzero(size == 0)))
        self._next_row, self._place_of = grown(self._next_row, stop), grown(self._place_of, stop)
        self._place_of[first:stop] = np.repeat(np.arange(begin, end), size)
        self._chain(first, stop)

    def delete(self, owner: int) -> None:
        """See `conjunctions.Core`."""
        self._store.delete(owner)
        if self._store.is_wasteful:
            count = self._store.count
            self.build(self._store.live(), self._kind[:count][self._store.is_live[:count]])

    def match(self, values: F8, kinds: I4 | None = None) -> tuple[I8, I8]:
        """See `conjunctions.Core`.

        Parameters
        ----------
        values : float64[events, attributes]
        kinds : int32[events], optional
            The type of each event; all are of type 0 without it.
        """
        types = np.zeros(len(values), np.int32) if kinds is None else kinds
        types = np.where((types >= 0) & (types < len(self._first)), types, -1).astype(np.int32)
        self.work = np.zeros((len(values), 3), np.int64)
        store = self._store
        operations = self._first, *self._operations
        rows = self._next_row, self._place_of, store.constant
        need, count = self._need[: store.count], self._count[: store.count]

        def search(begin: int, stops: I8, found: np.ndarray) -> int:
            return int(query(values, types, operations, rows, need, count, begin, stops, found, self.work))

        event, place = gathered(search, len(values))
        more_event, more_place = everywhere(self._always, len(values))
        is_mine = self._kind[more_place] == (0 if kinds is None else kinds[more_event])
        return store.answer(
            np.concatenate((event, more_event[is_mine])), np.concatenate((place, more_place[is_mine]))
        )

    @property
    def row_count(self) -> int:
        """Rows of the table of predicates."""
        return self._store.predicate_count

    @property
    def operation_count(self) -> int:
        """Rows of the table of operations."""
        return len(self._numbers)

    @property
    def bytes(self) -> int:
        """See `conjunctions.Core`."""
        per_row = self._next_row.itemsize + self._place_of.itemsize + self._store.constant.itemsize
        per_operation = sum(column.itemsize for column in self._operations)
        counts = 2 * 4 * self._store.count
        rest = self._store.bytes + counts + self._first.nbytes
        return self.row_count * per_row + self.operation_count * per_operation + rest

    def _chain(self, first: int, stop: int) -> None:
        """Take rows [first, stop) into the table of operations and its index."""
        if first == stop:
            return
        store = self._store
        comparison = store.comparison[first:stop].astype(np.int32)
        has_other = comparison >= WITH_ATTRIBUTE
        other = np.where(has_other, store.constant[first:stop], -1).astype(np.int32)
        comparison[has_other] -= WITH_ATTRIBUTE
        kind_of = self._kind[self._place_of[first:stop]]
        key = np.stack((kind_of, store.attribute[first:stop], comparison, other))
        order = np.lexsort(key[::-1])
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (key[:, order[1:]] != key[:, order[:-1]]).any(axis=0)
        row = first + order
        self._next_row[row[:-1]] = row[1:]
        ends = np.flatnonzero(is_last)
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            kind, attribute, comparison, other = key[:, order[start]].tolist()
            number = self._number((kind, attribute, comparison, other))
            self._next_row[row[end]] = self._operations[-1][number]
            self._operations[-1][number] = row[start]

    def _number(self, operation: Operation) -> int:
        """Return the number of an operation, a new one at need."""
        if operation in self._numbers:
            return self._numbers[operation]
        number = self._numbers[operation] = len(self._numbers)
        kind = operation[0]
        self._first = grown(self._first, kind + 1, -1)
        self._operations = tuple(grown(column, number + 1) for column in self._operations)
        following, attribute, comparison, other, first_row = self._operations
        following[number], self._first[kind] = self._first[kind], number
        attribute[number], comparison[number], other[number] = operation[1:]
        first_row[number] = -1
        return number
