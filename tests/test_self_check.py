"""A cluster checks its own answers: right ones pass, wrong ones are an alarm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from clusters import next_generation, wait_until
from hypothesis import given
from hypothesis import strategies as st
from matching_cases import Case
from strategies import cases

from pubsub_cluster import Cluster
from pubsub_cluster.coordinator.self_check import MATCHES_MAX, SelfCheck
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueCounts
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.owner import list_segments, parse_name
from pubsub_cluster.tuner import self_check
from pubsub_cluster.tuner.messages import Check
from pubsub_cluster.tuner.self_check import REST_S, RESTS_S_MAX, ROWS_AT_ONCE, check_event

RANDOM = np.random.default_rng(1)


@given(case=cases(), wrong=st.integers(0, 7), row_count=st.integers(1, 40))
def test_differences_are_found_and_only_they(case: Any, wrong: int, row_count: int) -> None:
    catalogue = Case(case.expressions, case.schema)
    total = len(case.expressions)
    for event in case.events:
        values = flatten_event(event, case.schema, DEFAULT_LIMITS)
        right = [row for row, tree in enumerate(case.expressions) if holds(tree, values, case.schema)]

        def check(rows: list[int], compared: int) -> tuple[int, list[Any]]:
            asked = Check(0, rows, total, 0, 1, 0, compared, "")
            return check_event(catalogue.reader, values, asked, RANDOM)  # noqa: B023

        compared, differences = check(right, row_count)
        assert 1 <= compared <= row_count and not differences
        row = wrong % total
        changed = [other for other in range(total) if (other in right) != (other == row)]
        # Rows are picked at random: with so many none is left out.
        _, differences = check(changed, total)
        (found,) = differences
        assert (found.handle, found.expected) == (catalogue.reader.columns.handle[row], row in right)


@pytest.mark.parametrize("row_count", [1, ROWS_AT_ONCE, 250, 10_000])
def test_a_check_lets_others_have_the_processor(row_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    # Here alone: other threads of this process may sleep meanwhile.
    monkeypatch.setattr(self_check, "time", SimpleNamespace(sleep=rests.append))
    catalogue = Case([{"attr": "a", "op": "=", "value": 1}])
    monkeypatch.setattr(self_check, "_picked", lambda *_: [0] * row_count)
    asked = Check(0, [0], 1, 0, 1, 0, row_count, "")
    values = flatten_event({"a": 1}, EMPTY_SCHEMA, DEFAULT_LIMITS)
    assert check_event(catalogue.reader, values, asked, RANDOM) == (row_count, [])
    assert len(rests) == row_count // ROWS_AT_ONCE
    assert max(rests, default=0.0) <= REST_S and sum(rests) <= 1.01 * RESTS_S_MAX


@pytest.mark.cluster
def test_a_layout_that_lies_is_an_alarm() -> None:
    with Cluster(self_check_rows=50) as cluster, cluster.client() as client:
        client.subscribe_many([{"id": f"s{number}", "expr": f"a = {number}"} for number in range(8)])
        next_generation(client)

        def differences() -> int:
            client.publish([{"a": 1}, {"a": 6}] * 4)
            return int(client.status()["self_check"]["differences"])

        wait_until(lambda: not differences() and client.status()["self_check"]["events"] > 0, "a check")
        names = [name for name in list_segments(client.status()["cluster_id"])]
        (layout,) = [name for name in names if (parts := parse_name(name)) and parts.kind == "layout"]
        rows = FamilySegment.attach("layout", layout, writable=True).column("row_catalogue")
        rows[:] = rows[::-1].copy()
        wait_until(lambda: differences() > 0, "the alarm")
        (wrong, *_) = client.status()["self_check"]["wrong"]
        assert wrong["subscription"] in {"s1", "s6"} and wrong["event"]["a"] in ([1], [6])


def test_nothing_is_checked_of_an_empty_batch_or_an_endless_answer() -> None:
    """The first once ended the coordinator."""
    counts = CatalogueCounts(*[0] * len(CatalogueCounts._fields))

    def batch(event_count: int, match_count: int) -> Any:
        merged = SimpleNamespace(offsets=np.array([0, match_count]), rows=np.zeros(match_count, np.int32))
        catalogue = SimpleNamespace(name="segment")
        known = {"version": 1, "now_us": 0, "counts": counts, "catalogue": catalogue, "refused": {}}
        return SimpleNamespace(event_count=event_count, merged=merged, **known)

    check = SelfCheck(row_count=10)
    assert check.pick(batch(0, 0), 10.0) is None
    assert check.pick(batch(1, MATCHES_MAX + 1), 10.0) is None
    picked = check.pick(batch(1, 3), 20.0)
    assert picked is not None and picked.rows == [0, 0, 0]
