"""Publications that wait for room, and how small ones travel together.

A request with a few events costs a batch of its own everything that a large batch costs once: a chunk, two
messages, a wake-up of two processes, a call of every kernel. So while every worker has enough to do, small
requests wait, and those that wait at the same time become one *group*: one chunk, one task, one merge. Rows
go with rows of their format, dense columns with columns of their form (`coordinator.forms`). What they are to
their publishers does not change: each has its id, its reply, its refused events by its own index.

A group is only a way to travel. If it comes to grief (too many matches, a worker that dies), nobody knows by
whose fault: its members go out again, each *alone*, before anything newer, and each answers for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from pubsub_cluster.coordinator.forms import Form
from pubsub_cluster.language.errors import BusyError
from pubsub_cluster.language.protocol import Answer, Buffer, unpacked

SMALL_EVENTS_MAX = 64
SMALL_SIZE_BYTES_MAX = 64 << 10
GROUP_EVENTS_MAX = 512
SMALL_COLUMNS_VALUES_MAX = 64 << 10
GROUP_COLUMNS_VALUES_MAX = 128 << 10
WAITING_MAX = 4_096
WAITING_SIZE_BYTES_MAX = 32 << 20
BUSY_RETRY_AFTER_S = 0.005


@dataclass(slots=True)
class Publication:
    """A checked request to publish, until it is answered.

    Attributes
    ----------
    publisher, batch_id : str
    answer : Answer
    ids : bool
    at : int or None
        Its time, where the clock is injected.
    batch : dict
        Header of the payload.
    batch_json : bytes
        The same, as JSON.
    frames : sequence of bytes-like
        The buffers, or one frame that has them all.
    size_bytes : int
        Of the buffers.
    sizes : list of int or None
        Of each buffer, where they stand in one frame.
    form : Form or None
        Of dense columns in one frame.
    alone : bool
        It was in a group that failed, and is not put into another.
    """

    publisher: str
    batch_id: str
    answer: Answer
    ids: bool
    at: int | None
    batch: dict[str, Any]
    batch_json: bytes
    frames: Sequence[Buffer]
    size_bytes: int
    sizes: list[int] | None = None
    form: Form | None = None
    alone: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The key of its reply."""
        return ("batch", self.publisher, self.batch_id)

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The buffers of the payload."""
        return self.frames if self.sizes is None else unpacked(self.frames, self.sizes)

    @property
    def event_count(self) -> int:
        """Number of events."""
        return int(self.batch["event_count"])

    @property
    def plain(self) -> bool:
        """True for one event whose publisher wants the handles alone."""
        return self.event_count == 1 and self.answer is Answer.HANDLES and not self.ids

    @property
    def small(self) -> bool:
        """True when it may wait for company."""
        if self.form is not None:
            return self.form.value_count <= SMALL_COLUMNS_VALUES_MAX
        return (
            self.batch["format"] != "columns"
            and self.event_count <= SMALL_EVENTS_MAX
            and self.size_bytes <= SMALL_SIZE_BYTES_MAX
        )


class Intake:
    """Small publications in the order of their arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Publication] = deque()
        self._size_bytes = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def add(self, publication: Publication) -> None:
        """Let a publication wait.

        Raises
        ------
        BusyError
            Too many wait.
        """
        full = self._size_bytes + publication.size_bytes > WAITING_SIZE_BYTES_MAX
        if full or len(self._waiting) >= WAITING_MAX:
            raise BusyError(
                "too many small batches wait for a worker",
                seen=len(self._waiting),
                limit=WAITING_MAX,
                remedy="Send again after `retry_after_s`, or publish more events at a time.",
                retry_after_s=BUSY_RETRY_AFTER_S,
            )
        self._waiting.append(publication)
        self._size_bytes += publication.size_bytes

    def put_back(self, group: Sequence[Publication]) -> None:
        """Let the members of a failed group wait again, before all others and each alone."""
        for publication in reversed(group):
            publication.alone = True
            self._waiting.appendleft(publication)
            self._size_bytes += publication.size_bytes

    def take(self) -> list[Publication]:
        """Return the next group: those first in line that can share a chunk; not to be called when empty."""
        group = [self._waiting.popleft()]
        first = group[0]
        by_values = first.form is not None
        room = (GROUP_COLUMNS_VALUES_MAX if by_values else GROUP_EVENTS_MAX) - _extent(first)
        while self._waiting and not first.alone:
            following = self._waiting[0]
            alike = (
                following.form is first.form
                and following.at == first.at
                and following.batch["format"] == first.batch["format"]
            )
            room -= _extent(following) if alike else 0
            if following.alone or not alike or room < 0:
                break
            group.append(self._waiting.popleft())
        self._size_bytes -= sum(publication.size_bytes for publication in group)
        return group


def _extent(publication: Publication) -> int:
    """Return how much of a group's room a publication takes: values of columns, events of rows."""
    return publication.event_count if publication.form is None else publication.form.value_count


def joined(group: Sequence[Publication]) -> tuple[bytes, Sequence[Buffer]]:
    """Return header, as JSON, and buffers of the one payload with the events of a group of rows in turn."""
    if len(group) == 1:
        return group[0].batch_json, group[0].buffers
    ends: list[np.ndarray[Any, Any]] = [np.zeros(1, np.int64)]
    end = 0
    for publication in group:
        ends.append(np.frombuffer(publication.buffers[0], np.int64)[1:] + end)
        end += memoryview(publication.buffers[1]).nbytes
    offsets = np.concatenate(ends)
    header = {"format": group[0].batch["format"], "event_count": len(offsets) - 1}
    documents = b"".join([publication.buffers[1] for publication in group])
    return orjson.dumps(header), [offsets.view(np.uint8).data, documents]
