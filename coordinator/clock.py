"""The clock by which validity is judged."""

from __future__ import annotations

import logging
import time
from typing import Any

from pubsub_cluster.coordinator.marks import Marks
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN

AHEAD_US_MAX = 1_000_000
"""From here on an operator is told that the machine's clock is behind."""

log = logging.getLogger("pubsub_cluster.coordinator")


class Clock:
    """Microseconds since the epoch that never run backwards; taken from the batch where that is allowed.

    Parameters
    ----------
    injected : bool
        The time is taken from the batches, anew in each life.
    marks : Marks, optional
        Keeps the clock's latest reading for the next life.

    Attributes
    ----------
    last_us : int
        The latest that it has told.
    """

    def __init__(self, injected: bool, marks: Marks | None = None) -> None:
        self._injected = injected
        self._marks = marks
        self.last_us = INT64_MIN if injected else 0 if marks is None else marks.clock_us
        ahead_us = self.last_us - _now_us()
        if marks is not None and ahead_us > AHEAD_US_MAX:
            log.warning(
                "the machine's clock is %.1f s behind what this cluster has judged validity by; it goes on "
                "from there (remove %s, while it is stopped, to start from the machine's clock)",
                ahead_us / 1e6,
                marks.path,
            )

    def at(self, given: int | None) -> int:
        """Return the time of acceptance of a batch whose checked `at` field is `given`."""
        now_us = self.last_us if self._injected else _now_us()
        self.last_us = max(self.last_us, now_us if given is None else given)
        if self._marks is not None and not self._injected:
            self._marks.clock_us = self.last_us
        return self.last_us

    def check(self, given: Any) -> None:
        """Raise `ProtocolError` unless `given` may stand in a batch's `at` field."""
        if given is not None and not self._injected:
            raise ProtocolError(
                "this cluster judges validity by its own clock",
                seen=given,
                remedy="Leave out `at`, or start the cluster with an injected clock.",
            )
        if given is not None:
            check_instant("at", given)


def check_instant(name: str, given: Any) -> None:
    """Raise `ProtocolError` unless `given` may stand in a batch's field that is an instant."""
    if type(given) is not int or not INT64_MIN <= given < INT64_MAX:
        raise ProtocolError(f"`{name}` is a 64-bit integer", seen=given)


def _now_us() -> int:
    return time.time_ns() // 1_000
