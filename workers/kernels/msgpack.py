"""Flat MessagePack maps to entries: what a client makes of dictionaries; rules as in `kernels.json`.

Taken here: maps whose keys are strings, with nil, booleans, integers of 64 bits, doubles and strings. Lists,
nested maps, single floats, extensions and whatever is malformed make the event special.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf, routine
from pubsub_cluster.workers.kernels.entries import (
    KIND_BOOLEAN,
    KIND_NULL,
    KIND_NUMBER,
    KIND_SPECIAL,
    KIND_TEXT,
    SPECIAL,
    key_of_double,
    put,
)
from pubsub_cluster.workers.kernels.names import (
    ACCEPTS_BOOLEAN,
    ACCEPTS_FLOAT,
    ACCEPTS_INTEGER,
    ACCEPTS_TEXT,
    ACCEPTS_WHOLE_FLOAT,
    STAMP,
    TABLE_FULL,
    name_number,
)
from pubsub_cluster.workers.kernels.text import INVALID, double_of, utf8_class

_FULL = -2
_NIL, _FALSE, _TRUE, _DOUBLE = 0xC0, 0xC2, 0xC3, 0xCB
_UINT_8, _UINT_64, _INT_8, _INT_64 = 0xCC, 0xCF, 0xD0, 0xD3
_STR_8, _STR_32, _MAP_16, _MAP_32 = 0xD9, 0xDB, 0xDE, 0xDF
_SIGN = np.uint64(1 << 63)


@leaf
def _big_endian(data: Any, at: Any, size: Any) -> Any:
    """Return `size` bytes from `at` on as an unsigned number."""
    found = np.uint64(0)
    for step in range(size):
        found = (found << np.uint64(8)) | np.uint64(data[at + step])
    return found


@leaf
def string_span(data: Any, at: Any, stop: Any) -> Any:
    """Return (start, stop) of the string whose head is at `at`; start -1 if there is none."""
    failed = (np.int64(-1), np.int64(-1))
    head = np.int64(data[at])
    start = np.int64(at + 1)
    if 0xA0 <= head <= 0xBF:
        size = head & 0x1F
    elif _STR_8 <= head <= _STR_32:
        size_bytes = np.int64(1) << (head - _STR_8)
        if start + size_bytes > stop:
            return failed
        size = np.int64(_big_endian(data, start, size_bytes))
        start += size_bytes
    else:
        return failed
    return (start, start + size) if start + size <= stop else failed


@leaf
def scan_integer(data: Any, at: Any, stop: Any) -> Any:
    """Return (position after it, value) of the integer whose head is at `at`; position -1: none."""
    failed = (np.int64(-1), np.int64(0))
    head = np.int64(data[at])
    if head <= 0x7F:
        return np.int64(at + 1), head
    if head >= 0xE0:
        return np.int64(at + 1), head - 256
    if _UINT_8 <= head <= _UINT_64:
        size = np.int64(1) << (head - _UINT_8)
        if at + 1 + size > stop:
            return failed
        found = _big_endian(data, at + 1, size)
        return (np.int64(at + 1 + size), np.int64(found)) if found < _SIGN else failed
    if _INT_8 <= head <= _INT_64:
        size = np.int64(1) << (head - _INT_8)
        if at + 1 + size > stop:
            return failed
        value = np.int64(_big_endian(data, at + 1, size))
        spare = 64 - 8 * size
        return np.int64(at + 1 + size), (value << spare) >> spare
    return failed


@routine
def scan_value(data: Any, at: Any, stop: Any, accepts: Any, text_size_max: Any) -> Any:
    """Read the value at `at`; return the position after it and what `entries.put` writes."""
    zero = np.int64(0)
    failed = np.int64(-1), (np.int8(KIND_SPECIAL), zero, 0.0, zero)
    head = data[at]
    if head == _NIL:
        return (at + 1, (np.int8(KIND_NULL), zero, 0.0, zero)) if accepts else failed
    if head in (_FALSE, _TRUE):
        if accepts & ACCEPTS_BOOLEAN == 0:
            return failed
        return at + 1, (np.int8(KIND_BOOLEAN), np.int64(head == _TRUE), 0.0, zero)
    if head == _DOUBLE:
        if at + 9 > stop or accepts & (ACCEPTS_FLOAT | ACCEPTS_WHOLE_FLOAT) == 0:
            return failed
        value = double_of(_big_endian(data, at + 1, np.int64(8)))
        if value != value:
            return failed
        whole, part = key_of_double(value)
        if part != 0.0 and accepts & ACCEPTS_FLOAT == 0:
            return failed
        return at + 9, (np.int8(KIND_NUMBER), whole, part, zero)
    if 0xA0 <= head <= 0xBF or _STR_8 <= head <= _STR_32:
        start, end = string_span(data, at, stop)
        if start < 0 or accepts & ACCEPTS_TEXT == 0 or end - start > text_size_max:
            return failed
        if utf8_class(data, start, end) == INVALID:
            return failed
        return end, (np.int8(KIND_TEXT), start, 0.0, end)
    end, whole = scan_integer(data, at, stop)
    if end < 0 or accepts & ACCEPTS_INTEGER == 0:
        return failed
    return end, (np.int8(KIND_NUMBER), whole, 0.0, zero)


@leaf
def scan_map(data: Any, at: Any, stop: Any, row: Any, context: Any) -> Any:
    """Read one event into the entries from `row` on; return the row after its last, SPECIAL or _FULL."""
    names, rules, entries = context
    stamp = names.state[STAMP] + 1
    names.state[STAMP] = stamp
    row_stop = min(np.int64(entries.name.shape[0]), row + rules.entries_max)
    at = np.int64(at)
    if at >= stop:
        return np.int64(SPECIAL)
    head = np.int64(data[at])
    at += 1
    if 0x80 <= head <= 0x8F:
        pair_count = head & 0x0F
    elif head in (_MAP_16, _MAP_32) and at + (2 if head == _MAP_16 else 4) <= stop:
        size_bytes = np.int64(2 if head == _MAP_16 else 4)
        pair_count = np.int64(_big_endian(data, at, size_bytes))
        at += size_bytes
    else:
        return np.int64(SPECIAL)
    for _ in range(pair_count):
        if at >= stop:
            return np.int64(SPECIAL)
        start, end = string_span(data, at, stop)
        if start < 0 or end >= stop:
            return np.int64(SPECIAL)
        name = name_number(names, data, start, end, rules)
        if name < 0 or names.stamp[name] == stamp:
            return np.int64(_FULL) if name == TABLE_FULL else np.int64(SPECIAL)
        names.stamp[name] = stamp
        if row >= row_stop:
            return np.int64(_FULL) if row == entries.name.shape[0] else np.int64(SPECIAL)
        at, value = scan_value(data, end, stop, names.accepts[name], rules.text_size_max)
        if at < 0:
            return np.int64(SPECIAL)
        if value[0] != KIND_NULL:
            put(entries, row, name, value)
            row += 1
    return row if at == stop else np.int64(SPECIAL)


@kernel
def scan_msgpack(data: Any, offsets: Any, start: Any, names: Any, rules: Any, entries: Any) -> Any:
    """Read the events from ``start[0]`` on; arguments and answer are those of `json.scan_json`."""
    event, row = start
    event = np.int64(event)
    row = np.int64(row)
    event_count = offsets.shape[0] - 1
    context = (names, rules, entries)
    while event < event_count:
        found = scan_map(data, offsets[event], offsets[event + 1], row, context)
        if found == _FULL:
            return OVERFLOW, event, row
        entries.event_first[event] = SPECIAL if found < 0 else row
        entries.event_stop[event] = row if found < 0 else found
        if found >= 0:
            row = found
        event += 1
    return OK, event, row
