"""Encoding: from values, column by column or entry by entry, to labels, event by event.

This is the first phase of the papers. `encode_*` find the labels of one attribute's rows and `arrange` brings
all columns into event-major order by counting. `encode_entries` does both for entries that are event-major
already; a publisher's dense columns have a kernel of their own (`kernels.columns`). Inputs are read-only
contiguous arrays (`workers.inputs`), outputs are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.code_space import FALSE_LABEL
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.entries import KIND_BOOLEAN, KIND_NUMBER
from pubsub_cluster.workers.kernels.lookup import number_label, text_label

# Gaps of Shell's sort (Ciura): an event has few entries, but a hostile one has thousands.
_GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)


@kernel
def encode_numbers(event: Any, keys: Any, numbers: Any, attribute: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's numbers.

    ==========  ==================================================  ===
    event       int32[k], ascending                                 in
    keys        (whole int64[k], part float64[k])                   in
    numbers     `lookup.NumberLookup`                               in
    attribute   int                                                 in
    at          first row of `out` to fill                          in
    out         (event int32[], label int32[]), rows at .. at + k   out
    ==========  ==================================================  ===

    Returns
    -------
    int
        How many rows have the event of the row before: above 0 means several values.
    """
    whole, part = keys
    out_event, out_label = out
    repeats = np.int64(0)
    previous = np.int32(-1)
    for row in range(event.shape[0]):
        out_event[at + row] = event[row]
        out_label[at + row] = number_label(numbers, np.int64(attribute), whole[row], part[row])
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def encode_texts(event: Any, spans: Any, texts: Any, attribute: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's texts; as `encode_numbers`, with

    ==========  ==================================================  ==
    spans       (start int64[k], end int64[k], data uint8[])        in
    texts       `lookup.TextLookup`                                 in
    ==========  ==================================================  ==
    """
    start, end, data = spans
    out_event, out_label = out
    repeats = np.int64(0)
    previous = np.int32(-1)
    for row in range(event.shape[0]):
        out_event[at + row] = event[row]
        out_label[at + row] = text_label(texts, np.int64(attribute), data, start[row], end[row])
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def encode_booleans(event: Any, value: Any, at: Any, out: Any) -> Any:
    """Find the labels of one attribute's booleans (`value` uint8[k]); as `encode_numbers`."""
    out_event, out_label = out
    repeats = np.int64(0)
    previous = np.int32(-1)
    for row in range(event.shape[0]):
        out_event[at + row] = event[row]
        out_label[at + row] = FALSE_LABEL + (1 if value[row] else 0)
        if event[row] == previous:
            repeats += 1
        previous = event[row]
    return repeats


@kernel
def arrange(segments: Any, rows: Any, entry_start: Any, entries: Any) -> None:
    """Bring all columns into event-major order; an event's attributes come in the order of the segments.

    ============  ==============================================================================  ===
    segments      (attribute int32[s], first int64[s], stop int64[s]): rows of each column         in
    rows          (event int32[], label int32[])                                                   in
    entry_start   int64[n+1], zeros; becomes the first entry of each event                         out
    entries       (attribute int32[], label int32[])                                               out
    ============  ==============================================================================  ===
    """
    attribute, first, stop = segments
    event, label = rows
    out_attribute, out_label = entries
    event_count = entry_start.shape[0] - 1
    for segment in range(attribute.shape[0]):
        for row in range(first[segment], stop[segment]):
            entry_start[event[row]] += 1
    total = 0
    for at in range(event_count + 1):
        count = entry_start[at]
        entry_start[at] = total
        total += count
    for segment in range(attribute.shape[0]):
        for row in range(first[segment], stop[segment]):
            to = entry_start[event[row]]
            out_attribute[to] = attribute[segment]
            out_label[to] = label[row]
            entry_start[event[row]] = to + 1
    for at in range(event_count, 0, -1):
        entry_start[at] = entry_start[at - 1]
    entry_start[0] = 0


@leaf
def sort_event(attribute: Any, label: Any, first: Any, stop: Any) -> Any:
    """Sort the entries [first, stop) by attribute and label, drop repeats; return the new stop."""
    at = first + 1
    while at < stop and (
        attribute[at - 1] < attribute[at]
        or (attribute[at - 1] == attribute[at] and label[at - 1] < label[at])
    ):
        at += 1
    if at >= stop:  # publishers keep to an order, which is mostly that of the catalogue
        return stop
    for gap in _GAPS:
        for at in range(first + gap, stop):
            a = attribute[at]
            b = label[at]
            to = at
            while to - gap >= first and (
                attribute[to - gap] > a or (attribute[to - gap] == a and label[to - gap] > b)
            ):
                attribute[to] = attribute[to - gap]
                label[to] = label[to - gap]
                to -= gap
            attribute[to] = a
            label[to] = b
    kept = first
    for at in range(first, stop):
        if kept == first or attribute[at] != attribute[kept - 1] or label[at] != label[kept - 1]:
            attribute[kept] = attribute[at]
            label[kept] = label[at]
            kept += 1
    return kept


@kernel
def encode_entries(
    events: Any, values: Any, attribute_of: Any, lookup: Any, entry_start: Any, out: Any
) -> Any:
    """Find the labels of entries that stand event by event, and bring each event's into order.

    ============  =====================================================================================  ===
    events        (first int64[n], stop int64[n]): entries of each event                                 in
    values        (name int32[], kind int8[], whole int64[], part float64[], stop int64[], data uint8[])  in
    attribute_of  int32[names], -1 for names that no predicate mentions                                  in
    lookup        `lookup.Lookup`                                                                        in
    entry_start   int64[n+1]                                                                             out
    out           (attribute int32[], label int32[]), room for all entries                               out
    ============  =====================================================================================  ===
    """
    first, stop = events
    name, kind, whole, part, text_stop, data = values
    out_attribute, out_label = out
    to = np.int64(0)
    for event in range(first.shape[0]):
        entry_start[event] = to
        for at in range(first[event], stop[event]):
            attribute = attribute_of[name[at]]
            if attribute < 0:
                continue
            if kind[at] == KIND_NUMBER:
                label = number_label(lookup.numbers, np.int64(attribute), whole[at], part[at])
            elif kind[at] == KIND_BOOLEAN:
                label = np.int64(FALSE_LABEL + (1 if whole[at] else 0))
            else:
                label = text_label(lookup.texts, np.int64(attribute), data, whole[at], text_stop[at])
            out_attribute[to] = attribute
            out_label[to] = label
            to += 1
        to = sort_event(out_attribute, out_label, entry_start[event], to)
    entry_start[first.shape[0]] = to
