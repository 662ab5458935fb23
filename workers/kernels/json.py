"""Flat JSON objects to entries, without a Python object: one pass over the bytes of each event.

The scanner takes RFC 8259 to the letter and only a part of it: strings without escapes, integers of 64 bits,
decimals of up to 19 digits, true, false and null, each name once. Everything else makes the event special
(`workers.kernels.entries`), so that what is rare is decided in one place, by `language.decode`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf, routine
from pubsub_cluster.workers.kernels.decimal import nearest_double
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
from pubsub_cluster.workers.kernels.text import INVALID, load_word, trailing_zeros, utf8_class

_NONE, _INTEGER, _DOUBLE = 0, 1, 2
_FULL = -2
_DIGITS_MAX = 19
_EXPONENT_DIGITS_MAX = 4
_INTEGER_MAX = np.uint64(2**63 - 1)

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS, _POINT, _ZERO, _NINE = 34, 92, 44, 58, 45, 43, 46, 48, 57
_TRUE, _FALSE, _NULL = tuple(b"true"), tuple(b"false"), tuple(b"null")
_OPEN, _CLOSE, _SPACE, _E, _UPPER_E = 123, 125, 32, 101, 69

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)


@leaf
def skip_space(data: Any, at: Any, stop: Any) -> Any:
    """Return the first position from `at` on that holds no white space."""
    while at < stop and (data[at] == _SPACE or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@leaf
def string_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the closing quote of a string stands and whether all bytes are ASCII; -1: not plain."""
    high = np.uint64(0)
    while at + 8 <= stop:
        word = load_word(data, at)
        quote = word ^ _QUOTES
        slash = word ^ _BACKSLASHES
        # Exact up to and including the first byte that is marked; beyond it borrows may mark more.
        mark = ((quote - _ONES) & ~quote) | ((slash - _ONES) & ~slash) | ((word - _SPACES) & ~word)
        mark &= _HIGHS
        if mark == 0:
            high |= word
            at += 8
            continue
        bits = trailing_zeros(mark) - 7
        at += bits >> 3
        if data[at] != _QUOTE:
            return np.int64(-1), False
        high |= word & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
        return np.int64(at), (high & _HIGHS) == 0
    while at < stop:
        byte = data[at]
        if byte == _QUOTE:
            return np.int64(at), (high & _HIGHS) == 0
        if byte == _BACKSLASH or byte < _SPACE:
            break
        high |= np.uint64(byte)
        at += 1
    return np.int64(-1), False


@leaf
def scan_number(data: Any, at: Any, stop: Any) -> Any:
    """Read a number; return (position after it, kind, integer, double), kind _NONE for the long way."""
    failed = (np.int64(at), _NONE, np.int64(0), 0.0)
    negative = data[at] == _MINUS
    if negative:
        at += 1
    first = at
    digits = np.uint64(0)
    while at < stop and _ZERO <= data[at] <= _NINE:
        digits = digits * np.uint64(10) + np.uint64(data[at] - _ZERO)
        at += 1
    count = at - first
    if count == 0 or count > _DIGITS_MAX or (data[first] == _ZERO and count > 1):
        return failed
    if at == stop or not (data[at] == _POINT or data[at] == _E or data[at] == _UPPER_E):
        if digits > _INTEGER_MAX:
            return failed
        whole = np.int64(digits)
        return np.int64(at), _INTEGER, -whole if negative else whole, 0.0
    exponent = np.int64(0)
    if data[at] == _POINT:
        at += 1
        point = at
        while at < stop and _ZERO <= data[at] <= _NINE:
            digits = digits * np.uint64(10) + np.uint64(data[at] - _ZERO)
            at += 1
        if at == point:
            return failed
        exponent -= at - point
        if count + at - point > _DIGITS_MAX:
            while first < at and (data[first] == _ZERO or data[first] == _POINT):
                first += 1
            if at - first > _DIGITS_MAX + (1 if first < point else 0):
                return failed
    if at < stop and (data[at] == _E or data[at] == _UPPER_E):
        at += 1
        down = at < stop and data[at] == _MINUS
        if at < stop and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        point = at
        power = np.int64(0)
        while at < stop and _ZERO <= data[at] <= _NINE:
            if at - point >= _EXPONENT_DIGITS_MAX:
                return failed
            power = power * 10 + np.int64(data[at] - _ZERO)
            at += 1
        if at == point:
            return failed
        exponent += -power if down else power
    value = nearest_double(digits, exponent)
    if value != value:
        return failed
    return np.int64(at), _DOUBLE, np.int64(0), -value if negative else value


@leaf
def word_starts(data: Any, at: Any, stop: Any, word: Any) -> Any:
    """Say whether the bytes of `word` stand at `at`."""
    if at + len(word) > stop:
        return False
    same = True
    for step in range(len(word)):
        same &= data[at + step] == word[step]
    return same


@routine
def scan_value(data: Any, at: Any, stop: Any, accepts: Any, text_size_max: Any) -> Any:
    """Read the value at `at`; return the position after it and what `entries.put` writes."""
    zero = np.int64(0)
    failed = np.int64(-1), (np.int8(KIND_SPECIAL), zero, 0.0, zero)
    byte = data[at]
    if byte == _QUOTE:
        end, is_ascii = string_end(data, at + 1, stop)
        if end < 0 or accepts & ACCEPTS_TEXT == 0 or end - at - 1 > text_size_max:
            return failed
        if not is_ascii and utf8_class(data, at + 1, end) == INVALID:
            return failed
        return end + 1, (np.int8(KIND_TEXT), at + 1, 0.0, end)
    if byte == _MINUS or _ZERO <= byte <= _NINE:
        end, kind, whole, value = scan_number(data, at, stop)
        if kind == _INTEGER and accepts & ACCEPTS_INTEGER:
            return end, (np.int8(KIND_NUMBER), whole, 0.0, zero)
        if kind == _DOUBLE and accepts & (ACCEPTS_FLOAT | ACCEPTS_WHOLE_FLOAT):
            whole, part = key_of_double(value)
            if part == 0.0 or accepts & ACCEPTS_FLOAT:
                return end, (np.int8(KIND_NUMBER), whole, part, zero)
        return failed
    if word_starts(data, at, stop, _TRUE) and accepts & ACCEPTS_BOOLEAN:
        return at + 4, (np.int8(KIND_BOOLEAN), zero + 1, 0.0, zero)
    if word_starts(data, at, stop, _FALSE) and accepts & ACCEPTS_BOOLEAN:
        return at + 5, (np.int8(KIND_BOOLEAN), zero, 0.0, zero)
    if word_starts(data, at, stop, _NULL) and accepts:
        return at + 4, (np.int8(KIND_NULL), zero, 0.0, zero)
    return failed


@leaf
def scan_object(data: Any, at: Any, stop: Any, row: Any, context: Any) -> Any:
    """Read one event into the entries from `row` on; return the row after its last, SPECIAL or _FULL."""
    names, rules, entries = context
    stamp = names.state[STAMP] + 1
    names.state[STAMP] = stamp
    row_stop = min(np.int64(entries.name.shape[0]), row + rules.entries_max)
    at = skip_space(data, at, stop)
    if at >= stop or data[at] != _OPEN:
        return np.int64(SPECIAL)
    at = skip_space(data, at + 1, stop)
    if at < stop and data[at] == _CLOSE:
        return row if skip_space(data, at + 1, stop) == stop else np.int64(SPECIAL)
    while at < stop and data[at] == _QUOTE:
        end, _ = string_end(data, at + 1, stop)
        if end < 0:
            break
        name = name_number(names, data, at + 1, end, rules)
        if name < 0 or names.stamp[name] == stamp:
            return np.int64(_FULL) if name == TABLE_FULL else np.int64(SPECIAL)
        names.stamp[name] = stamp
        at = skip_space(data, end + 1, stop)
        if at >= stop or data[at] != _COLON:
            break
        at = skip_space(data, at + 1, stop)
        if at >= stop:
            break
        if row >= row_stop:
            return np.int64(_FULL) if row == entries.name.shape[0] else np.int64(SPECIAL)
        at, value = scan_value(data, at, stop, names.accepts[name], rules.text_size_max)
        if at < 0:
            break
        if value[0] != KIND_NULL:
            put(entries, row, name, value)
            row += 1
        at = skip_space(data, at, stop)
        if at >= stop:
            break
        if data[at] == _CLOSE:
            return row if skip_space(data, at + 1, stop) == stop else np.int64(SPECIAL)
        if data[at] != _COMMA:
            break
        at = skip_space(data, at + 1, stop)
    return np.int64(SPECIAL)


@kernel
def scan_json(data: Any, offsets: Any, start: Any, names: Any, rules: Any, entries: Any) -> Any:
    """Read the events from ``start[0]`` on.

    =========  ======================================================  ======
    data       uint8[], all documents                                  in
    offsets    int64[n+1], event i is ``data[offsets[i]:offsets[i+1]]``  in
    start      (first event, first free row of `entries`)              in
    names      `NameArrays`                                            in/out
    rules      `ScanRules`                                             in
    entries    `Entries`                                               out
    =========  ======================================================  ======

    Returns
    -------
    tuple of (int, int, int)
        Status; the event to go on with, n when done; the first free row.
    """
    event, row = start
    event = np.int64(event)
    row = np.int64(row)
    event_count = offsets.shape[0] - 1
    context = (names, rules, entries)
    while event < event_count:
        found = scan_object(data, offsets[event], offsets[event + 1], row, context)
        if found == _FULL:
            return OVERFLOW, event, row
        entries.event_first[event] = SPECIAL if found < 0 else row
        entries.event_stop[event] = row if found < 0 else found
        if found >= 0:
            row = found
        event += 1
    return OK, event, row
