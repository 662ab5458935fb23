"""Publications that wait for room, and how small ones travel together.

A request with a few events costs a batch of its own everything that a large batch costs once: a chunk, two
messages, a wake-up of two processes, a call of every kernel. So while every worker has enough to do, small
requests wait, and those that wait at the same time become one *group*: one chunk, one task, one merge. Rows
go with rows of their format, dense columns with columns of their form (`coordinator.forms`). What they are to
their publishers does not change: each has its id, its reply, its refused events by its own index.

Publishers take turns, so that many publications of one keep a single one of another waiting for no longer
than one of each; those of one publisher keep their order.

A group is only a way to travel. If it comes to grief (too many matches, a worker that dies), nobody knows by
whose fault: its members go out again, each *alone*, before anything newer, and each answers for itself.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import orjson

from pubsub_cluster.coordinator.forms import Form
from pubsub_cluster.language.errors import BusyError
from pubsub_cluster.language.protocol import Answer, Buffer

SMALL_EVENTS_MAX = 64
SMALL_SIZE_BYTES_MAX = 64 << 10
GROUP_EVENTS_MAX = 512
GROUP_COLUMNS_VALUES_MAX = 384 << 10
"""Of one publication, too: some clients stack theirs (`client.stacks`)."""
WAITING_MAX = 4_096
WAITING_SIZE_BYTES_MAX = 32 << 20
OWN_SHARE = 0.5  # of both, for a publisher's second and later ones
BUSY_RETRY_AFTER_S = 0.005


class Publication(msgspec.Struct):
    """A checked request to publish, until it is answered.

    Attributes
    ----------
    key : tuple of str
        Of its reply: its last parts are the publisher and the id of the batch.
    answer : Answer
    ids : bool
    at : int or None
        Its time, where the clock is injected.
    form : Form
        What its header says.
    frames : sequence of bytes-like
        The buffers, or one frame that has them all.
    size_bytes : int
        Of the buffers.
    alone : bool
        It was in a group that failed, and is not put into another.
    valid_until : int or None
        Its events are retained until then.
    """

    key: tuple[str, ...]
    answer: Answer
    ids: bool
    at: int | None
    form: Form
    frames: Sequence[Buffer]
    size_bytes: int
    alone: bool = False
    valid_until: int | None = None

    @property
    def buffers(self) -> Sequence[Buffer]:
        """The buffers of the payload."""
        return self.form.buffers(self.frames)

    @property
    def small(self) -> bool:
        """True when it may wait for company."""
        form = self.form
        if form.is_dense:
            return form.value_count <= GROUP_COLUMNS_VALUES_MAX
        return (
            form.event_count <= SMALL_EVENTS_MAX
            and form.format != "columns"
            and self.size_bytes <= SMALL_SIZE_BYTES_MAX
        )

    def goes_with(self, other: Publication) -> bool:
        """Say whether the two may share a chunk, as far as their kind goes."""
        mine, others = self.form, other.form
        alike = mine is others or (mine.format == others.format and not (mine.is_dense or others.is_dense))
        return alike and self.at == other.at and not (self.alone or other.alone)

    @property
    def extent(self) -> int:
        """How much of a group's room it takes: values of columns, events of rows.

        An event of one or two columns counts as three: then the answer of a group fits into one page.
        """
        form = self.form
        return max(form.value_count, 3 * form.event_count) if form.is_dense else form.event_count


class Intake:
    """Small publications: in turn by publisher, of each in the order of their arrival.

    Parameters
    ----------
    group_size_bytes_max : int
        Most bytes of all buffers of a group: it has to fit into a chunk.
    """

    def __init__(self, group_size_bytes_max: int) -> None:
        self._group_size_bytes_max = group_size_bytes_max
        self._waiting: OrderedDict[str, deque[Publication]] = OrderedDict()  # by publisher
        self._returned: deque[Publication] = deque()
        self._count = self._size_bytes = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    def add(self, publication: Publication) -> None:
        """Let a publication wait.

        Raises
        ------
        BusyError
            Too many wait: half of what there is room for is kept for the first one of each publisher.
        """
        publisher = publication.key[1]
        line = self._waiting.get(publisher)
        share = 1 if line is None else OWN_SHARE
        size_bytes = self._size_bytes + publication.size_bytes
        for what, seen, limit in (
            ("small batches", self._count + 1, int(share * WAITING_MAX)),
            ("bytes of small batches", size_bytes, int(share * WAITING_SIZE_BYTES_MAX)),
        ):
            if seen > limit:
                raise BusyError(
                    f"too many {what} wait for a worker",
                    seen=seen,
                    limit=limit,
                    remedy="Send again after `retry_after_s`, or publish more events at a time.",
                    retry_after_s=BUSY_RETRY_AFTER_S,
                )
        if line is None:
            line = self._waiting[publisher] = deque()
        line.append(publication)
        self._count += 1
        self._size_bytes += publication.size_bytes

    def put_back(self, group: Sequence[Publication]) -> None:
        """Let the members of a failed group wait again, before all others and each alone."""
        for publication in reversed(group):
            publication.alone = True
            self._returned.appendleft(publication)
            self._size_bytes += publication.size_bytes
        self._count += len(group)

    def take(self) -> list[Publication]:
        """Return the next group: those next in turn that can share a chunk; not to be called when empty."""
        group = [self._returned.popleft()] if self._returned else self._next_group()
        self._count -= len(group)
        self._size_bytes -= sum([publication.size_bytes for publication in group])
        return group

    def _next_group(self) -> list[Publication]:
        lines = self._waiting
        first = next(iter(lines.values()))[0]
        group: list[Publication] = []
        room = GROUP_COLUMNS_VALUES_MAX if first.form.is_dense else GROUP_EVENTS_MAX
        room_bytes = self._group_size_bytes_max
        passed: list[tuple[str, deque[Publication]]] = []  # cannot go with the first: they come first next
        while lines:
            publisher, line = next(iter(lines.items()))
            publication = line[0]
            if group:
                if not first.goes_with(publication):
                    passed.append((publisher, lines.pop(publisher)))
                    continue
                if publication.extent > room or publication.size_bytes > room_bytes:
                    break
            group.append(line.popleft())
            room -= publication.extent
            room_bytes -= publication.size_bytes
            if not line:
                del lines[publisher]
            elif len(lines) > 1:
                lines.move_to_end(publisher)
        for publisher, line in reversed(passed):
            lines[publisher] = line
            lines.move_to_end(publisher, last=False)
        return group


def joined(group: Sequence[Publication]) -> tuple[bytes, Sequence[Buffer]]:
    """Return header, as JSON, and buffers of the one payload with the events of a group of rows in turn."""
    if len(group) == 1:
        return group[0].form.batch_json, group[0].buffers
    ends: list[np.ndarray[Any, Any]] = [np.zeros(1, np.int64)]
    end = 0
    documents: list[Buffer] = []
    for publication in group:
        mine, events = publication.buffers
        ends.append(np.frombuffer(mine, np.int64)[1:] + end)
        documents.append(events)
        end += len(events)
    offsets = np.concatenate(ends)
    header = {"format": group[0].form.format, "event_count": len(offsets) - 1}
    return orjson.dumps(header), [offsets.view(np.uint8).data, b"".join(documents)]
