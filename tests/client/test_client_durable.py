"""A durable receiver's side: what is acknowledged and when, repeats, losses; without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.client import durable
from pubsub_cluster.client.durable import DurableListener, Receipts
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.language.errors import ClusterError


def notification(sequence: int, batch_id: str | None = None) -> Notification:
    return Notification("ann", "p", batch_id or f"b{sequence}", 0, (1,), ("s",), {}, sequence, 0)


class Talk:
    """A listener, what it acknowledges, and a cluster that sends when it is waited for."""

    def __init__(self, by_hand: bool = False, window: int = 4) -> None:
        self.said: list[tuple[int, int]] = []
        self.ended = 0
        self.coming: list[Notification] = []
        self.listener = DurableListener(
            "a",
            window,
            by_hand,
            lambda *said: self.said.append(said),
            "ann",
            1.0,
            None,
            self._wait,
            self._end,
        )
        self.listener.begin(("life", 5), 1)

    async def _wait(self, _listener: Any) -> None:
        while self.coming:
            self.listener.hear(self.coming.pop(0), 0.0)

    async def _end(self, _listener: Any) -> None:
        self.ended += 1


def test_one_is_acknowledged_when_the_next_is_asked_for() -> None:
    talk = Talk()
    talk.coming = [notification(1)]
    assert next(talk.listener).sequence == 1
    assert talk.said == []
    talk.coming = [notification(sequence) for sequence in range(2, 8)]
    assert next(talk.listener).sequence == 2
    assert talk.said == [(5, 1)], "nothing else was there: at rest everything is said"
    for sequence in range(3, 7):
        assert next(talk.listener).sequence == sequence
    assert talk.said == [(5, 1), (5, 3), (5, 5)], "else half a window at a time"
    talk.listener.close()
    assert talk.said[-1] == (5, 6) and talk.ended == 1


def test_after_an_exception_the_last_one_is_not_acknowledged() -> None:
    talk = Talk()
    talk.coming = [notification(1), notification(2)]
    with pytest.raises(ZeroDivisionError), talk.listener:
        next(talk.listener)
        next(talk.listener)
        raise ZeroDivisionError
    assert talk.said == [(5, 1)]


def test_by_hand_nothing_is_acknowledged_by_itself() -> None:
    talk = Talk(by_hand=True)
    talk.coming = [notification(sequence) for sequence in (1, 2, 3)]
    first, second = next(talk.listener), next(talk.listener)
    talk.listener.acknowledge(first)
    next(talk.listener)
    with pytest.raises(StopIteration):
        next(talk.listener)
    assert talk.said == [(5, 1)]
    talk.listener.acknowledge(second)
    talk.listener.close()
    assert talk.said == [(5, 1), (5, 2)]


def test_what_came_before_is_discarded_whether_sent_or_published_again() -> None:
    talk = Talk()
    talk.coming = [notification(1, "x"), notification(2, "y")]
    assert [next(talk.listener).batch_id for _ in range(2)] == ["x", "y"]
    talk.listener.begin(("another life", 5), 1)
    talk.coming = [notification(1, "x"), notification(2, "y"), notification(3, "x"), notification(4, "z")]
    assert next(talk.listener).batch_id == "z"
    assert talk.listener.receipts.repeated_count == 3
    talk.listener.close()
    assert talk.said[-1] == (5, 4)


def test_a_repeat_alone_is_acknowledged_too() -> None:
    talk = Talk()
    talk.coming = [notification(1, "x")]
    next(talk.listener)
    talk.coming = [notification(2, "x")]
    with pytest.raises(StopIteration):
        next(talk.listener)
    assert talk.said[-1] == (5, 2)


def test_keys_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "KEYS_MAX", 2)
    receipts = Receipts(10)
    receipts.begin(1, 1)
    heard = [receipts.hear(notification(n, name)) for n, name in enumerate(["a", "b", "c", "a"], start=1)]
    assert all(one is not None for one in heard), "the oldest key was forgotten"


def test_a_gap_is_a_loss_and_is_told() -> None:
    talk = Talk()
    talk.coming = [notification(3)]
    assert next(talk.listener).dropped == 2
    talk.listener.begin(("life", 5), 3)
    talk.coming = [notification(6, "b3"), notification(7)]
    found = next(talk.listener)
    assert (found.sequence, found.dropped) == (7, 2), "with what was lost before a repeat"


def test_what_was_on_its_way_to_a_listener_before_is_no_gap() -> None:
    receipts = Receipts(4)
    assert receipts.hear(notification(7)) is None
    receipts.begin(5, 7)
    first = receipts.hear(notification(7))
    assert first is not None and first.dropped == 0


def test_a_receiver_that_was_made_anew_counts_anew() -> None:
    talk = Talk()
    talk.coming = [notification(1, "x"), notification(2, "y")]
    next(talk.listener)
    talk.listener.begin(("life", 6), 1)
    assert talk.listener.queued_count == 0
    talk.coming = [notification(1, "z")]
    assert next(talk.listener).batch_id == "z"
    talk.listener.close()
    assert talk.said == [(6, 1)]


@pytest.mark.parametrize("why", ["taken_over", "forgotten"])
def test_one_that_is_told_no_longer_says_so(why: str) -> None:
    talk = Talk()
    talk.coming = [notification(1), notification(2)]
    next(talk.listener)
    talk.listener.ended_by_cluster(why)
    for _ in range(2):
        with pytest.raises(ClusterError):
            next(talk.listener)
    talk.listener.close()
    assert talk.said == []


def test_a_function_acknowledges_by_returning_and_what_it_raises_at_comes_again() -> None:
    talk = Talk()
    for sequence in (1, 2, 3):
        talk.listener.hear(notification(sequence), 0.0)
    called: list[int] = []

    def call(one: Notification) -> None:
        called.append(one.sequence)
        if called == [1, 2]:
            raise ZeroDivisionError

    talk.listener.on_notification = call
    talk.listener.tell()
    with pytest.raises(ZeroDivisionError):
        talk.listener.tell()
    talk.listener.tell()
    talk.listener.tell()
    assert called == [1, 2, 2, 3] and talk.said[-1] == (5, 3)


@given(
    steps=st.lists(st.sampled_from(["hear", "deal", "due", "rest", "again"]), max_size=60),
    window=st.integers(1, 5),
)
def test_nothing_is_acknowledged_that_was_not_dealt_with(steps: list[str], window: int) -> None:
    receipts = Receipts(window)
    receipts.begin(1, 1)
    sent = dealt = said = 0
    for step in steps:
        if step == "hear" and sent - said < window:
            sent += 1
            receipts.hear(notification(sent))
        elif step == "deal" and dealt < sent:
            dealt += 1
            receipts.dealt_with(dealt)
        elif step in ("due", "rest"):
            due = receipts.due(step == "rest")
            if due is not None:
                assert said < due <= dealt
                said = due
            if step == "rest":
                assert said == dealt
            assert dealt - said < max(1, window // 2), "the window would close"
        elif step == "again":  # the cluster has forgotten an acknowledgement
            said = max(0, said - 1)
            receipts.begin(1, said + 1)
            for sequence in range(said + 1, sent + 1):
                assert receipts.hear(notification(sequence)) is None
