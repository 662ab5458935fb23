"""The compiled early-exit scan: every subscription is looked at, column by column of literals.

No index at all: the yardstick for what an index is worth. With few distinct predicates a literal is a
number into a byte vector that the first phase filled; with many it is tested where it stands, attribute,
low and high end in columns of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.engines.predicates import Tests, passes, test_predicates, tests_of
from pubsub_cluster.benchmarks.workloads.rules import MISSING, Events, Rules
from pubsub_cluster.workers.kernels._jit import kernel

FLAGS_MAX = 1 << 16


class Scan:
    """See the module.

    Parameters
    ----------
    rules : Rules
    """

    name = "scan"

    def __init__(self, rules: Rules) -> None:
        self._tests = tests_of(rules)
        self._by_flag = len(rules.attribute) <= FLAGS_MAX
        self._columns = literal_columns(rules)
        found = np.maximum(self._columns, 0)
        self._inline = (
            np.zeros((0, 0), np.int32),
            np.zeros((0, 0), np.int32),
            np.zeros((0, 0), np.int32),
        )
        if not self._by_flag:
            self._inline = (rules.attribute[found], rules.lo[found], rules.hi[found])
        self._flag = np.zeros(len(rules.attribute), np.uint8)
        self._holding = np.zeros(len(rules.attribute) + 1, np.int32)

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        counts = np.zeros(events.size, np.int64)
        if self._by_flag:
            scan_flags(events.value, self._tests, self._columns, (self._flag, self._holding), counts)
        else:
            scan_inline(events.value, self._tests, self._columns, self._inline, counts)
        return counts


def literal_columns(rules: Rules) -> Any:
    """Return int32[most literals, n]: literal j of each subscription, -1 beyond its last."""
    sizes = np.diff(rules.start)
    most = int(sizes.max(initial=0))
    columns = np.full((most, rules.size), -1, np.int32)
    for place in range(most):
        long = np.flatnonzero(sizes > place)
        columns[place, long] = rules.literal[rules.start[long] + place]
    return columns


@kernel
def scan_flags(value: Any, tests: Any, columns: Any, scratch: Any, counts: Any) -> None:
    """Count matches; literals are numbers of flags."""
    flag, holding = scratch
    for event in range(value.shape[0]):
        found = test_predicates(value[event], tests, flag, holding)
        total = 0
        for subscription in range(columns.shape[1]):
            matched = True
            for place in range(columns.shape[0]):
                predicate = columns[place, subscription]
                if predicate < 0:
                    break
                if flag[predicate] == 0:
                    matched = False
                    break
            if matched:
                total += 1
        counts[event] = total
        for at in range(found):
            flag[holding[at]] = 0


@kernel
def scan_inline(value: Any, tests: Any, columns: Any, inline: Any, counts: Any) -> None:
    """Count matches; literals are tested where they stand."""
    attributes, los, his = inline
    for event in range(value.shape[0]):
        row = value[event]
        total = 0
        for subscription in range(columns.shape[1]):
            matched = True
            for place in range(columns.shape[0]):
                predicate = columns[place, subscription]
                if predicate < 0:
                    break
                seen = row[attributes[place, subscription]]
                if seen == MISSING or seen < los[place, subscription] or seen > his[place, subscription]:
                    matched = False
                    break
                if tests.member_start[predicate] != tests.member_start[predicate + 1] and not passes(
                    predicate, seen, tests
                ):
                    matched = False
                    break
            if matched:
                total += 1
        counts[event] = total


__all__ = ["Scan", "Tests", "literal_columns"]
