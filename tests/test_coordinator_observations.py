"""What workers count of a layout, priced beside what the tuner expected."""

from __future__ import annotations

from typing import Any

import pytest

from pubsub_cluster.coordinator.observations import LayoutReports
from pubsub_cluster.workers.messages import Observed

CONSTANTS = {"probe_ns": 10.0, "cluster_ns": 20.0, "entry_ns": 2.0}


def summary(generation: int = 3) -> dict[str, Any]:
    return {
        "generation": generation,
        "constants": CONSTANTS,
        "tables": [{"table": 1, "expected_cost": 5.0}, {"table": 0, "expected_cost": 4.0}],
    }


def test_shards_add_up_and_each_is_divided_by_its_own_events() -> None:
    reports = LayoutReports()
    reports.observed(0, Observed(3, 10, [10, 5, 20, 0, 0, 0, 0, 10, 30, 0, 0, 0]))
    reports.observed(0, Observed(3, 10, [10, 5, 20, 0, 0, 0, 0, 10, 30, 0, 0, 0]))
    reports.observed(1, Observed(3, 4, [0, 0, 0, 4, 4, 8, 0, 0, 0, 0, 0, 0]))
    found = reports.priced(summary())
    by_table = {table["table"]: table for table in found["tables"]}
    assert by_table[0]["observed_cost"] == pytest.approx(1 * 10 + 0.5 * 20 + 2 * 2)
    assert by_table[1]["observed_cost"] == pytest.approx(1 * 10 + 1 * 20 + 2 * 2)
    assert by_table[1]["expected_cost"] == 5.0
    assert found["observed_cost_of_slots"] == pytest.approx(1 * 20 + 3 * 2)
    assert found["observed_cost_per_event"] == pytest.approx(24 + 34 + 26)
    assert found["observed_events"] == 20


def test_what_is_opened_of_a_tree_is_priced() -> None:
    reports = LayoutReports()
    reports.observed(0, Observed(3, 10, [20, 10, 50, 0, 10, 10, 30, 5, 40]))
    tree = {"attributes": ["a", "b"], "node_ns": 40.0, "leaf_ns": 18.0, "expected_cost": 100.0}
    found = reports.priced({"generation": 3, "constants": CONSTANTS, "tables": [], "tree": tree})
    cost = 3 * 40.0 + 0.5 * 18.0
    observed = {"observed_nodes": 3.0, "observed_leaf_nodes": 0.5, "observed_cost": cost}
    assert found["tree"] == {**tree, **observed}
    assert found["observed_cost_of_slots"] == pytest.approx(1 * 20 + 1 * 2)
    assert found["observed_cost_per_event"] == pytest.approx(cost + 22 + (2 * 10 + 1 * 20 + 5 * 2))


def test_a_layout_that_nobody_ran_is_shown_as_it_is() -> None:
    reports = LayoutReports()
    reports.observed(0, Observed(2, 10, [1, 1, 1]))
    assert reports.priced(summary()) == summary()
    assert LayoutReports().priced({}) == {}


def test_old_generations_are_forgotten() -> None:
    reports = LayoutReports()
    reports.observed(0, Observed(1, 1, [9, 9, 9, 0, 0, 0, 0, 0, 0]))
    reports.attached(5, [("a", "direct", 7, "search", 0)])
    assert reports.priced(summary(1)) == summary(1)


def test_lookups_in_words() -> None:
    reports = LayoutReports()
    lookups = [
        ("a", "direct", 1_200, "search", 0),
        ("b", "search", 2, "hash", 3_500),
        ("c", "search", 0, "search", 0),
    ]
    reports.attached(1, lookups)
    reports.attached(1, [])  # a second worker says the same; the first word stands
    assert reports.encoder() == {
        "a": "numbers by direct (1,200)",
        "b": "numbers by search (2), texts by hash (3,500)",
        "c": "presence",
    }
