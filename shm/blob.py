"""The form of a layout's blob, and how the keys of hash tables are mixed; shared by builder and kernels.

The blob is int32 words. What a slot or a key leads to is a chain of *sections*; a section holds entries with
equally many residuals of each sort:

    head | LONG: f, i, t | LABELS: k, k digits | RUNS: m | m literals, m stops | columns | n targets

head: bits 0-11 entry count n, then the flags below, then five bits each for the number of flag columns f,
interval columns i and test columns t. The columns, n words each unless said otherwise:

    f flag columns        literals below 2 * (predicates with a flag): one byte load each
    i interval columns    n times three words: 2 * attribute + negated, first label, last label
    t test columns        literals over `predicate_test`

With RUNS the first flag column (the first test column when f is 0) is run-length encoded: run j covers the
entries up to ``stops[j]``. A literal is ``2 * predicate + negated``; a target >= 0 is a layout row, a target
< 0 is ``~program``. With LABELS the section is only for the key of these digits, whatever else has the
same number.
"""

from __future__ import annotations

from typing import Any

ENTRY_BITS = 12
ENTRY_MASK = (1 << ENTRY_BITS) - 1
HEAD_MORE = 1 << 12
HEAD_LONG = 1 << 13
HEAD_LABELS = 1 << 14
HEAD_RUNS = 1 << 15
FLAG_SHIFT, INTERVAL_SHIFT, TEST_SHIFT = 16, 21, 26
COUNT_MASK = 31
HEAD_NOT_SIMPLE = (
    HEAD_LONG | HEAD_LABELS | HEAD_RUNS | (COUNT_MASK << INTERVAL_SHIFT) | (COUNT_MASK << TEST_SHIFT)
)

TABLE_DIRECT, TABLE_INEXACT, TABLE_SAME_PREFIX = 1, 2, 4
"""Bits of `table_mode`: positions stand at the key itself; different accesses may have one key; all parts but
the last are those of the table before."""

NO_POSITION = -1

MANY_KEYS, MANY_CLAUSES = 1, 2
"""Of `row_many`: one clause under several keys, of which an event with one value per attribute has one at
most; several clauses, any of which may lead to the row."""

_LOW_WORD = 0xFFFFFFFF
_LOW_FACTOR, _HIGH_FACTOR = 0x27D4EB2F, 0x165667B1
_TABLE_FACTOR = 40_503


def mix_key(key: Any) -> Any:
    """Spread a key in [0, 2**63) over all bits; nothing overflows int64, so arrays and kernels agree."""
    mixed = (key & _LOW_WORD) * _LOW_FACTOR + (key >> 32) * _HIGH_FACTOR
    return mixed ^ (mixed >> 29)


def partition_of(table: Any, mixed: Any, partition_count: Any) -> Any:
    """Return the partition of a table's key by its `mix_key`."""
    return ((((mixed >> 7) + table * _TABLE_FACTOR) & 0xFFFF) * partition_count) >> 16
