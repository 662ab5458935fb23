"""A matcher whose search reads events as rows of numbers: all of `interface.Matcher` but the search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from pubsub_cluster.algorithms.dimensions import F8, Dimensions
from pubsub_cluster.algorithms.interface import (
    I8,
    Catalogue,
    Matches,
    by_event,
    refuse_expression,
    refuse_handle,
)
from pubsub_cluster.algorithms.naive import holding
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.naive import Test, compile_expression
from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class RowMatcher(ABC):
    """Implements `interface.Matcher`; events that are no rows are evaluated subscription by subscription.

    Parameters
    ----------
    name : str
        For errors.
    absent : float
        What stands for "no value" in rows.
    schema : Schema
    """

    def __init__(self, name: str, absent: float, schema: Schema = EMPTY_SCHEMA) -> None:
        self._name, self._absent, self._schema = name, absent, schema
        self._dimensions = Dimensions(absent)
        self._expressions: dict[int, Expression] = {}
        self._tests: dict[int, Test] = {}

    @abstractmethod
    def supports(self, expression: Expression) -> str | None:
        """See `interface.Matcher`."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """See `interface.Matcher`."""

    @abstractmethod
    def _build(self, expressions: Mapping[int, Expression]) -> None:
        """Take these in place of all that were there; the dimensions are new. It raises before it changes."""

    @abstractmethod
    def _insert(self, handle: int, expression: Expression) -> None:
        """Add a supported subscription."""

    @abstractmethod
    def _delete(self, handle: int) -> None:
        """Remove a subscription that is there."""

    @abstractmethod
    def _search(self, values: F8) -> tuple[I8, I8]:
        """Return (row, handle) of all matches of float64[events, dimensions], in any order, with repeats."""

    def build(self, catalogue: Catalogue) -> None:
        """See `interface.Matcher`."""
        expressions: dict[int, Expression] = {}
        for handle, expression in catalogue:
            self._check(handle, expression, handle in expressions)
            expressions[handle] = expression
        before, self._dimensions = self._dimensions, Dimensions(self._absent)
        try:
            self._build(expressions)
        except CallerError:
            self._dimensions = before
            raise
        self._expressions, self._tests = expressions, {}

    def insert(self, handle: int, expression: Expression) -> None:
        """See `interface.Matcher`."""
        self._check(handle, expression, handle in self._expressions)
        self._insert(handle, expression)
        self._expressions[handle] = expression

    def delete(self, handle: int) -> None:
        """See `interface.Matcher`."""
        if self._expressions.pop(handle, None) is None:
            refuse_handle(handle, False)
        self._tests.pop(handle, None)
        self._delete(handle)

    def match(self, batch: RawBatch) -> Matches:
        """See `interface.Matcher`."""
        rows = self._dimensions.rows(batch)
        is_regular = ~rows.is_odd
        is_regular[list(batch.refused)] = False
        regular = np.flatnonzero(is_regular)
        event, handle = self._search(rows.values[regular])
        odd = np.flatnonzero(rows.is_odd).tolist()
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

    def _check(self, handle: int, expression: Expression, is_there: bool) -> None:
        if is_there:
            refuse_handle(handle, True)
        reason = self.supports(expression)
        if reason is not None:
            refuse_expression(self._name, handle, reason)
