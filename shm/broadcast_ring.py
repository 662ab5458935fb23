"""A ring of records that one process writes and any number read, without asking anybody.

Positions count bytes and only grow; a record lies at its position modulo the ring's size, never across its
end. A reader gets a position to read up to by a message, copies what lies between, and compares position and
checksum afterwards: the writer never waits for it and overwrites what it has not read. Whoever is lapped
finds another record, or half of one, in its place, and knows that it has missed some
(`pubsub_cluster.client.ring_reader`). The format is `pubsub_cluster.language.records`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.records import ALIGN_BYTES, FRAME, filler, frame, framed_size_bytes
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner

FAMILY = "broadcast_ring"
SHARE_MAX = 4
"""A record takes a fourth of the ring at most: a reader has time to copy it."""


class BroadcastRing:
    """The writer's side.

    Attributes
    ----------
    position : int
        Where the next record goes: all before it has been written.
    """

    def __init__(self, family: FamilySegment) -> None:
        self._family = family
        self._data = family.column("record_bytes")
        self._end = family.column("ring_end")
        self.size_bytes = len(self._data)
        self.position = 0

    @classmethod
    def create(cls, owner: Owner, size_bytes: int, generation: int = 1) -> BroadcastRing:
        """Create a ring; all its memory is taken now.

        Raises
        ------
        SegmentError
            No room.
        """
        lengths = {"ring_bytes": size_bytes - size_bytes % ALIGN_BYTES}
        return cls(FamilySegment.create(FAMILY, lengths, generation, owner))

    @property
    def facts(self) -> dict[str, object]:
        """What a reader needs: the segment, where in it the end and the records lie, and their size."""
        spans = self._family.plan.spans
        return {
            "segment": self._family.name,
            "end_offset": spans["ring_end"].offset_bytes,
            "data_offset": spans["record_bytes"].offset_bytes,
            "size_bytes": self.size_bytes,
        }

    def write(self, pieces: Sequence[bytes], generation: int, group: int) -> int:
        """Write a record; return the position up to which a reader has to read for it.

        Raises
        ------
        LimitError
            It is too large for the ring; nothing is written.
        """
        need_bytes = framed_size_bytes(sum(map(len, pieces)))
        if need_bytes * SHARE_MAX > self.size_bytes:
            raise LimitError(
                "a record is too large for the broadcast ring",
                seen=need_bytes,
                limit=self.size_bytes // SHARE_MAX,
                remedy="Give the ring more room, or publish smaller events.",
                limit_name="broadcast_ring_bytes",
            )
        place = self.position % self.size_bytes
        if place + need_bytes > self.size_bytes:
            if self.size_bytes - place >= FRAME.size:
                self._put(place, filler(self.position))
            self.position += self.size_bytes - place
            place = 0
        end = place + FRAME.size
        for piece in pieces:
            self._put(end, piece)
            end += len(piece)
        self._put(place, frame(self.position, pieces, generation, group))
        self.position += need_bytes
        self._end[0] = self.position
        return self.position

    def close(self) -> None:
        """Remove the segment."""
        self._family.unlink()
        self._family.close()

    def _put(self, place: int, data: bytes) -> None:
        self._data[place : place + len(data)] = np.frombuffer(data, np.uint8)
