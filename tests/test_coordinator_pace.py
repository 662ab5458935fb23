"""How much of the coordinator's time work gets that gives way to everything else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pubsub_cluster.coordinator import pace
from pubsub_cluster.coordinator.pace import REST_S_MAX, Pace


class Clock:
    """Stands still but for the work, which has a processor for itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.worked_s = 0.0
        known = SimpleNamespace(monotonic=lambda: self.now_s, thread_time=lambda: self.worked_s)
        monkeypatch.setattr(pace, "time", known)

    def work(self, what: Pace, seconds: float, waited_s: float = 0.0) -> None:
        what.begin()
        self.worked_s += seconds
        self.now_s += seconds + waited_s
        what.end()


def test_work_gets_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, third = Clock(monkeypatch), Pace(1 / 3, 1 / 3)
    assert third.rest_s(100.0) == 0

    clock.work(third, 0.002)  # until 100.002
    assert third.rest_s(100.002) == pytest.approx(0.004) and third.rest_s(100.007) == 0

    clock.work(third, 0.002, waited_s=0.5)
    assert third.rest_s(clock.now_s) == pytest.approx(0.004), "what others had meanwhile is not its own"

    clock.work(third, 0.0)
    assert third.rest_s(clock.now_s) == 0, "it took no time"

    clock.work(third, 1.0)
    assert third.rest_s(clock.now_s) == pytest.approx(REST_S_MAX)


def test_a_burst_gets_less_than_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, changes = Clock(monkeypatch), Pace(0.25, 0.5)

    def share_of_the_next(seconds: float) -> float:
        begin_s, worked_s = clock.now_s, clock.worked_s
        while clock.now_s < begin_s + seconds:
            clock.work(changes, 0.001)
            clock.now_s += changes.rest_s(clock.now_s)
        return (clock.worked_s - worked_s) / (clock.now_s - begin_s)

    assert 0.25 < share_of_the_next(0.1) < 0.29
    assert changes.rest_s(clock.now_s - 0.001, False), "a burst rests even if nobody else has anything to do"
    share_of_the_next(1.0)
    clock.work(changes, 0.001)
    assert changes.rest_s(clock.now_s) and not changes.rest_s(clock.now_s, False)
    assert share_of_the_next(0.1) == pytest.approx(0.5, abs=0.03)
    clock.now_s += 10.0
    assert 0.25 < share_of_the_next(0.1) < 0.29, "it has rested"
