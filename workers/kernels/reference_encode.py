"""What the encoding kernels must do, in plain Python; see `workers.kernels.reference`."""

from __future__ import annotations

import itertools
import math
import struct
from bisect import bisect_left
from typing import Any

from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.code_space import FALSE_LABEL, FIRST_NUMBER_LABEL
from pubsub_cluster.workers.kernels.columns import BOOLEANS, DOUBLES, INTEGERS, NO_BUFFER, TEXTS
from pubsub_cluster.workers.kernels.entries import KIND_BOOLEAN, KIND_NUMBER
from pubsub_cluster.workers.kernels.lookup import HASH


def encode_numbers(event: Any, keys: Any, numbers: Any, attribute: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_numbers`."""
    values = zip(keys[0].tolist(), keys[1].tolist(), strict=True)
    return _write_labels(event, [number_label(numbers, attribute, *value) for value in values], at, out)


def number_label(numbers: Any, attribute: int, whole: int, part: float) -> int:
    """See `lookup.number_label`."""
    first, stop = numbers.number_first[attribute : attribute + 2].tolist()
    constants = (numbers.number_whole[first:stop].tolist(), numbers.number_part[first:stop].tolist())
    known = list(zip(*constants, strict=True))
    found = _gap_or_constant(known, (whole, part))
    return FIRST_NUMBER_LABEL + (found if found & 1 or numbers.number_method[attribute] != HASH else 0)


def encode_texts(event: Any, spans: Any, texts: Any, attribute: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_texts`."""
    bounds = zip(spans[0].tolist(), spans[1].tolist(), strict=True)
    return _write_labels(event, [text_label(texts, attribute, spans[2], *span) for span in bounds], at, out)


def text_label(texts: Any, attribute: int, data: Any, start: int, stop: int) -> int:
    """See `lookup.text_label`."""
    first, last = texts.text_first[attribute : attribute + 2].tolist()
    offset = texts.text_offset[first : last + 1].tolist()
    known = [texts.text_bytes[lo:hi].tobytes() for lo, hi in itertools.pairwise(offset)]
    found = _gap_or_constant(known, data[start:stop].tobytes())
    base = int(texts.text_base[attribute])
    return base + (found if found & 1 or texts.text_method[attribute] != HASH else 0)


def encode_booleans(event: Any, value: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_booleans`."""
    return _write_labels(event, [FALSE_LABEL + bool(v) for v in value.tolist()], at, out)


def _gap_or_constant(known: list[Any], value: Any) -> int:
    at = bisect_left(known, value)
    return 2 * at + (at < len(known) and known[at] == value)


def _write_labels(event: Any, labels: list[int], at: int, out: Any) -> int:
    out[0][at : at + len(labels)] = event
    out[1][at : at + len(labels)] = labels
    return len(labels) - len(set(event.tolist()))


def prefix_of(data: Any, start: Any, end: Any) -> Any:
    """See `encode.prefix_of`."""
    return int.from_bytes(data[start:end].tobytes()[:8].ljust(8, b"\0"), "big")


def encode_entries(
    events: Any, values: Any, attribute_of: Any, lookup: Any, entry_start: Any, out: Any
) -> None:
    """See `encode.encode_entries`."""
    name, kind, whole, part, stop, data = values
    to = 0
    for event, (first, last) in enumerate(zip(*(column.tolist() for column in events), strict=True)):
        found: set[tuple[int, int]] = set()
        for at in range(first, last):
            attribute = int(attribute_of[name[at]])
            if attribute < 0:
                continue
            if kind[at] == KIND_BOOLEAN:
                label = FALSE_LABEL + bool(whole[at])
            elif kind[at] == KIND_NUMBER:
                label = number_label(lookup.numbers, attribute, int(whole[at]), float(part[at]))
            else:
                label = text_label(lookup.texts, attribute, data, int(whole[at]), int(stop[at]))
            found.add((attribute, label))
        entry_start[event] = to
        for out[0][to], out[1][to] in sorted(found):
            to += 1
    entry_start[len(events[0])] = to


def encode_columns(
    data: Any, columns: Any, span: Any, has_gaps: Any, lookup: Any, entry_start: Any, out: Any
) -> None:
    """See `columns.encode_columns`."""
    to = 0
    for number, event in enumerate(range(*span), 1):
        for kind, attribute, valid, values, offsets, item in columns.tolist():
            if valid != NO_BUFFER and not data[valid + event]:
                continue
            if has_gaps:
                out[0][to] = attribute
            out[1][to] = _column_label(data, (kind, attribute, values, offsets, item), event, lookup)
            to += 1
        if has_gaps:
            entry_start[number] = to


def _column_label(data: Any, column: Any, event: int, lookup: Any) -> int:
    kind, attribute, values, offsets, item = column
    content = data.tobytes()
    if kind == BOOLEANS:
        return FALSE_LABEL + bool(content[values + event])
    if kind == TEXTS:
        start, stop = struct.unpack_from("<qq", content, offsets + 8 * event)
        return text_label(lookup.texts, attribute, data, values + start, values + stop)
    if kind == INTEGERS:
        at = values + item * event
        value: float = int.from_bytes(content[at : at + item], "little", signed=True)
    else:
        (value,) = struct.unpack_from("<d", content, values + 8 * event)
    return number_label(lookup.numbers, attribute, *number_key(value))


def has_nan(data: Any, columns: Any, event_count: Any) -> bool:
    """See `columns.has_nan`."""
    content = data.tobytes()
    return any(
        math.isnan(struct.unpack_from("<d", content, values + 8 * event)[0])
        for kind, _, valid, values, *_ in columns.tolist()
        for event in range(event_count)
        if kind == DOUBLES and (valid == NO_BUFFER or content[valid + event])
    )


def arrange(segments: Any, rows: Any, entry_start: Any, entries: Any) -> None:
    """See `encode.arrange`."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(entry_start) - 1)]
    for attribute, first, stop in zip(*(column.tolist() for column in segments), strict=True):
        for row in range(first, stop):
            found[rows[0][row]].append((attribute, rows[1][row]))
    at = 0
    for event, mine in enumerate(found):
        for attribute, label in mine:
            entries[0][at], entries[1][at] = attribute, label
            at += 1
        entry_start[event + 1] = at
