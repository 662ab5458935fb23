"""Columns without an object per value: NumPy strings and Arrow arrays give the payload that lists give."""

from __future__ import annotations

import datetime
import importlib.util
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pubsub_cluster.language import payload_dense
from pubsub_cluster.language.batch import check_payload, decode_payload, event_values, payload_from_columns
from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.payload_dense import dense_columns, stacked_columns
from pubsub_cluster.language.payload_text import utf8_of_array
from pubsub_cluster.language.protocol import unpacked

HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
needs_arrow = pytest.mark.skipif(not HAS_ARROW, reason="pyarrow is an extra")

texts = st.text(
    st.sampled_from("ab\0é€😀\x7f\x80\u07ff\u0800\uffff\U00010000\U0010ffff"), max_size=5
) | st.text(max_size=4)
integers = st.integers(-(2**63), 2**63 - 1)


def events_of(columns: Any) -> tuple[list[dict[str, Any]], set[int]]:
    """Return the values of every event, and which are refused."""
    payload = payload_from_columns(columns)
    check_payload(payload.header, payload.buffers)
    raw = decode_payload(payload.header, payload.buffers)
    return [event_values(raw, at) for at in range(raw.event_count)], set(raw.refused)


@settings(max_examples=100)
@given(st.lists(texts, max_size=6), st.sampled_from(["=", "<", ">"]))
def test_numpy_texts_are_what_numpy_says(values: list[str], order: str) -> None:
    array = np.array(values, dtype=f"{order}U6")
    found = utf8_of_array(array)
    assert found is not None and found.tolist() == array.tolist()
    assert found.offsets[0] == 0 and found.offsets[-1] == len(found.data)
    assert events_of({"t": array}) == events_of({"t": array.tolist()})
    assert events_of({"t": array[::-2]}) == events_of({"t": array[::-2].tolist()})


def test_numpy_texts_of_a_surrogate_refuse_their_event() -> None:
    """As rows, so that the other events pass."""
    array = np.array(["a", "\ud800", "b"])
    assert utf8_of_array(array) is None
    values, refused = events_of({"t": array})
    assert refused == {1} and values == [{"t": ("a",)}, {}, {"t": ("b",)}]


def test_masked_texts_and_empty_columns() -> None:
    masked = np.ma.MaskedArray(np.array(["a", "b", "c"]), mask=[False, True, False])
    assert events_of({"t": masked})[0] == [{"t": ("a",)}, {}, {"t": ("c",)}]
    assert events_of({"t": np.array([], dtype="U3"), "u": np.array([], dtype="U0")}) == ([], set())
    assert events_of({"t": np.array(["", ""])})[0] == [{"t": ("",)}] * 2
    payload = payload_from_columns({"t": np.array(["é", "x"])})
    assert payload.header["columns"][0]["type"] == "utf8"


def arrow_of(values: list[Any], kind: str) -> Any:
    import pyarrow as arrow

    found = arrow.array(values, getattr(arrow, kind)())
    return found


@needs_arrow
@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 6), st.integers(0, 3))
def test_arrow_columns_are_their_python_values(draw: st.DataObject, count: int, skip: int) -> None:
    """Every carried type, with nulls, sliced, chunked and as a dictionary."""
    import pyarrow as arrow

    kinds = {
        "string": texts,
        "large_string": texts,
        "int8": st.integers(-128, 127),
        "int64": integers,
        "uint64": st.integers(0, 2**64 - 1),
        "float64": st.floats(),
        "float32": st.floats(width=32),
        "bool_": st.booleans(),
        "null": st.none(),
    }
    kind = draw.draw(st.sampled_from(sorted(kinds)))
    values = draw.draw(st.lists(kinds[kind] | st.none(), min_size=count + skip, max_size=count + skip))
    array = arrow_of(values, kind)[skip:]
    expected = events_of({"x": values[skip:]})
    assert _same(events_of({"x": array}), expected)
    chunked = arrow.chunked_array([array, array[:0], array[:1]])
    assert _same(events_of({"x": chunked}), events_of({"x": [*values[skip:], *values[skip:][:1]]}))
    if kind in ("string", "int64"):
        assert _same(events_of({"x": array.dictionary_encode()}), expected)
    assert _same(events_of(arrow.table({"x": array})), expected)


def _same(found: Any, expected: Any) -> bool:
    return repr(found) == repr(expected)


@needs_arrow
def test_arrow_times_lists_and_decimals() -> None:
    import decimal

    import pyarrow as arrow

    moment = datetime.datetime(1970, 1, 1, 0, 0, 1)
    table = arrow.table(
        {
            "when": arrow.array([moment, None], arrow.timestamp("ns")),
            "many": arrow.array([["a", "b"], None]),
            "sum": arrow.array([decimal.Decimal("2.5"), None]),
        }
    )
    found, refused = events_of(table)
    assert not refused and found == [{"when": (1_000_000,), "many": ("a", "b"), "sum": (2.5,)}, {}]
    assert payload_from_columns({"t": arrow.array(["x", None])}).header["format"] == "columns"


@needs_arrow
@pytest.mark.parametrize("values", [["ab", None, "", "é€"], ["ab", "c"], [None], []])
def test_arrow_views_are_their_texts(values: list[str | None]) -> None:
    """Arrow has few functions for them: neither filling of nulls nor decoding of a dictionary."""
    import pyarrow as arrow

    if not hasattr(arrow, "string_view"):
        pytest.skip("this pyarrow has no views")
    plain = arrow.array(values, arrow.string())
    view = plain.cast(arrow.string_view())
    whole = arrow.array(range(len(values)), arrow.int32())
    for array in (view, view[1:], arrow.DictionaryArray.from_arrays(whole, view)):
        assert events_of({"x": array}) == events_of({"x": array.to_pylist()})
    assert payload_from_columns({"x": view}).header["format"] == "columns"
    data = [None if value is None else value.encode() for value in values]
    viewed, found = arrow.array(data, arrow.binary_view()), events_of({"x": data})
    assert events_of({"x": viewed}) == found
    assert events_of({"x": arrow.DictionaryArray.from_arrays(whole, viewed)}) == found


@needs_arrow
def test_durations_are_refused_as_numpys_are() -> None:
    import pyarrow as arrow

    for column in (np.array([1], "m8[s]"), arrow.array([1, None], arrow.duration("s"))):
        with pytest.raises(CallerError, match=r"column 'x' has a d?type that is not carried"):
            payload_from_columns({"x": column})


@needs_arrow
def test_of_arrow_only_tables_and_record_batches_are_batches() -> None:
    import pyarrow as arrow

    table = arrow.table({"a": [1, 2]})
    reader = arrow.RecordBatchReader.from_batches(table.schema, table.to_batches())
    for other in (reader, table.schema, table.column("a"), arrow.scalar(1)):
        with pytest.raises(EventError, match="no batch of events") as found:
            payload_from_columns(other)
        assert found.value.seen == type(other).__name__ and "read_all()" in str(found.value)
    for other in (table, arrow.scalar(1)):
        with pytest.raises(CallerError, match="column 'a' is no array"):
            payload_from_columns({"a": other})
    assert events_of(reader.read_all()) == events_of(next(iter(table.to_batches()))) == events_of(table)


BOUNDS = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}
NUMBERS = {
    **{kind: st.integers(-bound, bound - 1) for kind, bound in BOUNDS.items()},
    **{f"u{kind}": st.integers(0, 2 * bound - 1) for kind, bound in BOUNDS.items() if kind != "int64"},
    "float64": st.floats(),
}
WIDE = ["float64", "int64"]


def arrays(types: list[str], count: int, data: st.DataObject) -> dict[str, Any]:
    """Draw a column of `count` numbers of each type."""
    return {
        f"c{at}": np.array(data.draw(st.lists(NUMBERS[kind], min_size=count, max_size=count)), np.dtype(kind))
        for at, kind in enumerate(types)
    }


@given(st.lists(st.sampled_from(WIDE), min_size=1, max_size=4), st.integers(1, 5), st.data())
def test_dense_columns_are_the_payload_in_one_block(
    types: list[str], count: int, data: st.DataObject
) -> None:
    columns = arrays(types, count, data)
    payload = payload_from_columns(columns)
    dense = dense_columns(columns, 1 << 20)
    assert dense is not None and dense.event_count == count
    assert msgspec.json.decode(dense.header_json) == payload.header
    assert msgspec.json.decode(dense.sizes_json) == [8 * count] * len(columns)
    assert dense.block == b"".join(payload.buffers)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(sorted({*NUMBERS} - {"float64"})), min_size=1, max_size=4),
    st.integers(1, 17),
    st.data(),
)
def test_integers_go_as_the_narrowest_type(
    monkeypatch: pytest.MonkeyPatch, types: list[str], count: int, data: st.DataObject
) -> None:
    """The values are the same, whatever carries them; nothing narrower would hold them."""
    monkeypatch.setattr(payload_dense, "NARROW_FROM_BYTES", 0)
    payload_dense._kept.__dict__.clear()
    columns = arrays(types, count, data)
    dense = dense_columns(columns, 1 << 20)
    assert dense is not None
    header, sizes = msgspec.json.decode(dense.header_json), msgspec.json.decode(dense.sizes_json)
    buffers = unpacked([dense.block], sizes)
    check_payload(header, buffers)
    (kind,) = {column["type"] for column in header["columns"]}
    extremes = [int(end) for column in columns.values() for end in (column.min(), column.max())]
    fitting = [name for name, bound in BOUNDS.items() if -bound <= min(extremes) and max(extremes) < bound]
    assert kind == fitting[0]
    wide = payload_from_columns({name: column.astype(np.int64) for name, column in columns.items()})
    found, expected = decode_payload(header, buffers), decode_payload(wide.header, wide.buffers)
    for name, column in columns.items():
        assert found.attributes[name].numbers is not None
        assert _same(found.attributes[name], expected.attributes[name])
        assert found.attributes[name].numbers.whole.tolist() == column.tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(sorted({*NUMBERS} - {"float64"})), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.data(),
)
def test_stacked_batches_are_one_with_the_events_of_all(
    monkeypatch: pytest.MonkeyPatch, types: list[str], counts: list[int], data: st.DataObject
) -> None:
    monkeypatch.setattr(payload_dense, "NARROW_FROM_BYTES", 0)
    batches = [arrays(types, count, data) for count in counts]
    together = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    payload_dense._kept.__dict__.clear()
    expected = dense_columns(together, 1 << 20)
    payload_dense._kept.__dict__.clear()
    assert stacked_columns(batches, 1 << 20) == expected
    assert stacked_columns(batches, 8 * len(types) * sum(counts) - 1) is None


def test_what_is_not_alike_is_not_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_dense, "NARROW_FROM_BYTES", 48)
    one = {"a": np.arange(2), "b": np.arange(2)}
    assert stacked_columns([one, one], 1 << 20) is not None
    others: list[Any] = [
        {"b": np.arange(2), "a": np.arange(2)},
        {"a": np.arange(2)},
        {"a": np.arange(2), "b": np.arange(3)},
        {"a": np.arange(2), "b": np.array([0.5, 1.0])},
        {"a": np.arange(2), "b": np.arange(2, dtype=np.uint64)},
        {"a": np.arange(2), "b": [0, 1]},
        {"a": np.arange(0), "b": np.arange(0)},
        {"a": np.zeros((2, 1), np.int64), "b": np.zeros((2, 1), np.int64)},
        {"a": np.arange(2), "b": np.ma.masked_array([1, 2], [False, True])},
        {},
        [{"a": 1, "b": 2}],
    ]
    for other in others:
        assert stacked_columns([one, other], 1 << 20) is None
        assert stacked_columns([other, one], 1 << 20) is None
    assert stacked_columns([one], 1 << 20) is None, "too few for the narrowest type to be looked for"


def test_a_wider_type_is_kept_for_some_batches() -> None:
    """Batches of one type travel together: one large value among many batches does not part the others."""
    few, many = np.zeros(1_000, np.int64), np.full(1_000, 300)
    kinds = []
    for values in (few, many, *[few] * (payload_dense.WIDER_BATCHES + 1), -many, few):
        dense = dense_columns({"wider": values}, 1 << 20)
        assert dense is not None
        kinds.append(msgspec.json.decode(dense.header_json)["columns"][0]["type"])
    assert kinds == ["int8", *["int16"] * (payload_dense.WIDER_BATCHES + 1), "int8", "int16", "int16"]


def test_small_batches_and_integers_among_floats_stay_wide() -> None:
    """Only what is worth it is looked at."""
    rows = payload_dense.NARROW_FROM_BYTES // 8
    few, many = np.arange(rows - 1), np.arange(rows)
    for columns, kind in (
        ({"a": few}, "int64"),
        ({"a": many}, "int16"),
        ({"least": np.full(rows, -128)}, "int8"),
        ({"less": np.full(rows, -129)}, "int16"),
        ({"a": many, "f": many * 1.0}, "int64"),
    ):
        dense = dense_columns(columns, 1 << 20)
        assert dense is not None
        assert msgspec.json.decode(dense.header_json)["columns"][0]["type"] == kind


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"a": np.zeros(0)},
        {"a": np.zeros((2, 2))},
        {"a": np.array(1)},
        {"a": np.zeros(2), "b": np.zeros(3)},
        {"a": np.zeros(2, np.int32)},
        {"a": np.zeros(4)[::2]},
        {"a": np.zeros(2, ">i8")},
        {"a": np.ma.MaskedArray([1, 2], mask=[0, 1])},
        {"a": [1, 2]},
        {"a": np.array(["x"])},
        {"\ud800": np.zeros(2)},
        {"a": np.zeros(200)},
    ],
)
def test_what_is_no_block_of_dense_columns(columns: Any) -> None:
    assert dense_columns(columns, 1_000) is None
