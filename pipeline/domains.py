"""Domains of a schema as column expressions: what `pubsub_cluster.language` says of a value, said by Spark.

A raw column becomes a column of the values that an event may have, null where a value is outside its domain,
and a column of what is wrong, in the very words of `pubsub_cluster.language.events`. Only Spark's own
expressions are used: nothing is sent to Python.

Texts of a file without types (CSV) are *parsed* first: for an integer a whole number (2.0 is one), for a
float any decimal number, as the nearest double, for a boolean true or false in any case. Typed texts are
never parsed: a text that spells a number stays a text.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.events import EventReader
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

NUMBER_TEXT = r"\A *[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)? *\z"
POINT_ZERO = r"([0-9])[.]0*( *)\z"
INSTANT_TEXT = (
    r"\A[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
    r"([.][0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\z"
)
NO_NUMBER = "is a number beyond those of a double"
_TWO_63 = 2.0**63
_LISTED = (DomainKind.ENUMERATED, DomainKind.HIERARCHICAL)


class Checked(NamedTuple):
    """A raw column under a declaration.

    Attributes
    ----------
    value : Column
        Null where there is none, or none that the domain takes.
    reason : Column
        Why not, for values that the domain does not take; asked for these only.
    """

    value: Column
    reason: Column


def checked(
    raw: Column,
    kind: T.DataType,
    attribute: Attribute,
    limits: Limits = DEFAULT_LIMITS,
    parse_text: bool = False,
) -> Checked | None:
    """Return a raw column as values of an attribute; None where the domain takes no value of that type.

    Parameters
    ----------
    raw : Column
    kind : DataType
        Of `raw`.
    attribute : Attribute
    limits : Limits
        `string_size_bytes_max` applies.
    parse_text : bool
        Read numbers and booleans from text.
    """
    said = _Said(attribute, limits)
    domain = attribute.domain
    if isinstance(kind, T.NullType):
        return Checked(F.lit(None).cast("string"), F.lit(None).cast("string"))
    if isinstance(kind, T.StringType):
        return _of_text(raw, domain, said, limits, parse_text)
    if isinstance(kind, T.BooleanType):
        return Checked(raw, said.outside) if domain is DomainKind.BOOLEAN else None
    whole = _whole(raw, kind)
    if whole is not None:
        return _of_whole(whole, domain, said)
    if isinstance(kind, T.FloatType | T.DoubleType | T.DecimalType):
        return _of_double(raw.cast("double"), kind, domain, said)
    return None


def types_of(domain: DomainKind) -> str:
    """Return the column types that a domain takes, for a message."""
    return {
        DomainKind.INTEGER: "whole numbers, or float and double",
        DomainKind.FLOAT: "numbers",
        DomainKind.BOOLEAN: "boolean",
        DomainKind.TIMESTAMP: "timestamp, date, string (RFC 3339), or whole numbers (microseconds)",
    }.get(domain, "string")


class _Said:
    """What the language says of bad values of an attribute."""

    def __init__(self, attribute: Attribute, limits: Limits) -> None:
        self._reader = EventReader(Schema((attribute,)), limits)
        self._attribute = attribute
        self._limits = limits

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of a listed domain."""
        return self._attribute.texts

    @property
    def outside(self) -> Column:
        """A value outside the domain."""
        is_text = self._attribute.domain is DomainKind.STRING
        return self._of(0 if is_text else "".join(self._attribute.values) + "?")

    @property
    def not_a_number(self) -> Column:
        """NaN."""
        return self._of(float("nan"))

    @property
    def too_long(self) -> Column:
        """A text beyond the limit."""
        return self._of("x" * (self._limits.string_size_bytes_max + 1))

    @property
    def no_unicode(self) -> Column:
        """Bytes that are no UTF-8."""
        return self._of("\ud800")

    def own(self, what: str) -> Column:
        """What only a table can have."""
        return F.lit(f"attribute {self._attribute.name!r} {what}")

    def _of(self, value: object) -> Column:
        try:
            self._reader.flatten({self._attribute.name: value})
        except EventError as error:
            return F.lit(error.condition)
        raise CallerError(f"attribute {self._attribute.name!r} takes everything", seen=str(value))


def _whole(raw: Column, kind: T.DataType) -> Column | None:
    """Return whole numbers and instants (as microseconds since the epoch) as long."""
    if isinstance(kind, T.IntegralType):
        return raw.cast("long")
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(raw)
    if isinstance(kind, T.TimestampNTZType):
        # A clock on a wall without a zone: read as UTC, as Arrow and NumPy read it.
        epoch = F.lit("1970-01-01T00:00:00").cast("timestamp_ntz")
        return F.timestamp_diff("MICROSECOND", epoch, raw)
    if isinstance(kind, T.DateType):
        return F.unix_date(raw).cast("long") * F.lit(86_400_000_000)
    return None


def _of_whole(whole: Column, domain: DomainKind, said: _Said) -> Checked | None:
    if domain is DomainKind.TIMESTAMP:
        return Checked(F.timestamp_micros(whole), said.outside)
    if domain in (DomainKind.INTEGER, DomainKind.FLOAT):
        return Checked(whole, said.outside)  # a long stays one: a double would not hold all of them
    return None


def _of_double(number: Column, kind: T.DataType, domain: DomainKind, said: _Said) -> Checked | None:
    reason = F.when(F.isnan(number), said.not_a_number).otherwise(said.outside)
    if domain is DomainKind.FLOAT:
        return Checked(F.when(~F.isnan(number), number), reason)
    if domain is DomainKind.INTEGER and not isinstance(kind, T.DecimalType):
        return Checked(_whole_of_double(number), reason)
    return None


def _whole_of_double(number: Column) -> Column:
    """Return doubles that are whole numbers of 64 bits as long; all others are null."""
    inside = (number >= F.lit(-_TWO_63)) & (number < F.lit(_TWO_63))  # NaN is above all numbers
    return F.when(inside & (F.rint(number) == number), number.try_cast("long"))


def _of_text(
    raw: Column, domain: DomainKind, said: _Said, limits: Limits, parse_text: bool
) -> Checked | None:
    size_max = F.lit(limits.string_size_bytes_max)
    reason = (
        F.when(~F.is_valid_utf8(raw), said.no_unicode)
        .when(F.octet_length(raw) > size_max, said.too_long)
        .otherwise(said.outside)
    )
    if domain is DomainKind.STRING:
        return Checked(F.when(F.is_valid_utf8(raw) & (F.octet_length(raw) <= size_max), raw), reason)
    if domain in _LISTED:
        return Checked(F.when(raw.isin(*said.texts), raw), reason)
    if domain is DomainKind.TIMESTAMP:
        if parse_text:
            micros = F.coalesce(raw.try_cast("long"), _instant_us(raw))
            return Checked(F.timestamp_micros(micros), reason)
        return Checked(F.timestamp_micros(_instant_us(raw)), reason)
    return _parsed(raw, domain, said, reason) if parse_text else None


def _parsed(text: Column, domain: DomainKind, said: _Said, reason: Column) -> Checked:
    """Read numbers and booleans from text, with blanks around them or without."""
    if domain is DomainKind.BOOLEAN:
        word = F.lower(F.trim(text))
        return Checked(F.when(word.isin("true", "false"), word == F.lit("true")), reason)
    if domain is DomainKind.INTEGER:
        # Others write whole numbers as 2.0, where some of the column are missing.
        without_point = F.regexp_replace(text, POINT_ZERO, "$1").try_cast("long")
        return Checked(F.coalesce(text.try_cast("long"), without_point), reason)
    number = F.when(text.rlike(NUMBER_TEXT), text.try_cast("double"))
    infinite = F.lit(float("inf"))
    return Checked(
        F.when(F.abs(number) < infinite, number),
        F.when(number.isNull(), reason).otherwise(said.own(NO_NUMBER)),
    )


def _instant_us(text: Column) -> Column:
    """Return RFC 3339 texts as microseconds since the epoch, as `language.timestamps.timestamp_us` does.

    The pattern fixes where everything stands, so that parts are cut out by position. Days are counted by
    arithmetic (eras of 400 years, years from March on), since Spark's dates know no year 0.
    """

    def part(start: int, size: int) -> Column:
        return F.substring(text, start, size).try_cast("long")

    year, month, day = part(1, 4), part(6, 2), part(9, 2)
    hour, minute, second = part(12, 2), part(15, 2), part(18, 2)
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    month_days = (
        F.when(month == 2, F.when(is_leap, 29).otherwise(28)).when(month.isin(4, 6, 9, 11), 30).otherwise(31)
    )
    # From March on, and 400 years later than it is: nothing below is negative.
    shifted = year + 400 - F.when(month <= 2, 1).otherwise(0)
    year_day = F.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
    days = 365 * shifted + F.floor(shifted / 4) - F.floor(shifted / 100) + F.floor(shifted / 400) + year_day
    days = days - F.lit(719_468 + 146_097)
    zulu = F.upper(F.right(text, F.lit(1))) == "Z"
    sign = F.when(F.substring(text, -6, 1) == "-", -1).otherwise(1)
    offset = sign * (part(-5, 2) * 60 + part(-2, 2))
    utc_minutes = hour * 60 + minute - F.when(zulu, F.lit(0)).otherwise(offset)
    is_right = (day <= month_days) & ((second < 60) | (F.pmod(utc_minutes, F.lit(1440)) == 1439))
    digits = F.regexp_extract(text, r"[.]([0-9]{1,6})", 1)
    micros = F.when(digits == "", F.lit(0)).otherwise(F.rpad(digits, 6, "0").try_cast("long"))
    instant = ((days * 1440 + utc_minutes) * 60 + second) * 1_000_000 + micros
    return F.when(text.rlike(INSTANT_TEXT), F.when(is_right, instant.cast("long")))
