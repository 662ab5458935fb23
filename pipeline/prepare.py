"""Raw tables to events: columns mapped to a schema's attributes, values judged, what is bad put aside.

    judged = raw.transform(map_columns({"from": "origin"})).transform(validate(schema))
    judged.transform(good_events)      a column per attribute, null where there is no value
    judged.transform(rejected_values)  file, row, column, reason, value: one for everything that is wrong

Every function here takes and gives DataFrames. An event with a bad value is rejected whole, as the cluster
refuses it. Columns whose names begin with an underscore say where a row comes from; `pipeline.raw` adds them.
Attributes that the schema does not declare are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.language.declarations import nearest
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Attribute, Schema
from pubsub_cluster.pipeline.domains import Checked, checked, types_of

FILE, ROW, BLOCK, INDEX = "_file", "_row", "_block", "_index"
CORRUPT = "_corrupt"
"""The record as it stands, where its fields are not those of the header."""
PROBLEMS, REJECTED = "_problems", "_rejected"
PLACE = (FILE, ROW, BLOCK, INDEX)
EVENT_ID = "event_id"
PROBLEM = "array<struct<column: string, reason: string, value: string>>"
VALUE_SHOWN_MAX = 1_024
OTHER_FIELDS = "the record has other fields than the header"
REJECTS = "file string, row long, column string, reason string, value string"

Transform: TypeAlias = Callable[[DataFrame], DataFrame]


def map_columns(mapping: Mapping[str, str]) -> Transform:
    """Return a transform that gives columns the names of attributes.

    Parameters
    ----------
    mapping : mapping of str to str
        New names by old ones. A field of a struct is named by its path, ``payload.user``. Columns that are
        not named here keep their names.

    Raises
    ------
    CallerError
        (By the transform.) There is no such column, or two would have one name.
    """

    def mapped(raw: DataFrame) -> DataFrame:
        found = _flat(raw.schema)
        missing = [old for old in mapping if old not in found]
        if missing:
            raise CallerError(
                "the table has no such column to map",
                seen=missing[0],
                limit=sorted(found),
                remedy=nearest(missing[0], sorted(found)),
            )
        names = [mapping.get(name, name) for name in found]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise CallerError(
                "two columns would have the same name",
                seen=repeated[0],
                remedy=f"Map the other one away: --map {repeated[0]}=OTHER",
            )
        return raw.select([one.alias(new) for (one, _), new in zip(found.values(), names, strict=True)])

    return mapped


def validate(schema: Schema, limits: Limits = DEFAULT_LIMITS, parse_text: bool = False) -> Transform:
    """Return a transform that judges values.

    It gives a column per declared attribute that the table has, of the type that events have, null where the
    value is missing or bad; `event_id` and the place of the row, where there are any; `REJECTED`, and
    `PROBLEMS`, which costs nothing where nobody looks at it.

    Parameters
    ----------
    schema : Schema
        At least one attribute.
    limits : Limits
    parse_text : bool
        Read numbers and booleans from text columns, as a file without types needs it.

    Raises
    ------
    CallerError
        The schema has event types, which are judged by the cluster alone.
        (By the transform.) The table has none of the attributes, or a column is of a type of which its
        attribute's domain takes no value.
    """

    if schema.types is not None:
        raise CallerError(
            "events of a schema with event types are not prepared",
            seen=list(schema.types.names)[:20],
            limit="schemas without `types`",
            remedy="Publish them as they are: the cluster checks each event against its types.",
        )

    def judged(raw: DataFrame) -> DataFrame:
        found = _flat(raw.schema)
        attributes = [each for each in schema.attributes if each.name in found]
        if not attributes:
            raise CallerError(
                "the table has no column of a declared attribute",
                seen=[name for name in found if not name.startswith("_")],
                limit=sorted(schema.names),
                remedy="Map its columns: --map OLD=NEW",
            )
        # Step by step, each value said once: said again in every condition, the code that Spark makes of
        # forty attributes grows past its bounds and is not compiled.
        kept = [name for name in (*PLACE, EVENT_ID) if name in found and name not in schema.names]
        record = [F.col(CORRUPT)] if CORRUPT in found else []
        raws = [found[each.name][0].alias(f"_raw{number}") for number, each in enumerate(attributes)]
        values, problems, are_bad = [], [], [F.col(CORRUPT).isNotNull()] if record else []
        for number, attribute in enumerate(attributes):
            one = _checked(F.col(f"_raw{number}"), found[attribute.name][1], attribute, limits, parse_text)
            values.append(one.value.alias(f"_value{number}"))
            is_bad = F.col(f"_raw{number}").isNotNull() & F.col(f"_value{number}").isNull()
            are_bad.append(is_bad)
            shown = F.left(F.col(f"_raw{number}").cast("string"), F.lit(VALUE_SHOWN_MAX))
            problems.append(F.when(is_bad, _problem(F.lit(attribute.name), one.reason, shown)))
        told = F.filter(F.array(*problems), lambda one: one.isNotNull())
        if record:
            text = F.left(F.col(CORRUPT), F.lit(VALUE_SHOWN_MAX))
            whole = F.array(_problem(F.lit(None), F.lit(OTHER_FIELDS), text))
            told = F.when(F.col(CORRUPT).isNotNull(), whole).otherwise(told)
        return (
            raw.select(*kept, *record, *raws)
            .select("*", *values)
            .select(
                *kept,
                *(F.col(f"_value{number}").alias(each.name) for number, each in enumerate(attributes)),
                reduce(or_, are_bad).alias(REJECTED),
                told.cast(PROBLEM).alias(PROBLEMS),
            )
        )

    return judged


def _checked(
    column: Column, kind: T.DataType, attribute: Attribute, limits: Limits, parse_text: bool
) -> Checked:
    found = checked(column, kind, attribute, limits, parse_text)
    if found is None:
        raise CallerError(
            f"column {attribute.name!r} is {kind.simpleString()}: domain {attribute.domain} takes none of it",
            limit=types_of(attribute.domain),
            remedy="Cast it, map another column, or declare another domain.",
            attribute=attribute.name,
        )
    return found


def good_events(judged: DataFrame) -> DataFrame:
    """Return the events that may be published, of what `validate` gave."""
    good = judged.filter(~F.col(REJECTED))
    return good.select([F.col(_quoted(name)) for name in judged.columns if not name.startswith("_")])


def rejected_values(judged: DataFrame) -> DataFrame:
    """Return everything that is wrong, of what `validate` gave, and where; columns as in `REJECTS`.

    What the table does not say of a place is null: a DataFrame that was not read from files has neither files
    nor rows. `BLOCK` and `INDEX` are kept, for `pipeline.raw.numbered`.
    """
    file = F.col(FILE) if FILE in judged.columns else F.lit(None).cast("string")
    row = F.col(ROW) if ROW in judged.columns else F.lit(None).cast("long")
    kept = [name for name in (BLOCK, INDEX) if name in judged.columns]
    # Counting is a fence: a condition would else be pushed down to the files, all of its values said again.
    fenced = judged.observe("rejects", F.count(F.lit(1)).alias("rows")).filter(REJECTED)
    each = fenced.select(file.alias("file"), row.alias("row"), *kept, F.explode(PROBLEMS).alias("one"))
    return each.select("file", "row", *kept, "one.column", "one.reason", "one.value")


def left_out(raw: DataFrame, schema: Schema) -> tuple[list[str], list[str]]:
    """Return the columns of a mapped table that no event will have, and the attributes without a column."""
    found = [name for name in _flat(raw.schema) if not name.startswith("_") and name != EVENT_ID]
    return (
        [name for name in found if schema.get(name) is None],
        [name for name in schema.names if name not in found],
    )


def _problem(column: Column, reason: Column, value: Column) -> Column:
    return F.struct(
        column.cast("string").alias("column"),
        reason.cast("string").alias("reason"),
        value.cast("string").alias("value"),
    )


def _flat(struct: T.StructType, path: tuple[str, ...] = ()) -> dict[str, tuple[Column, T.DataType]]:
    """Return the columns of a table by name; fields of a struct are columns named by their paths."""
    found: dict[str, tuple[Column, T.DataType]] = {}
    for field in struct.fields:
        inner = (*path, field.name)
        if isinstance(field.dataType, T.StructType):
            found |= _flat(field.dataType, inner)
        else:
            found[".".join(inner)] = (F.col(_quoted(*inner)), field.dataType)
    return found


def _quoted(*path: str) -> str:
    """Return the name of a column, or of a field of a struct, as Spark reads it."""
    return ".".join("`" + step.replace("`", "``") + "`" for step in path)
