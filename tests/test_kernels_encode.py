"""Encoding kernels against `workers.kernels.reference`."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import FLOATS, INTEGERS, TEXTS

from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels import encode, reference

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


@modules
@settings(max_examples=50)
@given(constants=st.lists(numbers, max_size=8), values=st.lists(numbers, max_size=8), draw=st.data())
def test_numbers(run: ModuleType, constants: list, values: list, draw: st.DataObject) -> None:
    """Labels say exactly where a number lies among the constants."""
    known = sorted({number_key(c) for c in constants})
    keys = [number_key(v) for v in values]
    at = draw.draw(st.integers(0, 3))
    event, out = events_of(draw, len(values)), outputs(len(values))
    repeats = run.encode_numbers(
        frozen(event),
        (frozen(np.array([k[0] for k in keys], np.int64)), frozen(np.array([k[1] for k in keys], float))),
        (frozen(np.array([0, *(k[0] for k in known)])), frozen(np.array([0.0, *(k[1] for k in known)]))),
        (1, 1 + len(known)),
        at,
        out,
    )
    labels = [3 + 2 * sum(c < k for c in known) + (k in known) for k in keys]
    check_written(out, event, labels, at)
    assert repeats == len(event) - len(set(event.tolist()))


@modules
@settings(max_examples=50)
@given(constants=st.lists(texts, max_size=8), values=st.lists(texts, max_size=8), draw=st.data())
def test_texts(run: ModuleType, constants: list[str], values: list[str], draw: st.DataObject) -> None:
    """Labels say exactly where a text lies among the constants, by bytes."""
    known = sorted({c.encode() for c in constants})
    encoded = [v.encode() for v in values]
    end = np.cumsum([0, *map(len, encoded)])
    offset = np.cumsum([0, 2, *map(len, known)])
    prefix = [0, *(int.from_bytes(c[:8].ljust(8, b"\0"), "big") for c in known)]
    at = draw.draw(st.integers(0, 3))
    event, out = events_of(draw, len(values)), outputs(len(values))
    repeats = run.encode_texts(
        frozen(event),
        (frozen(end[:-1]), frozen(end[1:]), np.frombuffer(b"".join(encoded), np.uint8)),
        (
            frozen(offset),
            np.frombuffer(b"zz" + b"".join(known), np.uint8),
            frozen(np.array(prefix, np.uint64)),
        ),
        (1, 1 + len(known), 11),
        at,
        out,
    )
    check_written(out, event, [11 + 2 * sum(c < v for c in known) + (v in known) for v in encoded], at)
    assert repeats == len(event) - len(set(event.tolist()))


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
    assert int(encode.prefix_of(data, 1, len(data))) == reference.prefix_of(data, 1, len(data))


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
