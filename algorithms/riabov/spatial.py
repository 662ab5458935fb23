"""A matcher over boxes in a forest of packed trees: all of `interface.Matcher` but the packing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.riabov.boxes import NO_VALUE, boxes_of, columns_of, reason_against
from pubsub_cluster.algorithms.riabov.packed_tree import Forest, Packer
from pubsub_cluster.algorithms.row_matcher import RowMatcher
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class BoxMatcher(RowMatcher):
    """For subscriptions that are boxes (`boxes.reason_against`).

    Parameters
    ----------
    name : str
        For errors.
    pack : callable
        Of type `packed_tree.Packer`.
    schema : Schema
    """

    def __init__(self, name: str, pack: Packer, schema: Schema = EMPTY_SCHEMA) -> None:
        super().__init__(name, NO_VALUE, schema)
        self._pack = pack
        self.forest = Forest(pack)

    def supports(self, expression: Expression) -> str | None:
        """See `interface.Matcher`."""
        return reason_against(expression, self._schema)

    def memory_bytes(self) -> int:
        """See `interface.Matcher`."""
        return self.forest.bytes

    def _build(self, expressions: Mapping[int, Expression]) -> None:
        self.forest = Forest(self._pack)
        self.forest.build(*self._columns(expressions))

    def _insert(self, handle: int, expression: Expression) -> None:
        self.forest.insert(*self._columns({handle: expression}))

    def _delete(self, handle: int) -> None:
        self.forest.delete(handle)

    def _search(self, values: F8) -> tuple[I8, I8]:
        event, handle, _ = self.forest.search(values)
        return event, handle

    def _columns(self, expressions: Mapping[int, Expression]) -> tuple[F8, F8, I8]:
        """Return the boxes of subscriptions and whose they are."""
        boxes, handles = [], []
        for handle, expression in expressions.items():
            found = boxes_of(expression, self._dimensions, self._schema)
            boxes += found
            handles += [handle] * len(found)
        return (*columns_of(boxes, self._dimensions.count), np.array(handles, np.int64))
