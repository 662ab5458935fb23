"""Who is interested in which cells of a grid: l(g) of RIABOV A.2 (D-19), for all cells g at once.

l(g) is the set of subscribers who have a subscription that some event in the cell g may match; subscribers
are the owners of the catalogue, and subscriptions without one have nobody to be sent to. What a literal says
of an attribute of the grid becomes the set of cells in which it may hold; a clause is a box, the product of
these sets over the dimensions; an owner's interest is the union of their clauses' boxes. Never too small: an
event of a cell that matches a subscription finds its owner in l(g), so in the cell's group (RIABOV-11). It is
exact for rectangles, and otherwise too large at most: literals on attributes outside the grid, patterns on
texts that are not listed and comparisons of two attributes are taken as if they could hold. Validity windows
are not looked at.

Work goes owner by owner in blocks, so that memory is bounded whatever the number of subscriptions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.normal_truth import predicate_holds
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import F8, HAS_HI, HAS_LO, HI_OPEN, I4, I8, LO_OPEN, U8
from pubsub_cluster.tuner.grid import Bools, Dimension, Grid, as_float, is_exact
from pubsub_cluster.tuner.owner_shares import ALL_OWNERS, Share
from pubsub_cluster.tuner.source import Clauses, Source, collect_source, gather

BLOCK_CLAUSES = 1 << 16
BLOCK_WORDS = 1 << 22
"""Words of the boxes that are spread over the grid at a time: 32 MiB."""


class OwnerCells(NamedTuple):
    """The interests of some owners.

    Attributes
    ----------
    owner : int32[k]
        Catalogue owners, ascending.
    cells : uint64[k, words]
        Bitmaps over the grid's cells (`Grid.pack`); none is empty.
    """

    owner: I4
    cells: U8


class _Boxes(NamedTuple):
    """Clauses, by owner: per dimension bool[m, cells]."""

    owner: I4
    sides: list[Bools]


def owner_cells(
    reader: CatalogueReader, counts: CatalogueCounts, grid: Grid, version: int = 0, share: Share = ALL_OWNERS
) -> Iterator[OwnerCells]:
    """Give the interests of a catalogue's owners, block by block, owners ascending.

    Parameters
    ----------
    reader : CatalogueReader
    counts : CatalogueCounts
    grid : Grid
    version : int
        Rows that are removed at it are left out.
    share : Slice or Chosen
        Of the owners.

    Yields
    ------
    OwnerCells
    """
    source = collect_source(reader.columns, counts, version)
    literals = [Literals(reader, counts, dimension) for dimension in grid.dimensions]
    boxes = _boxes(source, literals, grid, share)
    yield from _blocks(boxes, _programs(source, literals, grid, share), grid)


def rectangle_cells(owner: I4, lo: Sequence[F8], hi: Sequence[F8], grid: Grid) -> Iterator[OwnerCells]:
    """Give the interests of owners of rectangles, open below and closed above (RIABOV section 1).

    Parameters
    ----------
    owner : int32[m]
        Of each rectangle.
    lo, hi : sequence of float64[m]
        Its ends in each dimension of the grid; infinite: no end. A side without ends lets all values through,
        and missing ones.
    grid : Grid

    Yields
    ------
    OwnerCells
    """
    order = np.argsort(owner, kind="stable")
    sides = []
    for dimension, below, above in zip(grid.dimensions, lo, hi, strict=True):
        side = np.zeros((len(owner), dimension.cell_count), np.bool_)
        has_lo, has_hi = below > -np.inf, above < np.inf
        if dimension.cuts is not None:
            flags = (LO_OPEN + HAS_LO * has_lo + HAS_HI * has_hi).astype(np.uint8)
            side[:, dimension.numbers] = _range_cells(dimension.cuts, below, above, flags)[0]
            side[below >= above] = False
        side[~has_lo & ~has_hi] = True
        sides.append(side[order])
    kept = _not_empty(sides)
    boxes = _Boxes(owner[order][kept].astype(np.int32), [side[kept] for side in sides])
    yield from _blocks(boxes, {}, grid)


def _not_empty(sides: list[Bools]) -> Bools:
    """Return which boxes hold some cell."""
    found: Bools = np.logical_and.reduce([side.any(axis=1) for side in sides])
    return found


def _blocks(boxes: _Boxes, programs: dict[int, U8], grid: Grid) -> Iterator[OwnerCells]:
    owners = np.union1d(boxes.owner, np.array(list(programs), np.int32)).astype(np.int32)
    first_box = np.searchsorted(boxes.owner, np.append(owners, np.int32(2**31 - 1)))
    at = 0
    while at < len(owners):
        boxes_max = max(1, BLOCK_WORDS // grid.word_count)
        stop = max(at + 1, int(np.searchsorted(first_box, first_box[at] + boxes_max, "right")) - 1)
        stop = min(stop, at + boxes_max)
        yield _block(boxes, programs, owners[at:stop], first_box[at : stop + 1], grid, boxes_max)
        at = stop


def _block(
    boxes: _Boxes, programs: dict[int, U8], owners: I4, first_box: I8, grid: Grid, boxes_max: int
) -> OwnerCells:
    found = np.zeros((len(owners), grid.word_count), np.uint64)
    for first in range(int(first_box[0]), int(first_box[-1]), boxes_max):
        picked = slice(first, min(first + boxes_max, int(first_box[-1])))
        whose = np.searchsorted(owners, boxes.owner[picked])
        start = np.flatnonzero(np.append(True, whose[1:] != whose[:-1]))
        spread = _spread([side[picked] for side in boxes.sides], grid)
        found[whose[start]] |= np.bitwise_or.reduceat(spread, start, axis=0)
    for at, owner in enumerate(owners.tolist()):
        if owner in programs:
            found[at] |= programs[owner]
    return OwnerCells(owners, found)


def _spread(sides: list[Bools], grid: Grid) -> U8:
    """Return boxes as bitmaps over the grid: uint64[m, words]."""
    rows = np.ones((len(sides[-1]), 1), np.bool_)
    for side in sides[:-1]:
        rows = (rows[:, :, None] & side[:, None, :]).reshape(len(side), -1)
    words = rows[:, :, None] * grid.pack(sides[-1])[:, None, :]
    return words.reshape(len(words), grid.word_count)


def _boxes(source: Source, literals: list[Literals], grid: Grid, share: Share) -> _Boxes:
    owners, sides = [np.zeros(0, np.int32)], [[np.zeros((0, size), np.bool_)] for size in grid.shape]
    for first in range(0, source.clause_count, BLOCK_CLAUSES):
        clause = np.arange(first, min(first + BLOCK_CLAUSES, source.clause_count), dtype=np.int32)
        owner = source.columns.owner[source.row_catalogue[source.rows_of(clause)]]
        is_mine = share.has(owner)
        mine = gather(source, clause[is_mine])
        here = [one.of_clauses(mine) for one in literals]
        can_hold = _not_empty(here)
        owners.append(owner[is_mine][can_hold])
        for side, found in zip(sides, here, strict=True):
            side.append(found[can_hold])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return _Boxes(owner[order], [np.concatenate(side)[order] for side in sides])


def _programs(source: Source, literals: list[Literals], grid: Grid, share: Share) -> dict[int, U8]:
    """Return the interests of owners by those of their subscriptions that are stored as programs."""
    found: dict[int, U8] = {}
    for number, row in enumerate(source.program_row.tolist()):
        owner = int(source.columns.owner[source.row_catalogue[row]])
        if not share.has(source.columns.owner[source.row_catalogue[row]]):
            continue
        code = source.program_code[source.program_start[number] : source.program_start[number + 1]]
        cells = grid.pack(_cells_of_program(code.tolist(), literals, grid)).reshape(-1)
        if cells.any():
            found[owner] = found[owner] | cells if owner in found else cells
    return found


def _cells_of_program(code: list[int], literals: list[Literals], grid: Grid) -> Bools:
    """Return the cells in which a program may hold: bool[shape]; its negations are at its literals."""
    stack: list[Bools] = []
    for step in code:
        if step >= 0:
            cells = np.ones(grid.shape, np.bool_)
            for axis, one in enumerate(literals):
                side = one.cells_of(step)
                if side is not None:
                    cells &= side.reshape([-1 if here == axis else 1 for here in range(len(grid.shape))])
            stack.append(cells)
            continue
        count, is_or = divmod(-step, 2)
        operands = stack[-count:]
        del stack[-count:]
        stack.append(np.logical_or.reduce(operands) if is_or else np.logical_and.reduce(operands))
    return stack[0]


class Literals:
    """In which cells of a dimension each literal of the catalogue may hold.

    Attributes
    ----------
    cells : bool[p, 2, cells]
        By predicate on the dimension's attribute, as it is and negated.

    Parameters
    ----------
    reader : CatalogueReader
    counts : CatalogueCounts
    dimension : Dimension
    used : bool[predicates], optional
        Only these may be asked for.
    """

    def __init__(
        self,
        reader: CatalogueReader,
        counts: CatalogueCounts,
        dimension: Dimension,
        used: Bools | None = None,
    ) -> None:
        columns = reader.columns
        names = [reader.attribute_name(number) for number in range(counts.attributes)]
        number = names.index(dimension.attribute) if dimension.attribute in names else -2
        is_mine = columns.predicate_attribute[: counts.predicates] == number
        predicate = np.flatnonzero(is_mine if used is None else is_mine & used)
        self._position = np.full(counts.predicates, -1, np.int32)
        self._position[predicate] = np.arange(len(predicate), dtype=np.int32)
        self.cells = np.empty((len(predicate), 2, dimension.cell_count), np.bool_)
        is_range = (columns.predicate_kind[predicate] == PredicateKind.RANGE) & (
            columns.predicate_value_kind[predicate] == ValueKind.NUMBER
        )
        self.cells[is_range] = _number_range_cells(columns, predicate[is_range], dimension)
        for at in np.flatnonzero(~is_range).tolist():
            self.cells[at] = literal_cells(reader.predicate(int(predicate[at])), dimension)

    def of_clauses(self, clauses: Clauses) -> Bools:
        """Return the cells in which all literals of each clause may hold, each for itself."""
        found = np.ones((len(clauses.start) - 1, self.cells.shape[2]), np.bool_)
        position = self._position[clauses.literal >> 1]
        picked = np.flatnonzero(position >= 0)
        if len(picked):
            clause = clauses.owner[picked]
            start = np.flatnonzero(np.append(True, clause[1:] != clause[:-1]))
            cells = self.cells[position[picked], clauses.literal[picked] & 1]
            found[clause[start]] = np.logical_and.reduceat(cells, start, axis=0)
        return found

    def cells_of(self, literal: int) -> Bools | None:
        """Return the cells of one literal; None where it says nothing of this attribute."""
        position = int(self._position[literal >> 1])
        return None if position < 0 else self.cells[position, literal & 1]


def _number_range_cells(columns: Any, predicate: I8, dimension: Dimension) -> Bools:
    """Return `literal_cells` of ranges of numbers: bool[p, 2, cells]."""
    flags = columns.predicate_flags[predicate]
    lo = as_float(columns.predicate_lo_whole[predicate], columns.predicate_lo_part[predicate])
    hi = as_float(columns.predicate_hi_whole[predicate], columns.predicate_hi_part[predicate])
    found = np.zeros((len(predicate), 2, dimension.cell_count), np.bool_)
    found[:, 1] = True
    if dimension.cuts is not None:
        found[:, 0, dimension.numbers], found[:, 1, dimension.numbers] = _range_cells(
            dimension.cuts, lo, hi, flags
        )
    return found


def _range_cells(cuts: F8, lo: F8, hi: F8, flags: Any) -> tuple[Bools, Bools]:
    """Return the number cells that a range meets, and those that it does not cover.

    A rounded end (see `tuner.grid.as_float`) is taken so that either set is rather too large.
    """
    cell = np.arange(len(cuts) + 1)
    has_lo, has_hi = flags & HAS_LO > 0, flags & HAS_HI > 0
    lo_right, lo_left = np.searchsorted(cuts, lo, "right"), np.searchsorted(cuts, lo)
    hi_right, hi_left = np.searchsorted(cuts, hi, "right"), np.searchsorted(cuts, hi)
    first = np.where(has_lo, np.where((flags & LO_OPEN > 0) & is_exact(lo), lo_right, lo_left), 0)
    last = np.where(has_hi, hi_left, len(cuts))
    first_whole = np.where(has_lo, lo_left + 1, 0)
    is_closed = (flags & HI_OPEN == 0) & is_exact(hi)
    last_whole = np.where(has_hi, np.where(is_closed, hi_right, hi_left) - 1, len(cuts))
    meets = (cell >= first[:, None]) & (cell <= last[:, None])
    covers = (cell >= first_whole[:, None]) & (cell <= last_whole[:, None])
    return meets, ~covers


def literal_cells(predicate: Predicate, dimension: Dimension) -> Bools:
    """Return in which cells of a dimension a predicate may hold, and its negation: bool[2, cells].

    Parameters
    ----------
    predicate : Predicate
        On the dimension's attribute; not a range of numbers.
    dimension : Dimension
    """
    holds = np.zeros(dimension.cell_count, np.bool_)
    fails = np.ones(dimension.cell_count, np.bool_)
    if predicate.kind in (PredicateKind.EXISTS, PredicateKind.COMPARE):
        holds[1:] = True
        fails[1:] = predicate.kind is PredicateKind.COMPARE
        return np.stack((holds, fails))
    kind, numbers = predicate.value_kind, dimension.numbers
    is_point = predicate.kind is PredicateKind.RANGE and predicate.lo is not None
    if kind is ValueKind.TEXT and is_point and predicate.lo == predicate.hi:
        # Most predicates on texts are one of a million of these: no cell is asked one by one.
        cell = _text_cell(dimension, predicate.lo)
        if cell is not None:
            holds[cell] = True
            fails[cell] = cell == dimension.listed.stop
        return np.stack((holds, fails))
    if dimension.cuts is not None:
        members = [
            _number_cell(dimension, value) for one, value in predicate.constants if one is ValueKind.NUMBER
        ]
        if predicate.kind is PredicateKind.SET:
            holds[members] = True
        elif predicate.kind is PredicateKind.EXCEPT and kind is ValueKind.NUMBER:
            holds[numbers], fails[numbers] = True, False
            fails[members] = True
    for cell, value in enumerate(dimension.texts or (), dimension.listed.start):
        holds[cell] = _value_holds(predicate, value.decode())
        fails[cell] = not holds[cell]
    if dimension.texts is not None:
        holds[dimension.listed.stop], fails[dimension.listed.stop] = _other_text(predicate, dimension.texts)
    for cell in range(dimension.first_boolean, dimension.cell_count):
        holds[cell] = _value_holds(predicate, cell > dimension.first_boolean)
        fails[cell] = not holds[cell]
    return np.stack((holds, fails))


def _value_holds(predicate: Predicate, value: Any) -> bool:
    return predicate_holds(predicate, {str(predicate.attribute): (value,)})


def _number_cell(dimension: Dimension, value: Any) -> int:
    whole, part = number_key(value)
    return int(dimension.number_cells(as_float(np.array([whole]), np.array([part])))[0])


def _text_cell(dimension: Dimension, text: Any) -> int | None:
    """Return the cell of a text; None where texts lie outside."""
    if dimension.texts is None:
        return None
    at = bisect_left(dimension.texts, text)
    is_listed = at < len(dimension.texts) and dimension.texts[at] == text
    return int(dimension.listed.start) + at if is_listed else int(dimension.listed.stop)


def _other_text(predicate: Predicate, listed: tuple[bytes, ...]) -> tuple[bool, bool]:
    """Say whether a predicate may hold, and may fail, for a text that is not listed."""
    texts = [value for kind, value in predicate.constants if kind is ValueKind.TEXT]
    if predicate.kind is PredicateKind.TEXT:
        return True, True
    if predicate.kind is PredicateKind.SET:
        return any(text not in listed for text in texts), True
    if predicate.value_kind is not ValueKind.TEXT:
        return False, True
    if predicate.kind is PredicateKind.EXCEPT:
        return True, any(text not in listed for text in texts)
    return predicate.lo is None or predicate.lo != predicate.hi or predicate.lo not in listed, True
