"""The form of a layout's blob, and how the keys of hash tables are mixed; shared by builder and kernels.

The blob is int32 words. What a slot or a key leads to is a chain of *sections*; a section holds entries with
equally many residuals of each sort:

    head | LONG: f, u, i, t | LABELS: k, k digits | RUNS: m | m literals, m stops | columns | n targets

head: bits 0-10 entry count n, then the flags below, then the number of flag columns f (four bits), uniform
columns u (three), interval columns i (five) and test columns t (two). The columns, n words each unless said
otherwise, in this order:

    u uniform columns     intervals of one attribute; see below
    f flag columns        literals below 2 * (predicates with a flag): one byte load each
    i interval columns    n times three words: 2 * attribute + negated, first label, last label; with NARROW
                          n times three halves of words
    t test columns        literals over `predicate_test`

A section of narrow intervals of mixed attributes and nothing else may have a *front* instead of columns,
which its negative head tells (FRONT). It begins a line of memory, and so does what follows it in a chain:

    head | LABELS: k, k digits | up to an even word | blocks | n rows of i narrow intervals | n targets

A block is for eight entries; its numbers are of 64 bits. The first one holds three attributes of 16 bits;
then each of them has two, with a byte for each entry: 128 - first, and last, both as the label's seven
highest bits (`code_shifts`). An entry without a positive interval of the attribute has 128 and 127, which
all labels pass, and an entry that does not exist 0 and 0, which none passes. So an entry may hold only where

    (128 - first + label) & (last + 128 - label)

has the bit of 128 for each attribute; one addition is for eight entries. Its row tells whether it does.

With RUNS there are no uniform columns, and the first flag column (the first test column when f is 0) is
run-length encoded: run j covers the entries up to ``stops[j]``. A literal is ``2 * predicate + negated``; a
target >= 0 is a layout row, a target < 0 is ``~program``. With LABELS the section is only for the key of
these digits, whatever else has the same number. With ONCE all targets are rows that cannot be reached twice.

A uniform column is checked by a loop over neighbouring bytes (halves of words with WIDE):

    attribute << COLUMN_SHIFT | SORTED | WIDE | FIRST | LAST | common | n first labels | n (MAX - last labels)

With SORTED the entries of the section ascend by the first number of the column, so that those that may hold
are the first ones. Without FIRST all entries have the first label `common`, and no first labels follow;
likewise LAST; with both there is no `common`. Last labels are stored as their distance from the largest
number, so that either is a comparison by ``<=``. The data are filled up to whole words with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

ENTRY_BITS = 11
ENTRY_MASK = (1 << ENTRY_BITS) - 1
HEAD_MORE = 1 << 11
HEAD_LONG = 1 << 12
HEAD_LABELS = 1 << 13
HEAD_RUNS = 1 << 14
HEAD_ONCE = 1 << 15
HEAD_NARROW = 1 << 16
FLAG_SHIFT, UNIFORM_SHIFT, INTERVAL_SHIFT, TEST_SHIFT = 17, 21, 24, 29
FLAG_MASK, UNIFORM_MASK, INTERVAL_MASK, TEST_MASK = 15, 7, 31, 3
HEAD_FRONT = -(1 << 31)
HEAD_NOT_SIMPLE = (
    HEAD_LONG
    | HEAD_LABELS
    | HEAD_RUNS
    | UNIFORM_MASK << UNIFORM_SHIFT
    | INTERVAL_MASK << INTERVAL_SHIFT
    | TEST_MASK << TEST_SHIFT
)
"""What a section does not have that has only flag columns."""

LINE_WORDS = 16
FRONT_ENTRIES, FRONT_COLUMNS = 8, 3
FRONT_WORDS = 2 + 4 * FRONT_COLUMNS
"""Of a block."""

FRONT_BITS, FRONT_HALF = 7, 128
FRONT_ONES = 0x0101010101010101
"""What spreads a byte over all eight."""

COLUMN_WIDE, COLUMN_FIRST, COLUMN_LAST, COLUMN_SORTED, COLUMN_SHIFT = 1, 2, 4, 8, 4
HALF_BITS = 16
BYTE_MAX, HALF_MAX = (1 << 8) - 1, (1 << HALF_BITS) - 1

TABLE_DIRECT, TABLE_INEXACT, TABLE_SAME_PREFIX = 1, 2, 4
"""Bits of `table_mode`: positions stand at the key itself; different accesses may have one key; all parts but
the last are those of the table before."""

NO_POSITION = -1

PROGRAM_HOLDS, PROGRAM_FAILS = -1, -2
"""Where a step of a program leads when that is no other step."""

MANY_KEYS, MANY_CLAUSES = 1, 2
"""Of `row_many`: one clause under several keys, of which an event with one value per attribute has one at
most; several clauses, any of which may lead to the row."""

_LOW_WORD = 0xFFFFFFFF
_LOW_FACTOR, _HIGH_FACTOR = 0x27D4EB2F, 0x165667B1
_TABLE_FACTOR = 40_503


def code_shifts(label_count: npt.NDArray[np.int64], bits_max: int = FRONT_BITS) -> npt.NDArray[np.uint8]:
    """Return by how many bits a label of each attribute is shifted to fit; labels go up to the count."""
    bits = np.ceil(np.log2(label_count + 1.0)).astype(np.int64)
    return np.asarray(np.maximum(bits - bits_max, 0), np.uint8)


def row_words(interval_columns: Any) -> Any:
    """Return the words of a row behind a front."""
    return (3 * interval_columns + 1) >> 1


def front_words(entry_count: Any) -> Any:
    """Return the words of a front's blocks."""
    return ((entry_count + FRONT_ENTRIES - 1) // FRONT_ENTRIES) * FRONT_WORDS


def mix_key(key: Any) -> Any:
    """Spread a key in [0, 2**63) over all bits; nothing overflows int64, so arrays and kernels agree."""
    mixed = (key & _LOW_WORD) * _LOW_FACTOR + (key >> 32) * _HIGH_FACTOR
    return mixed ^ (mixed >> 29)


def partition_of(table: Any, mixed: Any, partition_count: Any) -> Any:
    """Return the partition of a table's key by its `mix_key`."""
    return ((((mixed >> 7) + table * _TABLE_FACTOR) & 0xFFFF) * partition_count) >> 16
