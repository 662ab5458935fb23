"""The experiments of RR-4089, in small: every claim is decided once, and those that need no clock hold."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")
pytest.importorskip("networkx", reason="needs the extra `reproduce`")

from pubsub_cluster.algorithms.conjunctions import brute_force
from pubsub_cluster.benchmarks.reproductions.rr4089 import (
    analysis,
    drift,
    example,
    experiments,
    loads,
    micro,
    parameters,
    sweep,
)
from pubsub_cluster.benchmarks.reproductions.rr4089.claims import CLAIMS
from pubsub_cluster.benchmarks.workloads.drift import drift_schema
from pubsub_cluster.benchmarks.workloads.papers import w2
from pubsub_cluster.cli.main import cli

ELSEWHERE = ["RR-54"]
"""Decided where the trees that it speaks of are."""


def test_a_part_of_a_workload_is_its_rules() -> None:
    """The same subscriptions as the workload's other form, operators included."""
    made = w2(40)
    rules, found = made.rules(), loads.part_of(made, 10, 40)
    rows = loads.rows_of(made, 200)
    for at in range(30):
        mine = slice(found.stops[at], found.stops[at + 1])
        literals = rules.literal[rules.start[10 + at] : rules.start[11 + at]]
        values = rows[:, rules.attribute[literals]]
        expected = ((rules.lo[literals] <= values) & (values <= rules.hi[literals])).all(axis=1)
        one = found._replace(
            owner=found.owner[at : at + 1],
            stops=np.array([0, found.stops[at + 1] - found.stops[at]]),
            attribute=found.attribute[mine],
            comparison=found.comparison[mine],
            constant=found.constant[mine],
        )
        assert brute_force(one, rows)[0].tolist() == np.flatnonzero(expected).tolist()


def test_windows_change_everybody_once() -> None:
    """After the last window those who are alive are the last ones, in both strategies."""
    made = drift_schema(300)
    cores = drift.start(made)
    for before, after in ((0, 40), (40, 41), (41, 300), (300, 450)):
        for core in cores.values():
            drift.change(core, made, before, after)
            alive = core.store.owner[: core.store.bound]
            assert sorted(alive[alive >= 0].tolist()) == list(range(after, after + 300))


def test_example() -> None:
    """The report's other event, with all three attributes."""
    assert example.cost(example.C1, "ABC")[:2] == (3, pytest.approx(70_000))
    assert example.cost(example.C2, "ABC")[:2] == (5, pytest.approx(40_300))


def test_every_claim_is_decided_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All experiments on a small scale, through the command."""
    small = {"small": 2_000}
    sweep.measured.cache_clear()
    monkeypatch.setattr(sweep, "SIZES", {"small": (1_000, 2_000, 3_000)})
    monkeypatch.setattr(sweep, "DELETED", 100)
    monkeypatch.setattr(loads, "EVENTS", 40)
    monkeypatch.setattr(parameters, "OPERATORS_SIZE", small)
    monkeypatch.setattr(parameters, "DOMAINS_SIZE", small)
    monkeypatch.setattr(parameters, "EVENTS", 40)
    monkeypatch.setattr(drift, "SIZE", small)
    monkeypatch.setattr(drift, "STEPS", 2)
    monkeypatch.setattr(drift, "SAMPLE", 100)
    monkeypatch.setattr(example, "SMALL_EACH", 500)
    monkeypatch.setattr(example, "SMALL_VALUES", 5)
    monkeypatch.setattr(micro, "ENTRIES", 10_000)
    monkeypatch.setattr(micro, "CLUSTERS", (10, 100, 1_000))
    monkeypatch.setattr(micro, "TABLES", (5, 50))
    monkeypatch.setattr(micro, "TABLE_SIZES", {"small": (1_000, 2_000)})
    monkeypatch.setattr(micro, "PASSES", 1)
    monkeypatch.setattr(analysis, "SIZE", {"small": 3_000})
    monkeypatch.setattr(analysis, "ROUNDS", 1)
    monkeypatch.setattr(analysis, "ONE_ATTRIBUTE", 20_000)
    monkeypatch.setattr(analysis, "DRAWN", {"small": 60_000})
    found = CliRunner().invoke(cli, ["reproduce", *experiments.EXPERIMENTS, "--out", str(tmp_path), "--json"])
    sweep.measured.cache_clear()
    assert found.exit_code == 0, found.output
    reports = json.loads(found.stdout)
    judged = [verdict["claim"] for report in reports for verdict in report["verdicts"]]
    assert sorted([*judged, *ELSEWHERE]) == sorted(CLAIMS) and len(CLAIMS) == 54
    verdicts = {one["claim"]: one for report in reports for one in report["verdicts"]}
    exact = [15, 16, 23, 31, 32, 33, 34, 35, 36, 37, 38, 44, 45, 48, 49, 52, 53]
    assert [n for n in exact if verdicts[f"RR-{n}"]["verdict"] != "holds"] == [], verdicts
    assert all(verdicts[f"RR-0{n}"]["verdict"] == "not decided" for n in (1, 2, 3, 4, 5, 6, 7, 9))
    for report in reports:
        lines, picture, _ = (Path(path) for path in report["files"])
        assert picture.read_bytes().startswith(b"\x89PNG")
        with lines.open() as file:
            assert len(list(csv.DictReader(file))) > 3
