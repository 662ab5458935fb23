"""Lines of JSON to their projections: the members that matter of each event, as they stand in the line.

Two kernels: one finds the *class* of every line, by the values of its gate attributes, and where the values
of known attributes stand; the other copies those that the class of a line reads. Texts are compared as JSON
writes them, so nothing is decoded: two ways to write one value are two projections, with the same matches.

A line is *special* when it is blank or may not be an object of scalars, and lists of such, whose names are
not empty, written without escapes and, where known, each given once: whoever asked reads it the long way.
What is taken here is RFC 8259 to the letter, and what a decoder would refuse is special.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine
from pubsub_cluster.workers.kernels.json import skip_space, string_end, word_starts
from pubsub_cluster.workers.kernels.names import STAMP, find_place, name_number
from pubsub_cluster.workers.kernels.text import INVALID, load_word, trailing_zeros, utf8_class, word_of

SPECIAL = -1
NUMBER_SIZE_MAX = 40
"""Longer numbers are special: some are too large for a decoder."""

_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO, _NINE = 34, 92, 44, 58, 45, 46, 48, 57
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _SPACE, _E, _UPPER_E, _U, _D = 123, 125, 91, 93, 32, 101, 69, 117, 100
_SLASH, _LETTER_B, _LETTER_F, _LETTER_N, _LETTER_R, _LETTER_T = 47, 98, 102, 110, 114, 116
_TRUE, _FALSE, _NULL = tuple(b"true"), tuple(b"false"), tuple(b"null")
_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)


class Members(NamedTuple):
    """Members of the lines whose names are known; room for all."""

    name: Any  # int32[m]
    first: Any  # int64[m], where the name's quote stands
    value: Any  # int64[m], where the value starts
    stop: Any  # int64[m], where it stops


class Lines(NamedTuple):
    """What is known of n lines."""

    source: Any  # int32[n], number of the class, or SPECIAL
    first: Any  # int64[n], first member
    stop: Any  # int64[n]


@leaf
def is_hex(byte: Any) -> Any:
    """Say whether a byte is a hexadecimal digit."""
    lower = byte | 32
    return (byte >= _ZERO and byte <= _NINE) or (lower >= 97 and lower <= 102)


@leaf
def escape_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the escape at `at` ends; -1 for none, and for surrogates."""
    if at + 2 > stop:
        return np.int64(-1)
    byte = np.int64(data[at + 1])
    if byte in (_BACKSLASH, _LETTER_N, _LETTER_R, _LETTER_T, _QUOTE, _SLASH, _LETTER_B, _LETTER_F):
        return np.int64(at + 2)
    if byte != _U or at + 6 > stop:
        return np.int64(-1)
    for step in range(2, 6):
        if not is_hex(np.int64(data[at + step])):
            return np.int64(-1)
    if (np.int64(data[at + 2]) | 32) == _D and np.int64(data[at + 3]) > 55:
        return np.int64(-1)
    return np.int64(at + 6)


@routine
def text_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the string that began before `at` ends, its quote included; -1 where it is special."""
    start = np.int64(at)
    at = np.int64(at)
    high = np.uint64(0)
    while at < stop:
        byte = np.uint64(0)
        if at + 8 <= stop:
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
            high |= word & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1))
            at += bits >> 3
        byte = np.uint64(data[at])
        if byte == _QUOTE:
            is_ascii = (high & _HIGHS) == 0
            return at + 1 if is_ascii or utf8_class(data, start, at) != INVALID else np.int64(-1)
        if byte == _BACKSLASH:
            at = escape_end(data, at, stop)
            if at < 0:
                break
        elif byte < _SPACE:
            break
        else:
            high |= byte
            at += 1
    return np.int64(-1)


@leaf
def number_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the number at `at` ends; -1 for one with an exponent, a long one, and for none."""
    start = at
    if data[at] == _MINUS:
        at += 1
    first = at
    while at < stop and data[at] >= _ZERO and data[at] <= _NINE:
        at += 1
    if at == first or (data[first] == _ZERO and at > first + 1):
        return np.int64(-1)
    if at < stop and data[at] == _POINT:
        at += 1
        point = at
        while at < stop and data[at] >= _ZERO and data[at] <= _NINE:
            at += 1
        if at == point:
            return np.int64(-1)
    if at - start > NUMBER_SIZE_MAX or (at < stop and (data[at] == _E or data[at] == _UPPER_E)):
        return np.int64(-1)
    return np.int64(at)


@leaf
def scalar_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the scalar at `at` ends; -1 where it is special."""
    byte = data[at]
    if byte == _QUOTE:
        return text_end(data, at + 1, stop)
    if byte == _MINUS or (byte >= _ZERO and byte <= _NINE):
        return number_end(data, at, stop)
    if word_starts(data, at, stop, _TRUE) or word_starts(data, at, stop, _NULL):
        return np.int64(at + 4)
    if word_starts(data, at, stop, _FALSE):
        return np.int64(at + 5)
    return np.int64(-1)


@routine
def list_end(data: Any, at: Any, stop: Any) -> Any:
    """Return where the list of scalars at `at` ends; -1 where it is special."""
    at = skip_space(data, at + 1, stop)
    if at < stop and data[at] == _CLOSE_LIST:
        return np.int64(at + 1)
    while at < stop:
        at = scalar_end(data, at, stop)
        if at < 0:
            break
        at = skip_space(data, at, stop)
        if at >= stop:
            break
        if data[at] == _CLOSE_LIST:
            return np.int64(at + 1)
        if data[at] != _COMMA:
            break
        at = skip_space(data, at + 1, stop)
    return np.int64(-1)


@leaf
def known_name(data: Any, at: Any, end: Any, names: Any, seed: Any) -> Any:
    """Return the number of the name ``data[at:end]``, -1 for an unknown one."""
    return np.int64(names.slot[find_place(names, data, at, end, word_of(data, at, end), seed)])


@leaf
def scan_line(data: Any, at: Any, stop: Any, row: Any, context: Any) -> Any:
    """Write the members of a line from `row` on; return the row after its last, or SPECIAL."""
    names, seed, members = context
    stamp = names.state[STAMP] + 1
    names.state[STAMP] = stamp
    at = skip_space(data, at, stop)
    if at >= stop or data[at] != _OPEN:
        return np.int64(SPECIAL)
    at = skip_space(data, at + 1, stop)
    while at < stop and data[at] == _QUOTE:
        first = at
        end, is_ascii = string_end(data, at + 1, stop)
        if end <= at + 1 or not (is_ascii or utf8_class(data, at + 1, end) != INVALID):
            break
        name = known_name(data, at + 1, end, names, seed)
        at = skip_space(data, end + 1, stop)
        if at >= stop or data[at] != _COLON:
            break
        at = skip_space(data, at + 1, stop)
        if at >= stop:
            break
        value = at
        at = list_end(data, at, stop) if data[at] == _OPEN_LIST else scalar_end(data, at, stop)
        if at < 0:
            break
        if name >= 0:
            if names.accepts[name] == 0 or names.stamp[name] == stamp:
                break
            names.stamp[name] = stamp
            if data[value] != _LETTER_N:  # null is the same as missing
                members.name[row], members.first[row] = name, first
                members.value[row], members.stop[row] = value, at
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


@leaf
def class_number(data: Any, span: Any, members: Any, gate: Any, classes: Any) -> Any:
    """Return the class of a line with the members of a `span`, perhaps a new one; negative for none."""
    row_of, text = gate
    arrays, rules = classes
    row_of[:] = -1
    for row in range(span[0], span[1]):
        if members.name[row] < row_of.shape[0]:
            row_of[members.name[row]] = row
    text[0] = _OPEN_LIST
    size = np.int64(1)
    for number in range(row_of.shape[0]):
        row = row_of[number]
        if row >= 0:
            if size + members.stop[row] - members.value[row] + 1 > text.shape[0]:
                return np.int64(SPECIAL)
            for at in range(members.value[row], members.stop[row]):
                text[size] = data[at]
                size += 1
        elif size == text.shape[0]:
            return np.int64(SPECIAL)
        text[size] = _COMMA
        size += 1
    return name_number(arrays, text, np.int64(0), size, rules)


@kernel
def scan_lines(
    data: Any, offsets: Any, names: Any, gate: Any, classes: Any, members: Any, lines: Any
) -> None:
    """Find the class of every line, and its members whose names are known.

    =========  ========================================================================  ======
    data       uint8[], all lines                                                        in
    offsets    int64[n+1], line i is ``data[offsets[i]:offsets[i+1]]``                   in
    names      `NameArrays` of the known names, those of the gate attributes first; a    in/out
               line that has one that accepts nothing is special
    gate       (row int64[g], text uint8[]), scratch                                     out
    classes    (`NameArrays`, `ScanRules`) of the values of the gate attributes; where   in/out
               there is no room for a new class, its lines are special
    members    `Members`                                                                 out
    lines      `Lines`                                                                   out
    =========  ========================================================================  ======
    """
    context = names, classes[1].seed, members
    row = np.int64(0)
    for line in range(lines.source.shape[0]):
        found = scan_line(data, offsets[line], offsets[line + 1], row, context)
        number = np.int64(SPECIAL)
        if found >= 0:
            number = class_number(data, (row, found), members, gate, classes)
        lines.source[line] = number if number >= 0 else SPECIAL
        lines.first[line] = row
        lines.stop[line] = found if number >= 0 else row
        row = lines.stop[line]


@kernel
def project_lines(data: Any, members: Any, lines: Any, reads: Any, out: Any, out_stop: Any) -> None:
    """Copy the members of each line that its class reads, as a JSON object.

    =========  =======================================================  ===
    data       uint8[], all lines                                       in
    members    `Members`                                                in
    lines      `Lines`                                                  in
    reads      uint8[C, F], whether a class reads a name below F        in
    out        uint8[], the projections; none of a special line         out
    out_stop   int64[n], where each stops                               out
    =========  =======================================================  ===
    """
    size = np.int64(0)
    for line in range(lines.source.shape[0]):
        source = lines.source[line]
        if source >= 0:
            start = size
            for row in range(lines.first[line], lines.stop[line]):
                if reads[source, members.name[row]] != 0:
                    out[size] = _OPEN if size == start else _COMMA
                    size += 1
                    for at in range(members.first[row], members.stop[row]):
                        out[size] = data[at]
                        size += 1
            if size > start:
                out[size] = _CLOSE
                size += 1
        out_stop[line] = size
