"""Reads records from a cluster's ring in shared memory; knows when it was lapped.

Nothing is locked and nothing is written: what is copied is compared with its position and checksum
afterwards. The writer may overwrite anything at any time.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Set
from typing import Any

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.records import FILLER, FRAME, framed_size_bytes, is_whole

SHARED_MEMORY = "/dev/shm"


class RingReader:
    """A place in a ring.

    Parameters
    ----------
    facts : mapping
        As the reply to ``hello`` has them under ``ring``.

    Attributes
    ----------
    position : int
        Everything before it has been read, passed over or missed.
    lapped_count : int
        How often the writer was a whole ring ahead.

    Raises
    ------
    OSError
        The ring cannot be mapped: it is another host's, or another user's.
    ProtocolError
        The facts are none.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        try:
            name, size = str(facts["segment"]), int(facts["size_bytes"])
            self._data_offset, end_offset = int(facts["data_offset"]), int(facts["end_offset"])
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError("the facts of the broadcast ring lack something", seen=repr(error)) from None
        if "/" in name or size <= 0:
            raise ProtocolError("the facts of the broadcast ring are not right", seen=dict(facts))
        descriptor = os.open(f"{SHARED_MEMORY}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        if self._data_offset + size > len(self._map):
            raise ProtocolError("the broadcast ring is smaller than it is said to be", seen=len(self._map))
        self.size_bytes = size
        # A hint, and never too late: what a reader may get is written after it has been asked to join.
        self.position = int.from_bytes(self._map[end_offset : end_offset + 8], "little")
        self.lapped_count = 0

    def read(self, end: int, wanted: Set[tuple[int, int]]) -> list[bytes]:
        """Return the records of some groups up to a position.

        Parameters
        ----------
        end : int
            As a message told it.
        wanted : set of (int, int)
            Generation and group.
        """
        found: list[bytes] = []
        while self.position < end:
            step = self._step(end, wanted, found)
            if step is None:
                self.lapped_count += 1
                self.position = end
            else:
                self.position += step
        return found

    def close(self) -> None:
        """Let go of the ring."""
        self._map.close()

    def _step(self, end: int, wanted: Set[tuple[int, int]], found: list[bytes]) -> int | None:
        """Take one record; return how far it reaches, None where it was overwritten."""
        if end - self.position > self.size_bytes:
            return None
        place = self.position % self.size_bytes
        left_bytes = self.size_bytes - place
        if left_bytes < FRAME.size:
            return left_bytes
        start = self._data_offset + place
        framed = FRAME.unpack(self._map[start : start + FRAME.size])
        position, size_bytes, _, generation, group = framed
        if position != self.position:
            return None
        if size_bytes == FILLER:
            return left_bytes
        step = framed_size_bytes(size_bytes)
        if step > left_bytes or self.position + step > end:
            return None
        if (generation, group) in wanted:
            record = self._map[start + FRAME.size : start + FRAME.size + size_bytes]
            if not is_whole(framed, record):
                return None
            found.append(record)
        return step
