"""Equality clusters: conjunctions by the attributes of their equalities, then by the constants.

Source: LESUB, equality preferred algorithm. All conjunctions with equalities on the same attributes, the
cluster's *schema*, stand in one cluster; a conjunction stands in one cluster only. For an event, each cluster
whose schema the event has all of is looked up once, with the event's values; what is found there has all its
equalities satisfied.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, Comparison, Conjunctions
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lists import Lists
from pubsub_cluster.algorithms.sequence_table import SequenceTable

NO_KEY = -1


class Split(NamedTuple):
    """Conjunctions, divided.

    Attributes
    ----------
    equalities, rest : Conjunctions
        The same ones, in the same order, with only such predicates.
    has_equality : bool[n]
    """

    equalities: Conjunctions
    rest: Conjunctions
    has_equality: npt.NDArray[np.bool_]


def split(catalogue: Conjunctions) -> Split:
    """Divide the predicates of conjunctions into equalities and others."""
    is_equality = catalogue.comparison == Comparison.EQ
    equalities, rest = predicates_at(catalogue, is_equality), predicates_at(catalogue, ~is_equality)
    return Split(equalities, rest, np.diff(equalities.stops) > 0)


def predicates_at(catalogue: Conjunctions, is_kept: npt.NDArray[np.bool_]) -> Conjunctions:
    """Return all conjunctions with some of their predicates."""
    kept_before = np.zeros(len(is_kept) + 1, np.int64)
    np.cumsum(is_kept, out=kept_before[1:])
    return Conjunctions(catalogue.owner, kept_before[catalogue.stops], *_columns_at(catalogue, is_kept))


def _columns_at(catalogue: Conjunctions, is_kept: npt.NDArray[np.bool_]) -> tuple[Any, Any, Any]:
    return catalogue.attribute[is_kept], catalogue.comparison[is_kept], catalogue.constant[is_kept]


def conjunctions_at(catalogue: Conjunctions, is_kept: npt.NDArray[np.bool_]) -> Conjunctions:
    """Return some of the conjunctions."""
    sizes = np.diff(catalogue.stops)
    stops = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[is_kept])))
    columns = _columns_at(catalogue, np.repeat(is_kept, sizes))
    return Conjunctions(catalogue.owner[is_kept], stops, *columns)


class EqualityClusters:
    """Conjunctions, by number, under their equalities.

    Attributes
    ----------
    schemas : SequenceTable
        Attributes, ascending.
    keys : SequenceTable
        A schema's number and the bits of its constants.
    members : Lists
        The conjunctions with each key.
    """

    def __init__(self) -> None:
        self.schemas, self.keys = SequenceTable(), SequenceTable()
        self.members = Lists(0)
        self._key: I4 = np.zeros(0, np.int32)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """As kernels take them; new ones after an insertion."""
        return self.schemas.arrays, self.keys.arrays, self.members.arrays

    @property
    def bytes(self) -> int:
        """Bytes of what a look-up reads."""
        return self.schemas.bytes + self.keys.bytes + self.members.bytes

    def build(self, equalities: Conjunctions) -> None:
        """Take conjunctions, numbered in order, in place of all; those without equalities are left out."""
        self.schemas, self.keys, self.members = SequenceTable(), SequenceTable(), Lists(0)
        self._key = np.full(len(equalities.owner), NO_KEY, np.int32)
        numbers = np.flatnonzero(np.diff(equalities.stops)).astype(np.int32)
        self._key[numbers] = keys = self._keys_of(conjunctions_at(equalities, np.diff(equalities.stops) > 0))
        self.members = Lists(self.keys.count)
        self.members.build(keys, numbers)

    def insert(self, numbers: I4, equalities: Conjunctions) -> None:
        """Add conjunctions, all with equalities, under their numbers."""
        keys = self._keys_of(equalities)
        if len(numbers) and numbers.max() >= len(self._key):
            room = np.full(len(self._key) + int(numbers.max()) + 1, NO_KEY, np.int32)
            self._key = np.append(self._key, room)
        self._key[numbers] = keys
        self.members.push(keys, numbers)

    def delete(self, numbers: I4) -> None:
        """Remove those of these conjunctions that are here."""
        known = numbers[numbers < len(self._key)]
        here = known[self._key[known] != NO_KEY]
        self.members.remove(self._key[here], here)
        self._key[here] = NO_KEY

    def _keys_of(self, equalities: Conjunctions) -> I4:
        """Return the number of the key of each conjunction, all of which have equalities."""
        sizes = np.diff(equalities.stops)
        conjunction = np.repeat(np.arange(len(sizes)), sizes)
        order = np.lexsort((equalities.attribute, conjunction))
        schema = self.schemas.add(equalities.attribute[order].astype(np.int64), equalities.stops)
        stops = equalities.stops + np.arange(len(sizes) + 1)
        words: I8 = np.empty(stops[-1], np.int64)
        words[stops[:-1]] = schema
        is_constant = np.ones(len(words), np.bool_)
        is_constant[stops[:-1]] = False
        words[is_constant] = bits_of(equalities.constant[order])
        return self.keys.add(words, stops)


def bits_of(values: Any) -> I8:
    """Return doubles as words, equal where the numbers are: there is one zero."""
    found: I8 = np.ascontiguousarray(np.asarray(values, np.float64) + 0.0).view(np.int64)
    return found
