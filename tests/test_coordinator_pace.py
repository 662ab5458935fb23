"""How much of the coordinator's time changes get beside everything else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pubsub_cluster.coordinator import changes
from pubsub_cluster.coordinator.changes import REST_S_MAX, ChangeDesk
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import Committed
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueWriter


class Clock:
    """Stands still but for what a store's calls take."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.takes_s = 0.0

    def commit(self, _changes: object, _origin: object) -> int:
        self.now_s += self.takes_s
        return 1

    def poll(self) -> list[Committed]:
        self.now_s += self.takes_s
        return []


def test_beside_other_work_changes_get_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    desk = ChangeDesk(
        Registry(CatalogueWriter.in_memory(1_000), EMPTY_SCHEMA, DEFAULT_LIMITS),
        clock,
        lambda key, fields: None,
    )
    known = SimpleNamespace(monotonic=lambda: clock.now_s, thread_time=lambda: 0.0)
    monkeypatch.setattr(changes, "time", known)
    for number in range(8):
        desk.submit(b"bulk", (str(number),), Op.SUBSCRIBE, [{"expr": {"attr": "x", "op": "=", "value": 1}}])
    assert desk.is_due(100.0, True)

    clock.takes_s = 0.002
    desk.work()  # until 100.002
    assert not desk.is_due(100.0039, True) and desk.is_due(100.0041, True)
    assert desk.is_due(100.002, False), "nobody else has anything to do"

    clock.now_s = 100.003
    desk.committed()  # until 100.005: it ran in time that others had
    assert not desk.is_due(100.0079, True) and desk.is_due(100.0081, True)

    clock.takes_s = 0.0
    clock.now_s = 100.01
    desk.committed()
    assert desk.is_due(100.01, True), "it took no time"

    clock.takes_s = 1.0
    for _ in range(3):
        desk.work()
    assert not desk.is_due(clock.now_s, True) and desk.is_due(clock.now_s + REST_S_MAX, True)
