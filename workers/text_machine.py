"""Machines of needles for text predicates, ready for the kernels (`workers.kernels.automaton`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.values import fold
from pubsub_cluster.shm.code_space import I8, U1, U8
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import automaton as kernels
from pubsub_cluster.workers.kernels._jit import Settled

_grow_tries = Settled(kernels.grow_tries)
_link_states = Settled(kernels.link_states)

FOLDED_MAX = 0x1F000
"""No code point from here on folds to another; `tests/test_workers_texts.py` looks at all."""

FILTERS_MAX = 256
"""Machines beyond this many share a filter that never skips: it takes memory of its own."""

_LETTERS = [bytes([letter]) for letter in b"abcdefgqhiklmnozprstuvwjxy"]
_CLASS_OF_REST = 30
_ANY_FOURTH = 0xFF

FILLED_SHARE = 0.6
"""Of the places of a table of edges, at most."""


class MachineNeedles(NamedTuple):
    """Needles of one machine.

    Attributes
    ----------
    is_folded : bool
    outputs : dict of bytes to list of int
        What each needle tells.
    """

    is_folded: bool
    outputs: dict[bytes, list[int]]


@cache
def folding() -> kernels.Folding:
    """Return the tables of `language.values.fold`, for kernels."""
    lower = np.arange(256, dtype=np.uint8)
    lower[0x41:0x5B] += 0x20
    code = np.arange(FOLDED_MAX, dtype=np.int32)
    for point in range(0x80, FOLDED_MAX):
        char = chr(point)
        folded = char.casefold()
        if folded != char:
            code[point] = ord(fold(char))
    pages = code.reshape(-1, 1 << kernels.PAGE_BITS)
    changed = (pages != np.arange(FOLDED_MAX, dtype=np.int32).reshape(pages.shape)).any(axis=1)
    page = np.full(len(pages), -1, np.int32)
    page[changed] = np.arange(int(changed.sum()), dtype=np.int32)
    return kernels.Folding(
        frozen(lower), frozen(_classes()), frozen(page), frozen(pages[changed].reshape(-1))
    )


def _classes() -> U1:
    """Return the class of each byte: letters without case, digits, some signs, and the rest.

    Classes whose three low bits are all set let any fourth character pass; they go to rare letters.
    """
    found = np.full(256, _CLASS_OF_REST, np.uint8)
    found[0x80:] = kernels.CLASS_OTHER
    for number, signs in enumerate((*_LETTERS, b"0123456789", b"\\", b"./-_:", b" \t\r\n\"'")):
        found[list(signs + signs.upper())] = number
    return found


def build_machines(machines: Sequence[MachineNeedles]) -> kernels.Machines:
    """Build the automata of all machines."""
    count = len(machines)
    needles = [needle for machine in machines for needle in machine.outputs]
    sizes = np.array([len(needle) for needle in needles], np.int64)
    offset = np.zeros(len(needles) + 1, np.int64)
    np.cumsum(sizes, out=offset[1:])
    counts = [len(machine.outputs) for machine in machines]
    machine = np.repeat(np.arange(count, dtype=np.int32), counts)
    data = np.frombuffer(b"".join(needles), np.uint8)
    edge_first, edge_shift = _edge_tables(np.bincount(machine, sizes, minlength=count))
    edges = (np.full(int(edge_first[-1]), ~np.uint64(0)), edge_first, edge_shift)
    state_max = count + int(offset[-1])
    parent, byte, depth, end, root = (
        np.empty(state_max, dtype) for dtype in (np.int32, np.uint8, np.int32, np.int32, np.int32)
    )
    entered = (frozen(data), frozen(offset), kernel_input(machine, np.int32))
    state_count = _grow_tries(entered, edges, (parent, byte, depth, end, root))
    trie = tuple(frozen(column[:state_count]) for column in (parent, byte, depth, end, root))
    order = np.argsort(depth[:state_count], kind="stable").astype(np.int32)
    failure = np.empty(2 * state_count, np.int32)
    shorter = np.empty(len(needles), np.int32)
    edges = (frozen(edges[0]), edge_first, edge_shift)
    _link_states(frozen(order), trie, edges, failure, shorter)
    outputs = [output for machine in machines for output in machine.outputs.values()]
    output_start = np.cumsum([0, *map(len, outputs)])
    begins_at, begins = _filters(machines, counts)
    return kernels.Machines(
        edges[0],
        edge_first,
        edge_shift,
        frozen(failure),
        frozen(shorter),
        begins_at,
        begins,
        kernel_input(np.array([machine.is_folded for machine in machines], np.uint8), np.uint8),
        kernel_input(output_start, np.int32),
        kernel_input(np.array([one for output in outputs for one in output], np.int32), np.int32),
    )


def _edge_tables(size_bytes: I8) -> tuple[I8, U8]:
    """Return where the table of each machine starts, and how far its hashes are shifted."""
    bits = np.ceil(np.log2(np.maximum(size_bytes / FILLED_SHARE, 4.0))).astype(np.int64)
    first = np.zeros(len(bits) + 1, np.int64)
    np.cumsum(np.int64(1) << bits, out=first[1:])
    return frozen(first), frozen((64 - bits).astype(np.uint64))


def _filters(machines: Sequence[MachineNeedles], counts: list[int]) -> tuple[I8, U1]:
    """Return for each machine where its filter is, and the filters; the first lets everything pass."""
    own = np.argsort(-np.array(counts, np.int64), kind="stable")[:FILTERS_MAX]
    begins_at = np.zeros(len(machines), np.int64)
    begins_at[own] = np.arange(1, len(own) + 1) * kernels.FILTER_SIZE
    begins = np.zeros((1 + len(own), kernels.FILTER_SIZE), np.uint8)
    begins[0] = _ANY_FOURTH
    shape = (1 << kernels.CLASS_BITS,) * 3
    class_of = folding().class_of
    other = kernels.CLASS_OTHER
    for number, machine in enumerate(own.tolist(), 1):
        mine = begins[number].reshape(shape)
        mine[other], mine[:, other], mine[:, :, other] = (_ANY_FOURTH,) * 3
        for needle in {needle[:4] for needle in machines[machine].outputs}:
            # One of fewer than three characters leaves the rest open.
            classes = class_of[list(needle)].tolist()
            mine[tuple(classes[:3])] |= 0x80 | 1 << (classes[3] & 7) if len(classes) > 3 else _ANY_FOURTH
    return frozen(begins_at), frozen(begins.reshape(-1))


def told_stamps(machines: kernels.Machines) -> I8:
    """Return the stamps of needles that none has been told."""
    return np.zeros(len(machines.shorter), np.int64)
