"""Counters that anyone may watch from outside, without disturbing the cluster.

One segment: a table of names, and for each *slot* (a process) one padded word per name. A word has one writer
and is written by one aligned 8-byte store, which is whole for every reader on 64-bit machines (checked when
this module is loaded); nothing orders one word after another, so a snapshot is a set of hints. A process
that takes over a slot goes on from the values that it finds: counters never run backwards.

A slot also has the task that its process is at, so that others know what it died of: what a process has
stored is seen although it was killed in the next moment.

    value: | slot 0 counter 0, 56 bytes of padding | slot 0 counter 1 ... | slot 1 counter 0 ...
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

import numpy as np

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner

FAMILY = "counters"
NAME_SIZE_BYTES_MAX = 64
WORDS_PER_COUNTER = 8  # a cache line of 64 bytes, so that no two writers share one

assert struct.calcsize("P") == 8, "an 8-byte store is one store on 64-bit machines only"


class CounterReader:
    """Read all counters of a cluster; made by `attach`.

    Attributes
    ----------
    names : tuple of str
    slot_count : int
    """

    def __init__(self, family: FamilySegment) -> None:
        self._family = family
        self.slot_count = family.lengths["slots"]
        table = family.column("counter_name").reshape(-1, NAME_SIZE_BYTES_MAX)
        self.names = tuple(row.tobytes().rstrip(b"\0").decode() for row in table)
        words = family.column("value").reshape(self.slot_count, len(self.names), WORDS_PER_COUNTER)
        self._values = words[:, :, 0]
        self._pids = family.column("slot_pid").reshape(self.slot_count, WORDS_PER_COUNTER)[:, 0]
        self._tasks = family.column("slot_task").reshape(self.slot_count, WORDS_PER_COUNTER)[:, 0]

    @classmethod
    def attach(cls, name: str) -> CounterReader:
        """Attach counters by their segment's name, read-only; raises `SegmentError`."""
        return cls(FamilySegment.attach(FAMILY, name))

    @property
    def name(self) -> str:
        """Name of the segment, for `attach`."""
        return self._family.name

    def of_slot(self, slot_idx: int) -> dict[str, int]:
        """Return the counters of one slot by name."""
        return dict(zip(self.names, self._values[slot_idx].tolist(), strict=True))

    def totals(self) -> dict[str, int]:
        """Return each counter's sum over all slots."""
        return dict(zip(self.names, self._values.sum(axis=0).tolist(), strict=True))

    def pids(self) -> list[int]:
        """Return the last writer of every slot; 0: never used."""
        found: list[int] = self._pids.tolist()
        return found

    def task(self, slot_idx: int) -> int:
        """Return the task that a slot's process is at, or was when it died; 0: none."""
        return int(self._tasks[slot_idx])

    def close(self) -> None:
        """Let go of the segment."""
        self._family.close()


class CounterSegment(CounterReader):
    """The creator's side, which also reads."""

    @classmethod
    def create(
        cls, owner: Owner, names: Sequence[str], slot_count: int, generation: int = 1
    ) -> CounterSegment:
        """Create counters, all 0.

        Parameters
        ----------
        names : sequence of str
            Distinct, at most 64 bytes of UTF-8 each.
        slot_count : int
            One per process.

        Raises
        ------
        SegmentError
            No room, or the names are not as they have to be.
        """
        encoded = [name.encode() for name in names]
        if len(set(names)) < len(names) or not all(0 < len(text) <= NAME_SIZE_BYTES_MAX for text in encoded):
            raise SegmentError("names of counters are distinct", seen=list(names), limit="1 to 64 bytes each")
        lengths = {"counters": len(names), "slots": slot_count, "values": len(names) * slot_count}
        family = FamilySegment.create(FAMILY, lengths, generation, owner)
        table = b"".join(text.ljust(NAME_SIZE_BYTES_MAX, b"\0") for text in encoded)
        family.column("counter_name")[:] = np.frombuffer(table, np.uint8)
        return cls(family)

    def writer(self, slot_idx: int) -> CounterWriter:
        """Return the writer of a slot that belongs to this process."""
        return CounterWriter(self._family, slot_idx)

    def unlink(self) -> None:
        """Remove the segment's name."""
        self._family.unlink()


class CounterWriter:
    """The one writer of a slot; made by `attach` or `CounterSegment.writer`."""

    def __init__(self, family: FamilySegment, slot_idx: int) -> None:
        reader = CounterReader(family)
        if not 0 <= slot_idx < reader.slot_count:
            raise SegmentError("no such slot of counters", seen=slot_idx, limit=reader.slot_count)
        first = slot_idx * len(reader.names)
        self._words = family.column("value").data.cast("B").cast("q")  # stores a number faster than an array
        self._word_idx = {name: (first + idx) * WORDS_PER_COUNTER for idx, name in enumerate(reader.names)}
        # Kept here too: the only writer need not read its own words back.
        self._values = {name: self._words[idx] for name, idx in self._word_idx.items()}
        self._tasks = family.column("slot_task").data.cast("B").cast("q")
        self._task_idx = slot_idx * WORDS_PER_COUNTER
        self.begin(0)
        family.column("slot_pid")[slot_idx * WORDS_PER_COUNTER] = os.getpid()

    @classmethod
    def attach(cls, name: str, slot_idx: int) -> CounterWriter:
        """Attach counters by their segment's name and take over a slot; raises `SegmentError`."""
        return cls(FamilySegment.attach(FAMILY, name, writable=True), slot_idx)

    def add(self, name: str, amount: int = 1) -> None:
        """Add to a counter."""
        self.set(name, self._values[name] + amount)

    def begin(self, task_id: int) -> None:
        """Say which task this process is at from now on; 0: none."""
        self._tasks[self._task_idx] = task_id

    def set(self, name: str, value: int) -> None:
        """Set a counter that is a level rather than a count."""
        self._values[name] = value
        self._words[self._word_idx[name]] = value
