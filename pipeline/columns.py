"""Events of a DataFrame on their way to a Python worker: few columns out, many attributes again over there.

Every column of a row costs Spark a call, so attributes of one type travel as one array. The worker takes the
arrays apart without an object per value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

MICROSECONDS_PER_DAY = 86_400_000_000
ID_COLUMN = "event_id"
_OWN = "_own"


class Packed(NamedTuple):
    """Which attribute lies where.

    Attributes
    ----------
    arrays : dict of str to tuple of str
        Attributes of each array column, in its order.
    single : tuple of str
        Attributes that travel as they are: lists and structures.
    """

    arrays: dict[str, tuple[str, ...]]
    single: tuple[str, ...]


def pack_columns(events: DataFrame, attributes: Collection[str], id_column: str) -> tuple[DataFrame, Packed]:
    """Return the events with their id and attributes of one type as one array.

    Parameters
    ----------
    events : DataFrame
    attributes : collection of str
        Those that matter; other columns are left behind.
    id_column : str

    Returns
    -------
    packed : DataFrame
        ``event_id``, one column per type, and single ones.
    where : Packed
    """
    groups: dict[str, list[tuple[str, Column]]] = {}
    single: list[str] = []
    for field in events.schema.fields:
        if field.name not in attributes or field.name == id_column:
            continue
        placed = _placed(field)
        if placed is None:
            single.append(field.name)
        else:
            groups.setdefault(placed[0], []).append((field.name, placed[1]))
    chosen = [_column(id_column).alias(ID_COLUMN)]
    chosen += [F.array(*(column for _, column in group)).alias(name) for name, group in groups.items()]
    chosen += [_column(name).alias(f"{_OWN}{number}") for number, name in enumerate(single)]
    arrays = {name: tuple(attribute for attribute, _ in group) for name, group in groups.items()}
    return events.select(*chosen), Packed(arrays, tuple(single))


def unpack_columns(batch: pa.RecordBatch, packed: Packed) -> dict[str, Any]:
    """Return a column per attribute: masked NumPy arrays, or Arrow arrays of texts."""
    found: dict[str, Any] = {}
    for name, attributes in packed.arrays.items():
        found |= _taken_apart(batch.column(name), attributes)
    for number, attribute in enumerate(packed.single):
        found[attribute] = batch.column(f"{_OWN}{number}")
    return found


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _placed(field: T.StructField) -> tuple[str, Column] | None:
    """Return the array that a column travels in, and the column as it goes there."""
    column, kind = _column(field.name), field.dataType
    if isinstance(kind, T.ByteType | T.ShortType | T.IntegerType):
        return "int", column.cast("int")
    if isinstance(kind, T.LongType):
        return "long", column
    if isinstance(kind, T.FloatType | T.DoubleType | T.DecimalType):
        return "double", column.cast("double")
    if isinstance(kind, T.BooleanType):
        return "boolean", column
    if isinstance(kind, T.StringType):
        return "string", column
    if isinstance(kind, T.TimestampType):
        return "long", F.unix_micros(column)
    if isinstance(kind, T.DateType):
        return "long", F.unix_date(column).cast("long") * MICROSECONDS_PER_DAY
    return None


def _taken_apart(lists: pa.ListArray, attributes: tuple[str, ...]) -> Mapping[str, Any]:
    values, width = lists.flatten(), len(attributes)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        at = np.arange(len(lists)) * width
        return {name: values.take(pa.array(at + number)) for number, name in enumerate(attributes)}
    if pa.types.is_boolean(values.type):
        data = values.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        data = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype())
        data = data[values.offset : values.offset + len(values)]
    table = data.reshape(len(lists), width)
    if values.null_count == 0:
        return {name: table[:, number] for number, name in enumerate(attributes)}
    missing = values.is_null().to_numpy(zero_copy_only=False).reshape(len(lists), width)
    return {
        name: np.ma.masked_array(table[:, number], missing[:, number])
        if missing[:, number].any()
        else table[:, number]
        for number, name in enumerate(attributes)
    }
