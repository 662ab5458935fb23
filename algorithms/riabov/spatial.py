"""A matcher over boxes in a forest of packed trees: all of `interface.Matcher` but the packing."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.interface import (
    I8,
    Catalogue,
    Matches,
    by_event,
    refuse_expression,
    refuse_handle,
)
from pubsub_cluster.algorithms.naive import holding
from pubsub_cluster.algorithms.riabov.boxes import F8, Space, reason_against
from pubsub_cluster.algorithms.riabov.packed_tree import Forest, Packer
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.naive import Test, compile_expression
from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class BoxMatcher:
    """Implements `interface.Matcher` for subscriptions that are boxes (`boxes.reason_against`).

    Parameters
    ----------
    name : str
        For errors.
    pack : callable
        Of type `packed_tree.Packer`.
    schema : Schema
    """

    def __init__(self, name: str, pack: Packer, schema: Schema = EMPTY_SCHEMA) -> None:
        self._name, self._pack, self._schema = name, pack, schema
        self._space = Space(schema)
        self.forest = Forest(pack)
        self._expressions: dict[int, Expression] = {}
        self._tests: dict[int, Test] = {}

    def supports(self, expression: Expression) -> str | None:
        """See `interface.Matcher`."""
        return reason_against(expression, self._schema)

    def build(self, catalogue: Catalogue) -> None:
        """See `interface.Matcher`."""
        expressions: dict[int, Expression] = {}
        for handle, expression in catalogue:
            self._check(handle, expression, handle in expressions)
            expressions[handle] = expression
        self._space, self.forest = Space(self._schema), Forest(self._pack)
        self._expressions, self._tests = expressions, {}
        self.forest.build(*self._columns(expressions))

    def insert(self, handle: int, expression: Expression) -> None:
        """See `interface.Matcher`."""
        self._check(handle, expression, handle in self._expressions)
        self._expressions[handle] = expression
        self.forest.insert(*self._columns({handle: expression}))

    def delete(self, handle: int) -> None:
        """See `interface.Matcher`."""
        if self._expressions.pop(handle, None) is None:
            refuse_handle(handle, False)
        self._tests.pop(handle, None)
        self.forest.delete(handle)

    def match(self, batch: RawBatch) -> Matches:
        """See `interface.Matcher`."""
        points = self._space.points(batch)
        is_point = ~points.is_odd
        is_point[list(batch.refused)] = False
        regular = np.flatnonzero(is_point)
        event, handle, _ = self.forest.search(points.at[regular])
        odd = np.flatnonzero(points.is_odd).tolist()
        if odd:
            for known in self._expressions.keys() - self._tests.keys():
                self._tests[known] = compile_expression(self._expressions[known], self._schema)
        pairs = [(one, found) for one in odd for found in holding(self._tests, batch, one)]
        more = np.array(pairs, np.int64).reshape(-1, 2)
        return by_event(
            np.concatenate((regular[event], more[:, 0])),
            np.concatenate((handle, more[:, 1])),
            batch.event_count,
        )

    def memory_bytes(self) -> int:
        """See `interface.Matcher`."""
        return self.forest.bytes

    def _check(self, handle: int, expression: Expression, is_there: bool) -> None:
        if is_there:
            refuse_handle(handle, True)
        reason = self.supports(expression)
        if reason is not None:
            refuse_expression(self._name, handle, reason)

    def _columns(self, expressions: dict[int, Expression]) -> tuple[F8, F8, I8]:
        """Return the boxes of subscriptions and whose they are."""
        boxes, handles = [], []
        for handle, expression in expressions.items():
            found = self._space.boxes(expression)
            boxes += found
            handles += [handle] * len(found)
        return (*self._space.columns(boxes), np.array(handles, np.int64))
