"""Propagation, without and with prefetch (RR-4089, sections 2.2 and 5).

Each subscription hangs off one of its equality predicates, the rarest in a sample of events, in turn where
they are equally rare; those without one are always checked. The subscriptions of a predicate with the same
number of remaining predicates are a cluster: columns of predicate numbers, a line of subscriptions. With
prefetch, a block of 16 asks for the lines of the block `LOOKAHEAD` ahead in each column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.engines.predicates import test_predicates, tests_of
from pubsub_cluster.benchmarks.workloads.rules import MISSING, Events, Rules
from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.prefetch import prefetch

UNFOLD = 16
LOOKAHEAD = 64


class Propagation:
    """See the module.

    Parameters
    ----------
    rules : Rules
    sample : Events
        For the rarity of predicates.
    prefetched : bool
    """

    def __init__(self, rules: Rules, sample: Events, prefetched: bool) -> None:
        self.name = "propagation+prefetch" if prefetched else "propagation"
        self._prefetched = prefetched
        self._tests = tests_of(rules)
        self._clusters = _clusters(rules, _access(rules, sample))
        predicate_count = len(rules.attribute)
        self._scratch = (np.zeros(predicate_count, np.uint8), np.zeros(predicate_count + 1, np.int32))

    def with_prefetch(self) -> Propagation:
        """Return the same structure, read with prefetch."""
        twin = Propagation.__new__(Propagation)
        twin.__dict__ = {**self.__dict__, "name": "propagation+prefetch", "_prefetched": True}
        return twin

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        counts = np.zeros(events.size, np.int64)
        propagate(events.value, self._tests, self._clusters, self._scratch, (counts, self._prefetched))
        return counts


def _access(rules: Rules, sample: Events) -> Any:
    """Return int64[n]: place of each subscription's access literal within it, -1 for none."""
    is_point = (rules.lo == rules.hi) & (np.diff(rules.member_start) == 0)
    share = np.full(len(rules.attribute), 2.0)
    for number in np.flatnonzero(np.bincount(rules.attribute[is_point], minlength=len(rules.domains))):
        mine = np.flatnonzero(is_point & (rules.attribute == number))
        values = sample.value[:, number]
        ordered = np.sort(values[values != MISSING])
        seen = np.searchsorted(ordered, rules.lo[mine], "right") - np.searchsorted(ordered, rules.lo[mine])
        # One more for all: unseen is rare, not impossible. Rounded, so that equal domains tie.
        share[mine] = np.round(np.log2((seen + 1.0) / (sample.size + 1)))
    sizes = np.diff(rules.start)
    owner = np.repeat(np.arange(rules.size), sizes)
    place = np.arange(len(rules.literal)) - rules.start[:-1][owner]
    turn = (place + owner) % sizes[owner]
    cost = share[rules.literal] * 1_000 + turn
    order = np.lexsort((cost, owner))
    best = order[rules.start[:-1]]
    return np.where(share[rules.literal[best]] < 2.0, place[best], -1)


def _clusters(rules: Rules, access: Any) -> Any:
    """Return (start of each predicate's clusters [P+2], first word, rest, entries of clusters, words)."""
    sizes = np.diff(rules.start)
    always = len(rules.attribute)
    first = rules.start[:-1]
    predicate = np.where(access >= 0, rules.literal[first + np.maximum(access, 0)], always).astype(np.int64)
    rest = sizes - (access >= 0)
    order = np.lexsort((rest, predicate))
    key = predicate[order] * 1_024 + rest[order]
    edge = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    entries = np.diff(np.append(edge, len(order)))
    cluster_rest = rest[order[edge]]
    cluster_predicate = predicate[order[edge]]
    word = np.cumsum(entries * (cluster_rest + 1)) - entries * (cluster_rest + 1)
    start = np.searchsorted(cluster_predicate, np.arange(always + 2))
    words = np.empty(int((entries * (cluster_rest + 1)).sum()), np.int32)
    cluster_of = np.repeat(np.arange(len(edge)), entries)
    line = np.arange(len(order)) - edge[cluster_of]
    for column in range(int(cluster_rest.max(initial=0))):
        has = np.flatnonzero(cluster_rest[cluster_of] > column)
        subscription = order[has]
        place = np.where((access[subscription] >= 0) & (access[subscription] <= column), column + 1, column)
        at = word[cluster_of[has]] + column * entries[cluster_of[has]] + line[has]
        words[at] = rules.literal[first[subscription] + place]
    words[word[cluster_of] + cluster_rest[cluster_of] * entries[cluster_of] + line] = order
    return start, word, cluster_rest, entries, words


@leaf
def check_cluster(first: Any, rest: Any, entries: Any, words: Any, flag: Any, prefetched: Any) -> Any:
    """Return how many subscriptions of a cluster match."""
    total = 0
    for block in range(0, entries, UNFOLD):
        if prefetched:
            for column in range(rest + 1):
                prefetch(words, first + column * entries + block + LOOKAHEAD)
        for entry in range(block, min(block + UNFOLD, entries)):
            matched = True
            for column in range(rest):
                if flag[words[first + column * entries + entry]] == 0:
                    matched = False
                    break
            if matched and words[first + rest * entries + entry] >= 0:
                total += 1
    return total


@kernel
def propagate(value: Any, tests: Any, clusters: Any, scratch: Any, out: Any) -> None:
    """Count matches of each event."""
    start, word, rest, entries, words = clusters
    flag, holding = scratch
    counts, prefetched = out
    always = start.shape[0] - 2
    for event in range(value.shape[0]):
        found = test_predicates(value[event], tests, flag, holding)
        total = 0
        holding[found] = always
        for at in range(found + 1):
            predicate = holding[at]
            for cluster in range(start[predicate], start[predicate + 1]):
                total += check_cluster(
                    word[cluster], rest[cluster], entries[cluster], words, flag, prefetched
                )
        counts[event] = total
        for at in range(found):
            flag[holding[at]] = 0
