"""Counters of subscriptions, owners and groups, against plain ones."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.coordinator.delivery import counters as module
from pubsub_cluster.coordinator.delivery import match_counters
from pubsub_cluster.coordinator.delivery.counters import SentCounters
from pubsub_cluster.coordinator.delivery.match_counters import MatchCounters

PLACES = 8


@given(
    first=st.sampled_from([1, 5, PLACES, 3 * PLACES + 1]),
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.integers(1, 2 * PLACES), max_size=6)), max_size=20
    ),
    folded=st.sampled_from([1, 4, 1_000]),
    looked_at=st.sampled_from([1, 3, 1_000]),
)
def test_matches_are_counted_for_the_newest_subscriptions(
    first: int, steps: list[tuple[int, list[int]]], folded: int, looked_at: int
) -> None:
    end = [first]
    plain: Counter[int] = Counter()
    last: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(match_counters, "FOLDED_MATCHES", folded)
        patched.setattr(match_counters, "LOOKED_AT", looked_at)
        counters = MatchCounters(lambda: end[0], PLACES)
        for second, (made, back) in enumerate(steps, start=1):
            end[0] += made
            handles = [end[0] - one for one in back if end[0] > one]
            counters.add(np.array(handles, np.uint64), second * 1_000_000 + 5)
            counters.fold()  # so that each has the second of its batch
            plain.update(handles)
            last.update(dict.fromkeys(handles, second))
            for gone in [one for one in plain if one < end[0] - PLACES]:
                del plain[gone], last[gone]
        asked = np.arange(0, end[0] + 2, dtype=np.uint64)
        asked = asked[asked < end[0]]
        counts, last_s = counters.of(asked)
        assert dict(enumerate(counts.tolist())) == {one: plain[one] for one in asked.tolist()}
        assert last_s.tolist() == [last.get(one, 0) for one in asked.tolist()]
        most = counters.most(3).tolist()
        assert [plain[one] for one in most] == sorted(plain.values(), reverse=True)[:3]
        assert len(set(most)) == len(most)


def test_small_additions_are_folded_together() -> None:
    counters = MatchCounters(lambda: 100)
    for _ in range(10):
        counters.add(np.array([7, 9], np.uint64), 3_000_000)
    assert counters._counts[7] == 0
    assert counters.of(np.array([7, 8], np.uint64))[0].tolist() == [10, 0]
    counters.add(np.full(match_counters.FOLDED_MATCHES, 8, np.uint64), 4_000_000)
    assert counters._counts[8] == match_counters.FOLDED_MATCHES and counters._last_s[8] == 4


NUMBERS = st.sets(st.integers(0, 69), max_size=8)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("owner"), st.integers(0, 69), st.integers(0, 80)),
            st.tuples(st.just("unicast"), st.integers(0, 69), st.integers(0, 9)),
            st.tuples(st.just("group"), NUMBERS, NUMBERS),
        ),
        max_size=40,
    )
)
def test_what_is_sent_is_counted_by_owner_and_group(
    steps: list[tuple[str, int | set[int], int | set[int]]],
) -> None:
    counters = SentCounters()
    owners: dict[int, str] = {}
    plain: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    group = [0] * 5
    for kind, one, other in steps:
        if kind == "owner" and isinstance(one, int):
            owner = f"o{other}"
            owners = {number: name for number, name in owners.items() if name != owner}
            owners[one] = owner
            counters.begin(one, owner)
        elif kind == "unicast" and isinstance(one, int) and isinstance(other, int) and one in owners:
            counters.unicast(one, other, 100 * other)
            counters.dropped(one, 1)
            plain[owners[one]] = [
                a + b for a, b in zip(plain[owners[one]], [other, 1, 100 * other, 0, 0], strict=True)
            ]
        elif kind == "group" and isinstance(one, set) and isinstance(other, set):
            members, told = sorted(one & owners.keys()), sorted(one & other & owners.keys())
            counters.group(3, np.array(members, np.int32), np.array(told, np.int32), 50)
            for number in members:
                wasted = number not in told
                added = [not wasted, 0, 0, 1, wasted]
                plain[owners[number]] = summed(plain[owners[number]], added)
            added = [1, len(told), 50, len(members), len(members) - len(told)]
            group = summed(group, added)
    for number in range(81):
        assert list(counters.of(f"o{number}")) == plain[f"o{number}"]
    most = counters.most(2)
    assert [plain[owner][0] for owner in most] == sorted((sent[0] for sent in plain.values()), reverse=True)[
        : len(most)
    ]
    names = ("records", "notifications", "bytes_sent", "receipts", "wasted_receipts")
    assert counters.groups() == ({3: dict(zip(names, group, strict=True))} if group[0] else {})
    counters.of_generation(1)
    assert counters.groups() == {}


def summed(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


def test_owners_that_are_not_listened_to_any_more_are_kept_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "OWNERS_KEPT_MAX", 2)
    counters = SentCounters()
    for number in range(5):
        counters.begin(0, f"o{number}")
        counters.unicast(0, number + 1, 10)
    assert [counters.of(f"o{number}").notifications for number in range(5)] == [0, 0, 3, 4, 5]
