"""Texts to the bits that they set: from a table of the texts seen before, else by one pass over the text.

Texts are compared in full: the hash only says where to look. What the needles of a text cannot decide alone
is listed for the slow way, together with what they told.

An *output* of a machine is a bit, or ``~bit`` where a predicate's own test has the last word.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel, leaf
from pubsub_cluster.workers.kernels.automaton import search_text
from pubsub_cluster.workers.kernels.text import MIX_A, hash_of, same_tails, word_of

TEXT_COUNT, HEAP_USED, STAMP = 0, 1, 2
NO_GROUP, NO_MACHINE = -1, -1


class Groups(NamedTuple):
    """The text predicates of G attributes; the last group may be that of any attribute."""

    machine: Any  # int32[2G], folded and exact, or NO_MACHINE
    always_start: Any  # int32[G+1]
    always: Any  # int32[], bits that every text sets
    is_slow: Any  # uint8[G], whether some test is made on every text
    known_max: Any  # int64[G], size of the largest text that is looked up, -1 for none
    kept_max: Any  # int64[G], size of the largest text that is kept when nothing was prompted
    output_max: Any  # int64[G]


class TextTable(NamedTuple):
    """Texts seen before, m at most, and the bits of each; a power of two of slots, at least 2m."""

    slot: Any  # int32[], number of a text or -1
    group: Any  # int32[m]
    word: Any  # uint64[m]
    start: Any  # int64[m], in heap
    stop: Any  # int64[m]
    heap: Any  # uint8[]
    bit_start: Any  # int64[m+1]
    bit: Any  # int32[]
    state: Any  # int64[3]: texts, bytes of the heap used, last stamp given to a text


@leaf
def find_text(table: Any, text: Any, group: Any, word: Any, seed: Any) -> Any:
    """Return the slot where a text of a group is or would be, given its word."""
    data, start, stop = text
    size = stop - start
    mask = table.slot.shape[0] - 1
    own_seed = seed ^ (np.uint64(group) * MIX_A)
    at = np.int64(hash_of(data, start, stop, word, own_seed) >> np.uint64(33)) & mask
    number = table.slot[at]
    while number >= 0:
        if (
            table.word[number] == word
            and table.group[number] == group
            and table.stop[number] - table.start[number] == size
            and same_tails(table.heap, table.start[number], data, start, size)
        ):
            break
        at = (at + 1) & mask
        number = table.slot[at]
    return at


@leaf
def has_room(table: Any, size: Any, bit_count: Any) -> Any:
    """Say whether one more text fits."""
    count = table.state[TEXT_COUNT]
    return (
        count < table.word.shape[0]
        and table.state[HEAP_USED] + size <= table.heap.shape[0]
        and table.bit_start[count] + bit_count <= table.bit.shape[0]
    )


@leaf
def keep_text(table: Any, text: Any, group: Any, place: Any, word: Any, found: Any) -> None:
    """Enter a text, for which there is room, in slot `place`, with `found` = (bit int32[], from, to)."""
    data, start, stop = text
    bit, first, last = found
    count, used = table.state[TEXT_COUNT], table.state[HEAP_USED]
    for at in range(start, stop):
        table.heap[used + at - start] = data[at]
    table.slot[place] = count
    table.group[count] = group
    table.word[count] = word
    table.start[count] = used
    table.stop[count] = used + stop - start
    bits = table.bit_start[count]
    for at in range(first, last):
        table.bit[bits + at - first] = bit[at]
    table.bit_start[count + 1] = bits + last - first
    table.state[TEXT_COUNT] = count + 1
    table.state[HEAP_USED] = used + stop - start


@kernel
def keep_texts(table: Any, texts: Any, bits: Any, seed: Any) -> Any:
    """Enter texts that are not in the table.

    ========  ============================================================  ======
    table     TextTable                                                     in/out
    texts     (data uint8[], offset int64[k+1], group int32[k])             in
    bits      (bit int32[], bit_offset int64[k+1])                          in
    seed      uint64                                                        in
    ========  ============================================================  ======

    Returns
    -------
    int
        OVERFLOW if there is no room, with some entered; else OK.
    """
    data, offset, group = texts
    bit, bit_offset = bits
    for at in range(group.shape[0]):
        text = data, offset[at], offset[at + 1]
        word = word_of(data, offset[at], offset[at + 1])
        own_group = np.int64(group[at])
        place = find_text(table, text, own_group, word, seed)
        if table.slot[place] < 0:
            if not has_room(table, offset[at + 1] - offset[at], bit_offset[at + 1] - bit_offset[at]):
                return OVERFLOW
            keep_text(table, text, own_group, place, word, (bit, bit_offset[at], bit_offset[at + 1]))
    return OK


@kernel
def find_bits(
    rows: Any, groups: Any, machines: Any, folding: Any, table: Any, scalars: Any, out: Any, slow: Any
) -> Any:
    """Find the bits of the texts from a row on.

    =========  ===============================================================================  ======
    rows       (event int32[k], group int32[k] or NO_GROUP, start int64[k], stop int64[k],      in
               data uint8[])
    groups     Groups                                                                           in
    machines   `automaton.Machines`                                                             in
    folding    `automaton.Folding`                                                              in
    table      TextTable                                                                        in/out
    scalars    (first row, its turn, bits written, slow rows written, group of any attribute    in
               or NO_GROUP, seed uint64)
    out        (event int32[], bit int32[]): the bits, repeats possible                         out
    slow       (told int64[P], row int32[2k], group int32[2k], span int64[4k]): stamps of       in/out
               needles; rows for the slow way, whose outputs are those from `span` to `span` in
               `out`
    =========  ===============================================================================  ======

    Each row has two turns, as a text of its attribute and as one of any.

    Returns
    -------
    tuple of (int, int, int, int, int)
        Status; row and turn to go on with, bits and slow rows written. OVERFLOW: there is no room for the
        outputs of the group of the row, or for one more text of its size in the table.
    """
    event, row_group, start, stop, data = rows
    first, turn, count, slow_count, any_group, seed = scalars
    out_event, out_bit = out
    told, slow_row, slow_group, span = slow
    count, slow_count = np.int64(count), np.int64(slow_count)
    turn = np.int64(turn)
    for row in range(first, event.shape[0]):
        text = data, start[row], stop[row]
        size = stop[row] - start[row]
        while turn < 2:
            group = np.int64(row_group[row] if turn == 0 else any_group)
            turn += 1
            if group == NO_GROUP:
                continue
            if count + groups.output_max[group] > out_bit.shape[0]:
                return OVERFLOW, row, turn - 1, count, slow_count
            is_known = size <= groups.known_max[group]
            place, word = np.int64(0), np.uint64(0)
            if is_known:
                word = word_of(data, start[row], stop[row])
                place = find_text(table, text, group, word, seed)
                number = table.slot[place]
                if number >= 0:
                    for at in range(table.bit_start[number], table.bit_start[number + 1]):
                        out_event[count] = event[row]
                        out_bit[count] = table.bit[at]
                        count += 1
                    continue
                if not has_room(table, size, groups.output_max[group]):
                    return OVERFLOW, row, turn - 1, count, slow_count
            before = count
            for at in range(groups.always_start[group], groups.always_start[group + 1]):
                out_bit[count] = groups.always[at]
                count += 1
            for kind in range(2):
                machine = groups.machine[2 * group + kind]
                if machine != NO_MACHINE:
                    table.state[STAMP] += 1
                    stamps = told, table.state[STAMP]
                    count = search_text(text, machine, machines, folding, stamps, (out_bit, count))
            is_slow = groups.is_slow[group] != 0
            for at in range(before, count):
                out_event[at] = event[row]
                is_slow |= out_bit[at] < 0
            if is_slow:
                slow_row[slow_count], slow_group[slow_count] = row, group
                span[2 * slow_count], span[2 * slow_count + 1] = before, count
                slow_count += 1
            elif size <= groups.kept_max[group]:
                keep_text(table, text, group, place, word, (out_bit, before, count))
        turn = np.int64(0)
    return OK, np.int64(event.shape[0]), np.int64(0), count, slow_count


@kernel
def arrange_bits(pairs: Any, seen: Any, stamp: Any, bit_start: Any, bit: Any) -> Any:
    """Sort bits by event and drop repeats, and the outputs that are no bits.

    =========  ==================================================================  ======
    pairs      (event int32[k], bit int32[k]); negative bits are left out          in
    seen       int64[B], the last stamp of each bit                                in/out
    stamp      int, above all stamps so far; ``stamp + event`` are used             in
    bit_start  int64[n+1], zeros                                                   in/out
    bit        int32[k]                                                            out
    =========  ==================================================================  ======

    Returns
    -------
    int
        Bits kept: ``bit_start[n]``.
    """
    event, value = pairs
    event_count = bit_start.shape[0] - 1
    for at in range(event.shape[0]):
        if value[at] >= 0:
            bit_start[event[at] + 1] += 1
    for at in range(event_count):
        bit_start[at + 1] += bit_start[at]
    for at in range(event.shape[0]):
        if value[at] >= 0:
            bit[bit_start[event[at]]] = value[at]
            bit_start[event[at]] += 1
    # Each start is now where its event stops.
    kept, first = np.int64(0), np.int64(0)
    for number in range(event_count):
        last = bit_start[number]
        bit_start[number] = kept
        for at in range(first, last):
            if seen[bit[at]] != stamp + number:
                seen[bit[at]] = stamp + number
                bit[kept] = bit[at]
                kept += 1
        first = last
    bit_start[event_count] = kept
    return kept
