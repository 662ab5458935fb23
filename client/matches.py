"""The answer to a published batch: who is to be told of which event.

Match lists arrive as two flat arrays, offsets and handles, and stay so: the handles of event i are
``handles[offsets[i]:offsets[i + 1]]``, ascending. Nothing is copied per event unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.language.errors import ProtocolError, PubSubError, error_from_dict
from pubsub_cluster.language.protocol import Answer, Buffer, Message

_OFFSET, _HANDLE = np.dtype(np.int64), np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class Matches:
    """Matches of one batch.

    Attributes
    ----------
    event_count : int
        Events of the batch, refused ones included.
    match_count : int
        (event, subscription) pairs.
    offsets : int64[event_count + 1] or None
        Where each event's handles start in `handles`; None with ``answer="none"``.
    handles : uint64[match_count] or None
        Handles of the matching subscriptions, ascending within an event; only with ``answer="handles"``.
    counts : int64[event_count] or None
        Matches of each event; None with ``answer="none"``.
    refused : dict of int to PubSubError
        Events that were refused, by index; they have no matches.
    generation, version : int
        The layout and the moment of the catalogue that the batch saw.
    ids : list of str or None
        Subscription ids in the order of `handles`, when they were asked for.
    """

    event_count: int
    match_count: int
    offsets: NDArray[np.int64] | None
    handles: NDArray[np.uint64] | None
    counts: NDArray[np.int64] | None
    refused: dict[int, PubSubError]
    generation: int
    version: int
    ids: list[str] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of events."""
        return self.event_count

    def __getitem__(self, event_idx: int) -> NDArray[np.uint64]:
        """Return the handles of one event, uint64, ascending."""
        first, stop = self._bounds(event_idx)
        assert self.handles is not None
        return self.handles[first:stop]

    def __iter__(self) -> Iterator[NDArray[np.uint64]]:
        """Go through the events' handles, in the order of the batch."""
        return (self[event_idx] for event_idx in range(self.event_count))

    def ids_of(self, event_idx: int) -> list[str]:
        """Return the ids of one event's matching subscriptions, in the order of their handles."""
        if self.ids is None:
            raise ValueError("this batch was published without ids; publish it with ids=True")
        first, stop = self._bounds(event_idx)
        return self.ids[first:stop]

    def _bounds(self, event_idx: int) -> tuple[int, int]:
        if self.handles is None or self.offsets is None:
            raise ValueError('this batch was published without handles; publish it with answer="handles"')
        if not -self.event_count <= event_idx < self.event_count:
            raise IndexError(f"event index {event_idx} is outside a batch of {self.event_count} events")
        event_idx %= self.event_count
        return int(self.offsets[event_idx]), int(self.offsets[event_idx + 1])


def matches_from_reply(
    message: Message, answer: Answer, with_ids: bool, refused_here: Mapping[int, PubSubError]
) -> Matches:
    """Read the reply to ``publish``.

    Parameters
    ----------
    message : Message
    answer : Answer
        What was asked for.
    with_ids : bool
        Whether ids were asked for.
    refused_here : mapping of int to PubSubError
        Events that could not even be encoded; their errors take the place of the cluster's.

    Raises
    ------
    ProtocolError
        Buffers are missing or have another size than the header says.
    """
    header = message.header
    event_count = _count(header, "event_count")
    match_count = _count(header, "match_count")
    offsets: NDArray[np.int64] | None = None
    handles: NDArray[np.uint64] | None = None
    counts: NDArray[np.int64] | None = None
    ids: list[str] | None = None
    buffers = message.buffers
    if answer is Answer.COUNTS:
        counts = _array(buffers, 0, _OFFSET, event_count)
        offsets = np.zeros(event_count + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
    elif answer is Answer.HANDLES:
        offsets, counts = _offsets(buffers, 0, event_count, match_count)
        handles = _array(buffers, 1, _HANDLE, match_count)
        if with_ids:
            ids = _ids(buffers, match_count)
    refused = _refused(header)
    refused.update(refused_here)
    return Matches(
        event_count,
        match_count,
        offsets,
        handles,
        counts,
        refused,
        _count(header, "generation"),
        _count(header, "version"),
        ids,
    )


def divided(message: Message, answer: Answer, event_counts: Sequence[int]) -> list[Matches]:
    """Read the reply to batches that were published as one.

    Parameters
    ----------
    message : Message
    answer : Answer
        What was asked for: handles without ids, or counts.
    event_counts : sequence of int
        Events of each batch.

    Returns
    -------
    list of Matches
        Of each batch; their arrays are parts of the same ones.

    Raises
    ------
    ProtocolError
        As `matches_from_reply`, or the reply is about another number of events.
    """
    whole = matches_from_reply(message, answer, False, {})
    if whole.event_count != sum(event_counts) or whole.offsets is None or whole.counts is None:
        raise ProtocolError(
            "the reply is about another number of events", seen=whole.event_count, limit=sum(event_counts)
        )
    refused = {int(event): body for event, body in message.header.get("refused", {}).items()}
    found = []
    stop = 0
    for event_count in event_counts:
        first, stop = stop, stop + event_count
        low, high = int(whole.offsets[first]), int(whole.offsets[stop])
        mine = {
            event - first: error_from_dict({**body, "event_index": event - first})
            for event, body in refused.items()
            if first <= event < stop
        }
        found.append(
            Matches(
                event_count,
                high - low,
                whole.offsets[first : stop + 1] - low,
                None if whole.handles is None else whole.handles[low:high],
                whole.counts[first:stop],
                mine,
                whole.generation,
                whole.version,
            )
        )
    return found


def _count(header: Mapping[str, Any], name: str) -> int:
    value = header.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ProtocolError(f"the reply's field `{name}` is not a count", seen=value)
    return value


def _array(buffers: list[Buffer], buffer_idx: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    if buffer_idx >= len(buffers):
        raise ProtocolError("the reply lacks a buffer", seen=len(buffers), limit=buffer_idx + 1)
    size_bytes = len(buffers[buffer_idx])  # of bytes
    if size_bytes != count * dtype.itemsize:
        raise ProtocolError(
            f"the reply's buffer {buffer_idx} has another size than its header says",
            seen=size_bytes,
            limit=count * dtype.itemsize,
        )
    return np.frombuffer(buffers[buffer_idx], dtype=dtype)


def _offsets(
    buffers: list[Buffer], buffer_idx: int, count: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a buffer of ascending offsets, and their differences."""
    offsets = _array(buffers, buffer_idx, _OFFSET, count + 1)
    steps = offsets[1:] - offsets[:-1]
    # Without sign: a step back is then larger than `end`, which no step of ascending offsets is. Where there
    # is one step only, it is as good as its ends.
    ascending = count < 2 or int(np.maximum.reduce(steps.view(np.uint64))) <= end
    if offsets[0] != 0 or offsets[-1] != end or not ascending:
        raise ProtocolError(f"the reply's offsets in buffer {buffer_idx} do not run from 0 to {end}")
    return offsets, steps


def _ids(buffers: list[Buffer], match_count: int) -> list[str]:
    size_bytes = memoryview(buffers[3]).nbytes if len(buffers) > 3 else 0
    offsets = _offsets(buffers, 2, match_count, size_bytes)[0].tolist()
    data = bytes(buffers[3]) if len(buffers) > 3 else b""
    return [data[first:stop].decode() for first, stop in pairwise(offsets)]


def _refused(header: Mapping[str, Any]) -> dict[int, PubSubError]:
    refused = header.get("refused", {})
    if not isinstance(refused, dict):
        raise ProtocolError("the reply's field `refused` is not an object", seen=refused)
    return {int(event_idx): error_from_dict(body) for event_idx, body in refused.items()}
