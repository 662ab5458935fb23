"""Many needles in one pass over a text: automata of Aho and Corasick, several in one set of arrays.

A *machine* is an automaton over the needles of one attribute, folded or exact; state m is the root of machine
m. The edges of a machine are in an open hash table, so a state costs what it has and building takes time
linear in the needles. In the root, where nothing has begun, the search skips ahead to the next four
characters with which some needle may begin, by a table of classes of characters. A machine that folds does so
character by character.

A needle that was told for this text is known by its stamp, and so are then all shorter ones that end where it
ends: however they overlap, a text takes time linear in its bytes and in what it is told.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.tables import Index
from pubsub_cluster.workers.kernels.text import MIX_A

CLASS_BITS = 5
FILTER_SIZE = 1 << 3 * CLASS_BITS
CLASS_OTHER = (1 << CLASS_BITS) - 1
"""Class of the bytes of characters beyond ASCII: the search never skips them; as the fourth they pass."""

START_BYTE, STOP_BYTE = 0xFE, 0xFF
PAGE_BITS = 8
NO_STATE, NO_NEEDLE = -1, -1

_STATE_BITS = np.uint64(28)
_STATE_MASK = np.uint64((1 << 28) - 1)
_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONCE, _TWICE = Index(CLASS_BITS), Index(2 * CLASS_BITS)
_ONE, _TWO, _THREE, _FOUR = Index(1), Index(2), Index(3), Index(4)
_FIVE, _SIX = Index(5), Index(6)
_BYTE_BITS = np.uint64(8)


class Folding(NamedTuple):
    """Folding of characters, and their classes."""

    lower: Any  # uint8[256], of bytes below 0x80
    class_of: Any  # uint8[256]
    page: Any  # int32[], page of each 256 code points, -1 where all stay
    folded: Any  # int32[], code points, page by page


class Machines(NamedTuple):
    """M machines with S states and P needles."""

    edge: Any  # uint64[], (state << 8 | byte) << 28 | target, or all ones
    edge_first: Any  # int64[M+1], the table of a machine, a power of two of places
    edge_shift: Any  # uint64[M], 64 - log2 of its size
    failure: Any  # int32[2S]: state to go on from; needle that ends here, by failures too, or -1
    shorter: Any  # int32[P], the next needle that ends where this one ends, or -1
    begins_at: Any  # int64[M], the part of `begins` of a machine
    begins: Any  # uint8[], FILTER_SIZE each, by three classes: bits of classes & 7 that may come fourth
    folds: Any  # uint8[M]
    output_start: Any  # int32[P+1]
    output: Any  # int32[], what a needle tells


@leaf
def edge_place(edge: Any, table: Any, state: Any, byte: Any) -> Any:
    """Return the place of the edge from `state` by `byte`, or the free place where it would be.

    `table` = (first place, last place, shift) of the machine.
    """
    first, last, shift = table
    key = (np.uint64(state) << _BYTE_BITS) | np.uint64(byte)
    at = Index(first) + Index((key * MIX_A) >> shift)
    while edge[at] != _FREE and (edge[at] >> _STATE_BITS) != key:
        at = Index(first) if at == Index(last) else at + _ONE
    return at


@leaf
def next_state(edge: Any, table: Any, state: Any, byte: Any) -> Any:
    """Return the target of an edge, or NO_STATE."""
    found = edge[edge_place(edge, table, state, byte)]
    return np.int64(NO_STATE) if found == _FREE else np.int64(found & _STATE_MASK)


@leaf
def table_of(machine: Any, edge_first: Any, edge_shift: Any) -> Any:
    """Return (first place, last place, shift) of the edges of a machine."""
    return edge_first[machine], edge_first[machine + 1] - 1, edge_shift[machine]


@kernel
def grow_tries(needles: Any, edges: Any, trie: Any) -> Any:
    """Enter needles into tries, one trie per machine.

    ========  ===============================================================================  ======
    needles   (data uint8[], offset int64[P+1], machine int32[P]), distinct within a machine   in
    edges     (edge, edge_first, edge_shift) of Machines, each table with more places than      in/out
              its machine has bytes
    trie      (parent int32[S], byte uint8[S], depth int32[S], end int32[S], root int32[S])    out
    ========  ===============================================================================  ======

    `end` is the needle that ends in a state, or -1.

    Returns
    -------
    int
        The number of states.
    """
    data, offset, machine = needles
    edge, edge_first, edge_shift = edges
    parent, byte_of, depth, end, root = trie
    count = np.int64(edge_shift.shape[0])
    for at in range(count):
        parent[at], byte_of[at], depth[at], end[at], root[at] = -1, 0, 0, NO_NEEDLE, at
    for needle in range(machine.shape[0]):
        first = np.int64(machine[needle])
        state = first
        table = table_of(first, edge_first, edge_shift)
        for at in range(offset[needle], offset[needle + 1]):
            byte = np.int64(data[at])
            place = edge_place(edge, table, state, byte)
            if edge[place] == _FREE:
                key = (np.uint64(state) << _BYTE_BITS) | np.uint64(byte)
                edge[place] = (key << _STATE_BITS) | np.uint64(count)
                parent[count], byte_of[count], depth[count] = state, byte, depth[state] + 1
                end[count], root[count] = NO_NEEDLE, first
                count += 1
            state = np.int64(edge[place] & _STATE_MASK)
        end[state] = needle
    return count


@kernel
def link_states(order: Any, trie: Any, edges: Any, failure: Any, shorter: Any) -> None:
    """Set where each state fails to, and which needles end in it.

    ========  =========================================================  ===
    order     int32[S], states by depth                                  in
    trie      as `grow_tries` left it                                    in
    edges     as `grow_tries` left them                                  in
    failure   int32[2S]                                                  out
    shorter   int32[P]                                                   out
    ========  =========================================================  ===
    """
    parent, byte_of, depth, end, root = trie
    edge, edge_first, edge_shift = edges
    for at in range(order.shape[0]):
        state = order[at]
        found = np.int64(root[state])
        if depth[state] == 0:
            failure[2 * state], failure[2 * state + 1] = state, NO_NEEDLE
            continue
        if depth[state] > 1:
            table = table_of(np.int64(root[state]), edge_first, edge_shift)
            candidate = np.int64(failure[2 * parent[state]])
            while True:
                target = next_state(edge, table, candidate, np.int64(byte_of[state]))
                if target != NO_STATE:
                    found = target
                    break
                if depth[candidate] == 0:
                    break
                candidate = np.int64(failure[2 * candidate])
        failure[2 * state] = found
        inherited = failure[2 * found + 1]
        if end[state] == NO_NEEDLE:
            failure[2 * state + 1] = inherited
        else:
            failure[2 * state + 1] = end[state]
            shorter[end[state]] = inherited


@leaf
def folded_char(data: Any, at: Any, lead: Any, folding: Any) -> Any:
    """Return (chunk, size, next): the folded character at `at` as UTF-8, first byte lowest.

    It is one beyond ASCII, `lead` its first byte.
    """
    second = np.int64(data[at + 1]) & 0x3F
    if lead < 0xE0:
        code = ((lead & 0x1F) << 6) | second
        stop = at + 2
    elif lead < 0xF0:
        code = ((lead & 0x0F) << 12) | (second << 6) | (np.int64(data[at + 2]) & 0x3F)
        stop = at + 3
    else:
        code = ((lead & 0x07) << 18) | (second << 12) | ((np.int64(data[at + 2]) & 0x3F) << 6)
        code |= np.int64(data[at + 3]) & 0x3F
        stop = at + 4
    number = code >> PAGE_BITS
    if number < folding.page.shape[0] and folding.page[number] >= 0:
        code = np.int64(folding.folded[(np.int64(folding.page[number]) << PAGE_BITS) | (code & 0xFF)])
    if code < 0x80:
        return code, np.int64(1), stop
    lowest = 0x80 | code & 0x3F
    if code < 0x800:
        return (0xC0 | code >> 6) | lowest << 8, np.int64(2), stop
    middle = 0x80 | code >> 6 & 0x3F
    if code < 0x10000:
        return (0xE0 | code >> 12) | middle << 8 | lowest << 16, np.int64(3), stop
    chunk = (0xF0 | code >> 18) | (0x80 | code >> 12 & 0x3F) << 8
    return chunk | middle << 16 | lowest << 24, np.int64(4), stop


@leaf
def passes(mask: Any, class_after: Any) -> Any:
    """Say whether some needle that begins so may go on with a character of this class."""
    return (np.int64(mask) >> (np.int64(class_after) & 7)) & 1 != 0


@leaf
def skip_ahead(data: Any, at: Any, stop: Any, base: Any, begins: Any, class_of: Any) -> Any:
    """Return the next place from `at` on where a needle may begin; the last two bytes always are such.

    Four places at a time: looking at them one after the other takes three times as long.
    """
    here, last, begin = Index(at), Index(stop), Index(base)
    if here + _TWO >= last:
        return at
    first, second = Index(class_of[data[here]]), Index(class_of[data[here + _ONE]])
    while here + _SIX < last:
        third = Index(class_of[data[here + _TWO]])
        fourth = Index(class_of[data[here + _THREE]])
        fifth = Index(class_of[data[here + _FOUR]])
        sixth = Index(class_of[data[here + _FIVE]])
        at_0 = begins[begin + (first << _TWICE | second << _ONCE | third)]
        at_1 = begins[begin + (second << _TWICE | third << _ONCE | fourth)]
        at_2 = begins[begin + (third << _TWICE | fourth << _ONCE | fifth)]
        at_3 = begins[begin + (fourth << _TWICE | fifth << _ONCE | sixth)]
        if (at_0 | at_1 | at_2 | at_3) != 0:
            if passes(at_0, fourth):
                return np.int64(here)
            if passes(at_1, fifth):
                return np.int64(here + _ONE)
            if passes(at_2, sixth):
                return np.int64(here + _TWO)
            if passes(at_3, Index(class_of[data[here + _SIX]])):
                return np.int64(here + _THREE)
        first, second = fifth, sixth
        here += _FOUR
    while here + _TWO < last:
        third = Index(class_of[data[here + _TWO]])
        if begins[begin + (first << _TWICE | second << _ONCE | third)] != 0:
            break
        first, second = second, third
        here += _ONE
    return np.int64(here)


@leaf
def search_text(text: Any, machine: Any, machines: Any, folding: Any, stamps: Any, out: Any) -> Any:
    """Append what the needles found in a text tell to `out` = (output int32[], count so far).

    =========  ==============================================================================  ======
    text       (data uint8[], start, stop), valid UTF-8                                        in
    machine    int                                                                             in
    machines   Machines                                                                        in
    folding    Folding                                                                         in
    stamps     (told int64[P], stamp): a needle with this stamp has been told                  in/out
    out        with room for all outputs of the machine                                        out
    =========  ==============================================================================  ======

    Returns
    -------
    int
        The new count.
    """
    data, start, stop = text
    told, stamp = stamps
    found, count = out
    edge, failure = machines.edge, machines.failure
    table = table_of(np.int64(machine), machines.edge_first, machines.edge_shift)
    root, is_folding = np.int64(machine), machines.folds[machine] != 0
    state, at = np.int64(machine), np.int64(start)
    chunk, size, is_last = np.int64(START_BYTE), np.int64(1), False
    while True:
        for _ in range(size):
            byte = chunk & 0xFF
            chunk >>= 8
            while True:
                target = next_state(edge, table, state, byte)
                if target != NO_STATE or state == root:
                    break
                state = np.int64(failure[2 * state])
            state = root if target == NO_STATE else target
            needle = failure[2 * state + 1]
            while needle != NO_NEEDLE and told[needle] != stamp:
                told[needle] = stamp
                for item in range(machines.output_start[needle], machines.output_start[needle + 1]):
                    found[count] = machines.output[item]
                    count += 1
                needle = machines.shorter[needle]
        if is_last:
            break
        if state == root:
            at = skip_ahead(data, at, stop, machines.begins_at[machine], machines.begins, folding.class_of)
        size = np.int64(1)
        if at >= stop:
            chunk, is_last = np.int64(STOP_BYTE), True
            continue
        chunk = np.int64(data[at])
        if not is_folding:
            at += 1
        elif chunk < 0x80:
            chunk = np.int64(folding.lower[chunk])
            at += 1
        else:
            chunk, size, at = folded_char(data, at, chunk, folding)
    return count
