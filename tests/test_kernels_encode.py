"""Encoding kernels against `workers.kernels.reference`."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FLOATS, INTEGERS, TEXTS

from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.code_space import CodeSpaces
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers import lookups
from pubsub_cluster.workers.kernels import columns, encode
from pubsub_cluster.workers.kernels import lookup as lookup_kernels
from pubsub_cluster.workers.kernels import reference_encode as reference
from pubsub_cluster.workers.lookups import build_lookup, choices_of

numbers = st.sampled_from((*INTEGERS, *FLOATS)) | st.integers(-3, 3) | st.floats(-3, 3)
texts = st.sampled_from((*TEXTS, "abcdefgh", "abcdefghi", "abcdefgh\0", "abcdefg")) | st.text(
    "ab\0", max_size=12
)
modules = pytest.mark.parametrize("run", [reference, encode], ids=["reference", "kernel"])


def events_of(draw: st.DataObject, count: int) -> np.ndarray:
    """Return ascending event numbers, repeats among them."""
    return np.array(sorted(draw.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))), np.int32)


def outputs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return output arrays with room before and after."""
    return np.full(count + 3, -7, np.int32), np.full(count + 3, -7, np.int32)


def check_written(out: tuple[np.ndarray, np.ndarray], event: np.ndarray, labels: list[int], at: int) -> None:
    """Compare rows at .. at + k and that nothing else was touched."""
    assert out[0].tolist() == [-7] * at + event.tolist() + [-7] * (3 - at)
    assert out[1].tolist() == [-7] * at + labels + [-7] * (3 - at)


def spaces_of(constants: list) -> CodeSpaces:
    """Return the code spaces of two attributes: one with a few constants of its own, then `constants`."""
    keys = sorted({number_key(c) for c in constants if not isinstance(c, str)})
    known = sorted({c.encode() for c in constants if isinstance(c, str)})
    whole, part = [0, 1 << 40, *(k[0] for k in keys)], [0.0, 0.0, *(k[1] for k in keys)]
    words = [b"zz", *known]
    return CodeSpaces(
        np.array([0, 2, len(whole)], np.int32),
        np.array(whole, np.int64),
        np.array(part, np.float64),
        np.array([0, 1, len(words)], np.int32),
        np.cumsum([0, *map(len, words)]),
        np.frombuffer(b"".join(words), np.uint8),
        np.array([int.from_bytes(word[:8].ljust(8, b"\0"), "big") for word in words], np.uint64),
        np.array([0, 11, 15 + 2 * len(keys) + 2 * len(known)], np.int64),
    )


# Without tests every comparison may be by order; with none of them all gaps of a kind are one.
orders = pytest.mark.parametrize("test", [None, np.zeros(0, np.int32)], ids=["ordered", "equality"])
dense = st.integers(-40, 40)


@modules
@orders
@settings(max_examples=60)
@given(
    constants=st.lists(numbers, max_size=12) | st.lists(dense, max_size=30),
    values=st.lists(numbers | dense | st.floats(-40, 40), max_size=8),
    draw=st.data(),
)
def test_numbers(
    run: ModuleType, test: np.ndarray | None, constants: list, values: list, draw: st.DataObject
) -> None:
    """Labels say exactly where a number lies among the constants."""
    known = sorted({number_key(c) for c in constants})
    keys = [number_key(v) for v in values]
    at = draw.draw(st.integers(0, 3))
    event, out = events_of(draw, len(values)), outputs(len(values))
    lookup = build_lookup(spaces_of(constants), test)
    repeats = run.encode_numbers(
        frozen(event),
        (frozen(np.array([k[0] for k in keys], np.int64)), frozen(np.array([k[1] for k in keys], float))),
        lookup.numbers,
        1,
        at,
        out,
    )
    labels = [3 + 2 * sum(c < k for c in known) + (k in known) for k in keys]
    if choices_of(lookup)[1].numbers == "hash":
        labels = [label if label % 2 == 0 else 3 for label in labels]
    check_written(out, event, labels, at)
    assert repeats == len(event) - len(set(event.tolist()))


@modules
@orders
@settings(max_examples=60)
@given(constants=st.lists(texts, max_size=12), values=st.lists(texts, max_size=8), more=st.data())
def test_texts(
    run: ModuleType, test: np.ndarray | None, constants: list[str], values: list[str], more: st.DataObject
) -> None:
    """Labels say exactly where a text lies among the constants, by bytes."""
    values = values + more.draw(
        st.lists(st.sampled_from(constants), max_size=4) if constants else st.just([])
    )
    known = sorted({c.encode() for c in constants})
    encoded = [v.encode() for v in values]
    end = np.cumsum([0, *map(len, encoded)])
    at = more.draw(st.integers(0, 3))
    event, out = events_of(more, len(values)), outputs(len(values))
    lookup = build_lookup(spaces_of(constants), test)
    repeats = run.encode_texts(
        frozen(event),
        (frozen(end[:-1]), frozen(end[1:]), np.frombuffer(b"".join(encoded), np.uint8)),
        lookup.texts,
        1,
        at,
        out,
    )
    labels = [4 + 2 * sum(c < v for c in known) + (v in known) for v in encoded]
    if choices_of(lookup)[1].texts == "hash":
        labels = [label if label % 2 == 1 else 4 for label in labels]
    check_written(out, event, labels, at)
    assert repeats == len(event) - len(set(event.tolist()))


def test_the_way_of_lookup_follows_the_constants() -> None:
    """Close integers by table, equality by hash, the rest, few constants and crafted ones by search."""
    equality = np.zeros(0, np.int32)
    fractions = [at + 0.5 for at in range(9)]
    words = [f"word {at}" for at in range(9)]
    assert choices_of(build_lookup(spaces_of([*range(9), *words]), equality))[1] == ("direct", 9, "hash", 9)
    assert choices_of(build_lookup(spaces_of([*fractions, *words]), equality))[1] == ("hash", 9, "hash", 9)
    assert choices_of(build_lookup(spaces_of([*fractions, *words])))[1] == ("search", 9, "search", 9)
    tiny = [at * 5e-324 for at in range(200)]  # all of one hash
    assert choices_of(build_lookup(spaces_of(tiny), equality))[1].numbers == "search"
    far = [0, 1 << 62, 1 << 61, 5, 6, 7]
    assert choices_of(build_lookup(spaces_of(far)))[1].numbers == "search"


def test_a_table_has_all_integers_of_one_byte_where_it_is_near_them() -> None:
    """Then columns of those need no look at its bounds; elsewhere it is not made larger."""
    for constants, low, size in (
        ([1, 35], -128, 256),
        ([-200, 3], -201, 329),
        ([100, 300], -128, 430),
        ([126, 127], -128, 257),
        ([129], -128, 259),
        ([130], 129, 3),
        ([5_000, 5_001], 4_999, 4),
    ):
        numbers = build_lookup(spaces_of(constants)).numbers
        places = np.diff(numbers.number_table)[1]
        assert (numbers.number_low[1], places) == (low, size)


def test_tables_of_many_attributes_are_not_made_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "BYTE_PLACES_MAX", 250)
    for constants, size in (([1, 3], 5), ([1, 4], 256)):
        assert np.diff(build_lookup(spaces_of(constants)).numbers.number_table)[1] == size


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), max_size=40), max_size=5
    ),
    st.permutations([-1, 0, 1, -1]),
)
def test_entries(events: list[list[tuple[int, int, int]]], attribute_of: list[int]) -> None:
    """Entries become sorted labels, each once."""
    words = [f"w{at}" for at in range(10)]
    lookup = build_lookup(spaces_of([0, 2, 4, *words[::2]]))
    first = np.cumsum([0, *map(len, events)])
    rows = [row for event in events for row in event]
    whole = np.array(
        [2 * value if kind == 2 else value & (1 if kind == 0 else 15) for _, kind, value in rows], np.int64
    )
    values = (
        np.array([row[0] for row in rows], np.int32),
        np.array([row[1] for row in rows], np.int8),
        whole,
        np.zeros(len(rows)),
        whole + 2,
        np.frombuffer("".join(words).encode(), np.uint8),
    )
    results = []
    for run in (reference, encode):
        start = np.zeros(len(events) + 1, np.int64)
        out = (np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32))
        ends = (frozen(first[:-1].copy()), frozen(first[1:].copy()))
        run.encode_entries(
            ends, tuple(map(frozen, values)), frozen(np.array(attribute_of, np.int32)), lookup, start, out
        )
        results.append([start.tolist(), out[0][: start[-1]].tolist(), out[1][: start[-1]].tolist()])
    assert results[0] == results[1]


def payload_of(
    kinds: list[int], event_count: int, draw: st.DataObject
) -> tuple[np.ndarray, np.ndarray, list[list[float]]]:
    """Return bytes with a column of each kind at odd places, what the kernel is told of it, the floats."""
    content, rows, doubles = b"?", [], []
    for kind in kinds:
        valid = columns.NO_BUFFER
        if draw.draw(st.booleans()):
            valid = len(content)
            content += bytes(
                draw.draw(st.lists(st.integers(0, 1), min_size=event_count, max_size=event_count))
            )
        item = draw.draw(st.sampled_from([1, 2, 4, 8])) if kind == columns.INTEGERS else 8
        bound = 1 << (8 * item - 1)
        strategy = {
            columns.INTEGERS: dense | st.sampled_from([-bound, bound - 1]),
            columns.DOUBLES: st.floats() | dense.map(float) | st.floats(-40, 40),
            columns.BOOLEANS: st.integers(0, 1),
            columns.TEXTS: texts,
        }[kind]
        values = draw.draw(st.lists(strategy, min_size=event_count, max_size=event_count))
        offsets = columns.NO_BUFFER
        if kind == columns.TEXTS:
            offsets = len(content)
            values = [value.encode() for value in values]
            content += np.cumsum([0, *map(len, values)]).astype(np.int64).tobytes()
            values = [b"".join(values)]
        rows.append((kind, 1, valid, len(content), offsets, item))
        dtype = {columns.INTEGERS: f"<i{item}", columns.DOUBLES: "<f8", columns.BOOLEANS: np.uint8}.get(kind)
        content += values[0] if dtype is None else np.array(values, dtype).tobytes()
        if kind == columns.DOUBLES:
            doubles.append([v for at, v in enumerate(values) if valid < 0 or content[valid + at]])
    table = np.array(rows, np.int64).reshape(-1, columns.COLUMN_WIDTH)
    return np.frombuffer(content + bytes(8), np.uint8), frozen(table), doubles


@orders
@settings(max_examples=80)
@given(
    # Of close integers alone there is a table.
    constants=st.lists(dense | texts | st.just(2**63 - 1) | st.floats(-3, 3), max_size=30)
    | st.lists(dense, min_size=1, max_size=9),
    kinds=st.lists(st.integers(0, 3), max_size=4),
    event_count=st.sampled_from([0, 1, 3, columns.BLOCK_EVENTS + 2]),
    draw=st.data(),
)
def test_columns(
    test: np.ndarray | None, constants: list, kinds: list[int], event_count: int, draw: st.DataObject
) -> None:
    """Some events of dense columns of all types become entries; what has no value leaves none."""
    lookup = build_lookup(spaces_of(constants), test)
    data, table, doubles = payload_of(kinds, event_count, draw)
    is_nan = any(value != value for column in doubles for value in column)
    for run in (reference, columns):
        assert bool(run.has_nan(data, table, event_count)) == is_nan
    if is_nan:
        return
    has_gaps = bool((table[:, columns.COLUMN_VALID] >= 0).any()) or draw.draw(st.booleans())
    first = draw.draw(st.integers(0, event_count))
    span = first, draw.draw(st.integers(first, event_count))
    size = (span[1] - first) * len(kinds)
    results = []
    for run in (reference, columns):
        start = np.full(span[1] - first + 1, 0 if has_gaps else -7, np.int64)
        out = (np.full(size, -7, np.int32), np.full(size, -7, np.int32))
        run.encode_columns(data, table, span, has_gaps, lookup, start, out)
        stop = int(start[-1]) if has_gaps else size
        results.append([start.tolist(), out[0][:stop].tolist(), out[1][:stop].tolist()])
    assert results[0] == results[1]


@modules
def test_booleans(run: ModuleType) -> None:
    """False is 1, true is 2, any byte but 0 is true."""
    out = outputs(3)
    event = np.array([0, 2, 2], np.int32)
    assert run.encode_booleans(frozen(event), frozen(np.array([0, 1, 7], np.uint8)), 2, out) == 1
    check_written(out, event, [1, 2, 2], 2)


@given(text=texts)
def test_prefix(text: str) -> None:
    """Prefixes order as texts do, up to eight bytes."""
    data = np.frombuffer(b"x" + text.encode(), np.uint8)
    assert int(lookup_kernels.prefix_of(data, 1, len(data))) == reference.prefix_of(data, 1, len(data))


@settings(max_examples=50)
@given(columns=st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=5))
def test_arrange(columns: list[list[int]]) -> None:
    """Entries become event-major and keep the order of the columns."""
    first = np.cumsum([0, *map(len, columns)])
    rows = np.array([event for column in columns for event in sorted(column)], np.int32)
    labels = np.arange(len(rows), dtype=np.int32) + 3
    segments = (np.arange(len(columns), dtype=np.int32) * 2, first[:-1].copy(), first[1:].copy())
    results = []
    for run in (reference, encode):
        start = np.zeros(6, np.int64)
        entries = (np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32))
        run.arrange(tuple(map(frozen, segments)), (frozen(rows), frozen(labels)), start, entries)
        results.append([start.tolist(), entries[0].tolist(), entries[1].tolist()])
    assert results[0] == results[1]
    assert results[0][0][-1] == len(rows)
