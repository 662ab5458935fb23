"""Result slots: a worker's pages of matches on their way to the coordinator.

Slots are fixed and each is one worker's: it writes a page, says so in a message, and does not touch the slot
until the coordinator has read the page and said so. Pages are cut by the worker so that each fits; an event
whose matches do not fit goes on in the next page, with the same event first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.segment import Owner

FAMILY = "result_slot"
EVENTS_SHARE = 8  # of a slot's words, one in eight is for counts
SLOT_WORDS_LEAST = 64
_COLUMNS = ("first_event", "event_count", "match_count", "counts", "rows")


class ResultSlots:
    """All slots, for both sides; made by `create` or `attach`.

    Attributes
    ----------
    slot_count : int
    page_rows_max : int
        Most rows of one page.
    page_events_max : int
        Most events of one page.
    """

    def __init__(self, family: FamilySegment) -> None:
        self._family = family
        self.slot_count = family.lengths["slots"]
        self.page_rows_max = family.lengths["page_rows"]
        self.page_events_max = family.lengths["page_events"]
        self._known: dict[int, list[Any]] = {}

    @classmethod
    def create(cls, owner: Owner, slot_count: int, slot_size_bytes: int, generation: int = 1) -> ResultSlots:
        """Create `slot_count` slots of about `slot_size_bytes` each; all memory is taken now.

        Raises
        ------
        SegmentError
            No room.
        """
        words = max(slot_size_bytes // 4, SLOT_WORDS_LEAST)
        page_events = words // EVENTS_SHARE
        lengths = {"slots": slot_count, "page_events": page_events, "page_rows": words - page_events}
        return cls(FamilySegment.create(FAMILY, lengths, generation, owner))

    @classmethod
    def attach(cls, name: str) -> ResultSlots:
        """Attach slots by their segment's name, to write or to read; raises `SegmentError`."""
        return cls(FamilySegment.attach(FAMILY, name, writable=True))

    @property
    def name(self) -> str:
        """Name of the segment, for `attach`."""
        return self._family.name

    @fault_point("page.write")
    def write_page(
        self, slot_idx: int, first_event: int, counts: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]
    ) -> None:
        """Write a page into a slot of this worker.

        Parameters
        ----------
        first_event : int
            Event (of the batch) of ``counts[0]``.
        counts : int32[event_count]
            Matches of each event, as far as they are in this page.
        rows : int32[sum of counts]
            Catalogue rows, grouped by event.
        """
        fits = len(counts) <= self.page_events_max and len(rows) <= self.page_rows_max
        if not fits or _total(counts) != len(rows):
            raise ValueError(
                f"page of {len(counts)} events and {len(rows)} rows, allowed {self.page_events_max} and "
                f"{self.page_rows_max}, counts must add up to the rows"
            )
        slot_first, slot_events, slot_matches, slot_counts, slot_rows = self._slot(slot_idx)
        slot_counts[: len(counts)] = counts
        slot_rows[: len(rows)] = rows
        slot_first[0] = first_event
        slot_events[0] = len(counts)
        slot_matches[0] = len(rows)

    def read_page(self, slot_idx: int) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return a slot's page, copied: first event, offsets int64[events + 1], rows int32[matches].

        Raises
        ------
        SegmentError
            The slot holds no page that adds up: its worker is not to be trusted.
        """
        slot_first, slot_events, slot_matches, slot_counts, slot_rows = self._slot(slot_idx)
        event_count, match_count = slot_events[0], slot_matches[0]
        if 0 <= event_count <= self.page_events_max and 0 <= match_count <= self.page_rows_max:
            # Without sign: a count that is negative then makes the sum larger than any page.
            counts = slot_counts[:event_count].view(np.uint32)
            if event_count == 1:  # as every single event: an array less
                offsets = np.array((0, counts[0]), np.int64)
            else:
                offsets = np.zeros(event_count + 1, np.int64)
                np.add.accumulate(counts, out=offsets[1:])
            if offsets[event_count] == match_count:
                return slot_first[0], offsets, slot_rows[:match_count].copy()
        raise SegmentError(
            f"result slot {slot_idx} holds no page that adds up",
            seen=[event_count, match_count],
            limit=[self.page_events_max, self.page_rows_max],
        )

    def close(self) -> None:
        """Let go of the segment."""
        self._known.clear()
        self._family.close()

    def unlink(self) -> None:
        """Remove the segment's name."""
        self._family.unlink()

    def _slot(self, slot_idx: int) -> list[Any]:
        """Return the columns of a slot; single numbers as views, read and written without an array."""
        known = self._known.get(slot_idx)
        if known is None:
            if not 0 <= slot_idx < self.slot_count:
                raise SegmentError("no such result slot", seen=slot_idx, limit=self.slot_count)
            columns = [self._family.column(name, slot_idx) for name in _COLUMNS]
            known = self._known[slot_idx] = [*[column.data for column in columns[:3]], *columns[3:]]
        return known


def _total(counts: npt.NDArray[np.int32]) -> int:
    return int(counts[0]) if len(counts) == 1 else int(counts.sum(dtype=np.int64))
