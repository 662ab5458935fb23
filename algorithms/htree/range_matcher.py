"""`interface.Matcher` around a `RangeCore`: subscriptions are boxes (`riabov.boxes`), ranges their sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.htree.range_core import RangeCore
from pubsub_cluster.algorithms.htree.ranges import Ranges, grown
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.riabov.boxes import NO_VALUE, boxes_of, reason_against
from pubsub_cluster.algorithms.row_matcher import RowMatcher
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class RangeMatcher(RowMatcher):
    """For subscriptions that are boxes; a subscription of several boxes has several rows.

    Parameters
    ----------
    name : str
        For errors.
    make_core : callable
    schema : Schema
    """

    def __init__(self, name: str, make_core: Callable[[], RangeCore], schema: Schema = EMPTY_SCHEMA) -> None:
        super().__init__(name, NO_VALUE, schema)
        self._make_core = make_core
        self._take({})

    def supports(self, expression: Expression) -> str | None:
        """See `interface.Matcher`."""
        return reason_against(expression, self._schema)

    def memory_bytes(self) -> int:
        """See `interface.Matcher`."""
        return self.core.bytes + int(self._owner.nbytes)

    def _build(self, expressions: Mapping[int, Expression]) -> None:
        self._take(expressions)

    def _insert(self, handle: int, expression: Expression) -> None:
        ranges, owner = self._columns({handle: expression})
        first = self.core.insert(ranges)
        self._own(np.arange(first, first + len(owner)), owner)
        self._renew()

    def _delete(self, handle: int) -> None:
        rows = self._rows.pop(handle, [])
        self.core.delete(np.array(rows, np.int64))
        self._renew()

    def _search(self, values: F8) -> tuple[I8, I8]:
        event, row = self.core.match(values).pairs()
        return event, self._owner[row]

    def _take(self, expressions: Mapping[int, Expression]) -> None:
        ranges, owner = self._columns(expressions)
        self.core = self._make_core()
        self._fill(ranges, owner)

    def _fill(self, ranges: Ranges, owner: I8) -> None:
        order = self.core.build(ranges)
        self._owner = np.zeros(0, np.int64)
        self._rows: dict[int, list[int]] = {}
        self._own(np.arange(len(owner)), owner[order])

    def _own(self, rows: I8, owner: I8) -> None:
        """Note whose rows these are."""
        self._owner = grown(self._owner, self.core.store.rows)
        self._owner[rows] = owner
        for row, mine in zip(rows.tolist(), owner.tolist(), strict=True):
            self._rows.setdefault(mine, []).append(row)

    def _renew(self) -> None:
        """Build the core anew when it is time."""
        if self.core.is_stale:
            rows, ranges = self.core.store.live()
            self._fill(ranges, self._owner[rows])

    def _columns(self, expressions: Mapping[int, Expression]) -> tuple[Ranges, I8]:
        """Return the rows of subscriptions and whose they are."""
        boxes: list[dict[int, tuple[float, float]]] = []
        owner: list[int] = []
        for handle, expression in expressions.items():
            found = boxes_of(expression, self._dimensions, self._schema)
            boxes += found
            owner += [handle] * len(found)
        sides: list[Any] = [(dimension, *ends) for box in boxes for dimension, ends in box.items()]
        attribute, lo, hi = zip(*sides, strict=True) if sides else ((), (), ())
        stops = np.concatenate(([0], np.cumsum([len(box) for box in boxes], dtype=np.int64)))
        return (
            Ranges(
                stops.astype(np.int64),
                np.array(attribute, np.int32),
                np.array(lo, np.float64),
                np.array(hi, np.float64),
            ),
            np.array(owner, np.int64),
        )
