"""What the matching kernels read and the memory they work in: named tuples of arrays, in groups by use.

A leaf is given the groups or arrays that it needs, never all: each array is seven words to the compiler, and
how long compiling takes is a matter of those.

`MatchTables` are columns of a layout (`shm.columns`, family "layout") and this worker's share; `EventTables`
an encoded batch; `Scratch` belongs to one kernel thread and one layout.

A *part code* is ``2 * attribute + by_cell``: what one part of a table's key is made of. A *digit* is the
number that an event's label gives for it: its point, or a cell.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

Index = np.uintp
"""In hot loops: an index of this type is not looked at for being negative."""

SEVERAL = -1
"""In `label_of`: the attribute has several values."""

NO_DIGIT, SEVERAL_DIGITS = -1, -2
PAIR_HOLDS, PAIR_FAILS = (1, 256) if sys.byteorder == "little" else (256, 1)
PENDING_MAX = 256
"""Probes and clusters on their way at a time."""

CURSOR_ENTRY, CURSOR_TABLE, CURSOR_COMBINATION, CURSOR_STEP, CURSOR_CLUSTER = 0, 1, 2, 3, 4
CURSOR_TREE, CURSOR_OPENED = 5, 6
CURSOR_SIZE = 7
CURSOR_RAISED, CURSOR_SINGLE = 7, 9
CURSOR_AND_EVENTS = 11
"""Behind the cursor, of the last event with an even number and of the last with an odd one: how many points
it has, and whether no attribute has several values."""


class Points(NamedTuple):
    """Labels that are points: with a point predicate each."""

    point_base: Any  # int64[A]: first item in label_point, -1 for none
    label_point: Any  # int32[]: point predicate of a label, -1 for none
    attribute_point: Any  # int32[A+1]: first point predicate


class FlagLists(NamedTuple):
    """Labels to the flags, other than those of points, of the predicates that they make hold."""

    flag_base: Any  # int64[A]: first item in flag_start, -1 for none
    flag_start: Any  # int32[n+1]
    flag_test: Any  # int32[]: predicates


class Slices(NamedTuple):
    """Labels to cells."""

    slice_start: Any  # int32[A+1]
    slice_label: Any  # int32[]: first label of each slice


class Parts(NamedTuple):
    """What the keys of each table are made of."""

    table_part: Any  # int32[T+1]
    part_code: Any  # int32[]
    part_multiplier: Any  # int64[]
    table_offset: Any  # int64[T]


class Areas(NamedTuple):
    """Where the keys of each table lie."""

    table_area: Any  # int64[T]: first item in table_direct, or first entry in table_hash
    table_size: Any  # int64[T]: keys, or entries that a hash is looked up in
    table_places: Any  # int64[T]: items or entries, overflow included
    table_mode: Any  # uint8[T]: shm.blob TABLE_*
    table_direct: Any  # int32[]: blob word or -1
    table_hash: Any  # int64[2H]: entries of key and blob word (-1: free)


class Slots(NamedTuple):
    """Clusters of the slots, which an event opens without a key."""

    access_start: Any  # int32[S+1]: first cluster of each slot
    cluster_start: Any  # int64[C]: blob word
    cluster_partition: Any  # int32[C]


class Tree(NamedTuple):
    """The tree of bounding boxes whose leaf nodes are clusters (`tree`); node 0 is the root."""

    attribute_dimension: Any  # int32[A]: -1: none
    tree_lo: Any  # int32[D * N]: least label by dimension and node
    tree_hi: Any  # int32[D * N]
    tree_first: Any  # int32[N]: first child; of a leaf node its cluster
    tree_count: Any  # int32[N]: children; 0: a leaf node


class Blobs(NamedTuple):
    """The blob of sections: the same memory as numbers of four sizes."""

    word: Any  # int32[]
    half: Any  # uint16[]
    byte: Any  # uint8[]
    long: Any  # uint64[]


def blobs_of(word: Any) -> Blobs:
    """Return a blob, int32[], as numbers of all sizes."""
    whole = word[: len(word) // 2 * 2]
    return Blobs(word, word.view(np.uint16), word.view(np.uint8), whole.view(np.uint64))


class Tests(NamedTuple):
    """What literals mean that have no flag."""

    predicate_test: Any  # int32[4P]
    set_start: Any  # int32[K+1]
    set_label: Any  # int32[]


class Programs(NamedTuple):
    """Rows that are more than a conjunction."""

    program_start: Any  # int32[G+1]
    program_code: Any  # int32[], steps
    program_row: Any  # int32[G]


class MatchTables(NamedTuple):
    """What the kernel reads of a layout and of this worker's share; columns as in `shm.layout.LayoutView`."""

    points: Any  # Points
    flags: Any  # FlagLists
    slices: Any  # Slices
    attribute_table: Any  # int32[A+1]: first table that hangs off the attribute
    table_attribute: Any  # int32[]: attributes that tables hang off, ascending
    part_codes: Any  # int32[]: the distinct ones
    parts: Any  # Parts
    areas: Any  # Areas
    slots: Any  # Slots
    tree: Any  # Tree
    blobs: Any  # Blobs
    tests: Any  # Tests
    programs: Any  # Programs
    row_many: Any  # uint8[R]
    many_max: Any  # int, the largest of row_many
    has_labels: Any  # bool: some predicate has no flag
    has_fronts: Any  # bool: some section has a front
    label_shift: Any  # uint8[A]: bits of a label that fronts do without
    is_exact: Any  # bool: no two accesses have one key
    partition_mine: Any  # uint8[P], 1 for the partitions of this shard


TABLE_GROUPS: dict[str, Any] = {
    "points": Points,
    "flags": FlagLists,
    "slices": Slices,
    "parts": Parts,
    "areas": Areas,
    "slots": Slots,
    "tree": Tree,
    "tests": Tests,
    "programs": Programs,
}
"""The fields of `MatchTables` that are groups of columns."""


class EventTables(NamedTuple):
    """An encoded batch; event-major."""

    entry_start: Any  # int64[n+1]
    entry_attribute: Any  # int32[], grouped within an event
    entry_label: Any  # int32[], distinct within an event and attribute
    bit_start: Any  # int64[n+1]
    bit: Any  # int32[]


class Facts(NamedTuple):
    """What literals are decided by; between events `label_of` is all 0, `flag` 0 and 1 in turn."""

    label_of: Any  # int32[A]: 0 missing, SEVERAL, or the label
    several: Any  # int64[2A]: first and last + 1 entry of an attribute with several values
    flag: Any  # uint8[2F]: by literal of a predicate with a flag: holds


class Digits(NamedTuple):
    """What keys are computed from: while an event is probed, `digit_of` is right for all of `part_codes`."""

    digit_of: Any  # int32[2A]: by part code
    option_start: Any  # int32[2A]: by part code, for SEVERAL_DIGITS
    option_count: Any  # int32[2A]
    option_digit: Any  # int32[>= 3 * most entries of an event]


class Probes(NamedTuple):
    """Probes of tables on their way; PENDING_MAX of each sort."""

    direct_at: Any  # int64[]: item of table_direct
    hash_key: Any  # int64[]
    hash_at: Any  # int64[]: entry where the search starts
    hash_table: Any  # int32[]
    hash_combination: Any  # int64[]: which of the table's combinations; -1: any


class Places(NamedTuple):
    """Places of the blob on their way; PENDING_MAX."""

    blob_at: Any  # int64[]
    blob_probe: Any  # int64[]: pending hash probe that led there, -1: none


class Walk(NamedTuple):
    """An event on its way through the tree."""

    least: Any  # int32[D]: the event's least label by dimension; 0: missing
    most: Any  # int32[D]: the greatest
    stack: Any  # int32[N + 1]: nodes to be opened
    mark: Any  # uint8[most children]: 1 for those that may hold the event


class Fronts(NamedTuple):
    """What fronts are looked at by, and the entries that passed one."""

    least: Any  # uint64[A]: seven bits of the attribute's label in each byte; between events 0
    most: Any  # uint64[A]: 128 less those in each byte; between events 128
    row_at: Any  # int64[LATE_MAX + largest section]: word of the entry's row
    target_at: Any  # int64[]: word of its target
    head: Any  # int32[]: of its section


class Kept(NamedTuple):
    """Which entries of a section hold so far."""

    survivor: Any  # int32[largest section, and a word of marks]: those that do
    mark: Any  # uint8[largest section, up to a word]: 1 for those that do
    mark_word: Any  # int64[]: the same memory


class Scratch(NamedTuple):
    """Memory of one kernel thread."""

    facts: Any  # Facts
    flag_pair: Any  # uint16[F]: the same memory as `Facts.flag`, both literals of a predicate at once
    digits: Any  # Digits
    cursor: Any  # int64[CURSOR_AND_EVENTS]
    raised: Any  # int32[>= 2 * most entries of an event]: the points of two events, even and odd number
    key: Any  # int64[PENDING_MAX]
    probes: Any  # Probes
    places: Any  # Places
    walk: Any  # Walk
    kept: Any  # Kept
    fronts: Any  # Fronts
    row_stamp: Any  # int64[R]
    program_stamp: Any  # int64[G]
