"""Tables: what can be looked up of predicates, and the keys that a table's clauses are found under.

Which clauses a table has is decided before (`tuner.dealing`); its keys are made when it is packed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import F8, I4, I8, CodeSpaces, expand_slices
from pubsub_cluster.tuner.access import Ways
from pubsub_cluster.tuner.configuration import BY_CELL, Configuration, TableSchema
from pubsub_cluster.tuner.predicates import Predicates
from pubsub_cluster.tuner.source import Clauses

EXACT_KEYS_MAX = 1 << 62
"""Sums up to this make exact keys."""

INEXACT_MULTIPLIERS = (1_000_000_007, 998_244_353, 754_974_721, 880_803_841, 469_762_049, 167_772_161)
"""Of the digits of other keys; digits are below 2**31, so that no sum overflows."""

HASH_LOAD = 0.8
DIRECT_ENTRIES_PER_HASH_ENTRY = 16
CHANCE_MIN = 1e-6
"""Estimates below are not believed; products of six stay within float32."""

NOT_HERE = np.float32(np.inf)


class CellMap(NamedTuple):
    """Which cell each range is registered in.

    Attributes
    ----------
    cell : int32[P]
        -1: none.
    probability : float64[P]
        That an event opens the cell.
    """

    cell: I4
    probability: F8


class Lookup(NamedTuple):
    """What can be looked up of each predicate, by part code kind (label, cell).

    Attributes
    ----------
    cost : tuple of float32[P]
        Probability that the way is open; `NOT_HERE` where there is none.
    member_count : int64[P]
        Keys by label that a predicate has.
    """

    cost: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
    member_count: I8


class TableKeys(NamedTuple):
    """Keys of a table's clauses.

    Attributes
    ----------
    key : int64[e]
    clause : int32[e]
        Which of the clauses.
    probability : float64[e]
        That an event has the key.
    digits : list of int32[e]
        Of each part.
    looked_up : int32[k, m]
        Position of each part's literal among the clauses' literals.
    """

    key: I8
    clause: I4
    probability: F8
    digits: list[I4]
    looked_up: I4

    def pick(self, kept: npt.NDArray[np.bool_]) -> TableKeys:
        """Return some of them; `looked_up` is of all clauses still."""
        digits = [digit[kept] for digit in self.digits]
        return TableKeys(self.key[kept], self.clause[kept], self.probability[kept], digits, self.looked_up)


def part_codes(schema: TableSchema) -> list[int]:
    """Return ``2 * attribute + by_cell`` of each part."""
    return [2 * a + (1 if c == BY_CELL else 0) for a, c in zip(*schema, strict=True)]


def radices(schema: TableSchema, predicates: Predicates, configuration: Configuration) -> list[int]:
    """Return how many digits each part has."""
    points = np.diff(predicates.attribute_point)
    return [
        max(len(configuration.slices(a)) - 1, 1) if c == BY_CELL else max(int(points[a]), 1)
        for a, c in zip(*schema, strict=True)
    ]


def first_digits(codes: list[int], predicates: Predicates) -> list[int]:
    """Return the least digit of each part: the attribute's first point, or cell 0."""
    return [0 if code & 1 else int(predicates.attribute_point[code >> 1]) for code in codes]


def multipliers(radix: list[int], first: list[int]) -> tuple[list[int], bool]:
    """Return the multipliers of a key's digits, and whether keys are exact.

    Parameters
    ----------
    radix : list of int
        How many digits each part has.
    first : list of int
        The least of them.
    """
    found, product, sum_max = [], 1, 0
    for size, least in zip(radix, first, strict=True):
        found.append(product)
        sum_max += (least + size) * product
        product *= size
    if sum_max <= EXACT_KEYS_MAX:
        return found, True
    return list(INEXACT_MULTIPLIERS[: len(radix)]), False


def map_cells(
    spaces: CodeSpaces, predicates: Predicates, configuration: Configuration, label_probability: F8
) -> CellMap:
    """Find the cell of every range that fits in one; of two, the one that it lies in the middle of."""
    cell = np.full(len(predicates.lo), -1, np.int32)
    probability = np.zeros(len(cell))
    is_range = (predicates.attribute >= 0) & (predicates.reference < 0) & ~predicates.is_impossible
    for attribute in range(min(spaces.attribute_count, len(configuration.slice_first_label))):
        first = configuration.slices(attribute)
        if len(first) < 2:
            continue
        at = np.flatnonzero(is_range & (predicates.attribute == attribute))
        lo, hi = predicates.lo[at], predicates.hi[at]
        lo_slice = np.searchsorted(first, lo, side="right") - 1
        hi_slice = np.searchsorted(first, hi, side="right") - 1
        stop = spaces.label_start[attribute + 1] - spaces.label_start[attribute]
        bound = np.append(first, stop)
        in_lower_half = lo + hi < bound[lo_slice] + bound[lo_slice + 1]
        found = np.where((lo_slice == hi_slice) & in_lower_half, lo_slice - 1, lo_slice)
        found = np.clip(found, 0, len(first) - 2)
        fits = hi_slice - lo_slice <= 1
        cell[at[fits]] = found[fits]
        up_to = np.concatenate(
            (np.zeros(1), np.cumsum(label_probability[spaces.label_start[attribute] :][:stop]))
        )
        ends = np.minimum(np.append(bound, stop)[found + 2], stop)
        probability[at[fits]] = np.minimum(up_to[ends] - up_to[bound[found]], 1.0)[fits]
    return CellMap(cell, probability)


def find_lookup(predicates: Predicates, ways: Ways, cells: CellMap) -> Lookup:
    """Say what can be looked up of each predicate."""
    by_label = (
        (predicates.attribute >= 0) & ways.is_implied & ~predicates.is_exists & ~predicates.is_impossible
    )
    label = np.where(by_label, np.clip(ways.cost, CHANCE_MIN, 1.0), NOT_HERE).astype(np.float32)
    cell = np.where(cells.cell >= 0, np.clip(cells.probability, CHANCE_MIN, 1.0), NOT_HERE).astype(np.float32)
    return Lookup((label, cell), np.where(by_label, np.diff(ways.slot_start), 1))


def _cheapest(owner: I4, cost: npt.NDArray[np.float32], at: I8) -> I8:
    """Of `at`, whose owners ascend, return the cheapest of each owner (the first of equals)."""
    if not np.any(owner[1:] == owner[:-1]):
        return at
    order = np.lexsort((at, cost, owner))
    first = np.ones(len(order), bool)
    first[1:] = owner[order[1:]] != owner[order[:-1]]
    return at[order[first]]


def table_keys(
    clauses: Clauses,
    codes: list[int],
    multiplier: list[int],
    predicates: Predicates,
    lookup: Lookup,
    cells: CellMap,
    ways: Ways,
) -> TableKeys:
    """Make the keys of clauses that have a literal for every part."""
    count = len(clauses.start) - 1
    clause, spread = np.arange(count, dtype=np.int32), False
    key = np.zeros(count, np.int64)
    probability = np.ones(count)
    digits: list[I4] = []
    looked_up = np.empty((len(codes), count), np.int32)
    first = first_digits(codes, predicates)
    attributes = np.full(2 * len(predicates.test), -1, np.int32)
    attributes[0::2] = predicates.test[:, 0]
    attributes = attributes[clauses.literal]
    for part, code in enumerate(codes):
        at = np.flatnonzero(attributes == code >> 1)
        cost = lookup.cost[code & 1][clauses.literal[at] >> 1]
        if not (cost < NOT_HERE).all():
            at, cost = at[cost < NOT_HERE], cost[cost < NOT_HERE]
        at = _cheapest(clauses.owner[at], cost, at)
        looked_up[part] = at
        mine = clauses.literal[at] >> 1
        mine = mine[clause] if spread else mine
        if code & 1:
            digit = cells.cell[mine]
            chance = cells.probability[mine]
        else:
            slots, slot_count = ways.slot_start[mine], lookup.member_count[mine]
            if slot_count.max(initial=1) > 1:
                spread = True
                clause, key = np.repeat(clause, slot_count), np.repeat(key, slot_count)
                probability = np.repeat(probability, slot_count)
                digits = [np.repeat(digit, slot_count) for digit in digits]
                slots = expand_slices(slots, slot_count)
            point = ways.slot[slots]
            digit = point.astype(np.int32)
            chance = ways.slot_probability[point]
        key += (digit.astype(np.int64) - first[part]) * multiplier[part]
        probability *= chance
        digits.append(digit)
    return TableKeys(key, clause, probability, digits, looked_up)


def hash_capacity(key_count: int) -> int:
    """Return the entries that a hash of so many keys is looked up in, before its overflow."""
    return 1 << max(int(np.ceil(max(key_count, 1) / HASH_LOAD)) - 1, 1).bit_length()


def is_direct(radix: list[int], key_count: int) -> bool:
    """Say whether a table is better off with a position for every key there could be."""
    product = 1
    for size in radix:
        product *= size
    return product <= DIRECT_ENTRIES_PER_HASH_ENTRY * hash_capacity(key_count)


def make_hash(key: I8, position: I8) -> tuple[I8, int]:
    """Lay distinct keys out with linear probing.

    Entries pushed beyond the capacity lie behind it, and a free one ends the region, so that a search never
    wraps.

    Returns
    -------
    entries : int64[2 * places]
        Key and position; -1: free.
    capacity : int
    """
    capacity = hash_capacity(len(key))
    home = form.mix_key(key) & (capacity - 1)
    order = np.argsort(home, kind="stable")
    rank = np.arange(len(key))
    place = np.maximum.accumulate(home[order] - rank) + rank
    places = max(capacity, int(place.max(initial=0)) + 1) + 1
    entries = np.full(2 * places, form.NO_POSITION, np.int64)
    entries[2 * place] = key[order]
    entries[2 * place + 1] = position[order]
    return entries, capacity
