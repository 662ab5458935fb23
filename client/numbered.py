"""Listeners by the numbers of their owners: who of a client's listeners is told what by a record."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pubsub_cluster.client.listener import Hearing
from pubsub_cluster.client.notifications import head_of, notifications_from_record
from pubsub_cluster.language.records import Record


class Numbered:
    """The listeners of one client that records may tell something."""

    def __init__(self) -> None:
        self._by_number: dict[int, Hearing] = {}
        self._numbers = np.zeros(0, np.int32)  # the same, ascending

    def renew(self, listeners: Iterable[Hearing]) -> None:
        """Take the listeners as they are now."""
        self._by_number = {one.number: one for one in listeners if one.number is not None}
        self._numbers = np.array(sorted(self._by_number), np.int32)

    def hear(self, record: Record, now_s: float) -> list[Hearing]:
        """Give listeners what a record tells their owners; return them. The event is decoded once for all."""
        entries = record.entries(self._numbers)
        if not entries.numbers:
            return []
        heard = [self._by_number[number] for number in entries.numbers]
        told = notifications_from_record([one.owner for one in heard], head_of(record), entries)
        for listener, notification in zip(heard, told, strict=True):
            listener.hear(notification, now_s)
        return heard
