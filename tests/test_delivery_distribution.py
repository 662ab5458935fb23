"""The distribution method against its words, event by event (RIABOV section 4; RIABOV-12)."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.benchmarks.delivery import account
from pubsub_cluster.coordinator.delivery.distribution import (
    DeliveryCosts,
    Members,
    Rule,
    decide,
    least_interested,
)
from pubsub_cluster.coordinator.delivery.membership import EVERYBODY, UNICAST
from pubsub_cluster.coordinator.delivery.told import Told

NUMBERS = 7


def told_of(interested: dict[int, set[int]]) -> Told:
    """Return what tells numbers of events; of matches there is none."""
    pairs = [(event, number) for event in sorted(interested) for number in sorted(interested[event])]
    event, number = np.array(pairs, np.int64).reshape(-1, 2).T
    none = np.zeros(0, np.int64)
    return Told(
        event,
        number.astype(np.int32),
        np.zeros(len(event), np.uint64),
        np.zeros(len(event) + 1, np.int64),
        none.astype(np.uint64),
        none.astype(np.int32),
    )


def members_of(members: dict[int, set[int]]) -> Members:
    return Members({group: np.array(sorted(numbers), np.int32) for group, numbers in members.items()})


def plain_way(interested: set[int], members: dict[int, set[int]], group: int, rule: Rule) -> int:
    """The method for one event, in the order of its words."""
    everybody = members[EVERYBODY]
    if (
        everybody
        and interested & everybody == everybody
        and plainly_pays(len(everybody), len(everybody), rule)
    ):
        return EVERYBODY
    if group not in members or group == EVERYBODY:
        return UNICAST
    heard = len(interested & members[group])
    return group if plainly_pays(heard, len(members[group]), rule) else UNICAST


def plainly_pays(heard: int, size: int, rule: Rule) -> bool:
    if not heard:
        return False
    if rule.threshold is not None:
        return heard >= rule.threshold * size
    costs = rule.costs
    return heard * (costs.unicast_ns + costs.wasted_ns) >= costs.group_ns + size * costs.wasted_ns


numbers = st.sets(st.integers(0, NUMBERS - 1), max_size=NUMBERS)
costs = st.builds(DeliveryCosts, *[st.sampled_from((1.0, 2.0, 4.0, 16.0))] * 3)
rules = st.builds(Rule, st.none() | st.sampled_from((0.0, 0.25, 0.5, 0.75, 1.0)), costs)


@given(
    events=st.dictionaries(
        st.integers(0, 9), st.tuples(numbers.filter(bool), st.integers(-1, 4)), min_size=1
    ),
    groups=st.lists(numbers, min_size=1, max_size=4),
    rule=rules,
)
def test_each_event_goes_the_way_of_the_words(
    events: dict[int, tuple[set[int], int]], groups: list[set[int]], rule: Rule
) -> None:
    members = dict(enumerate(groups))
    interested = {event: heard for event, (heard, _) in events.items()}
    told, looked_up = told_of(interested), members_of(members)
    group = np.array([events[event][1] for event in sorted(events)], np.int32)
    way = decide(told, looked_up, group, rule)
    assert way.dtype == np.int32
    expected = {
        event: plain_way(heard, members, number, rule) for event, (heard, number) in sorted(events.items())
    }
    assert dict(zip(told.events.tolist(), way.tolist(), strict=True)) == expected

    least = least_interested(looked_up, rule)
    assert all(len(interested[event]) >= least for event, chosen in expected.items() if chosen != UNICAST)

    records: Counter[int] = Counter()
    wasted: dict[int, int] = defaultdict(int)
    unicasts = 0
    for event, chosen in expected.items():
        going = set() if chosen == UNICAST else members[chosen]
        unicasts += len(interested[event] - going)
        if chosen != UNICAST:
            records[chosen] += 1
            wasted[chosen] += len(going - interested[event])
    found = account(told, looked_up, way)
    assert found.records.tolist() == [records[group] for group in members]
    assert found.receipts.tolist() == [records[group] * len(members[group]) for group in members]
    assert found.wasted.tolist() == [wasted[group] for group in members]
    assert found.unicasts == unicasts


def test_a_threshold_of_nothing_is_pure_multicast_and_above_all_shares_pure_unicast() -> None:
    """RIABOV-12."""
    told = told_of({0: {1}, 1: {1, 2, 3}, 2: {9}})
    members = members_of({0: {1, 2, 3, 4}, 1: {1, 2, 3, 4}})
    group = np.array([1, 1, 1], np.int32)
    assert decide(told, members, group, Rule(0.0)).tolist() == [1, 1, UNICAST], "9 is no member"
    assert decide(told, members, group, Rule(1.0)).tolist() == [UNICAST] * 3


@pytest.mark.parametrize(("heard", "way"), [(4, UNICAST), (5, 1)])
def test_by_default_a_record_goes_out_where_it_is_cheaper(heard: int, way: int) -> None:
    """With u = 10, g = 20 and w = 2: 12 s >= 20 + 2 * 20 from 5 of 20 members on."""
    told = told_of({0: set(range(heard))})
    members = members_of({0: set(range(40)), 1: set(range(20))})
    rule = Rule(None, DeliveryCosts(10.0, 20.0, 2.0))
    assert decide(told, members, np.array([1], np.int32), rule).tolist() == [way]


def test_nobody_has_joined() -> None:
    told = told_of({3: {0, 1}})
    assert decide(told, Members({}), np.array([1], np.int32), Rule(0.0)).tolist() == [UNICAST]
    assert account(told, Members({}), np.array([UNICAST], np.int32)).unicasts == 2
