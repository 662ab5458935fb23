"""A grid over the event space: which cell an event lies in (RIABOV A.2; D-19).

Each attribute of the grid is a *dimension*, divided into cells:

    0 missing | numbers: (-inf, cut 0], (cut 0, cut 1], ... (last cut, inf) | each listed text, any other text
    | false, true

A dimension has the sections of the kinds that its sampled values have; the cells of a grid are the products
of its dimensions' cells, numbered row by row, the last dimension fastest. An event that is no point of the
grid (a value of a kind without a section, several values of one attribute, an event that was refused) lies
*outside*: it belongs to the catch-all set S_0 of the paper's section 4. Number cells are open below and
closed above, as the paper's are; the outermost ones have no end, so that the grid covers every rectangle. "At
most C intervals of equal length" (A.2) is the spacing ``equal``; ``quantile`` makes them equally likely.

Sets of cells are bitmaps over the cells in which the last dimension begins a new word: `Grid.pack`,
`Grid.unpack`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError, LimitError
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch
from pubsub_cluster.shm.code_space import F8, I4, I8, U8

Spacing: TypeAlias = Literal["quantile", "equal"]
Bools: TypeAlias = npt.NDArray[np.bool_]

CELLS_MAX = 1 << 17
"""Of a grid; each owner has a bit for each."""
CELLS_PER_ATTRIBUTE_DEFAULT = 16
OUTSIDE, MISSING = -1, 0
WORD_BITS = 64
_EXACT_BELOW = 2.0**53


class Dimension(NamedTuple):
    """One attribute of a grid and its cells.

    Attributes
    ----------
    attribute : str
    cuts : float64[k] or None
        Ascending, distinct, finite: k + 1 cells of numbers. None: numbers lie outside.
    texts : tuple of bytes, or None
        Ascending UTF-8: a cell each, and one for all other texts. None: texts lie outside.
    booleans : bool
        Whether there are cells of false and true.
    """

    attribute: str
    cuts: F8 | None = None
    texts: tuple[bytes, ...] | None = None
    booleans: bool = False

    @property
    def numbers(self) -> slice:
        """Cells of numbers."""
        return slice(1, 1 if self.cuts is None else len(self.cuts) + 2)

    @property
    def listed(self) -> slice:
        """Cells of the listed texts; that of all others follows them."""
        first = self.numbers.stop
        return slice(first, first + len(self.texts or ()))

    @property
    def first_boolean(self) -> int:
        """Where the cells of false and true are, or would be."""
        return int(self.listed.stop) + (self.texts is not None)

    @property
    def cell_count(self) -> int:
        """Number of cells, the one of missing values included."""
        return self.first_boolean + 2 * self.booleans

    def locate(self, entries: AttributeEntries | None, event_count: int) -> I4:
        """Return the cell of each event by its entries of this attribute; `OUTSIDE` where it has none."""
        cell = np.zeros(event_count, np.int32)
        if entries is None:
            return cell
        value_count = np.zeros(event_count, np.int64)
        for event, found in self._cells(entries):
            cell[event] = found
            value_count += np.bincount(event, minlength=event_count)
        cell[value_count > 1] = OUTSIDE
        return cell

    def _cells(self, entries: AttributeEntries) -> list[tuple[I4, I4 | int]]:
        """Return events and the cells of their values, kind by kind."""
        numbers, texts, booleans = entries
        found: list[tuple[I4, I4 | int]] = []
        if numbers is not None:
            found.append((numbers.event, self.number_cells(as_float(numbers.whole, numbers.part))))
        if texts is not None:
            cells: I4 | int = OUTSIDE
            if self.texts is not None:
                other = self.listed.stop
                cell_of = {text: self.listed.start + at for at, text in enumerate(self.texts)}
                data = texts.data.tobytes()
                ends = zip(texts.start.tolist(), texts.end.tolist(), strict=True)
                cells = np.array([cell_of.get(data[start:end], other) for start, end in ends], np.int32)
            found.append((texts.event, cells))
        if booleans is not None:
            cells = self.first_boolean + booleans.value.astype(np.int32) if self.booleans else OUTSIDE
            found.append((booleans.event, cells))
        return found

    def number_cells(self, numbers: F8) -> I4:
        """Return the cells of numbers."""
        if self.cuts is None:
            return np.full(len(numbers), OUTSIDE, np.int32)
        found: I4 = (1 + np.searchsorted(self.cuts, numbers)).astype(np.int32)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the form that `from_json` reads."""
        return {
            "attribute": self.attribute,
            "cuts": None if self.cuts is None else self.cuts.tolist(),
            "texts": None if self.texts is None else [text.decode() for text in self.texts],
            "booleans": self.booleans,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Dimension:
        """Return what `to_json` wrote."""
        cuts, texts = body["cuts"], body["texts"]
        return cls(
            body["attribute"],
            None if cuts is None else np.array(cuts, np.float64),
            None if texts is None else tuple(text.encode() for text in texts),
            body["booleans"],
        )

    def cell_name(self, cell: int) -> str:
        """Return what a person calls a cell."""
        if cell == MISSING:
            return "missing"
        if cell >= self.first_boolean:
            return "true" if cell > self.first_boolean else "false"
        if cell >= self.listed.start:
            assert self.texts is not None
            return "other" if cell == self.listed.stop else self.texts[cell - self.listed.start].decode()
        assert self.cuts is not None
        ends = [-math.inf, *self.cuts.tolist(), math.inf]
        return f"({ends[cell - 1]:g}, {ends[cell]:g}]"


class Grid(NamedTuple):
    """The cells of an event space.

    Attributes
    ----------
    dimensions : tuple of Dimension
    """

    dimensions: tuple[Dimension, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each dimension."""
        return tuple(dimension.cell_count for dimension in self.dimensions)

    @property
    def cell_count(self) -> int:
        """Number of cells; the last dimension's come in a row."""
        return math.prod(self.shape)

    @property
    def row_words(self) -> int:
        """Words of a bitmap for the cells of one row: those that differ in the last dimension only."""
        return -(-self.shape[-1] // WORD_BITS)

    @property
    def word_count(self) -> int:
        """Words of a bitmap over all cells."""
        return self.cell_count // self.shape[-1] * self.row_words

    def locate(self, raw: RawBatch) -> I8:
        """Return the cell of each event of a batch; `OUTSIDE` where it has none."""
        cell = np.zeros(raw.event_count, np.int64)
        is_outside = np.zeros(raw.event_count, np.bool_)
        is_outside[list(raw.refused)] = True
        for dimension in self.dimensions:
            mine = dimension.locate(raw.attributes.get(dimension.attribute), raw.event_count)
            cell = cell * dimension.cell_count + mine
            is_outside |= mine == OUTSIDE
        cell[is_outside] = OUTSIDE
        return cell

    def pack(self, cells: Bools) -> U8:
        """Return sets of cells, bool[..., C of the last dimension], as bitmaps: uint64[..., row_words]."""
        padded = np.zeros((*cells.shape[:-1], self.row_words * WORD_BITS), np.bool_)
        padded[..., : cells.shape[-1]] = cells
        return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)

    def unpack(self, words: U8) -> Bools:
        """Return bitmaps over all cells, uint64[..., word_count], as bool[..., cell_count]."""
        octets = np.ascontiguousarray(words.astype("<u8", copy=False)).view(np.uint8)
        bits = np.unpackbits(octets, axis=-1, bitorder="little").view(np.bool_)
        rows = bits.reshape((*words.shape[:-1], -1, self.row_words * WORD_BITS))
        return rows[..., : self.shape[-1]].reshape((*words.shape[:-1], self.cell_count))

    def bit_of(self, cell: I8) -> tuple[I8, U8]:
        """Return the word of each cell in a bitmap, and its bit there."""
        row, place = np.divmod(cell, self.shape[-1])
        word, bit = np.divmod(place, WORD_BITS)
        return row * self.row_words + word, bit.astype(np.uint64)

    def cell_name(self, cell: int) -> str:
        """Return what a person calls a cell: ``price (3, 7], venue xetra``."""
        places = np.unravel_index(cell, self.shape)
        pairs = zip(self.dimensions, places, strict=True)
        return ", ".join(f"{one.attribute} {one.cell_name(int(place))}" for one, place in pairs)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the form that `from_json` reads."""
        return [dimension.to_json() for dimension in self.dimensions]

    @classmethod
    def from_json(cls, body: Sequence[Mapping[str, Any]]) -> Grid:
        """Return what `to_json` wrote."""
        return make_grid([Dimension.from_json(one) for one in body])


def make_grid(dimensions: Sequence[Dimension]) -> Grid:
    """Return the grid of some dimensions; the one with most cells becomes the last.

    Raises
    ------
    CallerError
        No dimension, or two of one attribute.
    LimitError
        More cells than `CELLS_MAX`.
    """
    names = [dimension.attribute for dimension in dimensions]
    if not names or len(set(names)) < len(names):
        raise CallerError("a grid needs one or more attributes, each once", seen=names)
    grid = Grid(tuple(sorted(dimensions, key=lambda dimension: dimension.cell_count)))
    if grid.cell_count > CELLS_MAX:
        raise LimitError(
            "the grid has too many cells",
            seen=grid.cell_count,
            limit=CELLS_MAX,
            remedy="Give fewer attributes, or fewer cells to each.",
            limit_name="CELLS_MAX",
        )
    return grid


def grid_of_sample(
    sample: Sequence[RawBatch],
    attributes: Sequence[str],
    cells: int = CELLS_PER_ATTRIBUTE_DEFAULT,
    spacing: Spacing = "quantile",
) -> Grid:
    """Return a grid that suits sampled events.

    Parameters
    ----------
    sample : sequence of RawBatch
    attributes : sequence of str
    cells : int
        Of each attribute and each kind of value, at most: C of RIABOV A.2.
    spacing : {"quantile", "equal"}
        Of number cells: equally many sampled numbers in each, or equal lengths between the least and the
        greatest.

    Raises
    ------
    CallerError
        An attribute has no value in any sampled event, or is given twice.
    LimitError
        The grid would have more than `CELLS_MAX` cells.
    """
    return make_grid([dimension_of_sample(sample, attribute, cells, spacing) for attribute in attributes])


def dimension_of_sample(
    sample: Sequence[RawBatch], attribute: str, cells: int, spacing: Spacing = "quantile"
) -> Dimension:
    """Return the dimension of one attribute; see `grid_of_sample`."""
    numbers: list[F8] = []
    texts: Counter[bytes] = Counter()
    has_booleans = False
    for raw in sample:
        entries = raw.attributes.get(attribute, AttributeEntries())
        if entries.numbers is not None:
            numbers.append(as_float(entries.numbers.whole, entries.numbers.part))
        if entries.texts is not None:
            data = entries.texts.data.tobytes()
            ends = zip(entries.texts.start.tolist(), entries.texts.end.tolist(), strict=True)
            texts.update(data[start:end] for start, end in ends)
        has_booleans |= entries.booleans is not None
    if not numbers and not texts and not has_booleans:
        raise CallerError(
            f"attribute {attribute!r} has no value in the sampled events",
            seen=sum(raw.event_count for raw in sample),
            remedy="Choose attributes that events have.",
        )
    common = sorted(texts, key=lambda text: (-texts[text], text))[: cells - 1]
    return Dimension(
        attribute,
        number_cuts(np.concatenate(numbers), cells, spacing) if numbers else None,
        tuple(sorted(common)) if texts else None,
        has_booleans,
    )


def number_cuts(numbers: F8, cells: int, spacing: Spacing) -> F8:
    """Return the cuts between at most `cells` cells of numbers: float64[cells - 1] or fewer."""
    finite = np.sort(numbers[np.isfinite(numbers)])
    if not len(finite):
        return np.zeros(0)
    if spacing == "equal":
        return np.unique(np.linspace(finite[0], finite[-1], cells + 1)[1:-1])
    last_of_cell = -(-np.arange(1, cells) * len(finite) // cells) - 1
    cuts = np.unique(finite[np.maximum(last_of_cell, 0)])
    found: F8 = cuts[cuts < finite[-1]]
    return found


def as_float(whole: I8, part: F8) -> F8:
    """Return numbers by their keys (`language.values`), rounded where doubles are sparse.

    Rounding keeps the order, so that events and subscriptions that meet still meet in a cell.
    """
    return np.where(np.abs(part) >= 1.0, part, whole + part)


def is_exact(numbers: F8) -> Bools:
    """Return where `as_float` has not rounded for certain."""
    found: Bools = np.abs(numbers) < _EXACT_BELOW
    return found
