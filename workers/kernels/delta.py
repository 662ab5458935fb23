"""Matching against the delta: rows that no generation holds yet, as bitmaps over a block of events.

A predicate is a bitmap with one bit per event, filled from the events of the label slots that its intervals
cover, so that cost follows hits; several values of an attribute need no care, because some value inside
sets the bit. A literal is a bitmap or its complement, a row a postfix program over bitmap words. Results
come as (event, row) pairs and are merged with those of the layout by counting.

Predicate 0 of a part is constant true. Bits beyond the last event are garbage in complements and are never
read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel

WORD_BITS = 64
NO_ONES = np.uint64(0)
ALL_ONES = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


@kernel
def sort_by_slot(entries: Any, label_start: Any, slot_stop: Any, slot_event: Any) -> None:
    """List the events of each label slot.

    ============  ====================================================================================  ===
    entries       (event int32[k], attribute int32[k], label int32[k])                                  in
    label_start   int64[A+1]                                                                            in
    slot_stop     int64[L+1], zeros; afterwards slot s has ``slot_event[slot_stop[s]:slot_stop[s+1]]``  out
    slot_event    int32[k]                                                                              out
    ============  ====================================================================================  ===
    """
    event, attribute, label = entries
    for entry in range(event.shape[0]):
        slot_stop[label_start[attribute[entry]] + label[entry] + 1] += 1
    total = 0
    for slot in range(slot_stop.shape[0]):
        count = slot_stop[slot]
        slot_stop[slot] = total
        total += count
    for entry in range(event.shape[0]):
        slot = label_start[attribute[entry]] + label[entry] + 1
        slot_event[slot_stop[slot]] = event[entry]
        slot_stop[slot] += 1


@kernel
def fill_bitmaps(intervals: Any, slot_stop: Any, slot_event: Any, bits: Any, bitmap: Any) -> None:
    """Fill the bitmap of every predicate.

    ===========  ===================================================================================  ======
    intervals    (predicate int32[i], first int64[i], last int64[i]): label slots, both ends closed   in
    slot_stop    int64[L+1], from `sort_by_slot`                                                      in
    slot_event   int32[k]                                                                             in
    bits         (event int32[b], predicate int32[b]): truth of bit predicates                        in
    bitmap       uint64[P, words], zeros except row 0                                                 in/out
    ===========  ===================================================================================  ======
    """
    predicate, first, last = intervals
    one = np.uint64(1)
    for interval in range(predicate.shape[0]):
        if last[interval] < first[interval]:
            continue
        row = predicate[interval]
        for at in range(slot_stop[first[interval]], slot_stop[last[interval] + 1]):
            event = slot_event[at]
            bitmap[row, event >> 6] |= one << np.uint64(event & 63)
    bit_event, bit_predicate = bits
    for at in range(bit_event.shape[0]):
        event = bit_event[at]
        bitmap[bit_predicate[at], event >> 6] |= one << np.uint64(event & 63)


@kernel
def row_bitmap(codes: Any, first: Any, stop: Any, bitmap: Any, stack: Any) -> Any:
    """Evaluate one row's program into ``stack[0]``; return whether any of its words may be set."""
    words = bitmap.shape[1]
    depth = 0
    for at in range(first, stop):
        code = codes[at]
        if code >= 0:
            flip = ALL_ONES if code & 1 else NO_ONES
            for word in range(words):
                stack[depth, word] = bitmap[code >> 1, word] ^ flip
            depth += 1
            continue
        conjunction = (code & 1) == 0
        operand_count = (-code) >> 1
        depth -= operand_count
        for operand in range(depth + 1, depth + operand_count):
            for word in range(words):
                if conjunction:
                    stack[depth, word] &= stack[operand, word]
                else:
                    stack[depth, word] |= stack[operand, word]
        depth += 1
    found = np.uint64(0)
    for word in range(words):
        found |= stack[0, word]
    return found != np.uint64(0)


@kernel
def match_rows(programs: Any, bounds: Any, bitmap: Any, stack: Any, out: Any) -> Any:
    """Evaluate the rows of a delta part on one block of events.

    ========  ======================================================================================  ======
    programs  (start int64[r+1], code int32[], row int32[r]): catalogue rows, ascending               in
    bounds    (first row of the part to evaluate, catalogue row to stop before, event count,          in
              event of the block's first bit, pairs so far)
    bitmap    uint64[P, words]                                                                        in
    stack     uint64[longest program, words]                                                          out
    out       (event int32[], row int32[])                                                            out
    ========  ======================================================================================  ======

    Returns
    -------
    tuple of (status, row, count)
        OK, or OVERFLOW and the row of the part to go on from; and the pairs so far.
    """
    start, code, catalogue_row = programs
    first, row_stop, event_count, first_event, count = bounds
    out_event, out_row = out
    words = bitmap.shape[1]
    for row in range(first, catalogue_row.shape[0]):
        if catalogue_row[row] >= row_stop:
            break
        if not row_bitmap(code, start[row], start[row + 1], bitmap, stack):
            continue
        if count + event_count > out_event.shape[0]:
            return OVERFLOW, row, count
        for word in range(words):
            left = stack[0, word]
            event = word * WORD_BITS
            while left != np.uint64(0) and event < event_count:
                if left & np.uint64(0xFF) == np.uint64(0):
                    left >>= np.uint64(8)
                    event += 8
                    continue
                if left & np.uint64(1) != np.uint64(0):
                    out_event[count] = first_event + event
                    out_row[count] = catalogue_row[row]
                    count += 1
                left >>= np.uint64(1)
                event += 1
    return OK, catalogue_row.shape[0], count


@kernel
def merge_pairs(base: Any, row_catalogue: Any, pairs: Any, out_start: Any, out_row: Any) -> None:
    """Merge the layout's rows, as catalogue rows, and the delta's pairs into one event-major list.

    =============  ==================================================================  ===
    base           (start int64[n+1], layout row int32[])                              in
    row_catalogue  int32[R]                                                            in
    pairs          (event int32[m], catalogue row int32[m])                            in
    out_start      int64[n+1], zeros                                                   out
    out_row        int32[start[n] + m]                                                 out
    =============  ==================================================================  ===
    """
    start, layout_row = base
    pair_event, pair_row = pairs
    event_count = out_start.shape[0] - 1
    for pair in range(pair_event.shape[0]):
        out_start[pair_event[pair]] += 1
    total = 0
    for event in range(event_count):
        count = out_start[event] + start[event + 1] - start[event]
        for at in range(start[event], start[event + 1]):
            out_row[total + at - start[event]] = row_catalogue[layout_row[at]]
        out_start[event] = total + start[event + 1] - start[event]
        total += count
    for pair in range(pair_event.shape[0]):
        out_row[out_start[pair_event[pair]]] = pair_row[pair]
        out_start[pair_event[pair]] += 1
    for event in range(event_count, 0, -1):
        out_start[event] = out_start[event - 1]
    out_start[0] = 0
