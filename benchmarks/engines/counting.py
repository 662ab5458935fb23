"""Counting: each predicate that holds adds one to its subscriptions; who reaches his number matches.

The algorithm that the papers compare with (RR-4089 section 5, TOPSS): no clustering, work in proportion to
all (subscription, holding predicate) pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.engines.predicates import test_predicates, tests_of
from pubsub_cluster.benchmarks.workloads.rules import Events, Rules
from pubsub_cluster.workers.kernels._jit import kernel


class Counting:
    """See the module.

    Parameters
    ----------
    rules : Rules
    """

    name = "counting"

    def __init__(self, rules: Rules) -> None:
        self._tests = tests_of(rules)
        predicate_count = len(rules.attribute)
        sizes = np.diff(rules.start)
        owner = np.repeat(np.arange(rules.size, dtype=np.int32), sizes)
        order = np.argsort(rules.literal, kind="stable")
        self._posting = owner[order]
        self._posting_start = np.zeros(predicate_count + 1, np.int64)
        np.cumsum(np.bincount(rules.literal, minlength=predicate_count), out=self._posting_start[1:])
        assert sizes.max(initial=0) < 256
        self._needed = sizes.astype(np.uint8)
        self._scratch = (
            np.zeros(predicate_count, np.uint8),
            np.zeros(predicate_count + 1, np.int32),
            np.zeros(rules.size, np.uint8),
        )

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        counts = np.zeros(events.size, np.int64)
        postings = (self._posting_start, self._posting, self._needed)
        count_hits(events.value, self._tests, postings, self._scratch, counts)
        return counts


@kernel
def count_hits(value: Any, tests: Any, postings: Any, scratch: Any, counts: Any) -> None:
    """Count matches of each event."""
    start, posting, needed = postings
    flag, holding, hits = scratch
    for event in range(value.shape[0]):
        found = test_predicates(value[event], tests, flag, holding)
        total = 0
        for at in range(found):
            predicate = holding[at]
            flag[predicate] = 0
            for place in range(start[predicate], start[predicate + 1]):
                subscription = posting[place]
                hits[subscription] += 1
                if hits[subscription] == needed[subscription]:
                    total += 1
        counts[event] = total
        hits[:] = 0
