"""Columns of plain numbers in one pass: what publishers with arrays send most, without a look at each column.

Arrays of numbers that all have a value for every event go into one block, one behind the other, and the
texts that describe them are made once for all batches alike. Integers go as the narrowest type that holds
all of the batch: what is not sent is not copied by anybody on its way to the worker either. Anything else is
left to `pubsub_cluster.language.payload.payload_from_columns`, which makes a payload of the same values,
buffer by buffer.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

FORMS_KEPT = 64
NARROW_FROM_BYTES = 4 << 10
"""Below this, finding the narrowest type costs more than it saves."""
WIDER_BATCHES = 32
"""So many batches of the same columns go as wide as one has to: only those of one type travel together."""
_SIGNED: list[tuple[str, np.dtype[Any]]] = [
    ("int8", np.dtype(np.int8)),
    ("int16", np.dtype(np.int16)),
    ("int32", np.dtype(np.int32)),
    ("int64", np.dtype(np.int64)),
]
_IS_LITTLE = sys.byteorder == "little"
_TYPES = {np.dtype(np.int64): "int64", np.dtype(np.float64): "float64"} if _IS_LITTLE else {}
# What int64 holds, and is in the order of this machine.
_INTEGERS = frozenset(map(np.dtype, "bhilqBHI")) - {np.dtype(np.uint64)} if _IS_LITTLE else frozenset()
_ITEM_BYTES = 8
_ARRAYS = {np.ndarray}
_shape_of, _dtype_of = attrgetter("shape"), attrgetter("dtype")
_kept = threading.local()


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
        The buffers, one behind the other, each filled up with zeros to a multiple of eight bytes.
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
    if set(map(type, values)) != _ARRAYS:
        return None
    event_count = _event_count(values)
    wide_bytes = event_count * _ITEM_BYTES * len(values)
    if not event_count or wide_bytes > size_bytes_max:
        return None
    if wide_bytes >= NARROW_FROM_BYTES and _are_integers(values):
        return _narrow(tuple(columns), [values], event_count)
    types = tuple([_TYPES.get(value.dtype) for value in values])
    if None in types:
        return None
    texts = _texts(tuple(columns), types, event_count, _ITEM_BYTES)
    if texts is None:
        return None
    try:
        block = b"".join(values)
    except TypeError:  # an array with gaps
        return None
    return DenseColumns(event_count, *texts, block)


def stacked_columns(batches: Sequence[Any], size_bytes_max: int) -> DenseColumns | None:
    """Return batches of the same columns of integers as one batch, the events of each behind the last one's.

    Parameters
    ----------
    batches : sequence of Batch
    size_bytes_max : int
        Of all values, at eight bytes each.

    Returns
    -------
    DenseColumns or None
        None when one of them is no such batch, or they exceed `size_bytes_max` together.
    """
    if set(map(type, batches)) != {dict} or not batches[0]:
        return None
    names = tuple(batches[0])
    rows = [list(batch.values()) for batch in batches]
    for batch, values in zip(batches, rows, strict=True):
        alike = tuple(batch) == names and set(map(type, values)) == _ARRAYS and _are_integers(values)
        if not alike or not _event_count(values):
            return None
    event_count = sum([len(values[0]) for values in rows])
    if not NARROW_FROM_BYTES <= event_count * _ITEM_BYTES * len(names) <= size_bytes_max:
        return None
    return _narrow(names, rows, event_count)


def _event_count(values: list[npt.NDArray[Any]]) -> int:
    """Return how long columns are; 0 where they are not alike, or no columns."""
    shapes = set(map(_shape_of, values))
    return values[0].shape[0] if len(shapes) == 1 and values[0].ndim == 1 else 0


def _are_integers(values: list[npt.NDArray[Any]]) -> bool:
    return _INTEGERS.issuperset(set(map(_dtype_of, values)))


def _narrow(
    names: tuple[Any, ...], rows: list[list[npt.NDArray[Any]]], event_count: int
) -> DenseColumns | None:
    """Return columns of integers in the narrowest type that holds them all, and others lately.

    `rows` are the columns of one batch or of several, with so many events together.
    """
    lately = _settled_lately(names)
    block, fitting = _block_of(names, rows, event_count, lately)
    taken = _settled(names, fitting)
    if taken != lately:
        block, _ = _block_of(names, rows, event_count, taken)
    name, dtype = _SIGNED[taken]
    texts = _texts(names, (name,) * len(names), event_count, dtype.itemsize)
    return None if texts is None else DenseColumns(event_count, *texts, block)


def _block_of(
    names: tuple[Any, ...], rows: list[list[npt.NDArray[Any]]], event_count: int, fitting: int
) -> tuple[bytes, int]:
    """Return the columns as integers of a type, a number in `_SIGNED`, and the number that would fit."""
    dtype = _SIGNED[fitting][1]
    filled = -(event_count * dtype.itemsize) % _ITEM_BYTES // dtype.itemsize
    size_bytes = len(names) * (event_count + filled) * dtype.itemsize
    block = _room("block", -(-size_bytes // _ITEM_BYTES)).view(dtype)[: len(names) * (event_count + filled)]
    block = block.reshape(len(names), event_count + filled)
    block[:, event_count:] = 0
    first, needed = 0, 0
    for values in rows:  # one batch after the other, in memory that stays near
        stop = first + len(values[0])
        wide = np.concatenate(values, out=_room("wide", (stop - first) * len(names)))
        needed = max(needed, _narrowest(wide))
        np.copyto(block[:, first:stop], wide.reshape(len(names), stop - first), casting="unsafe")
        first = stop
    return block.tobytes(), needed


def _narrowest(wide: npt.NDArray[np.int64]) -> int:
    """Return the narrowest type that holds all numbers, a number in `_SIGNED`."""
    # All bits that are set in one of them: as good as the largest, and found in one pass.
    low, high = 0, int(np.bitwise_or.reduce(wide))
    if high < 0:
        low, high = int(wide.min()), max(int(wide.max()), 0)  # -128 alone is no number of nine bits
    bits = max((~low).bit_length(), high.bit_length()) + 1 if low < 0 else high.bit_length() + 1
    return (bits > 8) + (bits > 16) + (bits > 32)


def _settled_lately(names: tuple[Any, ...]) -> int:
    """Return the type that was taken for such columns last, a number in `_SIGNED`."""
    known: dict[Any, tuple[int, int]] = _kept.__dict__.setdefault("types", {})
    return known.get(names, (0, 0))[0]


def _settled(names: tuple[Any, ...], fitting: int) -> int:
    """Return the type to take, a number in `_SIGNED`, where `fitting` is the narrowest for this batch."""
    known: dict[Any, tuple[int, int]] = _kept.__dict__.setdefault("types", {})
    taken, unneeded = known.get(names, (0, 0))
    if fitting >= taken or unneeded >= WIDER_BATCHES:
        taken, unneeded = fitting, -1
    if names not in known and len(known) >= FORMS_KEPT:
        known.clear()
    known[names] = taken, unneeded + 1
    return taken


def _room(use: str, count: int) -> npt.NDArray[np.int64]:
    """Return an int64[count] that this thread keeps for a use: new memory costs more than to fill it."""
    kept: npt.NDArray[np.int64] | None = getattr(_kept, use, None)
    if kept is None or len(kept) < count:
        kept = np.empty(count, np.int64)
        setattr(_kept, use, kept)
    return kept[:count]


@lru_cache(FORMS_KEPT)
def _texts(
    names: tuple[Any, ...], types: tuple[str | None, ...], event_count: int, item_bytes: int
) -> tuple[bytes, bytes] | None:
    """Return header and sizes as JSON; None when a name cannot be said in it."""
    described = [
        {"name": name, "type": column_type, "valid": False, "many": False}
        for name, column_type in zip(names, types, strict=True)
    ]
    header = {"format": "columns", "event_count": event_count, "columns": described}
    try:
        return orjson.dumps(header), orjson.dumps([event_count * item_bytes] * len(names))
    except (orjson.JSONEncodeError, TypeError):
        return None
