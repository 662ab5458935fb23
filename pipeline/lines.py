"""Events that are lines of JSON: read by the code that reads them in the cluster, batch by batch.

A line of JSON has a value of any type under any name, so it is no row of a table yet, and what it says is a
question to the language. What comes out is a table: one value per attribute, the values as they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import EventReader, refuse_several
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

INEXACT = "is a whole number that a double cannot hold exactly"
TYPES = {
    DomainKind.INTEGER: pa.int64(), DomainKind.FLOAT: pa.float64(), DomainKind.BOOLEAN: pa.bool_(),
    DomainKind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}  # fmt: skip
SPARK_TYPES = {
    DomainKind.INTEGER: "long", DomainKind.FLOAT: "double", DomainKind.BOOLEAN: "boolean",
    DomainKind.TIMESTAMP: "timestamp",
}  # fmt: skip
_PROBLEM_NAMES = ("column", "reason", "value")
_PROBLEM = pa.struct([(name, pa.string()) for name in _PROBLEM_NAMES])
_VERDICT = [("_rejected", pa.bool_()), ("_problems", pa.list_(_PROBLEM))]
_PLACES = [("_file", pa.string()), ("_block", pa.int64()), ("_index", pa.int64())]
VALUE_SHOWN_MAX = 1_024

Problem = tuple[str | None, str, str]


class LineReader:
    """Reads lines as events of a schema.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    mapping : dict of str to str, optional
        New names by old ones; a member of an object is named by its path, ``payload.user``.
    id_name : str, optional
        The member (by its new name) that names the event: a column of text of its own.
    """

    def __init__(
        self,
        schema: Schema,
        limits: Limits = DEFAULT_LIMITS,
        mapping: dict[str, str] | None = None,
        id_name: str | None = None,
    ) -> None:
        self._schema = schema
        self._mapping = mapping or {}
        self._id_name = id_name
        self._decode = msgspec.json.Decoder().decode
        self._plain = EventReader(limits=limits)
        self._judge = EventReader(schema, limits)

    def read(self, line: bytes) -> tuple[dict[str, Any], list[Problem]]:
        """Return the values of one line by attribute, and what is wrong with it."""
        try:
            flat = self._plain.flatten(self._decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return {}, [(None, "the event is no json document", f"{error}: {_shown_line(line)}")]
        except EventError as error:
            return {}, [(error.fields.get("attribute"), error.condition, _shown(error.seen))]
        found: dict[str, Any] = {}
        problems: list[Problem] = []
        for old, values in flat.items():
            name = self._mapping.get(old, old)
            attribute = self._schema.get(name)
            if attribute is None:
                if name == self._id_name:
                    found[name] = str(values[0])
                continue
            try:
                if name in found:
                    raise EventError(f"attribute {name!r} has two fields mapped to it", seen=old)
                found[name] = self._value(attribute, values)
            except EventError as error:
                problems.append((name, error.condition, _shown(values[0] if len(values) == 1 else values)))
        return ({} if problems else found), problems

    def _value(self, attribute: Attribute, values: tuple[Any, ...]) -> Any:
        if len(values) > 1:
            if attribute.unique:
                refuse_several(attribute.name, len(values))
            raise EventError(f"attribute {attribute.name!r} has several values, and a table has one")
        value = values[0]
        canonical = self._judge.canonical(attribute, value)
        if attribute.domain in (DomainKind.INTEGER, DomainKind.TIMESTAMP):
            return canonical
        if attribute.domain is DomainKind.FLOAT:
            if float(value) != value:
                raise EventError(f"attribute {attribute.name!r} {INEXACT}")
            return float(value)
        return value

    @property
    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Names and types of the columns of `table`."""
        ids = [(self._id_name, pa.string())] if self._id_name else []
        values = [(each.name, TYPES.get(each.domain, pa.string())) for each in self._schema.attributes]
        return [*_PLACES, *ids, *values, *_VERDICT]

    @property
    def spark_schema(self) -> str:
        """The same for Spark."""
        ids = [f"`{self._id_name}` string"] if self._id_name else []
        values = [
            f"`{each.name.replace('`', '``')}` {SPARK_TYPES.get(each.domain, 'string')}"
            for each in self._schema.attributes
        ]
        problems = "_rejected boolean, _problems array<struct<column: string, reason: string, value: string>>"
        return ", ".join(["_file string, _block long, _index long", *ids, *values, problems])

    def table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return lines (column ``line``, bytes) with their places as events; blank lines are left out."""
        lines = batch.column("line").to_pylist()
        kept = [i for i, line in enumerate(lines) if line and line.strip()]
        read = [self.read(lines[i].strip()) for i in kept]
        at = pa.array(kept, pa.int64())
        places = [batch.column(name).take(at) for name, _ in _PLACES]
        arrays = [
            pa.array([values.get(name) for values, _ in read], kind) for name, kind in self.columns[3:-2]
        ]
        problems = [[dict(zip(_PROBLEM_NAMES, one, strict=True)) for one in found] for _, found in read]
        arrays.append(pa.array([bool(found) for found in problems], pa.bool_()))
        arrays.append(pa.array(problems, pa.list_(_PROBLEM)))
        return pa.RecordBatch.from_arrays([*places, *arrays], schema=pa.schema(self.columns))


def reader_of_lines(
    schema: Schema, limits: Limits, mapping: dict[str, str], id_name: str | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what makes tables of the batches of a task, for `DataFrame.mapInArrow`."""

    def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(LineReader(schema, limits, mapping, id_name).table, batches)

    return tables


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:VALUE_SHOWN_MAX].encode(errors="replace").decode()


def _shown_line(line: bytes) -> str:
    return line[:VALUE_SHOWN_MAX].decode(errors="replace")
