"""Conjunctions that come and go, in columns that grow: what the trees of LESUB keep beside their nodes.

A conjunction is known by its place, which it keeps until whoever owns the store makes a new one of what is
`live`; a deletion only marks it. So a matcher that unlinks lazily stays right (it drops what is not live from
its answer), and its cost of deleting is constant on average if it starts anew when the store `is_wasteful`.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.interface import I8

Array = TypeVar("Array", bound="np.ndarray[Any, Any]")
WASTE_LEAST = 64
"""Deleted conjunctions that nobody minds."""
NOTHING = Conjunctions(
    np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros(0)
)


def grown(array: Array, size: int, fill: float = 0) -> Array:
    """Return an array of at least `size` rows that begins as `array` does; it doubles, so growth is rare."""
    if size <= len(array):
        return array
    shape = (max(size, 2 * len(array), 16), *array.shape[1:])
    wider = cast(Array, np.full(shape, fill, array.dtype))
    wider[: len(array)] = array
    return wider


class Store:
    """Conjunctions by place.

    Parameters
    ----------
    catalogue : Conjunctions

    Attributes
    ----------
    count, predicate_count : int
        Places, and their predicates, of the live and of the deleted.
    owner : int64[...]
    is_live : bool[...]
    stops : int64[...]
        Place i has the predicates [stops[i], stops[i + 1]).
    attribute : int32[...]
    comparison : int8[...]
    constant : float64[...]
        ``-0.0`` is ``0.0``. All arrays may be longer than what is there.
    """

    def __init__(self, catalogue: Conjunctions) -> None:
        self.count = self.predicate_count = self._deleted = 0
        self.owner, self.is_live = np.zeros(0, np.int64), np.zeros(0, np.bool_)
        self.stops = np.zeros(1, np.int64)
        self.attribute, self.comparison = np.zeros(0, np.int32), np.zeros(0, np.int8)
        self.constant = np.zeros(0)
        self._places: dict[int, range] | None = None
        self.add(catalogue)

    def add(self, more: Conjunctions) -> tuple[int, int]:
        """Add conjunctions, those of an owner together; return their places as [begin, end)."""
        begin, end = self.count, self.count + len(more.owner)
        first, stop = self.predicate_count, self.predicate_count + len(more.attribute)
        self.owner, self.is_live = grown(self.owner, end), grown(self.is_live, end)
        self.stops = grown(self.stops, end + 1)
        self.attribute, self.comparison = grown(self.attribute, stop), grown(self.comparison, stop)
        self.constant = grown(self.constant, stop)
        self.owner[begin:end], self.is_live[begin:end] = more.owner, True
        self.stops[begin + 1 : end + 1] = first + more.stops[1:]
        self.attribute[first:stop], self.comparison[first:stop] = more.attribute, more.comparison
        self.constant[first:stop] = more.constant + 0.0
        self.count, self.predicate_count = end, stop
        if self._places is not None:
            self._places.update(_runs(more.owner, begin))
        return begin, end

    def delete(self, owner: int) -> range:
        """Mark the conjunctions of an owner as deleted; return their places."""
        if self._places is None:
            self._places = _runs(self.owner[: self.count], 0)
        places = self._places.pop(owner, range(0))
        self.is_live[places.start : places.stop] = False
        self._deleted += len(places)
        return places

    @property
    def is_wasteful(self) -> bool:
        """Whether more is deleted than is live."""
        return self._deleted > max(WASTE_LEAST, self.count - self._deleted)

    def live(self) -> Conjunctions:
        """Return what is not deleted."""
        places = np.flatnonzero(self.is_live[: self.count])
        sizes = np.diff(self.stops[: self.count + 1])
        kept = np.repeat(self.is_live[: self.count], sizes)
        return Conjunctions(
            self.owner[places],
            np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[places]))),
            *(column[: self.predicate_count][kept] for column in self._predicates),
        )

    def answer(self, event: I8, place: I8) -> tuple[I8, I8]:
        """Return pairs of event and place as event and owner, without the deleted."""
        if self._deleted:
            is_live = self.is_live[place]
            event, place = event[is_live], place[is_live]
        return event, self.owner[place]

    @property
    def bytes(self) -> int:
        """Bytes of owners and marks, by what is there."""
        return self.count * (self.owner.itemsize + self.is_live.itemsize)

    @property
    def predicate_bytes(self) -> int:
        """Bytes of predicates, by what is there; for matchers that read them."""
        each = sum(int(column.itemsize) for column in self._predicates)
        return self.predicate_count * each + (self.count + 1) * self.stops.itemsize

    @property
    def _predicates(self) -> tuple[Any, Any, Any]:
        return self.attribute, self.comparison, self.constant


def _runs(owner: I8, begin: int) -> dict[int, range]:
    """Return the places of each owner, the first of which is `begin`."""
    starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), owner[1:] != owner[:-1]))[: len(owner)])
    stops = np.append(starts[1:], len(owner))
    places = map(range, (starts + begin).tolist(), (stops + begin).tolist())
    return dict(zip(owner[starts].tolist(), places, strict=True))
