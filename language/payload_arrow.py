"""Columns of Apache Arrow: read from their buffers, without an object per value, when pyarrow is at hand.

pyarrow is never imported here: whoever has an Arrow array has imported it. Numbers, booleans, texts, times
and dictionaries of these are carried as arrays; lists, structs and decimals become Python values.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.payload_text import Utf8Values


def is_arrow(given: Any) -> bool:
    """Say whether `given` is something of pyarrow."""
    return type(given).__module__.partition(".")[0] == "pyarrow"


def columns_of_arrow(given: Any) -> Mapping[str, Any] | None:
    """Return the columns of an Arrow table or record batch by name; None for anything else."""
    if not is_arrow(given) or not hasattr(given, "schema"):
        return None
    if len(set(given.schema.names)) < len(given.schema.names):
        raise CallerError("two columns of the table have one name", seen=given.schema.names)
    return dict(zip(given.schema.names, given.columns, strict=True))


def values_of_arrow(
    given: Any,
) -> tuple[npt.NDArray[Any] | Utf8Values | list[Any], npt.NDArray[np.bool_] | None]:
    """Return the values of an Arrow array, and where there are any (None: everywhere).

    Parameters
    ----------
    given : pyarrow.Array or pyarrow.ChunkedArray
    """
    arrow = sys.modules["pyarrow"]
    array = given.combine_chunks() if isinstance(given, arrow.ChunkedArray) else given
    if isinstance(array, arrow.ChunkedArray):  # as some versions leave an empty one
        array = arrow.concat_arrays(array.chunks) if array.num_chunks else arrow.array([], array.type)
    types = arrow.types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        return _texts(array if valid is None else array.fill_null(""), arrow), valid
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        if types.is_float16(kind):
            array = array.cast(arrow.float32())
        filled = array if valid is None else array.fill_null(False if types.is_boolean(kind) else 0)
        return filled.to_numpy(zero_copy_only=False), valid
    if types.is_timestamp(kind) or types.is_date(kind):
        return array.to_numpy(zero_copy_only=False).astype("datetime64[us]"), valid
    return array.to_pylist(), None


def _texts(array: Any, arrow: Any) -> Utf8Values:
    large = array.cast(arrow.large_string())
    _, offset_buffer, data_buffer = large.buffers()
    first, stop = large.offset, large.offset + len(large)
    if len(large) == 0 or offset_buffer is None:
        return Utf8Values(np.zeros(len(large) + 1, np.int64), np.zeros(0, np.uint8))
    offsets = np.frombuffer(offset_buffer, np.int64)[first : stop + 1]
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return Utf8Values(offsets - offsets[0], data[offsets[0] : offsets[-1]])
