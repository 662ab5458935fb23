"""A schema and batches of columns for tests of payloads, and what holds of every decoded one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pubsub_cluster.language.batch import RawBatch
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

SCHEMA = Schema(
    (
        Attribute("n", DomainKind.INTEGER, unique=True),
        Attribute("f", DomainKind.FLOAT),
        Attribute("s", DomainKind.STRING),
        Attribute("b", DomainKind.BOOLEAN),
        Attribute("t", DomainKind.TIMESTAMP),
        Attribute("e", DomainKind.ENUMERATED, ("low", "high"), ordered=True),
        Attribute("h", DomainKind.HIERARCHICAL, ("a/b", "a/c")),
    )
)


def check_arrays(raw: RawBatch) -> None:
    for entries in raw.attributes.values():
        assert any(rows is not None for rows in entries)
        for rows in entries:
            if rows is None:
                continue
            assert rows.event.dtype == np.int32 and rows.event.size
            assert (np.diff(rows.event) >= 0).all() and rows.event[-1] < raw.event_count
            arrays = [array for name, array in rows._asdict().items() if name != "data"]
            assert len({array.shape for array in arrays}) == 1
            assert all(array.flags.c_contiguous and array.flags.writeable for array in arrays)
    for entries in raw.attributes.values():
        if entries.texts is not None:
            assert not entries.texts.data.flags.writeable
    for event_idx, error in raw.refused.items():
        assert error.fields["event_index"] == event_idx


cells: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.sampled_from([0, 1, -1, 7, INT64_MAX, INT64_MIN]),
    "float64": st.sampled_from([0.0, -0.0, 1.0, 2.5, math.inf, -math.inf, math.nan, 2.0**63, 1e300]),
    "int32": st.sampled_from([0, -1, 2**31 - 1, -(2**31)]),
    "int16": st.sampled_from([0, 3, 2**15 - 1, -(2**15)]),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "bool": st.booleans(),
    "utf8": st.sampled_from(["", "x", "low", "a/b", "é😀", "1970-01-01T00:00:01Z", "1234567"]),
}


@st.composite
def column_batches(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any], list[dict[str, Any]]]:
    """A payload of columns in every variety, made by hand, and the events that it stands for."""
    event_count = draw(st.integers(0, 5))
    events: list[dict[str, Any]] = [{} for _ in range(event_count)]
    described, buffers = [], []
    for name in draw(st.lists(st.sampled_from("nfsbtehz"), unique=True, max_size=4)):
        column_type = draw(st.sampled_from(sorted(cells)))
        has_valid, is_many = draw(st.booleans()), draw(st.booleans())
        cell = cells[column_type]
        lists = [draw(st.lists(cell, max_size=3)) if is_many else [draw(cell)] for _ in events]
        valid = [draw(st.booleans()) if has_valid else True for _ in events]
        for event, found, is_valid in zip(events, lists, valid, strict=True):
            if is_valid:
                event[name] = found if is_many else found[0]
        described.append({"name": name, "type": column_type, "valid": has_valid, "many": is_many})
        if has_valid:
            buffers.append(np.array(valid, dtype=np.uint8).tobytes())
        if is_many:
            buffers.append(np.cumsum([0, *map(len, lists)], dtype=np.int64).tobytes())
        flat = [value for found in lists for value in found]
        if column_type == "utf8":
            parts = [text.encode() for text in flat]
            buffers.append(np.cumsum([0, *map(len, parts)], dtype=np.int64).tobytes())
            buffers.append(b"".join(parts))
        else:
            dtype = np.dtype("u1" if column_type == "bool" else column_type).newbyteorder("<")
            buffers.append(np.array(flat, dtype=dtype).tobytes())
    return {"format": "columns", "event_count": event_count, "columns": described}, buffers, events
