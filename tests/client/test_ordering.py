"""Notifications that come by several ways are given in order, each once, and what is lost is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.ordering import HELD_MAX, Ordering

WAIT_S = 1.0


def notification(sequence: int) -> Notification:
    return Notification("o", "p", "b", 0, (1,), ("s",), None, sequence, 0)


def places(ready: list[Notification]) -> list[tuple[int, int]]:
    return [(one.sequence, one.dropped) for one in ready]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0.0, 0.3, 1.5]))), st.booleans(), st.booleans()
)
def test_each_is_given_once_in_order_and_every_gap_is_counted(
    arrivals: list[tuple[int, float]], has_begun: bool, asks_first: bool
) -> None:
    ordering, now_s = Ordering(WAIT_S), 0.0
    if has_begun:
        ordering.begin("life", 0)
    given_out: list[Notification] = []
    for sequence, pause_s in arrivals:
        now_s += pause_s
        given_out += ordering.tick(now_s)
        if asks_first and ordering.passes(sequence):
            given_out.append(notification(sequence))
        else:
            given_out += ordering.take(notification(sequence), now_s)
        wake_s = ordering.wake_at_s
        assert wake_s is None or now_s < wake_s <= now_s + WAIT_S
    given_out += ordering.tick(now_s + WAIT_S)
    assert ordering.wake_at_s is None
    got = [one.sequence for one in given_out]
    assert got == sorted(set(got))
    assert len(got) + ordering.repeated_count == len(arrivals)
    if got:
        first = 0 if has_begun else arrivals[0][0]
        assert len(got) + sum(one.dropped for one in given_out) == got[-1] + 1 - first


def test_without_waiting_a_gap_is_a_loss_at_once() -> None:
    ordering = Ordering()
    ordering.begin("life", 3)
    assert places(ordering.take(notification(5), 0.0)) == [(5, 2)]
    assert places(ordering.take(notification(4), 0.0)) == [] and ordering.repeated_count == 1


def test_a_gap_is_waited_out() -> None:
    ordering = Ordering(WAIT_S)
    ordering.begin("life", 0)
    assert ordering.take(notification(2), 0.0) == [] and ordering.wake_at_s == WAIT_S
    assert places(ordering.take(notification(0), 0.5)) == [(0, 0)]
    assert places(ordering.take(notification(1), 0.9)) == [(1, 0), (2, 0)]
    assert ordering.take(notification(4), 1.0) == []
    assert ordering.tick(1.9) == [] and places(ordering.tick(2.0)) == [(4, 1)]


def test_who_went_on_counting_meanwhile_tells_what_was_missed() -> None:
    ordering = Ordering(WAIT_S)
    ordering.begin("life", 0)
    ordering.take(notification(0), 0.0)
    assert ordering.take(notification(2), 0.0) == []
    assert places(ordering.begin("life", 5)) == [(2, 1)]
    assert places(ordering.take(notification(5), 0.1)) == [(5, 2)]


def test_another_life_counts_anew() -> None:
    ordering = Ordering(WAIT_S)
    ordering.begin("life", 7)
    assert ordering.take(notification(9), 0.0) == []
    assert places(ordering.begin("another", 0)) == [(9, 2)]
    assert places(ordering.take(notification(0), 0.0)) == [(0, 0)]


def test_so_much_is_held_at_most() -> None:
    ordering = Ordering(WAIT_S)
    ordering.begin("life", 0)
    for sequence in range(1, HELD_MAX + 1):
        assert ordering.take(notification(sequence), 0.0) == []
    ready = ordering.take(notification(HELD_MAX + 1), 0.0)
    assert places(ready)[0] == (1, 1) and len(ready) == HELD_MAX + 1
