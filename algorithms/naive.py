"""Naive: every subscription is looked at for every event. The reference of all others; its language is all.

Cost: one evaluation per (event, subscription). Source: every paper's first matcher (LESUB, "naive").
"""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.interface import Catalogue, Matches, by_event, refuse_handle
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.naive import Test, compile_expression
from pubsub_cluster.language.raw_batch import RawBatch, event_values
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class Naive:
    """See the module; implements `interface.Matcher`.

    Parameters
    ----------
    schema : Schema
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA) -> None:
        self._schema = schema
        self._tests: dict[int, Test] = {}

    def supports(self, expression: Expression) -> str | None:
        """Return None: everything is supported."""
        return None

    def build(self, catalogue: Catalogue) -> None:
        """See `interface.Matcher`."""
        tests: dict[int, Test] = {}
        for handle, expression in catalogue:
            if handle in tests:
                refuse_handle(handle, True)
            tests[handle] = compile_expression(expression, self._schema)
        self._tests = tests

    def insert(self, handle: int, expression: Expression) -> None:
        """See `interface.Matcher`."""
        if handle in self._tests:
            refuse_handle(handle, True)
        self._tests[handle] = compile_expression(expression, self._schema)

    def delete(self, handle: int) -> None:
        """See `interface.Matcher`."""
        if self._tests.pop(handle, None) is None:
            refuse_handle(handle, False)

    def match(self, batch: RawBatch) -> Matches:
        """See `interface.Matcher`."""
        pairs = [
            (event, handle)
            for event in range(batch.event_count)
            if event not in batch.refused
            for handle in holding(self._tests, batch, event)
        ]
        columns = np.array(pairs, np.int64).reshape(-1, 2)
        return by_event(columns[:, 0], columns[:, 1], batch.event_count)

    def memory_bytes(self) -> int:
        """Return 0: there are no arrays."""
        return 0


def holding(tests: dict[int, Test], batch: RawBatch, event: int) -> list[int]:
    """Return the handles of those expressions that hold for an event."""
    values = event_values(batch, event)
    return [handle for handle, test in tests.items() if test(values)]
