"""How much of the coordinator's time work gets that gives way to everything else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pubsub_cluster.coordinator import changes, epochs, pace
from pubsub_cluster.coordinator.changes import ChangeDesk
from pubsub_cluster.coordinator.epochs import LEFTOVERS, EpochDesk
from pubsub_cluster.coordinator.pace import REST_S_MAX, Pace
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import Committed
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter


def always(_now_s: float) -> bool:
    return True


class Clock:
    """Stands still but for the work, which has a processor for itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.worked_s = 0.0
        known = SimpleNamespace(monotonic=lambda: self.now_s, thread_time=lambda: self.worked_s)
        for module in (pace, changes):
            monkeypatch.setattr(module, "time", known)
        monkeypatch.setattr(epochs, "monotonic", lambda: self.now_s)

    def goes(self, seconds: float) -> None:
        self.worked_s += seconds
        self.now_s += seconds

    def work(self, what: Pace, seconds: float, waited_s: float = 0.0) -> None:
        what.begin()
        self.worked_s += seconds
        self.now_s += seconds + waited_s
        what.end()


def test_work_gets_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, third = Clock(monkeypatch), Pace(1 / 3, 1 / 3, always)
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
    clock, changes = Clock(monkeypatch), Pace(0.25, 0.5, always)

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


class SlowStore:
    """Reports every group at once; each call takes two milliseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: list[Committed] = []

    def commit(self, _changes: object, _origin: object) -> int:
        self._clock.goes(0.002)
        self._reports.append(Committed(1, None))
        return 1

    def poll(self) -> list[Committed]:
        self._clock.goes(0.002)
        reports, self._reports = self._reports, []
        return reports


def test_changes_rest_after_they_are_staged_and_after_they_are_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, published_s = Clock(monkeypatch), [100.0]
    store: Any = SlowStore(clock)
    registry = Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS)
    desk = ChangeDesk(
        registry, store, lambda key, fields: None, is_in_use=lambda now_s: now_s < published_s[0] + 1
    )
    assert desk.wait_s(100.0) == float("inf"), "there is nothing to do"
    for number in range(2):
        desk.submit(b"bulk", (str(number),), Op.SUBSCRIBE, [{"expr": {"attr": "x", "op": "=", "value": 1}}])
    assert desk.is_due(100.0, True) and desk.wait_s(100.0) == 0

    desk.work()  # until 100.002
    assert 0.005 < desk.wait_s(clock.now_s) <= 0.006, "a quarter of the time, and a little"
    assert not desk.is_due(clock.now_s, False) and desk.is_due(clock.now_s + 0.006, True)

    clock.now_s = 100.02
    desk.hear()
    assert desk.reported and desk.wait_s(clock.now_s) == 0
    assert desk.committed() and registry.live_count == 1
    assert 0.005 < desk.wait_s(clock.now_s) <= 0.006
    published_s[0] = 0.0
    assert desk.is_due(clock.now_s, True) and desk.wait_s(clock.now_s) == 0, "there is nobody to rest for"


def test_an_epoch_is_tidied_up_in_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, is_in_use = Clock(monkeypatch), [True]

    class Pool(list[int]):
        def __delitem__(self, span: Any) -> None:
            super().__delitem__(span)
            clock.goes(0.001)

    given_back = []
    monkeypatch.setattr(epochs, "give_back_memory", lambda: given_back.append(clock.now_s))
    registry: Any = SimpleNamespace(settle=lambda _buckets: False)
    scheduler: Any = SimpleNamespace(is_mapped=False)
    desk = EpochDesk(registry, scheduler, lambda: None, lambda failed: None, lambda now_s: is_in_use[0])
    assert desk.wait_s(100.0) == float("inf")
    pool = Pool(range(4 * LEFTOVERS))
    desk._leftovers = [pool]
    desk.work()
    assert len(pool) == 3 * LEFTOVERS and desk.wait_s(clock.now_s) == pytest.approx(0.009)
    desk.work()
    assert len(pool) == 3 * LEFTOVERS, "it rests"
    clock.now_s += 0.01
    desk.work()
    assert len(pool) == 2 * LEFTOVERS
    is_in_use[0] = False
    desk.work()
    assert len(pool) == LEFTOVERS, "there is nobody to rest for"
    assert not given_back
    while desk.busy:
        desk.work()
    desk.work()
    assert given_back == [clock.now_s], "what was freed goes back to the system, once"
