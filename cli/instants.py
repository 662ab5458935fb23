"""Instants as people write and read them: RFC 3339 text; microseconds since the epoch are taken too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pubsub_cluster.language.errors import WindowError
from pubsub_cluster.language.timestamps import timestamp_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def instant_text(instant_us: int) -> str:
    """Return an instant as RFC 3339 text in UTC; outside the years 1 to 9999 its microseconds."""
    try:
        found = EPOCH + timedelta(microseconds=instant_us)
    except OverflowError:
        return f"{instant_us} us since the epoch"
    return found.isoformat().replace("+00:00", "Z")


def with_instants(seen: Any) -> Any:
    """Return what an error about a window saw, integers as instants."""
    if isinstance(seen, list | tuple):
        return [with_instants(one) for one in seen]
    return Instant(instant_text(seen)) if type(seen) is int else seen


class Instant:
    """A text that is shown without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text
