"""What the keyed half of the delta is made of: named tuples of arrays, and where things stand in them.

A *key* is two label slots (`CodeSpaces.label_start`) in one number: the labels of one or two equalities of a
clause, which an event must have for the clause to hold. Each key has a list of the clauses behind it, side by
side in `entry`. Everything but the lists is appended; a list that is full moves to twice its room.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pubsub_cluster.shm import blob
from pubsub_cluster.workers.kernels._jit import leaf
from pubsub_cluster.workers.kernels.tables import Index

PREDICATES, SETS, SET_LABELS, CLAUSES, LITERALS, KEYS, ENTRIES, LONGEST, NEEDED = range(9)
PRUNED, SEVERAL_CLAUSES, USED_SIZE = range(9, 12)
"""Places of `KeyedTables.used`: how much of each array is in use, the room of the longest list, clauses of a
row that found no room, the last version at which a row that was left out was removed, and clauses of rows
that have several."""

ROW_CLAUSES_MAX = 16
ROW_LITERALS_MAX = 64
SET_LABELS_MAX = 64
"""A row with more clauses or literals, or a larger set, is left to the bitmaps."""

CODE_BITS = 8
"""Of a *code*: a label without its lowest bits, as many as its attribute has too many."""
ANY_CODE = (1 << CODE_BITS) - 1
"""The code of several values. A label may have it too, and is told from several by its label."""
ATTRIBUTES_MAX = 1 << 16
"""Of an *interval*: an attribute, the first code that an event may have of it, how many more; in one number.

With codes of 16 bits events would read twice as much memory, and be told from few clauses more."""
ENTRY_WIDTH = 2
"""Intervals that an entry of a list has: most clauses are out at these."""
KEPT_MAX = 64
"""Entries of a list that are looked at together."""
KEY_WIDTH = 2
"""Of a key's place: the key, and its list, first entry and entries in one number; -1 for a free place."""
COUNT_BITS = 32
"""Of a list's number: entries, below the first entry."""
COUNT_MASK = (1 << COUNT_BITS) - 1
LIST_ROOM_FIRST = 4
"""Entries that a list has room for at first, a power of two; it moves each time when it is full."""

ONE_LABEL = 0xFFFF_FFFF
"""Second slot of a key that is one equality."""
NO_TEST = -1
"""Attribute of a predicate that labels do not decide."""

mix_key = leaf(blob.mix_key)


class KeyedTables(NamedTuple):
    """Clauses by key. Tests are as in `shm.code_space.LabelTests`."""

    used: Any  # int64[USED_SIZE]
    predicate_slot: Any  # int32[], a power of two: hash of catalogue predicates, -1: free
    predicate_catalogue: Any  # int32[]
    predicate_test: Any  # int32[4 * predicates]
    set_start: Any  # int32[sets + 1]
    set_label: Any  # int32[]
    clause_row: Any  # int32[]: catalogue row
    clause_first: Any  # int32[]: first clause of its row if that has several, else -1
    clause_start: Any  # int32[clauses + 1]: its literals
    stamp: Any  # int64[]: by first clause, the last event that was told the row
    literal: Any  # int32[]: 2 * predicate + negated
    key: Any  # int64[KEY_WIDTH * keys], a power of two: hash of keys with their lists
    entry: Any  # uint32[ENTRY_WIDTH * entries]: intervals
    entry_clause: Any  # int32[entries]


class KeyedAccess(NamedTuple):
    """Which keys an event has: pairs of attributes that hang off the first of them, and single attributes."""

    label_start: Any  # int64[A+1]
    pair_start: Any  # int32[A+1]
    pair_second: Any  # int32[pairs]
    hung: Any  # uint8[A]: HUNG_*
    code_shift: Any  # uint8[A]: bits of a label that its code is without


HUNG_PAIRS, HUNG_SINGLE = 1, 2
"""Bits of `KeyedAccess.hung`: there are pairs, or keys of one label."""


class KeyedFacts(NamedTuple):
    """The labels of two events, one with an even number and one with an odd one, half the array each.

    Between events all labels and codes are 0. For events together (`keyed_together`) `label_of` is longer: it
    has those of all lanes.
    """

    label_of: Any  # int32[2 * A]
    code_of: Any  # uint8[2 * A]
    several: Any  # int64[4 * A]: first and last + 1 entry
    kept: Any  # int64[KEPT_MAX]: where entries are that pass their first interval
    pending: Any  # int32[2 * 2 * PENDING_MAX]: first entry and number of entries of lists to be checked


@leaf
def key_of(first: Any, second: Any) -> Any:
    """Return the key of two label slots."""
    return (first << 32) | second


@leaf
def find_key(key: Any, keys: Any) -> Any:
    """Return where a key stands, or where it belongs: ``keys[at + 1]`` is its list, or -1."""
    mask = keys.shape[0] // KEY_WIDTH - 1
    place = mix_key(key) & mask
    while keys[Index(KEY_WIDTH * place + 1)] >= 0 and keys[Index(KEY_WIDTH * place)] != key:
        place = (place + 1) & mask
    return KEY_WIDTH * place
