"""Predicate evaluation by table look-up, with inference (TOPSS section 3.2, figure 1; D-15).

Idea: an attribute's constants are integers l..u, so its predicates stand in ``array[operator][l..u]``. For a
value v, the predicates ``>`` that hold are the cells l..v-1, ``<`` the cells v+1..u, ``=`` the cell v, ``<>``
all cells but v: no comparison is made.

Cost: adding, removing and finding a predicate O(1); an evaluation traverses about two widths of cells per
attribute, however few predicates they hold. Memory: 4 cells of 4 bytes per value of the domain.

Limits: constants are integers within +-`BOUND_MAX`; a table whose bounds a new constant leaves is rebuilt
with twice the width or more; all tables have at most `BYTES_MAX`. Event values are any doubles: one between
two integers, or out of bounds, has its place between cells. ``<=`` and ``>=`` (the paper has four operators)
have slices of their own, which an attribute gets when it needs them: to store ``a <= 2`` as ``a < 3`` would
be wrong for the value 2.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.algorithms.conjunctions import I4, Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.predicate_book import U1, Predicates, new_book
from pubsub_cluster.algorithms.topss.table_kernels import EMPTY, SLICES, add_all, evaluate, remove_all
from pubsub_cluster.language.errors import CallerError

BOUND_MAX = 1 << 20
BYTES_MAX = 1 << 30
PAPER_SLICES, ALL_SLICES = 4, 6


def reason_against(conjunctions: Conjunctions) -> str | None:
    """Return why constants have no cell; None: they have."""
    constant = conjunctions.constant
    bad = constant[~((np.abs(constant) <= BOUND_MAX) & (np.floor(constant) == constant))]
    if len(bad):
        return f"a table has a cell per integer within +-{BOUND_MAX:,}, none for {float(bad[0])}"
    return None


class PredicateTable(Predicates):
    """See the module.

    Parameters
    ----------
    bounds : int64[attributes, 2], optional
        The domains, l and u of each attribute; tables are as wide from the beginning.
    """

    def __init__(self, bounds: npt.NDArray[np.int64] | None = None) -> None:
        super().__init__()
        self._bounds: I8 = np.zeros((0, 2), np.int64) if bounds is None else np.asarray(bounds, np.int64)
        self._lay_out(self._bounds, np.full(len(self._bounds), PAPER_SLICES))

    @property
    def bytes(self) -> int:
        """Bytes of the tables."""
        return int(self._directory.nbytes + self._cells.nbytes)

    @property
    def cell_bytes(self) -> int:
        """Bytes of a cell."""
        return self._cells.itemsize

    def build(self, catalogue: Conjunctions) -> I4:
        """See `Predicates`; the tables are as wide as the declared domains and the constants demand."""
        self.book = new_book()
        self._lay_out(self._bounds, np.full(len(self._bounds), PAPER_SLICES))
        self._fit(catalogue, exactly=True)
        return self._add(catalogue)

    def add(self, more: Conjunctions) -> I4:
        """See `Predicates`."""
        self._fit(more, exactly=False)
        return self._add(more)

    def _add(self, more: Conjunctions) -> I4:
        columns = more.attribute, more.comparison, more.constant
        numbers = np.empty(len(more.attribute), np.int32)
        done = add_all(self._table, self.book, *columns, numbers, 0)
        while done < len(numbers):
            self._more_room()
            done = add_all(self._table, self.book, *columns, numbers, done)
        return numbers

    def remove(self, numbers: I4) -> None:
        """See `Predicates`."""
        remove_all(self._table, self.book, numbers)

    def evaluate(self, values: F8, bits: U1, counters: I8) -> None:
        """See `Predicates`."""
        evaluate(self._table, values, bits, counters)

    @property
    def _table(self) -> tuple[Any, Any]:
        return self._directory, self._cells

    def _lay_out(self, bounds: I8, slices: I8) -> None:
        """Make empty tables; an attribute without slices has none."""
        width = np.where(slices > 0, bounds[:, 1] - bounds[:, 0] + 1, 0)
        sizes = slices * width
        self._directory: I8 = np.stack((np.cumsum(sizes) - sizes, bounds[:, 0], width, slices), axis=1)
        self._cells: I4 = np.full(int(sizes.sum()), EMPTY, np.int32)

    def _fit(self, more: Conjunctions, exactly: bool) -> None:
        """Widen tables, and give them slices, as new predicates demand; then put all predicates back."""
        reason = reason_against(more)
        if reason is not None:
            raise CallerError("a predicate has no place in a table", seen=reason, limit=BOUND_MAX)
        _, low, width, slices = self._directory.T
        count = max(len(low), int(more.attribute.max(initial=-1)) + 1)
        wanted = np.zeros((3, count), np.int64)  # least, greatest constant, slices
        wanted[0], wanted[1] = BOUND_MAX + 1, -BOUND_MAX - 1
        wanted[0, : len(low)] = np.where(slices > 0, low, BOUND_MAX + 1)
        wanted[1, : len(low)] = np.where(slices > 0, low + width - 1, -BOUND_MAX - 1)
        wanted[2, : len(low)] = slices
        before = wanted.copy()
        constant = more.constant.astype(np.int64)
        np.minimum.at(wanted[0], more.attribute, constant)
        np.maximum.at(wanted[1], more.attribute, constant)
        is_more = (more.comparison == Comparison.LE) | (more.comparison == Comparison.GE)
        np.maximum.at(wanted[2], more.attribute, np.where(is_more, ALL_SLICES, PAPER_SLICES))
        if np.array_equal(before, wanted):
            return
        if not exactly:  # so that bounds that creep are rebuilt rarely
            span = np.maximum(before[1] - before[0] + 1, 0)
            wanted[0] = np.where(wanted[0] < before[0], np.maximum(wanted[0] - span, -BOUND_MAX), wanted[0])
            wanted[1] = np.where(wanted[1] > before[1], np.minimum(wanted[1] + span, BOUND_MAX), wanted[1])
        bytes_wanted = self.cell_bytes * int((wanted[2] * np.maximum(wanted[1] - wanted[0] + 1, 0)).sum())
        if bytes_wanted > BYTES_MAX:
            raise CallerError(
                "the predicate tables would be too large",
                seen=f"{bytes_wanted:,} bytes",
                limit=BYTES_MAX,
                remedy="Choose ordered lists, whose size does not depend on how wide domains are.",
            )
        self._lay_out(wanted[:2].T, wanted[2])
        self._put_back()

    def _put_back(self) -> None:
        """Write the numbers of all live predicates into new tables."""
        live = np.flatnonzero(self.book.references[: self.bound] > 0)
        first, low, width, _ = self._directory[self.book.attribute[live]].T
        place = self.book.constant[live].astype(np.int64) - low
        self._cells[first + np.array(SLICES)[self.book.comparison[live]] * width + place] = live
