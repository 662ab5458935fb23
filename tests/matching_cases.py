"""Support for tests of the matching core: batches and catalogues made from plain Python values.

`raw_batch` builds the arrays of a decoded batch without the decoder, so that a failing test here points at
the matching core. `Case` keeps a catalogue in private memory together with the expressions it was made
from.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.workers.engine import MatchResult


def raw_batch(events: Sequence[Mapping[str, tuple[object, ...]]]) -> RawBatch:
    """Return the decoded batch of canonical events (attribute -> values)."""
    found: dict[str, tuple[list, list, list]] = {}
    data = bytearray()
    for event_idx, event in enumerate(events):
        for name, values in event.items():
            numbers, texts, booleans = found.setdefault(name, ([], [], []))
            for value in values:
                if isinstance(value, bool):
                    booleans.append((event_idx, value))
                elif isinstance(value, str):
                    start = len(data)
                    data += value.encode()
                    texts.append((event_idx, start, len(data)))
                else:
                    numbers.append((event_idx, *number_key(value)))
    heap = np.frombuffer(bytes(data), np.uint8)
    return RawBatch(len(events), {name: _entries(heap, *lists) for name, lists in found.items()}, {})


def _entries(heap: np.ndarray, numbers: list, texts: list, booleans: list) -> AttributeEntries:
    def column(rows: list, at: int, dtype: type) -> np.ndarray:
        return np.array([row[at] for row in rows], dtype)

    return AttributeEntries(
        NumberEntries(*(column(numbers, i, t) for i, t in enumerate((np.int32, np.int64, np.float64))))
        if numbers
        else None,
        TextEntries(*(column(texts, i, t) for i, t in enumerate((np.int32, np.int64, np.int64))), heap)
        if texts
        else None,
        BooleanEntries(column(booleans, 0, np.int32), column(booleans, 1, np.uint8)) if booleans else None,
    )


class Case:
    """A catalogue of subscriptions given as trees or JSON objects; row i is the i-th of them."""

    def __init__(
        self,
        expressions: Sequence[object],
        schema: Schema = EMPTY_SCHEMA,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.schema = schema
        self.limits = limits
        self.writer = CatalogueWriter.in_memory(16_384)
        self.reader = CatalogueReader.of(self.writer)
        self.add(expressions)

    def add(self, expressions: Sequence[object]) -> None:
        """Append subscriptions; handles count from 1."""
        for expression in expressions:
            tree = expression_from_json(expression) if isinstance(expression, dict) else expression
            handle = self.writer.counts().rows + 1
            form = normalise(tree, self.schema, self.limits)
            self.writer.append(handle, f"s{handle}", None, form, INT64_MIN, INT64_MAX)


def rows_of_events(result: MatchResult) -> list[list[int]]:
    """Return the sorted catalogue rows of every event, repeats kept."""
    ends = result.event_offsets.tolist()
    rows = result.rows.tolist()
    return [sorted(rows[first:stop]) for first, stop in itertools.pairwise(ends)]
