"""Records: what is sent to a group of owners once, instead of to each of its members.

A record tells one event to all owners whom it concerns; a receiver finds its own by their numbers and passes
over the rest. On one host records travel in a ring in shared memory, elsewhere as messages; these are the
bytes of both. All integers are little-endian.

    record: counts (8 uint32: owners k, handles m, bytes of the head, of the ids, 0...) |
        numbers int32[k], ascending | handle offsets uint32[k + 1] | sequences uint64[k] | handles uint64[m] |
        id offsets uint32[m + 1] | ids, UTF-8 | head, JSON
        (each column begins at a multiple of eight bytes)

    in a ring: frame | record | padding to a multiple of eight bytes
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.language.errors import ProtocolError

FRAME = struct.Struct("<QIIIi")
"""Before a record in a ring: position, size in bytes, checksum, generation of groups, group."""
FILLER = 0xFFFFFFFF
"""The size in a frame that says: nothing follows up to the ring's end; go on at its beginning."""
RECORD_SIZE_BYTES_MAX = 1 << 26
ALIGN_BYTES = 8

_COUNTS = struct.Struct("<8I")
LIFE_SIZE_BYTES = 8
"""What tells the topics of one life of a coordinator from those of another."""

_TOPIC = struct.Struct("<c8sIi")
# A subscriber that connects again tells its topics in the order of their bytes: tokens have to be the last.
_WAKE, _WHOLE, _TOKEN = b"w", b"r", b"~"


class Entries(NamedTuple):
    """What a record tells some owners, an item of each list for each of them.

    Attributes
    ----------
    numbers : list of int
        Of the owners, as in the replies to ``listen``; ascending.
    sequences : list of int
    handles : list of tuple of int
    ids : list of tuple of str
    """

    numbers: list[int]
    sequences: list[int]
    handles: list[tuple[int, ...]]
    ids: list[tuple[str, ...]]


NO_ENTRIES = Entries([], [], [], [])


class Columns(NamedTuple):
    """The owners of a record: number int32[k] (ascending), sequence uint64[k], offsets int64[k+1] of handles
    uint64[m], id_offsets int64[m+1] of `ids`."""

    number: npt.NDArray[np.int32]
    sequence: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]
    handles: npt.NDArray[np.uint64]
    id_offsets: npt.NDArray[np.int64]
    ids: bytes


def wake_topic(life: bytes, generation: int, group: int) -> bytes:
    """Return the topic that wakes the members of a group who read the ring; its message is a position."""
    return _TOPIC.pack(_WAKE, life, generation, group)


def whole_topic(life: bytes, generation: int, group: int) -> bytes:
    """Return the topic by which members of a group get the records themselves."""
    return _TOPIC.pack(_WHOLE, life, generation, group)


def token_topic(token: bytes) -> bytes:
    """Return the topic that says: this connection has subscribed to all that came before."""
    return _TOKEN + token


def token_of(topic: bytes) -> bytes | None:
    """Return the token of a topic, None where it is another topic."""
    return topic[1:] if topic[:1] == _TOKEN else None


def encode_record(head: dict[str, Any], columns: Columns) -> list[bytes]:
    """Return the bytes of a record, in pieces.

    Parameters
    ----------
    head : dict
        ``publisher``, ``batch_id``, ``event_index``, ``event`` (may be an `orjson.Fragment`).
    columns : Columns
    """
    text = orjson.dumps(head)
    counts = _COUNTS.pack(len(columns.number), len(columns.handles), len(text), len(columns.ids), 0, 0, 0, 0)
    return [
        counts,
        _padded(columns.number.astype("<i4", copy=False).tobytes()),
        _padded(columns.offsets.astype("<u4").tobytes()),
        columns.sequence.astype("<u8", copy=False).tobytes(),
        columns.handles.astype("<u8", copy=False).tobytes(),
        _padded(columns.id_offsets.astype("<u4").tobytes()),
        _padded(columns.ids),
        text,
    ]


class Record:
    """A record as it was received.

    Raises
    ------
    ProtocolError
        The bytes are none.
    """

    def __init__(self, data: bytes) -> None:
        try:
            owners, handles, head_bytes, ids_bytes, *_ = _COUNTS.unpack_from(data)
            sizes = (4 * owners, 4 * (owners + 1), 8 * owners, 8 * handles, 4 * (handles + 1), ids_bytes)
            starts = [_COUNTS.size]
            for size in sizes:
                starts.append(starts[-1] + size + -size % ALIGN_BYTES)
            if starts[-1] + head_bytes != len(data):
                raise ValueError(f"{len(data)} bytes instead of {starts[-1] + head_bytes}")
        except (struct.error, ValueError) as error:
            raise ProtocolError("this is no record", seen=str(error)) from None
        self._data = data
        self._starts = starts
        self._handle_count = handles
        self.numbers = np.frombuffer(data, "<i4", owners, starts[0])

    def head(self) -> dict[str, Any]:
        """Return who published what: ``publisher``, ``batch_id``, ``event_index``, ``event``."""
        head = orjson.loads(memoryview(self._data)[self._starts[6] :])
        if not isinstance(head, dict):
            raise ProtocolError("the head of a record is no object", seen=str(head)[:40])
        return head

    def entries(self, numbers: npt.NDArray[np.int32]) -> Entries:
        """Return what it tells some owners, by their numbers (int32, ascending)."""
        if not len(self.numbers) or not len(numbers):
            return NO_ENTRIES
        at = np.searchsorted(self.numbers, numbers)
        at[at == len(self.numbers)] = 0
        places = at[self.numbers[at] == numbers]
        if not len(places):
            return NO_ENTRIES
        data, starts, owners = self._data, self._starts, len(self.numbers)
        offsets = np.frombuffer(data, "<u4", owners + 1, starts[1]).astype(np.int64)
        low, sizes = offsets[places], offsets[places + 1] - offsets[places]
        ends = np.cumsum(sizes)
        match = np.repeat(low - ends + sizes, sizes) + np.arange(ends[-1])
        handles = np.frombuffer(data, "<u8", self._handle_count, starts[3])[match].tolist()
        id_ends = np.frombuffer(data, "<u4", self._handle_count + 1, starts[4]).astype(np.int64) + starts[5]
        ids = [
            data[first:last].decode()
            for first, last in zip(id_ends[match].tolist(), id_ends[match + 1].tolist(), strict=True)
        ]
        sequences = np.frombuffer(data, "<u8", owners, starts[2])[places].tolist()
        found = self.numbers[places].tolist()
        if (sizes == 1).all():  # nearly always
            return Entries(found, sequences, list(zip(handles)), list(zip(ids)))
        spans = list(zip((ends - sizes).tolist(), ends.tolist(), strict=True))
        return Entries(
            found, sequences, [tuple(handles[a:b]) for a, b in spans], [tuple(ids[a:b]) for a, b in spans]
        )


def frame(position: int, pieces: Sequence[bytes], generation: int, group: int) -> bytes:
    """Return what stands before a record in a ring; the checksum covers it and the record."""
    size_bytes = sum(map(len, pieces))
    checksum = zlib.crc32(struct.pack("<QIIi", position, size_bytes, generation, group))
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
    return FRAME.pack(position, size_bytes, checksum, generation, group)


def filler(position: int) -> bytes:
    """Return a frame that sends the reader to the ring's beginning."""
    return FRAME.pack(position, FILLER, 0, 0, 0)


def is_whole(framed: tuple[int, int, int, int, int], record: bytes) -> bool:
    """Whether a record is the one that its frame tells of, whole."""
    position, size_bytes, checksum, generation, group = framed
    found = zlib.crc32(struct.pack("<QIIi", position, size_bytes, generation, group))
    return zlib.crc32(record, found) == checksum


def framed_size_bytes(size_bytes: int) -> int:
    """Return the room that a record of a size takes in a ring."""
    return FRAME.size + size_bytes + -size_bytes % ALIGN_BYTES


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGN_BYTES)
