"""The keyed delta for many events at once: lanes, the kernel against its reference, when it is used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch
from test_kernels_keyed import made_of

from pubsub_cluster.language.batch import payload_from_columns
from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers import delta_together
from pubsub_cluster.workers.delta_keyed import KeyedRows
from pubsub_cluster.workers.encoder import EncodedBatch
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels import reference_keyed as reference
from pubsub_cluster.workers.kernels._jit import kernel
from pubsub_cluster.workers.kernels.keyed_tables import HUNG_SINGLE, KEY_WIDTH, LITERALS, SEVERAL_CLAUSES
from pubsub_cluster.workers.kernels.lanes import LANES, _lanes_inside_plain, lanes_inside
from pubsub_cluster.workers.pairs import Pairs

NAMES = "abcde"
BYTES = st.integers(0, 255)


@kernel
def ask_lanes(code: Any, at: Any, low: Any, more: Any) -> Any:
    """Call what only kernels can call."""
    return lanes_inside(code, at, low, more)


@given(
    code=st.lists(BYTES, min_size=LANES + 3, max_size=LANES + 3), at=st.integers(0, 3), low=BYTES, more=BYTES
)
def test_lanes(code: list[int], at: int, low: int, more: int) -> None:
    """Every lane is compared by itself; higher bits of the bounds do not count."""
    codes = np.array(code, np.uint8)
    expected = sum(1 << lane for lane in range(LANES) if (code[at + lane] - low) % 256 <= more)
    assert ask_lanes(codes, at, low, more) == expected
    assert ask_lanes(codes, at, low + (7 << 8), more + (9 << 8)) == expected
    assert _lanes_inside_plain(codes, np.int64(at), low + 256, more + 512) == expected


@st.composite
def conjunctions(draw: st.DrawFn) -> dict[str, Any]:
    """Return an expression of one clause with an equality."""
    parts = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        value = draw(st.integers(0, 3))
        atom: dict[str, Any] = {"attr": name, "op": "=", "value": value}
        if parts and draw(st.booleans()):
            atom = draw(
                st.sampled_from(
                    [
                        {"attr": name, "op": "between", "lo": value, "hi": value + 1},
                        {"attr": name, "op": "!=", "value": value},
                        {"attr": name, "op": "in", "value": [value, 3]},
                        {"attr": name, "op": "exists"},
                    ]
                )
            )
        parts.append(atom)
    return {"and": parts}


def together(keyed: KeyedRows, encoded: EncodedBatch, bounds: tuple[int, int], pairs: Pairs) -> None:
    """Match a batch so, whether or not that pays."""
    keys = keyed._tables, keyed._access, keyed._hung
    keyed._together.match(encoded, keys, bounds, keyed._rows.removed_version, pairs)


def same_events(draw: st.DataObject, label_start: list[int]) -> EncodedBatch:
    """Draw events with a label of each of some attributes, many of them alike."""
    attributes = range(len(label_start) - 1)
    columns = [at for at in attributes if draw.draw(st.sampled_from((True, True, True, False)))]
    sizes = [label_start[at + 1] - label_start[at] for at in columns]
    labels = [  # of constants for the most part
        st.sampled_from(sorted(range(4, size, 2)) or [1]) | st.integers(1, size - 1) for size in sizes
    ]
    few = draw.draw(st.lists(st.tuples(*labels), min_size=1, max_size=5), "kinds of events")
    picked = draw.draw(st.lists(st.integers(0, len(few) - 1), max_size=3 * LANES), "events")
    label = np.array([few[at] for at in picked], np.int32).reshape(len(picked), len(columns))
    return EncodedBatch(
        len(picked),
        frozen(np.arange(len(picked) + 1, dtype=np.int64) * len(columns)),
        frozen(np.tile(np.array(columns, np.int32), len(picked))),
        frozen(label.reshape(-1)),
        frozen(np.zeros(len(picked) + 1, np.int64)),
        frozen(np.zeros(0, np.int32)),
        frozen(np.array(columns, np.int32)),
    )


@settings(max_examples=60)
@given(rows=st.lists(conjunctions(), min_size=1, max_size=12), draw=st.data())
def test_events_together(rows: list[Any], draw: st.DataObject) -> None:
    """Every pair is found once, whatever the keys are, also with little room; memory is left as before."""
    catalogue = Case(rows)
    keyed, _, spaces, attributes = made_of(catalogue, catalogue.writer.counts().predicates)
    count = len(attributes)
    shifts = draw.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count), "shifts")
    keyed._code_shift = frozen(np.array(shifts, np.uint8))
    possible = [(one, two) for two in range(count) for one in range(two)]
    keyed._pairs = draw.draw(st.lists(st.sampled_from(possible), unique=True, max_size=4)) if possible else []
    keyed.clear()
    left = keyed.add(0, len(rows), (0, 1), 0)
    assert not len(left)
    removed = catalogue.writer.columns.removed_version
    removed[: len(rows)] = draw.draw(
        st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)), "removed"
    )
    bounds = draw.draw(st.integers(0, len(rows)), "row stop"), draw.draw(st.integers(0, 3), "version")
    for _ in range(2):
        encoded = same_events(draw, spaces.label_start.tolist())
        events = encoded.entry_start, encoded.entry_attribute, encoded.entry_label
        expected = reference.match_keyed(keyed._tables, spaces.label_start, events, bounds, removed)
        pairs = Pairs(DEFAULT_LIMITS)
        pairs._event, pairs._row = np.empty(1, np.int32), np.empty(1, np.int32)
        together(keyed, encoded, bounds, pairs)
        event, row = pairs.arrays()
        assert sorted(zip(event.tolist(), row.tolist(), strict=True)) == expected
        assert not keyed._together._room.code.any()
        assert (keyed._together._room.column_of == -1).all()
        assert not keyed._together._facts.label_of.any()


def test_the_limit_of_a_batch_is_exact() -> None:
    """As many pairs as there may be are no error, one more is; one more than there was room for is found."""
    catalogue = Case([{"and": [numbers("a", 1), numbers("b", 1), {"attr": "b", "op": "exists"}]}] * 4)
    keyed, encoder, _, _ = made_of(catalogue, catalogue.writer.counts().predicates)
    keyed.add(0, 4, (0, 1), 0)
    assert keyed._tables.used[LITERALS] > 4  # labels decide them
    values: dict[str, tuple[object, ...]] = {"a": (1,), "b": (1,)}
    encoded = encoder.encode(raw_batch([values] * 20))._replace(columns=frozen(np.arange(2, dtype=np.int32)))
    for limit, is_enough in ((80, True), (79, False)):
        pairs = Pairs(replace(DEFAULT_LIMITS, matches_per_batch_max=limit))
        pairs._event, pairs._row = np.empty(79, np.int32), np.empty(79, np.int32)
        if is_enough:
            together(keyed, encoded, (4, 0), pairs)
            assert len(pairs.arrays()[0]) == 80
        else:
            with pytest.raises(LimitError):
                together(keyed, encoded, (4, 0), pairs)


def test_a_batch_begins_anew_once_and_the_next_one_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs there are: one that begins anew for each doubling takes several times as long."""
    catalogue = Case([numbers("a", 1)] * 16)
    keyed, encoder, _, _ = made_of(catalogue, catalogue.writer.counts().predicates)
    keyed.add(0, 16, (0, 1), 0)
    values: dict[str, tuple[object, ...]] = {"a": (1,)}
    encoded = encoder.encode(raw_batch([values] * 40))._replace(columns=frozen(np.zeros(1, np.int32)))
    calls: list[int] = []
    match = delta_together._match_together
    monkeypatch.setattr(delta_together, "_match_together", lambda *given: calls.append(1) or match(*given))
    monkeypatch.setattr("pubsub_cluster.workers.pairs.PAIRS_MIN", 10)
    for expected in (2, 3, 4):
        pairs = Pairs(DEFAULT_LIMITS)
        together(keyed, encoded, (16, 0), pairs)
        assert len(pairs) == 640
        assert len(calls) == expected


def numbers(name: str, value: int) -> dict[str, Any]:
    """Return an equality."""
    return {"attr": name, "op": "=", "value": value}


def columns_of(engine: MatchEngine, events: int) -> Any:
    """Return a batch of columns: `a` counts to ten, `b` is 1."""
    made = payload_from_columns({"a": np.arange(events) % 10, "b": np.ones(events, np.int64)})
    return engine.read(made.header, [memoryview(buffer) for buffer in made.buffers])


def test_it_is_used_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many events of columns take this way; few, other forms, and rows of several clauses do not."""
    used: list[bool] = []
    pays = delta_together.Together.pays

    def watched(*arguments: Any) -> bool:
        used.append(pays(*arguments))
        return used[-1]

    monkeypatch.setattr(delta_together.Together, "pays", watched)
    base = [{"and": [numbers("a", value), numbers("b", 1)]} for value in range(10)]
    catalogue = Case(base, EMPTY_SCHEMA)
    engine = MatchEngine(catalogue.reader, EMPTY_SCHEMA, DEFAULT_LIMITS)
    engine.attach_layout(1, build_layout(catalogue.reader, catalogue.writer.counts(), 1, None, 1))
    catalogue.add(base * 60)
    delta = engine._generations[1].delta

    def matches(batch: Any, version: int = 0) -> list[int]:
        result = engine.match_batch(batch, 1, catalogue.writer.counts(), version=version)
        return np.diff(result.event_offsets).tolist()

    places = 2_048
    assert matches(columns_of(engine, places)) == [61] * places
    assert matches(columns_of(engine, 5)) == [61] * 5
    catalogue.add([{"or": [numbers("a", 1), numbers("b", 1)]}])
    assert matches(columns_of(engine, places)) == [62] * places
    keyed, removed = delta._keyed, catalogue.writer.columns.removed_version
    assert keyed is not None
    assert len(keyed._tables.key) // KEY_WIDTH == places
    monkeypatch.setattr("pubsub_cluster.workers.delta_keyed.PRUNE_SHARE", 0.0)
    catalogue.add(base[:1])
    last = catalogue.writer.counts().rows - 1
    removed[last] = 1
    matches(columns_of(engine, 1))
    for version in (1, 2):  # first another row goes, then the one with several clauses
        assert keyed._tables.used[SEVERAL_CLAUSES] == 2
        keyed.prune(version)
        removed[last - 1] = 2
    assert matches(columns_of(engine, places), 2) == [61] * places
    made = engine.read(*_json_lines(places))
    assert matches(made, 2) == [61] * places
    assert used == [True, False, False, False, True, False]


def _json_lines(count: int) -> tuple[Any, list[memoryview]]:
    from pubsub_cluster.language.batch import payload_from_json

    made = payload_from_json(b"\n".join(b'{"a": %d, "b": 1}' % (at % 10) for at in range(count)))
    return made.header, [memoryview(buffer) for buffer in made.buffers]


def test_many_kinds_of_keys_with_short_lists_do_not_pay() -> None:
    """Each kind of key sorts all events; that is lost where hardly a clause is behind a key."""
    catalogue = Case([numbers(name, value) for name in NAMES for value in range(4)])
    keyed, _, _, attributes = made_of(catalogue, catalogue.writer.counts().predicates)
    keyed.add(0, 20, (0, 1), 0)
    assert (keyed._access.hung == HUNG_SINGLE).all()
    assert len(attributes) == len(NAMES)
    none = frozen(np.zeros(0, np.int64))
    empty = frozen(np.zeros(0, np.int32))
    encoded = EncodedBatch(100_000, none, empty, empty, none, empty, empty)
    assert not keyed._together.pays(encoded, keyed._tables, keyed._access)
    for _ in range(20):
        keyed.add(0, 20, (0, 1), 0)
    assert keyed._together.pays(encoded, keyed._tables, keyed._access)
