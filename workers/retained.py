"""Retained events: batches with an end of validity, within bounds, and what a subscription matches of them.

Source: RR-4089, section 1: a publish/subscribe system "stores both valid subscriptions and valid events";
when a new subscription comes in, it is evaluated against the valid events.

Batches wait as they come until something is asked, or until they are many; then they are joined to a *part*,
which swallows the parts before it that are not much larger, up to `PART_EVENTS_MAX` events: so an event is
copied a logarithmic number of times, and there are few parts. The dead events of a part go when they are more
than half of it. No clock, no socket.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.language.batch import column_views, decode_payload, events_as_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.workers.retained_block import events_of
from pubsub_cluster.workers.retained_columns import Block, block_of, joined, selected
from pubsub_cluster.workers.retained_messages import Counts

PART_EVENTS_MAX = 1 << 16
WAITING_EVENTS_MAX = 4_096
SWALLOW_FACTOR = 2
HEAP_LEAST = 1_024
VIEWS_EVENTS_MIN = 256
BATCH_SIZE_BYTES_LEAST = 512  # of the objects that keep a batch, however small it is


@dataclass(slots=True, eq=False)
class Batch:
    """A batch with an end of validity.

    Attributes
    ----------
    publisher, batch_id : str
    version, accepted_us : int
        The moment of its acceptance.
    valid_until : int
        Microseconds since the epoch.
    header, buffers
        Its payload, as published; the buffers are let go when the batch is dead.
    event_idx : int32[k]
        The events that were not refused, ascending.
    size_bytes : int
        Of payload and columns.
    until_us : int
        When it ends, by its validity or by its age.
    is_live : bool
    views : sequence, optional
        Its columns, where it has many events: a subscription is told few of them.
    """

    publisher: str
    batch_id: str
    version: int
    accepted_us: int
    valid_until: int
    header: dict[str, Any]
    buffers: Sequence[bytes]
    event_idx: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    size_bytes: int = 0
    until_us: int = 0
    is_live: bool = True
    views: Sequence[Any] | None = None


class Told(NamedTuple):
    """A retained event that a subscription matches: event `event_idx` of a batch."""

    batch: Batch
    event_idx: int


def told_as_json(told: Sequence[Told]) -> list[bytes]:
    """Return what a subscriber is told of each event, as JSON; events of one batch are read together."""
    texts: list[bytes] = []
    for batch, some in itertools.groupby(told, key=lambda one: one.batch):
        event_idxs = [one.event_idx for one in some]
        events = events_as_json(batch.header, batch.buffers, event_idxs, batch.views)
        for event_idx, event in zip(event_idxs, events, strict=True):
            fields = {
                "publisher": batch.publisher,
                "batch_id": batch.batch_id,
                "event_index": event_idx,
                "accepted_at": batch.accepted_us,
                "valid_until": batch.valid_until,
                "event": orjson.Fragment(event),
            }
            texts.append(orjson.dumps(fields))
    return texts


@dataclass(slots=True)
class _Part:
    block: Block
    batches: list[Batch]
    start: npt.NDArray[np.int64]  # of the events of each batch, and the end

    @property
    def live_count(self) -> int:
        return sum(len(batch.event_idx) for batch in self.batches if batch.is_live)


class RetainedEvents:
    """All retained events.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    events_max, size_bytes_max : int
        The oldest batches are dropped beyond it.
    age_us : int
        A batch is dropped so long after its acceptance.
    """

    def __init__(
        self, schema: Schema, limits: Limits, events_max: int, size_bytes_max: int, age_us: int
    ) -> None:
        self.schema, self._limits = schema, limits
        self._events_max, self._size_bytes_max, self._age_us = events_max, size_bytes_max, age_us
        self._parts: list[_Part] = []
        self._waiting: list[tuple[Block, Batch]] = []
        self._waiting_events = 0
        self._by_age: deque[Batch] = deque()
        self._by_end: list[tuple[int, int, Batch]] = []
        self._number = 0
        self._events = self._size_bytes = self._retained = self._expired = self._dropped = 0

    @property
    def counts(self) -> Counts:
        """What is retained, and what became of the rest."""
        return Counts(self._events, self._size_bytes, self._retained, self._expired, self._dropped)

    def add(self, batch: Batch, now_us: int) -> None:
        """Retain the good events of a batch.

        Raises
        ------
        PubSubError
            The payload cannot be read; nothing is kept of it.
        """
        raw = decode_payload(batch.header, batch.buffers, self.schema, self._limits)
        block = block_of(raw)
        batch.event_idx = np.arange(raw.event_count, dtype=np.int32)
        if raw.refused:
            good = np.ones(raw.event_count, np.bool_)
            good[list(raw.refused)] = False
            block, batch.event_idx = selected(block, good), batch.event_idx[good]
        if not len(batch.event_idx):
            return
        if len(batch.event_idx) >= VIEWS_EVENTS_MIN:
            batch.views = column_views(batch.header, batch.buffers)
        batch.until_us = min(batch.valid_until, batch.accepted_us + self._age_us)
        batch.size_bytes = BATCH_SIZE_BYTES_LEAST + block.size_bytes + sum(map(len, batch.buffers))
        self._events += len(batch.event_idx)
        self._retained += len(batch.event_idx)
        self._size_bytes += batch.size_bytes
        self._by_age.append(batch)
        self._number += 1
        heapq.heappush(self._by_end, (batch.until_us, self._number, batch))
        if len(self._by_end) > 2 * len(self._by_age) + HEAP_LEAST:  # mostly batches that were dropped
            self._by_end = [entry for entry in self._by_end if entry[2].is_live]
            heapq.heapify(self._by_end)
        self._waiting.append((block, batch))
        self._waiting_events += len(batch.event_idx)
        self._make_room(now_us)
        if self._waiting_events >= WAITING_EVENTS_MAX:
            self._join()

    def tick(self, now_us: int) -> None:
        """Let go of what is not valid any more."""
        self._make_room(now_us)
        self._thin_out()

    def matching(self, form: NormalForm, version: int, now_us: int, told_max: int) -> tuple[int, list[Told]]:
        """Return how many retained events a subscription matches, and the newest of them.

        Parameters
        ----------
        form : NormalForm
            Of the subscription.
        version : int
            That made it: it is told of events that were accepted before.
        now_us : int
            They are valid then.
        told_max : int

        Returns
        -------
        tuple of (int, list of Told)
            In the order of acceptance.
        """
        self._join()
        count = 0
        found: deque[tuple[_Part, npt.NDArray[np.int64]]] = deque()
        for part in self._parts:
            events = events_of(part.block, form)
            if not len(events):
                continue
            seen = np.array(
                [
                    batch.is_live and batch.version < version and batch.until_us > now_us
                    for batch in part.batches
                ]
            )
            if not seen.all():
                events = events[np.repeat(seen, np.diff(part.start))[events]]
            count += len(events)
            found.append((part, events))
        told: deque[Told] = deque()
        for part, events in reversed(found):
            room = told_max - len(told)
            if room <= 0:
                break
            for event in reversed(events[-room:].tolist()):
                place = int(np.searchsorted(part.start, event, side="right")) - 1
                batch = part.batches[place]
                told.appendleft(Told(batch, int(batch.event_idx[event - int(part.start[place])])))
        return count, list(told)

    def _make_room(self, now_us: int) -> None:
        while self._by_end and (self._by_end[0][0] <= now_us or not self._by_end[0][2].is_live):
            batch = heapq.heappop(self._by_end)[2]
            if batch.is_live:
                self._let_go(batch, is_expired=batch.valid_until <= now_us)
        while self._by_age and (
            not self._by_age[0].is_live
            or self._events > self._events_max
            or self._size_bytes > self._size_bytes_max
        ):
            batch = self._by_age.popleft()
            if batch.is_live:
                self._let_go(batch, is_expired=False)

    def _let_go(self, batch: Batch, is_expired: bool) -> None:
        batch.is_live, batch.buffers, batch.views = False, (), None
        self._events -= len(batch.event_idx)
        self._size_bytes -= batch.size_bytes
        if is_expired:
            self._expired += len(batch.event_idx)
        else:
            self._dropped += len(batch.event_idx)

    def _join(self) -> None:
        """Make a part of what waits; let it swallow the parts before it that are not much larger."""
        waiting, self._waiting, self._waiting_events = self._waiting, [], 0
        waiting = [entry for entry in waiting if entry[1].is_live]
        if not waiting:
            return
        blocks = [block for block, _ in waiting]
        batches = [batch for _, batch in waiting]
        event_count = sum(block.event_count for block in blocks)
        while self._parts:
            last = self._parts[-1]
            before = last.block.event_count
            if before >= SWALLOW_FACTOR * event_count or before + event_count > PART_EVENTS_MAX:
                break
            self._parts.pop()
            blocks.insert(0, last.block)
            batches = last.batches + batches
            event_count += before
        self._parts.append(_part(joined(blocks), batches))

    def _thin_out(self) -> None:
        """Rewrite the parts that are dead by half, and forget those that are dead."""
        kept: list[_Part] = []
        for part in self._parts:
            live = part.live_count
            if not live:
                continue
            if 2 * live <= part.block.event_count:
                alive = np.array([batch.is_live for batch in part.batches])
                block = selected(part.block, np.repeat(alive, np.diff(part.start)))
                part = _part(block, [batch for batch in part.batches if batch.is_live])
            kept.append(part)
        self._parts = kept


def _part(block: Block, batches: list[Batch]) -> _Part:
    start = np.zeros(len(batches) + 1, np.int64)
    np.cumsum([len(batch.event_idx) for batch in batches], out=start[1:])
    return _Part(block, batches, start)
