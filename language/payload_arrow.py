"""Columns of Apache Arrow: read from their buffers, without an object per value, when pyarrow is at hand.

pyarrow is never imported here: whoever has an Arrow array has imported it. Numbers, booleans, texts, times
and dictionaries of these are carried as arrays; lists, structs and decimals become Python values. Durations
are refused, as NumPy's are: they have no unit here that a subscription could name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.payload_text import Utf8Values

_VIEWS = ("string_view", "binary_view")


def is_arrow(given: Any) -> bool:
    """Say whether `given` is something of pyarrow."""
    return type(given).__module__.partition(".")[0] == "pyarrow"


def columns_of_arrow(given: Any) -> Mapping[str, Any] | None:
    """Return the columns of an Arrow table or record batch by name; None for what is not of pyarrow.

    Raises
    ------
    EventError
        Something else of pyarrow. A reader of batches may have no end, and what is read of it is gone.
    CallerError
        Two columns have one name.
    """
    if not is_arrow(given):
        return None
    if not hasattr(given, "schema") or not hasattr(given, "columns"):
        raise EventError(
            "this is no batch of events",
            seen=type(given).__name__,
            limit="an Arrow table or record batch",
            remedy="Of a reader publish each record batch, or `reader.read_all()`; of an array make a table.",
        )
    if len(set(given.schema.names)) < len(given.schema.names):
        raise CallerError("two columns of the table have one name", seen=given.schema.names)
    return dict(zip(given.schema.names, given.columns, strict=True))


def values_of_arrow(
    name: str, given: Any
) -> tuple[npt.NDArray[Any] | Utf8Values | list[Any], npt.NDArray[np.bool_] | None]:
    """Return the values of an Arrow array, and where there are any (None: everywhere).

    Parameters
    ----------
    name : str
        The column's, for errors.
    given : pyarrow.Array or pyarrow.ChunkedArray

    Raises
    ------
    CallerError
        No array, or of a type that is not carried.
    """
    arrow = sys.modules["pyarrow"]
    array = given.combine_chunks() if isinstance(given, arrow.ChunkedArray) else given
    if isinstance(array, arrow.ChunkedArray):  # as some versions leave an empty one
        array = arrow.concat_arrays(array.chunks) if array.num_chunks else arrow.array([], array.type)
    if not isinstance(array, arrow.Array):
        raise CallerError(
            f"column {name!r} is no array",
            seen=type(array).__name__,
            limit="an Arrow array or chunked array",
            remedy="Give a column of it; of one event give a list with it.",
        )
    types = arrow.types
    if types.is_dictionary(array.type):
        if str(array.type.value_type) in _VIEWS:  # which can be cast and little else
            kept = array.dictionary.cast(_without_views(array.type.value_type, arrow))
            array = arrow.DictionaryArray.from_arrays(array.indices, kept)
        array = array.dictionary_decode()
    elif str(array.type) in _VIEWS:
        array = array.cast(_without_views(array.type, arrow))
    if types.is_duration(array.type):
        raise CallerError(
            f"column {name!r} has a type that is not carried",
            seen=str(array.type),
            limit="booleans, integers, floats, decimals, timestamps, dates, text, and lists of these",
            remedy="Cast it to int64: then it is a number of its unit.",
        )
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind):
        return _texts(array if valid is None else array.fill_null(""), arrow), valid
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        if types.is_float16(kind):
            array = array.cast(arrow.float32())
        filled = array if valid is None else array.fill_null(False if types.is_boolean(kind) else 0)
        return filled.to_numpy(zero_copy_only=False), valid
    if types.is_timestamp(kind) or types.is_date(kind):
        return array.to_numpy(zero_copy_only=False), valid  # in their own unit
    return array.to_pylist(), None


def _without_views(kind: Any, arrow: Any) -> Any:
    return arrow.large_string() if str(kind) == "string_view" else arrow.large_binary()


def _texts(array: Any, arrow: Any) -> Utf8Values:
    large = array.cast(arrow.large_string())
    _, offset_buffer, data_buffer = large.buffers()
    first, stop = large.offset, large.offset + len(large)
    if len(large) == 0 or offset_buffer is None:
        return Utf8Values(np.zeros(len(large) + 1, np.int64), np.zeros(0, np.uint8))
    offsets = np.frombuffer(offset_buffer, np.int64)[first : stop + 1]
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Utf8Values(offsets - offsets[0], data[offsets[0] : offsets[-1]])
