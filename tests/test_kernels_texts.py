"""The kernels that find the bits of texts against `workers.kernels.reference_text`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels import automaton, bits, reference_text
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW
from pubsub_cluster.workers.text_cache import SEED, TextCache
from pubsub_cluster.workers.text_machine import MachineNeedles, build_machines, folding, told_stamps
from pubsub_cluster.workers.text_search import TextRows, TextSearch

# Folded letters of one to four bytes, those that change their size when folded, and signs.
LETTERS = "abAK\u212aéÉ\u017fẞ€😀𐐀𐐨\\x0 "
words = st.text(st.sampled_from(LETTERS), min_size=1, max_size=4)
texts = st.text(st.sampled_from(LETTERS), max_size=20)
outputs = st.dictionaries(words, st.lists(st.integers(0, 5), min_size=1, max_size=2), min_size=1, max_size=8)
FREE = ~np.uint64(0)


def needles_of(found: list[tuple[bool, dict[str, list[int]]]]) -> list[MachineNeedles]:
    """Return machines whose needles are folded as they must be, some bound to an end of the text."""
    ends = (b"", b""), (b"\xfe", b""), (b"", b"\xff"), (b"\xfe", b"\xff")
    machines = []
    for folds, told in found:
        needles: dict[bytes, list[int]] = {}
        for number, (word, output) in enumerate(told.items()):
            before, after = ends[number % 4]
            needles[before + (word.lower() if folds else word).encode() + after] = output
        machines.append(MachineNeedles(folds, needles))
    return machines


machine_lists = st.lists(st.tuples(st.booleans(), outputs), min_size=1, max_size=3).map(needles_of)


@settings(max_examples=60)
@given(machines=machine_lists)
def test_tries_and_links(machines: list[MachineNeedles]) -> None:
    """States, the edges between them, where they fail to and what ends in them."""
    needles = [needle for machine in machines for needle in machine.outputs]
    numbers = np.repeat(np.arange(len(machines)), [len(m.outputs) for m in machines]).astype(np.int32)
    offset = np.cumsum([0, *map(len, needles)]).astype(np.int64)
    entered = frozen(np.frombuffer(b"".join(needles), np.uint8)), frozen(offset), frozen(numbers)
    size = 1 << int(offset[-1] + 1).bit_length()
    first = frozen(np.arange(len(machines) + 1, dtype=np.int64) * size)
    shift = frozen(np.full(len(machines), 64 - (size.bit_length() - 1), np.uint64))
    results = []
    for run in (reference_text, automaton):
        kept: list[Any] = []
        edge = np.full(int(first[-1]), FREE)
        state_max = len(machines) + int(offset[-1])
        trie = tuple(np.zeros(state_max, kind) for kind in (np.int32, np.uint8, np.int32, np.int32, np.int32))
        count = run.grow_tries(entered, (edge, first, shift), trie)
        trie = tuple(frozen(column[:count].copy()) for column in trie)
        order = frozen(np.argsort(trie[2], kind="stable").astype(np.int32))
        failure, shorter = np.full(2 * count, -2, np.int32), np.full(len(needles), -2, np.int32)
        run.link_states(order, trie, (frozen(edge), first, shift), failure, shorter)
        kept = [column.tolist() for column in (*trie, failure, shorter)]
        results.append((count, kept))
    assert results[0] == results[1]
    states = zip(range(count), *kept[:2], strict=True)
    expected = {(parent << 8 | byte) << 28 | state for state, parent, byte in states if parent >= 0}
    assert set(edge[edge != FREE].tolist()) == expected


def fresh_table() -> bits.TextTable:
    """Return a table with room for a few texts."""
    table = TextCache().table
    small = [np.zeros(30, column.dtype) for column in (table.group, table.word, table.start, table.stop)]
    slots = np.full(64, -1, np.int32)
    sized = table._replace(slot=slots, group=small[0], word=small[1], start=small[2], stop=small[3])
    return sized._replace(
        heap=np.zeros(200, np.uint8),
        bit_start=np.zeros(31, np.int64),
        bit=np.zeros(400, np.int32),
        state=np.zeros(3, np.int64),
    )


def kept_of(table: bits.TextTable) -> list[Any]:
    """Return what a table holds, but where a text is looked for."""
    kept = [table.group, table.start, table.stop, table.heap, table.bit_start, table.bit, table.state]
    return [column.tolist() for column in kept]


def predicate_of(operator: str, attribute: str | None, word: str, folds: bool) -> Predicate:
    """Return a predicate on one text."""
    constants = ((ValueKind.TEXT, word.encode()),)
    is_equal = operator in ("=", "!=")
    return Predicate(
        PredicateKind.TEXT,
        attribute or ("a" if is_equal else None),
        constants=constants,
        text_operator=operator,
        ignore_case=folds or is_equal,
    )


predicates = st.builds(
    predicate_of,
    st.sampled_from(("contains", "prefix", "suffix", "=", "!=", "like")),
    st.sampled_from(("a", "b", None)),
    words.filter(lambda word: "\\" not in word),
    st.booleans(),
)


@settings(max_examples=80)
@given(
    held=st.lists(predicates, min_size=1, max_size=12),
    found=st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1), texts), max_size=8),
    room=st.integers(0, 6),
)
def test_find_bits(held: list[Predicate], found: list[tuple[int, int, str]], room: int) -> None:
    """The same bits in the same order, rows for the slow way, texts kept, and places to go on from."""
    search = TextSearch(list(enumerate(held)))
    encoded = [text.encode() for _, _, text in found]
    stop = np.cumsum([len(text) for text in encoded]).astype(np.int64)
    start = stop - np.array([len(text) for text in encoded], np.int64)
    groups = np.array([min(group, len(search.names) - 1) for _, group, _ in found], np.int32)
    event = np.array([event for event, _, _ in found], np.int32)
    data = frozen(np.frombuffer(b"".join(encoded), np.uint8))
    rows = TextRows(frozen(event), frozen(groups), frozen(start), frozen(stop), data)
    results = [bits_found(run, search, rows, room) for run in (reference_text, bits)]
    assert results[0] == results[1]


def bits_found(run: ModuleType, search: TextSearch, rows: TextRows, room: int) -> list[Any]:
    """Return all that a run over rows leaves behind, with more room each time that it is short of it."""
    table, row_count = fresh_table(), len(rows.event)
    told = told_stamps(search._machines)
    slow = (told, *(np.full(times * row_count, -1, np.int32) for times in (2, 2)))
    spans = np.full(4 * row_count, -1, np.int64)
    out = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
    steps: list[Any] = []
    at = (0, 0, 0, 0)
    while True:
        scalars = (*at, search._any_group, SEED)
        status, *rest = run.find_bits(
            rows, search._groups, search._machines, folding(), table, scalars, out, (*slow, spans)
        )
        at = tuple(int(number) for number in rest)
        steps.append((int(status), *at))
        if status == OK:
            break
        assert status == OVERFLOW
        wider = np.full(search._output_max, -1, np.int32)
        if at[2] + search._output_max > len(out[0]):
            out = np.concatenate((out[0], wider)), np.concatenate((out[1], wider))
        else:
            table = fresh_table()
    told_bits = [column[: at[2]].tolist() for column in out]
    return [steps, told_bits, *(column.tolist() for column in (*slow, spans)), kept_of(table)]


@settings(max_examples=60)
@given(
    entered=st.lists(
        st.tuples(st.integers(0, 1), texts, st.lists(st.integers(0, 30), max_size=12)), max_size=40
    )
)
def test_keep_texts(entered: list[tuple[int, str, list[int]]]) -> None:
    """Repeats are left out; a full table says so."""
    encoded = [text.encode() for _, text, _ in entered]
    found = [
        frozen(np.frombuffer(b"".join(encoded), np.uint8)),
        frozen(np.cumsum([0, *map(len, encoded)]).astype(np.int64)),
        frozen(np.array([group for group, _, _ in entered], np.int32)),
    ]
    bit = np.array([one for *_, told in entered for one in told], np.int32)
    offset = frozen(np.cumsum([0, *(len(told) for *_, told in entered)]).astype(np.int64))
    results = []
    for run in (reference_text, bits):
        table = fresh_table()
        status = run.keep_texts(table, tuple(found), (bit, offset), SEED)
        results.append((int(status), kept_of(table)))
    assert results[0] == results[1]


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 6)), max_size=30))
def test_arrange_bits(pairs: list[tuple[int, int]]) -> None:
    """In the order in which they came, event by event, without repeats."""
    event, value = (np.array([pair[at] for pair in pairs], np.int32) for at in (0, 1))
    results = []
    for run in (reference_text, bits):
        seen, start, bit = np.zeros(7, np.int64), np.zeros(6, np.int64), np.full(len(pairs), -1, np.int32)
        count = run.arrange_bits((event, value), seen, 1, start, bit)
        results.append((int(count), start.tolist(), bit[:count].tolist()))
    assert results[0] == results[1]


def test_machines_of_no_needles() -> None:
    """There are none to search."""
    assert len(build_machines([]).edge) == 0
