"""What is known of retained events from outside, and the judgement of what new subscriptions are told.

Every event that a subscription is told of must be one that was published so and matches it. And it must be
told of all that were answered before it was sent and stay valid, unless the process that retains events, or
the coordinator, died between: then they are lost, and said to be.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from catalogue_model import CatalogueModel

MARGIN_US = 2_000_000  # an event that ends so soon may be told of or not
SETTLE_S = 4.0  # a death is counted by then
REMEMBERED = 20_000


class _Batch(NamedTuple):
    events: npt.NDArray[np.int64]
    valid_until: int
    lives: int


class Moment(NamedTuple):
    """Deaths until now, the wall clock in microseconds, and how many batches were answered."""

    lives: int
    now_us: int
    answered: list[_Batch]


class _Shortfall(NamedTuple):
    at_s: float
    lives: int
    text: str


@dataclass
class RetainedModel:
    """Events that were published with an end of validity.

    Parameters
    ----------
    model : CatalogueModel
        Its truth judges, and it is told of breaches.
    count : callable
        Counts things by their names.
    lives : callable
        Deaths so far that cost retained events.
    """

    model: CatalogueModel
    count: Callable[..., None]
    lives: Callable[[], int]
    _published: dict[tuple[str, str], _Batch] = field(default_factory=dict)
    _answered: deque[_Batch] = field(default_factory=deque)
    _shortfalls: deque[_Shortfall] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def about_to_publish(
        self, publisher: str, batch_id: str, events: npt.NDArray[np.int64], valid_until: int | None
    ) -> int | None:
        """Remember a batch that is retained; return its end of validity."""
        if valid_until is not None:
            with self._lock:
                self._published[publisher, batch_id] = _Batch(events, valid_until, self.lives())
                if len(self._published) > REMEMBERED:
                    del self._published[next(iter(self._published))]
        return valid_until

    def answered(self, publisher: str, batch_id: str) -> None:
        """From now on a new subscription is told of this batch, if nobody has died since it was sent.

        Its answer may have waited here to be read while what retained it died.
        """
        with self._lock:
            batch = self._published[publisher, batch_id]
            if batch.lives == self.lives():
                self._answered.append(batch)

    def moment(self) -> Moment:
        """Return what a subscription that is sent now has to be told of."""
        now_us = time.time_ns() // 1_000
        with self._lock:
            while self._answered and self._answered[0].valid_until < now_us:
                self._answered.popleft()
            lives = self.lives()
            return Moment(lives, now_us, [batch for batch in self._answered if batch.lives == lives])

    def judge(self, expression: int, told: dict[str, Any] | None, asked: Moment) -> None:
        """Judge what a new subscription was told."""
        matching = self.model.truth[expression]
        if told is not None and "error" in told:
            self.count("retained events lost, said")
            self._later(asked.lives, f"no retained events for a subscription: {told['error']}")
            return
        found = told or {"count": 0, "events": []}
        self.count("retained events found", found["count"])
        for one in found["events"]:
            with self._lock:
                batch = self._published.get((one["publisher"], one["batch_id"]))
            if batch is None or not matching[batch.events[one["event_index"]]]:
                self.model.breach(f"expression {expression} does not match, or nobody retained: {one}")
        until_us = time.time_ns() // 1_000 + MARGIN_US
        least = sum(int(matching[one.events].sum()) for one in asked.answered if one.valid_until > until_us)
        if found["count"] < least:
            self._later(asked.lives, f"{found['count']} retained events of at least {least} were told")

    def _later(self, lives: int, text: str) -> None:
        with self._lock:
            self._shortfalls.append(_Shortfall(time.monotonic(), lives, text))

    def settle(self, after_s: float = SETTLE_S) -> None:
        """Look again at what was missing so long ago: a death that explains it may be counted by now."""
        with self._lock:
            while self._shortfalls and self._shortfalls[0].at_s <= time.monotonic() - after_s:
                one = self._shortfalls.popleft()
                if self.lives() == one.lives:
                    self.model.breach(one.text)
