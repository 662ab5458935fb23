"""Instants as RFC 3339 text.

Only the profile of RFC 3339 is read, by one pattern: ISO 8601 allows more (week dates, no offset, commas)
and means different instants to different readers. The years 0000 to 9999 all work, which `datetime` cannot.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from pubsub_cluster.language.errors import WindowError

_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LEAP_CYCLE_DAYS: Final = 146_097  # 400 years; the Gregorian calendar repeats after them


def timestamp_us(text: str) -> int | None:
    """Return the instant of an RFC 3339 text in microseconds since the epoch, or None if it is none.

    An offset is required; ``-00:00`` means UTC. Digits past microseconds are cut, toward the past. A leap
    second is the same instant as the second after it, as in POSIX time.
    """
    found = _RFC_3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, sign, offset_hour, offset_minute = found.groups()[6:]
    try:
        # `date` knows no year 0; the year 400 has the same calendar.
        ordinal = date(year or 400, month, day).toordinal() - (0 if year else _LEAP_CYCLE_DAYS)
    except ValueError:
        return None
    offset_minutes = 0
    if sign:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            return None
        offset_minutes = int(offset_hour) * 60 + int(offset_minute)
    utc_minutes = hour * 60 + minute - (-offset_minutes if sign == "-" else offset_minutes)
    leap = second == 60 and utc_minutes % 1440 == 1439
    if hour > 23 or minute > 59 or (second > 59 and not leap):
        return None
    seconds = ((ordinal - _EPOCH_DAY) * 1440 + utc_minutes) * 60 + second
    return seconds * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))


def parse_instant(name: str, text: str | None) -> int | None:
    """Return an instant in microseconds since the epoch: RFC 3339 text, or the number itself.

    Raises
    ------
    WindowError
        It is neither.
    """
    if text is None:
        return None
    if text.lstrip("-").isdecimal():
        return int(text)
    instant_us = timestamp_us(text)
    if instant_us is None:
        raise WindowError(
            f"{name} is not an instant",
            seen=text,
            limit="RFC 3339 text with an offset, or microseconds since the epoch",
            remedy="Write it like 2026-01-31T12:00:00Z.",
        )
    return instant_us
