"""Predicate evaluation by ordered lists (TOPSS section 3.1).

Idea: the predicates of one attribute and one operator are a linked list, ordered by constant. Cost: each
operation walks it, O(n) for n predicates of the attribute; memory 12 bytes per predicate and nothing for the
width of domains. Limits: none of its own; constants are any doubles.
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.list_kernels import COMPARISONS, add_all, evaluate, remove_all
from pubsub_cluster.algorithms.topss.predicate_book import ROOM_LEAST, U1, Predicates, new_book
from pubsub_cluster.algorithms.topss.table_kernels import EMPTY


class OrderedLists(Predicates):
    """See the module.

    Attributes
    ----------
    visited : int64[1]
        Grows by the nodes that adding and removing look at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.visited: I8 = np.zeros(1, np.int64)
        self._heads: I4 = np.zeros(0, np.int32)
        self._following: I4 = np.zeros(len(self.book.free), np.int32)

    @property
    def node_bytes(self) -> int:
        """Bytes of a node: its constant and its successor; its number is its place."""
        return self.book.constant.itemsize + self._following.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of heads and nodes."""
        return int(self._heads.nbytes) + self.bound * self.node_bytes

    def build(self, catalogue: Conjunctions) -> I4:
        """See `Predicates`; by sorting, since adding one by one takes a square of steps.

        Numbers are in order of arrival, as adding one by one would give them.
        """
        slot = COMPARISONS * catalogue.attribute.astype(np.int64) + catalogue.comparison
        order = np.lexsort((catalogue.constant, slot))  # stable: the first of equal ones arrived first
        is_first = np.ones(len(order), np.bool_)
        sorted_slot, constant = slot[order], catalogue.constant[order]
        is_first[1:] = (sorted_slot[1:] != sorted_slot[:-1]) | (constant[1:] != constant[:-1])
        arrival = order[is_first]
        count = len(arrival)
        rank = np.empty(count, np.int32)
        rank[np.argsort(arrival)] = np.arange(count, dtype=np.int32)  # from place in the lists to number
        numbers = np.empty(len(order), np.int32)
        numbers[order] = rank[np.cumsum(is_first) - 1]
        book = new_book(max(count, ROOM_LEAST))
        book.state[0] = count
        book.references[:count] = np.bincount(numbers, minlength=count)
        book.attribute[rank] = catalogue.attribute[arrival]
        book.comparison[rank] = catalogue.comparison[arrival]
        book.constant[rank] = catalogue.constant[arrival]
        self.book = book
        self._link(slot[arrival], rank, COMPARISONS * (int(catalogue.attribute.max(initial=-1)) + 1))
        return numbers

    def _link(self, slot: I8, numbers: I4, slots: int) -> None:
        """Make lists of predicates that are sorted by list and constant."""
        self._heads = np.full(slots, EMPTY, np.int32)
        self._following = np.full(len(self.book.free), EMPTY, np.int32)
        is_next = slot[1:] == slot[:-1]
        self._following[numbers[:-1][is_next]] = numbers[1:][is_next]
        is_head = np.ones(len(slot), np.bool_)
        is_head[1:] = ~is_next
        self._heads[slot[is_head]] = numbers[is_head]

    def add(self, more: Conjunctions) -> I4:
        """See `Predicates`."""
        slots = COMPARISONS * (int(more.attribute.max(initial=-1)) + 1)
        if slots > len(self._heads):
            self._heads = np.append(self._heads, np.full(slots - len(self._heads), EMPTY, np.int32))
        columns = more.attribute, more.comparison, more.constant
        numbers = np.empty(len(more.attribute), np.int32)
        done = 0
        while True:
            lists = self._heads, self._following
            done = add_all(lists, self.book, *columns, numbers, done, self.visited)
            if done == len(numbers):
                return numbers
            self._more_room()
            self._following = np.append(self._following, np.zeros_like(self._following))

    def remove(self, numbers: I4) -> None:
        """See `Predicates`."""
        remove_all((self._heads, self._following), self.book, numbers, self.visited)

    def evaluate(self, values: F8, bits: U1, counters: I8) -> None:
        """See `Predicates`."""
        evaluate((self._heads, self._following), self.book.constant, values, bits, counters)
