"""The benchmark of groups: who is interested by brute force, and shares that are what they are called."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.benchmarks.delivery import TARGETS, Account, Outcome, groups_of, interested, outcome
from pubsub_cluster.benchmarks.workloads.rules import matching
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.coordinator.delivery.distribution import Rule
from pubsub_cluster.tuner.groups import GroupOptions

STOCK = Stock(subscriptions=600, receivers=30)
EVENTS = 40


def test_who_is_interested_is_who_has_a_matching_rule() -> None:
    found, rules, receiver_of = interested(STOCK, 7, EVENTS), STOCK.rules(), STOCK.receiver_of()
    for event in range(EVENTS):
        rows = matching(rules, STOCK.events(EVENTS, 7).value[event])
        expected = np.unique(receiver_of[rows]).tolist()
        assert np.flatnonzero(found.is_interested[event]).tolist() == expected
    assert found.counts.sum() == len(found.told().event)


def test_thresholds_trade_messages_for_waste() -> None:
    told = interested(STOCK, 2_048, EVENTS).told()
    groups = groups_of(STOCK, GroupOptions(group_count=8))
    found = [outcome(groups, STOCK, told, EVENTS, Rule(threshold)) for threshold in (0.0, 0.5, 1.0)]
    assert [one.messages for one in found] == sorted(one.messages for one in found)
    assert [one.wasted for one in found] == sorted((one.wasted for one in found), reverse=True)
    assert found[0].messages < 0.5 < found[2].messages <= 1.0
    assert found[2].wasted == 0.0 < found[0].wasted


def test_shares_are_of_unicast_and_of_all_receipts() -> None:
    told = interested(STOCK, 0, EVENTS).told()
    zero, two = np.zeros(1, np.int64), np.full(1, 2)
    found = Outcome.of(told, Account(two, 10 * two, two, unicasts=5))
    assert found == ((5 + 2) / len(told.event), 2 / (5 + 20))
    assert Outcome.of(told, Account(zero, zero, zero, len(told.event))) == (1.0, 0.0)
    assert [one.target for one in found.figures(STOCK, "x")] == list(TARGETS.values())
