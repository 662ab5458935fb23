"""Simple: an event is compared with all subscriptions, one after the other.

Source: HTREE section 5.1 (D-27): attributes have numbers, so that a range is compared with its value at once;
the first range that does not hold ends a subscription. Cost: one test or a few for each (event,
subscription), in the order of memory. Nothing but the content is stored. Limits: the language of boxes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.htree.range_core import RangeCore
from pubsub_cluster.algorithms.htree.range_kernels import scan
from pubsub_cluster.algorithms.htree.range_matcher import RangeMatcher
from pubsub_cluster.algorithms.htree.ranges import Ranges, Store
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class SimpleCore(RangeCore):
    """A list of subscriptions."""

    is_built_for_size = False

    def _build(self, ranges: Ranges) -> I8:
        self.store = Store(ranges)
        return np.arange(ranges.rows)

    def _insert(self, first: int, stop: int) -> None:
        pass

    def _delete(self, rows: I8) -> None:
        pass

    def _search(self, values: Any, prepared: Any, most: int, begin: int, stops: I8, found: Any) -> int:
        alive = self.store.alive[: self.store.rows]
        return int(scan(tuple(self.store.columns), alive, values, most, begin, stops, found))

    @property
    def bytes(self) -> int:
        """See `RangeCore`."""
        return self.store.bytes


class Simple(RangeMatcher):
    """See the module; implements `interface.Matcher`."""

    def __init__(self, schema: Schema = EMPTY_SCHEMA) -> None:
        super().__init__("simple", SimpleCore, schema)
