"""Columns of pandas give the payload that lists with None give."""

from __future__ import annotations

import datetime
import importlib.util
from typing import Any

import numpy as np
import pytest

from pubsub_cluster.client.publishing import payload_of
from pubsub_cluster.language.batch import check_payload, decode_payload, event_values
from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

if importlib.util.find_spec("pandas") is None:
    pytest.skip("pandas is not needed, and not installed", allow_module_level=True)
import pandas as pd

HAS_ARROW = importlib.util.find_spec("pyarrow") is not None
WIDE = 2**62 + 1  # no double
EPOCH = pd.Timestamp("1970-01-01")


def events_of(batch: Any) -> tuple[list[dict[str, Any]], set[int], str]:
    """Return the values of every event, which are refused, and the format in which they go."""
    payload = payload_of(batch)
    check_payload(payload.header, payload.buffers)
    raw = decode_payload(payload.header, payload.buffers)
    values = [event_values(raw, at) for at in range(raw.event_count)]
    return values, set(raw.refused), payload.header["format"]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([WIDE, None, -WIDE], "Int64"),
        ([7, None, 255], "UInt8"),
        ([2**63 - 1, None, 0], "UInt64"),
        ([1.5, None, np.inf], "Float64"),
        ([True, None, False], "boolean"),
        (["a", None, "é"], "string"),
        (["a", None, ""], "category"),
        (["a", None, "b"], "object"),
        ([1, None, "b"], "object"),
        ([None, None], "object"),
        ([None, None], "category"),
        ([None, None], "Int64"),
        ([], "Int64"),
        *[([WIDE, None], "int64[pyarrow]"), (["a", None], "string[pyarrow]")] * HAS_ARROW,
    ],
)
def test_gaps_are_missing_and_numbers_exact(values: list[Any], dtype: str) -> None:
    series: Any = pd.Series(values, dtype=dtype)
    expected = events_of({"x": values})
    assert not expected[1]
    for column in (series, series.array, series[::-1][::-1], pd.Index(series)):
        assert events_of({"x": column}) == expected
    assert events_of({"x": series.astype("category")})[:2] == expected[:2]


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None])
def test_what_stands_for_missing_may_stand_anywhere(missing: Any) -> None:
    found = [{"x": ("a",)}, {}]
    objects = np.array(["a", missing], dtype=object)
    for column in (["a", missing], objects, pd.Series(["a", missing], dtype="object")):
        assert events_of({"x": column})[:2] == (found, set())
    assert events_of([{"x": "a"}, {"x": missing}])[:2] == (found, set())
    assert events_of([{"x": ["a", missing]}])[:2] == (found[:1], set())
    refused = payload_of([{"x": missing, "wide": 1 << 70}]).refused[0]
    assert refused.fields["attribute"] == "wide"


def test_nan_is_missing_but_in_a_column_of_floats() -> None:
    objects: Any = pd.Series(["a", np.nan], dtype="object")
    assert events_of({"x": objects})[:2] == ([{"x": ("a",)}, {}], set())
    for column in (np.array([1.0, np.nan]), pd.Series([1.0, np.nan])):
        assert events_of({"x": column})[:2] == ([{"x": (1,)}, {}], {1})


def test_times_are_microseconds() -> None:
    second = EPOCH + datetime.timedelta(seconds=1)
    for zone in (None, "UTC", "Asia/Tokyo"):
        moment = second if zone is None else second.tz_localize("UTC").tz_convert(zone)
        for series in (pd.Series([moment, pd.NaT]), pd.Series([moment, pd.NaT]).astype("category")):
            assert events_of({"t": series}) == ([{"t": (1_000_000,)}, {}], set(), "columns")
    rows = payload_of([{"t": second.tz_localize("UTC")}, {"t": second}])
    raw = decode_payload(rows.header, rows.buffers, Schema((Attribute("t", DomainKind.TIMESTAMP),)))
    assert event_values(raw, 0) == {"t": (1_000_000,)} and set(rows.refused) == set(raw.refused) == {1}
    with pytest.raises(CallerError, match="not carried"):
        events_of({"t": pd.Series([second - EPOCH])})


def test_a_whole_dataframe() -> None:
    columns = {"n": pd.Series([WIDE, None], dtype="Int64"), "s": pd.Series(["a", None], dtype="object")}
    frame = pd.DataFrame(columns).set_axis([7, 8])
    assert events_of(frame) == events_of(columns) == events_of({"n": [WIDE, None], "s": ["a", None]})
    assert events_of(frame[:0])[0] == events_of(pd.DataFrame())[0] == []
    for names in (["a", 1], [("a", "b"), "c"]):
        with pytest.raises(CallerError, match="not text"):
            events_of(pd.DataFrame([[1, 2]], columns=pd.Index(names, dtype="object")))
    with pytest.raises(CallerError, match="have one name"):
        events_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    for other in (frame["n"], frame.index, pd.NA):
        with pytest.raises(EventError, match="no batch of events"):
            events_of(other)
    with pytest.raises(CallerError, match="not one-dimensional"):
        events_of({"a": frame})
    for value in (pd.NA, EPOCH, pd.NaT):
        with pytest.raises(CallerError, match="looks like one event"):
            events_of({"a": value})
    assert 0 in payload_of([{"many": [pd.NaT, EPOCH, pd.NA], "wide": 1 << 70}]).refused
