"""A layout: one complete, immutable index of the catalogue, as arrays (`shm.columns`, family "layout").

Predicates are numbered so that *points* (one label) come first, by attribute and label, then bits, then all
others. The first two have a *flag*, set while an event that satisfies them is matched.

There are three ways in. *Slots*: every point, every bit, one "present" slot per attribute, one "always" slot,
in this order; `access_start` leads from a slot to its clusters. *Tables*: the digits of a table's parts,
each the point of a label or a cell, make a key, ``sum(digit * part_multiplier) - table_offset``, which leads
to a position directly or through a hash with linear probing. A table hangs off one attribute of its schema.
The *tree*, where there is one, is of bounding boxes in labels, whose leaf nodes are clusters too
(`workers.kernels.tree`). Each way ends at sections of the blob (`shm.blob`). A cluster of a slot or a leaf
node belongs to a partition; a key's partition follows from table and key (`shm.blob.partition_of`).

The arrays are read-only, whether they lie in private memory (as the builder returns them) or in a shared
segment.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.code_space import F8, I4, I8, U1, U8, CodeSpaces
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.segment import Owner

LAYOUT_INFO = (
    "generation",
    "version",
    "cluster_entries_max",
    "flag_count",
    "has_fronts",
    *CatalogueCounts._fields,
)
INFO_SIZE = 16

ArrayT = TypeVar("ArrayT", bound=npt.NDArray[Any])


class LayoutView(NamedTuple):
    """The columns of a layout; lengths and meanings as in `shm.columns`, family "layout"."""

    info: I8
    attribute_catalogue: I4
    number_start: I4
    number_whole: I8
    number_part: F8
    text_start: I4
    text_offset: I8
    text_bytes: U1
    text_prefix: U8
    label_start: I8
    row_catalogue: I4
    row_many: U1
    predicate_test: I4
    set_start: I4
    set_label: I4
    bit_catalogue: I4
    attribute_point: I4
    point_base: I8
    label_point: I4
    flag_base: I8
    flag_start: I4
    flag_test: I4
    slice_start: I4
    slice_label: I4
    attribute_table: I4
    table_part: I4
    part_code: I4
    part_multiplier: I8
    table_offset: I8
    table_area: I8
    table_size: I8
    table_places: I8
    table_mode: U1
    table_direct: I4
    table_hash: I8
    table_cost: F8
    table_entries: I8
    access_start: I4
    cluster_start: I8
    cluster_partition: I4
    cluster_attribute: I4
    attribute_dimension: I4
    tree_lo: I4
    tree_hi: I4
    tree_first: I4
    tree_count: I4
    tree_chance: F8
    tree_cost: F8
    tree_entries: I8
    cluster_blob: I4
    partition_cost: F8
    program_start: I4
    program_code: I4
    program_row: I4

    @property
    def generation(self) -> int:
        """Number of the layout."""
        return self._info("generation")

    @property
    def version(self) -> int:
        """Catalogue version that the layout was built from: rows removed by then are not in it."""
        return self._info("version")

    @property
    def cluster_entries_max(self) -> int:
        """Entries of the largest section."""
        return self._info("cluster_entries_max")

    @property
    def flag_count(self) -> int:
        """Predicates with a flag: points, bits and chosen tests."""
        return self._info("flag_count")

    @property
    def has_fronts(self) -> bool:
        """Whether some section has a front."""
        return bool(self._info("has_fronts"))

    @property
    def counts(self) -> CatalogueCounts:
        """What of the catalogue the layout covers; later rows are the delta."""
        return CatalogueCounts(*(self._info(name) for name in CatalogueCounts._fields))

    @property
    def spaces(self) -> CodeSpaces:
        """The code spaces that the labels belong to."""
        return CodeSpaces(*(getattr(self, name) for name in CodeSpaces._fields))

    @property
    def size_bytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self)

    def _info(self, name: str) -> int:
        return int(self.info[LAYOUT_INFO.index(name)])


LayoutArrays = LayoutView
"""What the builder returns: the same columns in private memory."""


def frozen(array: ArrayT) -> ArrayT:
    """Return a read-only view; kernels are compiled for read-only inputs only."""
    view = array.view()
    view.flags.writeable = False
    return view


def freeze_layout(arrays: LayoutArrays) -> LayoutArrays:
    """Return the same columns read-only, as a segment gives them."""
    views: list[Any] = [frozen(column) for column in arrays]
    return LayoutView(*views)


def layout_info(
    generation: int,
    version: int,
    counts: CatalogueCounts,
    cluster_entries_max: int,
    flag_count: int,
    has_fronts: bool = False,
) -> I8:
    """Return the column `info`."""
    info = np.zeros(INFO_SIZE, np.int64)
    values = (generation, version, cluster_entries_max, flag_count, has_fronts, *counts)
    info[: len(values)] = values
    return info


def empty_layout(generation: int = 0, partition_count: int = 1) -> LayoutArrays:
    """Return the layout of an empty catalogue."""
    start4, start8 = np.zeros(1, np.int32), np.zeros(1, np.int64)
    none1, none4 = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    none8, none_f = np.zeros(0, np.int64), np.zeros(0, np.float64)
    columns = LayoutView(
        info=layout_info(generation, 0, CatalogueCounts(*([0] * len(CatalogueCounts._fields))), 0, 0),
        attribute_catalogue=none4,
        number_start=start4,
        number_whole=none8,
        number_part=none_f,
        text_start=start4,
        text_offset=start8,
        text_bytes=none1,
        text_prefix=np.zeros(0, np.uint64),
        label_start=start8,
        row_catalogue=none4,
        row_many=none1,
        predicate_test=none4,
        set_start=start4,
        set_label=none4,
        bit_catalogue=none4,
        attribute_point=start4,
        point_base=none8,
        label_point=none4,
        flag_base=none8,
        flag_start=start4,
        flag_test=none4,
        slice_start=start4,
        slice_label=none4,
        attribute_table=start4,
        table_part=start4,
        part_code=none4,
        part_multiplier=none8,
        table_offset=none8,
        table_area=none8,
        table_size=none8,
        table_places=none8,
        table_mode=none1,
        table_direct=none4,
        table_hash=none8,
        table_cost=none_f,
        table_entries=none8,
        access_start=np.zeros(2, np.int32),
        cluster_start=none8,
        cluster_partition=none4,
        cluster_attribute=none4,
        attribute_dimension=none4,
        tree_lo=none4,
        tree_hi=none4,
        tree_first=none4,
        tree_count=none4,
        tree_chance=none_f,
        tree_cost=none_f,
        tree_entries=none8,
        cluster_blob=none4,
        partition_cost=np.zeros(partition_count, np.float64),
        program_start=start4,
        program_code=none4,
        program_row=none4,
    )
    return freeze_layout(columns)


def layout_lengths(arrays: LayoutArrays) -> dict[str, int]:
    """Return the lengths of the family "layout" that hold these arrays."""
    return {
        "attributes": len(arrays.attribute_catalogue),
        "numbers": len(arrays.number_whole),
        "texts": len(arrays.text_prefix),
        "text_bytes": len(arrays.text_bytes),
        "rows": len(arrays.row_catalogue),
        "predicates": len(arrays.predicate_test) // 4,
        "sets": len(arrays.set_start) - 1,
        "set_labels": len(arrays.set_label),
        "bits": len(arrays.bit_catalogue),
        "slots": len(arrays.access_start) - 1,
        "point_labels": len(arrays.label_point),
        "flag_labels": len(arrays.flag_start) - 1,
        "flag_tests": len(arrays.flag_test),
        "slices": len(arrays.slice_label),
        "tables": len(arrays.table_mode),
        "parts": len(arrays.part_code),
        "direct": len(arrays.table_direct),
        "entries": len(arrays.table_hash) // 2,
        "clusters": len(arrays.cluster_partition),
        "tree_bounds": len(arrays.tree_lo),
        "tree_nodes": len(arrays.tree_first),
        "trees": len(arrays.tree_cost),
        "blob_words": len(arrays.cluster_blob),
        "partitions": len(arrays.partition_cost),
        "programs": len(arrays.program_row),
        "codes": len(arrays.program_code),
    }


@fault_point("layout.write")
def move_layout(columns: list[Any], lengths: dict[str, int], generation: int, owner: Owner) -> FamilySegment:
    """Move a layout into a new shared segment; complete when this returns.

    Each array is let go of when it is copied, so that the layout is not in memory twice unless the caller
    keeps it.

    Parameters
    ----------
    columns : list of arrays
        As in `LayoutView`; empty afterwards.
    lengths : dict of str to int
        Their `layout_lengths`.
    generation : int
    owner : Owner
        Process that answers for the segment.

    Returns
    -------
    FamilySegment
        ``.name`` to announce, ``.unlink()`` when no batch needs the generation any more.

    Raises
    ------
    SegmentError
        Not enough room, or the generation exists.
    """
    made = FamilySegment.create("layout", lengths, generation, owner, reserve=False)
    try:
        for name in reversed(LayoutView._fields):
            made.reserve_column(name, 0, len(columns[-1]))
            made.column(name)[:] = columns.pop()
    except BaseException:
        made.unlink()
        raise
    return made


@fault_point("layout.attach")
def attach_layout(name: str) -> LayoutView:
    """Map the layout in segment `name`; the arrays keep the map alive, also after the segment is unlinked.

    Raises
    ------
    SegmentError
        Missing, foreign, of another version or size.
    """
    segment = FamilySegment.attach("layout", name)
    columns: list[Any] = [segment.column(name) for name in LayoutView._fields]
    segment.close()
    return LayoutView(*columns)
