"""Encoding a publisher's dense columns: from the bytes of a payload to labels, event by event.

All columns in one call: a call with its arrays costs as much as some thousand labels. Events go in blocks, so
that a block's labels, which column after column writes with a stride, stay in the first-level cache.

The payload is one array of bytes; a row of `columns` says where a column's parts lie in it. Integers of one,
two or four bytes are not widened before: each is read with the bytes behind it, which are then shifted out,
so that one loop does for all widths. So eight bytes more stand at the end of the payload.

Numbers of a block are asked for while the block before it is read: another core has written them, and a block
takes one line of each of many columns, which no hardware foresees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.code_space import FALSE_LABEL, MISSING_LABEL
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.entries import key_of_double
from pubsub_cluster.workers.kernels.lookup import BYTE_LEAST, BYTE_MOST, DIRECT, number_label, text_label
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.tables import Index
from pubsub_cluster.workers.kernels.text import double_of, integer_of, load_word

INTEGERS, DOUBLES, BOOLEANS, TEXTS = 0, 1, 2, 3
COLUMN_TYPE, COLUMN_ATTRIBUTE, COLUMN_VALID, COLUMN_VALUES, COLUMN_OFFSETS, COLUMN_ITEM = 0, 1, 2, 3, 4, 5
COLUMN_WIDTH = 6
NO_BUFFER = -1
BLOCK_EVENTS = LINE_BYTES = 64
_BYTES = 8


@leaf
def load_integer(data: Any, at: Any, item: Any) -> Any:
    """Return the integer of `item` bytes at `at`; eight bytes must exist."""
    beyond = 8 * (_BYTES - item)
    return integer_of(load_word(data, at) << np.uint64(beyond)) >> beyond


@leaf
def ask_block(data: Any, columns: Any, first: Any) -> None:
    """Ask for the numbers of the block of events that begins with `first`."""
    for at in range(columns.shape[0]):
        if columns[at, COLUMN_TYPE] != TEXTS:
            item = columns[at, COLUMN_ITEM]
            last = columns[at, COLUMN_VALUES] + item * first + LINE_BYTES - 1
            for line in range(item):
                prefetch(data, last + LINE_BYTES * line)


@leaf
def direct_labels(data: Any, values: Any, attribute: Any, numbers: Any, to: Any, label: Any) -> None:
    """Find the labels of integers by table.

    `values` is (place in `data`, bytes of each), `to` is (first, stop, step) in `label`.
    """
    at, item = values
    first, stop, step = to
    low = numbers.number_low[attribute]
    table = numbers.number_table[attribute]
    high = low + (numbers.number_table[attribute + 1] - table - 1)
    direct = numbers.direct_label
    if item == 1 and low <= BYTE_LEAST and high >= BYTE_MOST:  # nothing is beyond: half the time
        for place in range(first, stop, step):
            value = np.int64(np.int8(data[Index(at)]))
            label[Index(place)] = direct[Index(table - low + value)]
            at += 1
        return
    for place in range(first, stop, step):
        value = load_integer(data, at, item)
        label[Index(place)] = direct[Index(table + (min(max(value, low), high) - low))]
        at += item


@leaf
def column_labels(data: Any, column: Any, span: Any, lookup: Any, to: Any, label: Any) -> None:
    """Find the labels of the rows of `span` of one column; as `direct_labels`, `to` = (first, step)."""
    kind, attribute, valid, values, offsets, item = column
    first, stop = span
    place, step = to
    for row in range(first, stop):
        if valid != NO_BUFFER and data[valid + row] == 0:
            found = np.int64(MISSING_LABEL)
        elif kind == TEXTS:
            start = values + integer_of(load_word(data, offsets + _BYTES * row))
            end = values + integer_of(load_word(data, offsets + _BYTES * (row + 1)))
            found = text_label(lookup.texts, attribute, data, start, end)
        elif kind == BOOLEANS:
            found = np.int64(FALSE_LABEL + (1 if data[values + row] else 0))
        else:
            whole = load_integer(data, values + item * row, item)
            part = 0.0
            if kind == DOUBLES:
                whole, part = key_of_double(double_of(load_word(data, values + item * row)))
            found = number_label(lookup.numbers, attribute, whole, part)
        label[Index(place)] = found
        place += step


@leaf
def drop_gaps(first: Any, stop: Any, columns: Any, to: Any, entry_start: Any, out: Any) -> Any:
    """Close up the entries of the events `first` to `stop`, one per column from `to` on; return their end."""
    out_attribute, out_label = out
    at = to
    for event in range(first, stop):
        entry_start[event] = to
        for column in range(columns.shape[0]):
            label = out_label[Index(at)]
            out_attribute[Index(to)] = columns[column, COLUMN_ATTRIBUTE]
            out_label[Index(to)] = label
            to += 1 if label != MISSING_LABEL else 0
            at += 1
    return to


@kernel
def encode_columns(
    data: Any, columns: Any, span: Any, has_gaps: Any, lookup: Any, entry_start: Any, out: Any
) -> None:
    """Find the labels of dense columns and gather them event by event.

    ============  =============================================================================  ===
    data          uint8[], the payload and eight bytes more                                      in
    columns       int64[c, 6], by attribute ascending: type, attribute, first byte of            in
                  validity (NO_BUFFER: all rows have values), values and text offsets;
                  bytes of a value
    span          (first, stop): n events of the payload                                         in
    has_gaps      whether a column has a validity; without, `entry_start` and the attributes     in
                  of `out` are not written: all events have all columns
    lookup        `lookup.Lookup`                                                                in
    entry_start   int64[n+1]                                                                     out
    out           (attribute int32[c * n], label int32[c * n])                                   out
    ============  =============================================================================  ===
    """
    width = np.int64(columns.shape[0])
    to = np.int64(0)
    begin, until = span
    for first in range(begin, until, BLOCK_EVENTS):
        stop: Any = min(first + BLOCK_EVENTS, until)
        end = to + (stop - first) * width
        ask_block(data, columns, stop)
        for at in range(width):
            kind, attribute = columns[at, COLUMN_TYPE], columns[at, COLUMN_ATTRIBUTE]
            valid, values = columns[at, COLUMN_VALID], columns[at, COLUMN_VALUES]
            item = columns[at, COLUMN_ITEM]
            if kind == INTEGERS and valid == NO_BUFFER and lookup.numbers.number_method[attribute] == DIRECT:
                start = values + item * first, item
                direct_labels(data, start, attribute, lookup.numbers, (to + at, end, width), out[1])
            else:
                column = kind, attribute, valid, values, columns[at, COLUMN_OFFSETS], item
                column_labels(data, column, (first, stop), lookup, (to + at, width), out[1])
        to = drop_gaps(first - begin, stop - begin, columns, to, entry_start, out) if has_gaps else end
    if has_gaps:
        entry_start[until - begin] = to


@kernel
def has_nan(data: Any, columns: Any, event_count: Any) -> Any:
    """Say whether a float64 column of `columns`, as for `encode_columns`, has a value that is no number."""
    found = False
    for at in range(columns.shape[0]):
        if columns[at, COLUMN_TYPE] == DOUBLES:
            valid = columns[at, COLUMN_VALID]
            for row in range(event_count):
                value = double_of(load_word(data, columns[at, COLUMN_VALUES] + _BYTES * row))
                found |= value != value and (valid == NO_BUFFER or data[valid + row] != 0)
    return found
