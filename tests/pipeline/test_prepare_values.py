"""Values judged by Spark's own expressions, against the language: one job judges many values at once."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.events import EventReader
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LISTED = {DomainKind.ENUMERATED: ("small", "large", ""), DomainKind.HIERARCHICAL: ("a/b", "c")}
TAKEN = {
    "long": {DomainKind.INTEGER, DomainKind.FLOAT, DomainKind.TIMESTAMP},
    "byte": {DomainKind.INTEGER, DomainKind.FLOAT, DomainKind.TIMESTAMP},
    "double": {DomainKind.INTEGER, DomainKind.FLOAT},
    "float": {DomainKind.INTEGER, DomainKind.FLOAT},
    "boolean": {DomainKind.BOOLEAN},
    "timestamp": {DomainKind.INTEGER, DomainKind.FLOAT, DomainKind.TIMESTAMP},
    "date": {DomainKind.INTEGER, DomainKind.FLOAT, DomainKind.TIMESTAMP},
    "string": {DomainKind.STRING, DomainKind.TIMESTAMP, *LISTED},
    "text": set(DomainKind),  # of a file without types
}
NUMBERS = [
    "0", "-0", "+7", "007", "1.5", "5.", ".5", "1e3", "2.0", "-1E-2", "1e400", "1e19", "9007199254740993",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", " 12 ", "1_0", "\u0663", "0x1",
    "NaN", "inf", "", " ", "1 2", "--1", "1e", "true", "FALSE", "yes", "1\n",
]  # fmt: skip
INSTANTS = [
    "2013-01-01T00:00:00Z", "2013-02-29T00:00:00Z", "2012-02-29t23:59:59.9999999+23:59",
    "0000-02-29 00:00:00z", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59.1-23:59",
    "2016-12-31T23:59:60Z", "2017-01-01T00:59:60+01:00", "2016-12-31T23:58:60Z", "2013-13-01T00:00:00Z",
    "2013-01-01T24:00:00Z", "2013-01-01T00:00:00", "2013-01-01T00:00:00.Z", "2013-01-01T00:00:00Z\n",
    "2013-04-31T00:00:00Z", "1900-02-29T00:00:00-00:00", "2013-01-01T00:00:00+24:00",
    "2013-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.5Z",
]  # fmt: skip
WORDS = ["small", "large", "Small", "a", "a/b", "b", "c", "x\0y", "\u00e9", "2.00 ", "3.0x", "1.0.0"]
TEXTS = st.one_of(
    st.sampled_from([*NUMBERS, *INSTANTS, *WORDS]),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6),
    st.datetimes().map(lambda when: f"{when.year:04d}-{when:%m-%dT%H:%M:%S.%f}Z"),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**53 + 1, 0]),
    "byte": st.integers(-128, 127),
    "double": st.floats() | st.sampled_from([2.0**63, -(2.0**63), 1.0, -0.0]),
    "float": st.floats(width=32),
    "boolean": st.booleans(),
    "timestamp": st.integers(-(2**50), 2**50).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "date": st.dates(),
    "string": TEXTS,
}
EDGES: dict[str, list[Any]] = {
    "long": [2**53 + 1, 2**63 - 1, -(2**63), 0],
    "byte": [127, -128],
    "double": [2.0**63, -(2.0**63), 2.0**63 - 1024, 1.0, -0.0, 0.5, math.inf, -math.inf, math.nan],
    "float": [0.5, 2.0**24, math.nan],
    "boolean": [True, False],
    "timestamp": [EPOCH, EPOCH - timedelta(microseconds=1)],
    "date": [date(1, 1, 1), date(9999, 12, 31)],
    "string": [*NUMBERS, *INSTANTS, *WORDS],
}
EDGE_ROWS = [
    {name: values[number % len(values)] for name, values in EDGES.items()}
    for number in range(len(EDGES["string"]))
]
ROW = st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()})
ROWS = st.lists(ROW, min_size=25, max_size=25).map(lambda drawn: EDGE_ROWS + drawn)


def declared(name: str, domain: DomainKind) -> Attribute:
    return Attribute(name, domain, LISTED.get(domain, ()))


def raw_name(kind: str) -> str:
    return "string" if kind == "text" else kind


def micros(when: date) -> int:
    if isinstance(when, datetime):
        return (when - EPOCH) // timedelta(microseconds=1)
    return (when - date(1970, 1, 1)).days * 86_400_000_000


def meaning(text: str, domain: DomainKind) -> Any:
    """What a field of a file without types says: by Python's own readers, where its form is a number's."""
    stripped = text.strip(" ")
    if domain is DomainKind.BOOLEAN and stripped.lower() in ("true", "false"):
        return stripped.lower() == "true"
    if domain in (DomainKind.INTEGER, DomainKind.TIMESTAMP):
        whole = re.sub(r"([0-9])[.]0*( *)\Z", r"\1", text) if domain is DomainKind.INTEGER else text
        if re.fullmatch(r"[+-]?[0-9]+", whole.strip("".join(map(chr, range(33))))):
            return int(whole)
    number = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
    if domain is DomainKind.FLOAT and re.fullmatch(number, stripped):
        return float(stripped)
    return text


def expected(kind: str, attribute: Attribute, given: Any) -> tuple[str | None, Any]:
    """Return the reason that the language has against a raw value, or its canonical form."""
    value = given
    if isinstance(given, date):
        value = micros(given)
    elif kind == "float":
        value = struct.unpack("f", struct.pack("f", given))[0]
    elif kind == "text":
        value = meaning(given, attribute.domain)
        if isinstance(value, float) and math.isinf(value):
            return "is a number beyond those of a double", None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return "has domain", None
    try:
        return None, EventReader(Schema((attribute,))).flatten({attribute.name: value})[attribute.name][0]
    except EventError as error:
        return error.condition, None


def canonical(attribute: Attribute, value: Any) -> Any:
    return EventReader(Schema((attribute,))).flatten({attribute.name: value})[attribute.name][0]


# One example of many values, never shrunk: the job is what costs.
@seed(20)
@settings(
    max_examples=1, deadline=None, database=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(rows=ROWS)
def test_spark_judges_values_as_the_language_does(spark: SparkSession, rows: list[dict[str, Any]]) -> None:
    from pyspark.sql import functions as F

    from pubsub_cluster.pipeline.prepare import PROBLEMS, REJECTED, validate

    pairs = [(f"{kind}_{domain}", kind, domain) for kind, taken in TAKEN.items() for domain in sorted(taken)]
    schema = ", ".join(f"{kind} {kind}" for kind in VALUES)
    raw = spark.createDataFrame([tuple(row[kind] for kind in VALUES) for row in rows], schema)
    raw = raw.withColumn("_index", F.monotonically_increasing_id())
    typed = {name: declared(name, domain) for name, kind, domain in pairs if kind != "text"}
    parsed = {name: declared(name, domain) for name, kind, domain in pairs if kind == "text"}
    for attributes, parse in ((typed, False), (parsed, True)):
        columns = [
            F.col("string" if kind == "text" else kind).alias(name)
            for name, kind, _ in pairs
            if name in attributes
        ]
        judged = raw.select("_index", *columns).transform(
            validate(Schema(tuple(attributes.values())), parse_text=parse)
        )
        shown = [
            F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name)
            for name, kind in judged.drop("_index", PROBLEMS, REJECTED).dtypes
        ]
        found = judged.select("_index", PROBLEMS, *shown).orderBy("_index").collect()
        assert len(found) == len(rows)
        for row, got in zip(rows, found, strict=True):
            reasons = {one["column"]: one["reason"] for one in got[PROBLEMS]}
            for name, kind, _ in pairs:
                attribute = attributes.get(name)
                given_value = row[raw_name(kind)]
                if attribute is None:
                    continue
                if given_value is None:
                    assert got[name] is None and name not in reasons
                    continue
                reason, value = expected(kind, attribute, given_value)
                if reason is None:
                    assert name not in reasons, (name, given_value, reasons)
                    assert canonical(attribute, got[name]) == value, (name, given_value)
                else:
                    assert got[name] is None and reason in reasons[name], (name, given_value, reason)


def test_every_other_type_is_refused_before_a_job_starts(spark: SparkSession) -> None:
    from pubsub_cluster.pipeline.prepare import validate

    extra: dict[str, set[DomainKind]] = {
        "decimal(9,2)": {DomainKind.FLOAT}, "binary": set(), "array<long>": set(), "map<string,long>": set(),
        "timestamp_ntz": TAKEN["timestamp"],
    }  # fmt: skip
    for kind, taken in {**TAKEN, **extra}.items():
        if kind == "text":
            continue
        table = spark.createDataFrame([], f"x {kind}")
        for domain in DomainKind:
            judge = validate(Schema((declared("x", domain),)))
            if domain in taken:
                table.transform(judge)
                continue
            with pytest.raises(CallerError, match="takes none of it") as caught:
                table.transform(judge)
            assert caught.value.limit


def test_refused_types_have_no_value_that_the_language_takes() -> None:
    samples: dict[str, list[Any]] = {
        "long": [0, 5], "double": [0.0, 1.5], "boolean": [True], "string": ["", "x", "1", "true"],
    }  # fmt: skip
    for kind, values in samples.items():
        for domain in set(DomainKind) - TAKEN[kind]:
            for value in values:
                with pytest.raises(EventError):
                    EventReader(Schema((declared("x", domain),))).flatten({"x": value})


def test_columns_are_mapped_by_name_and_path(spark: SparkSession) -> None:
    from pubsub_cluster.pipeline.prepare import good_events, left_out, map_columns, rejected_values, validate

    raw = spark.sql("select 1 as a, named_struct('b', 'x', 'c d', 2) as s, 3 as `e.f`")
    mapped = raw.transform(map_columns({"a": "n", "s.c d": "m.x"}))
    assert mapped.columns == ["n", "s.b", "m.x", "e.f"]
    schema = Schema(
        (
            declared("m.x", DomainKind.INTEGER),
            declared("e.f", DomainKind.FLOAT),
            declared("q", DomainKind.STRING),
        )
    )
    judged = mapped.transform(validate(schema))
    assert left_out(mapped, schema) == (["n", "s.b"], ["q"])
    assert [row.asDict() for row in judged.transform(good_events).collect()] == [{"m.x": 2, "e.f": 3}]
    assert rejected_values(judged).columns == ["file", "row", "column", "reason", "value"]
    with pytest.raises(CallerError, match="no such column") as caught:
        raw.transform(map_columns({"s.c": "n"}))
    assert "s.c d" in caught.value.limit
    with pytest.raises(CallerError, match="same name"):
        raw.transform(map_columns({"a": "e.f"}))
    with pytest.raises(CallerError, match="no column of a declared attribute"):
        raw.transform(validate(Schema((declared("zzz", DomainKind.FLOAT),))))


def test_a_schema_with_event_types_is_refused() -> None:
    from pubsub_cluster.pipeline.prepare import validate

    with pytest.raises(CallerError, match="with event types are not prepared"):
        validate(Schema.from_json({"types": []}))
