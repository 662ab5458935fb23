"""Instants as people read them: RFC 3339 text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
