"""Columns of plain numbers in one pass: what publishers with arrays send most, without a look at each column.

Arrays of ``int64`` and ``float64`` that all have a value for every event go into one block, one behind the
other, and the texts that describe them are made once for all batches alike. Anything else is left to
`pubsub_cluster.language.payload.payload_from_columns`, which makes the same payload of these, buffer by
buffer.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson

FORMS_KEPT = 64
_TYPES = {np.dtype(np.int64): "int64", np.dtype(np.float64): "float64"} if sys.byteorder == "little" else {}
_ITEM_BYTES = 8


class DenseColumns(NamedTuple):
    """A batch of dense columns.

    Attributes
    ----------
    event_count : int
    header_json : bytes
        The payload's header.
    sizes_json : bytes
        The sizes of its buffers, a list.
    block : bytes
        The buffers, one behind the other.
    """

    event_count: int
    header_json: bytes
    sizes_json: bytes
    block: bytes


def dense_columns(columns: dict[Any, Any], size_bytes_max: int) -> DenseColumns | None:
    """Return columns as one block; None when not all are dense numbers, or they exceed `size_bytes_max`."""
    if not columns:
        return None
    values = list(columns.values())
    # A subclass (a masked array) may mean more than its values say.
    if set(map(type, values)) != {np.ndarray}:
        return None
    types = [_TYPES.get(value.dtype) for value in values]
    event_count = len(values[0]) if values[0].ndim == 1 else 0
    if None in types or not event_count or event_count * _ITEM_BYTES * len(values) > size_bytes_max:
        return None
    shape = values[0].shape
    if any([value.shape != shape for value in values]):
        return None
    header_json, sizes_json = _texts(tuple(columns), tuple(types), event_count)
    if not header_json:
        return None
    try:
        block = b"".join(values)
    except TypeError:  # an array with gaps
        return None
    return DenseColumns(event_count, header_json, sizes_json, block)


@lru_cache(FORMS_KEPT)
def _texts(names: tuple[Any, ...], types: tuple[str | None, ...], event_count: int) -> tuple[bytes, bytes]:
    """Return header and sizes as JSON; empty when a name cannot be said in it."""
    described = [
        {"name": name, "type": column_type, "valid": False, "many": False}
        for name, column_type in zip(names, types, strict=True)
    ]
    header = {"format": "columns", "event_count": event_count, "columns": described}
    try:
        return orjson.dumps(header), orjson.dumps([event_count * _ITEM_BYTES] * len(names))
    except (orjson.JSONEncodeError, TypeError):
        return b"", b""
