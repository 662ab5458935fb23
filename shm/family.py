"""A segment of one family of columns: created from its lengths, attached by its name.

The creator writes the lengths behind the stamp; whoever attaches reads them there, plans the same
offsets (`shm.column_plan`) and gets every column by name. That the segment is complete is told by a
message, never by the segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.column_plan import Plan, layout_version, length_symbols, lengths_span, plan
from pubsub_cluster.shm.columns import PAGE_SIZE_BYTES
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.segment import AnySegment, Owner, PrivateSegment, Segment


class FamilySegment:
    """Columns of a family over a shared or private segment.

    Made by `create`, `private` or `attach`.

    Attributes
    ----------
    family : str
    segment : Segment or PrivateSegment
    lengths : dict of str to int
    plan : Plan
    """

    def __init__(self, family: str, segment: AnySegment, lengths: dict[str, int], offsets: Plan) -> None:
        self.family = family
        self.segment = segment
        self.lengths = lengths
        self.plan = offsets
        self._columns: dict[tuple[str, int], npt.NDArray[Any]] = {}

    @classmethod
    @fault_point("segment.create")
    def create(
        cls, family: str, lengths: Mapping[str, int], generation: int, owner: Owner, reserve: bool = True
    ) -> FamilySegment:
        """Create a shared segment of zeros; see `Segment.create` for `reserve` and the errors."""
        offsets = plan(family, lengths)
        segment = Segment.create(
            family, generation, offsets.size_bytes, owner, reserve, layout_version(family)
        )
        made = cls(family, segment, dict(lengths), offsets)
        try:
            made._write_lengths()
        except BaseException:
            segment.unlink()
            raise
        return made

    @classmethod
    def private(cls, family: str, lengths: Mapping[str, int]) -> FamilySegment:
        """Make the same in private memory of this process."""
        offsets = plan(family, lengths)
        made = cls(family, PrivateSegment(offsets.size_bytes), dict(lengths), offsets)
        made._write_lengths()
        return made

    @classmethod
    def attach(cls, family: str, name: str, writable: bool = False) -> FamilySegment:
        """Attach by name.

        Raises
        ------
        SegmentError
            As `Segment.attach`; also when it is of another family or its lengths do not give its size.
        """
        segment = Segment.attach(name, writable, layout_version(family))
        if segment.stamp.kind != family:
            raise SegmentError(f"segment {name} is of another family", seen=segment.stamp.kind, limit=family)
        span = lengths_span(family)
        values = segment.array(span.dtype, span.offset_bytes, span.item_count).tolist()
        lengths = dict(zip(length_symbols(family), values, strict=True))
        offsets = plan(family, lengths)
        if offsets.size_bytes != segment.size_bytes:
            raise SegmentError(
                f"segment {name} has another size than its lengths give",
                seen=segment.size_bytes,
                limit=offsets.size_bytes,
            )
        return cls(family, segment, lengths, offsets)

    @property
    def name(self) -> str:
        """Name to attach by."""
        return self.segment.name

    def column(self, column_name: str, cell_idx: int = 0) -> npt.NDArray[Any]:
        """Return a column (of a cell) as an array over its full length; the same array each time."""
        known = self._columns.get((column_name, cell_idx))
        if known is None:
            span = self.plan.spans[column_name]
            offset_bytes = self.plan.cell_offset_bytes(cell_idx) + span.offset_bytes
            known = self.segment.array(span.dtype, offset_bytes, span.item_count)
            self._columns[column_name, cell_idx] = known
        return known

    def columns(self, cell_idx: int = 0) -> dict[str, npt.NDArray[Any]]:
        """Return all columns (of a cell) by name, in the table's order."""
        return {name: self.column(name, cell_idx) for name in self.plan.spans}

    def reserve_column(self, column_name: str, first: int, end: int, cell_idx: int = 0) -> None:
        """Reserve the pages of items [first, end) of a column of a sparse segment."""
        span = self.plan.spans[column_name]
        start_bytes = self.plan.cell_offset_bytes(cell_idx) + span.offset_bytes
        item_bytes = span.dtype.itemsize
        self.segment.reserve(start_bytes + first * item_bytes, (end - first) * item_bytes)

    def close(self) -> None:
        """Let go of the segment; arrays stay valid."""
        self._columns.clear()
        self.segment.close()

    def unlink(self) -> None:
        """Remove the segment's name."""
        self.segment.unlink()

    def _write_lengths(self) -> None:
        span = lengths_span(self.family)
        self.segment.reserve(0, min(PAGE_SIZE_BYTES, self.segment.size_bytes))
        values = [self.lengths[symbol] for symbol in length_symbols(self.family)]
        self.segment.array(span.dtype, span.offset_bytes, span.item_count)[:] = np.array(values, np.int64)
