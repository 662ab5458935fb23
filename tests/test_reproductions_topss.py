"""TOPSS's workloads and experiments: what is drawn, and that every claim is decided."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.benchmarks.workloads.topss import OPERATORS, T4, T_BIG, T_MEDIUM, T_MIX, T_SMALL, Topss
from pubsub_cluster.cli.main import cli

pytest.importorskip("networkx", reason="needs the extra `reproduce`")
pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")

from pubsub_cluster.benchmarks.reproductions.topss import (
    claims,
    experiments,
    loading,
    matching,
    measures,
    memory,
    predicates,
    subscriptions,
)
from pubsub_cluster.benchmarks.workloads import topss

HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None


@pytest.mark.parametrize("workload", [T4, T_SMALL, T_MEDIUM, T_BIG, T_MIX], ids=lambda one: one.name)
def test_workloads(workload: Topss, monkeypatch: pytest.MonkeyPatch) -> None:
    """n_P from 1 to its most, one predicate per attribute, the paper's operators, values within bounds."""
    drawn = workload.conjunctions(500)
    sizes = np.diff(drawn.stops)
    assert sizes.min() == 1 and sizes.max() == workload.most
    rows = np.repeat(np.arange(500), sizes)
    assert len({*zip(rows, drawn.attribute, strict=True)}) == len(rows)
    assert set(drawn.comparison.tolist()) == set(OPERATORS.tolist())
    low, high = workload.bounds[drawn.attribute].T
    assert ((low <= drawn.constant) & (drawn.constant <= high)).all()
    events = workload.events(20)
    assert events.shape == (20, workload.attributes)
    assert ((workload.bounds[:, 0] <= events) & (events <= workload.bounds[:, 1])).all()
    monkeypatch.setattr(topss, "ROWS_PER_STEP", 64)
    part = measures.part(drawn, 100, 300)
    for mine, other in zip(part, workload.conjunctions(200, 100), strict=True):
        assert mine.tolist() == other.tolist()
    distinct = workload.distinct(300)
    assert len({*zip(*(column.tolist() for column in distinct[2:]), strict=True)}) == 300
    assert distinct.attribute[0] == drawn.attribute[0]


def test_wrong_answers_are_seen() -> None:
    catalogue, values = T4.conjunctions(20), T4.events(5)
    right = np.zeros(2, np.int64), np.array([3, 4])
    with pytest.raises(AssertionError, match="do not agree"):
        measures.check_answers({"one": right, "other": (right[0], right[1] + 1)}, catalogue, values)
    with pytest.raises(AssertionError):
        measures.check_answers({"one": right}, catalogue, values)
    everything = Conjunctions(*(np.append(column, column[:0]) for column in catalogue))
    assert measures.part(everything, 0, 20).stops.tolist() == catalogue.stops.tolist()


def test_every_claim_is_decided_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All experiments on a small scale, through the command."""
    for module in (subscriptions, memory, matching, loading):
        monkeypatch.setattr(module, "SIZES", {"small": (100, 1_000)})
    for module in (predicates, subscriptions, matching):
        monkeypatch.setattr(module, "PASSES_MANY", 1)
        monkeypatch.setattr(module, "PASSES_FEW", 1)
    big = Topss("T-BIG", ((10_000, 20_000),))
    mix = Topss("T-MIX", (topss.SMALL, topss.MEDIUM, *big.domains))
    monkeypatch.setattr(predicates, "T_BIG", big)
    monkeypatch.setattr(predicates, "T_MIX", mix)
    monkeypatch.setattr(predicates, "WORKLOADS", (T_SMALL, T_MEDIUM, big, mix))
    monkeypatch.setattr(predicates, "SIZES", {"small": (1_000, 10_000)})
    monkeypatch.setattr(predicates, "CHANGED", 200)
    monkeypatch.setattr(matching, "SQLITE_MOST", 1_000)
    monkeypatch.setattr(matching, "PREDICATE_EVENTS", 50)
    monkeypatch.setattr(matching, "events_of_databases", lambda count: 1)
    monkeypatch.setattr(loading, "passes_of", lambda count: 1)
    found = CliRunner().invoke(cli, ["reproduce", *experiments.EXPERIMENTS, "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    reports = json.loads(found.stdout)
    assert [report["name"] for report in reports] == list(experiments.EXPERIMENTS)
    verdicts = {one["claim"]: one for report in reports for one in report["verdicts"]}
    assert sum(len(report["verdicts"]) for report in reports) == len(verdicts) == 34
    assert sorted(verdicts) == sorted(claims.CLAIMS) == [f"TOPSS-{number:02d}" for number in range(1, 35)]
    exact = {f"TOPSS-{n:02d}" for n in (4, 5, 7, 10, 11, 12, 13, 14, 15, 17, 18, 19, 22, 30, 31, 32, 33)}
    assert [one for one in sorted(exact) if verdicts[one]["verdict"] != "holds"] == []
    assert all(one["verdict"] == "holds" or one["why"] for one in verdicts.values())
    for report in reports:
        lines, picture, judged = (Path(path) for path in report["files"])
        assert picture.read_bytes().startswith(b"\x89PNG")
        with judged.open() as file:
            assert [line["claim"] for line in csv.DictReader(file)] == [
                verdict["claim"] for verdict in report["verdicts"]
            ]
        assert len(lines.read_text().splitlines()) > 6


def test_the_papers_sizes_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the scale `paper` decides: on the paper's own figures it holds, on flat ones it fails."""
    from pubsub_cluster.benchmarks.reproductions.topss import cores, matching_verdicts

    monkeypatch.setattr(matching_verdicts, "HAS_DUCKDB", True)
    monkeypatch.setattr(loading, "HAS_DUCKDB", True)
    monkeypatch.setattr(matching_verdicts, "DATABASES", cores.COLUMN_STORE)
    paper = {"bit-matrix": "bit-wise", "list": "list-based", **dict.fromkeys(cores.COLUMN_STORE, "Kdb")}

    def made(times: dict[str, tuple[float, ...]], column: str) -> list[dict[str, object]]:
        rest = {
            "associations": 0,
            "ids moved": 0,
            "rows": 0,
            "distinct predicates": 0,
            "predicates evaluated": 0,
        }
        return [
            {"matcher": name, "subscriptions": size, column: ms, **rest}
            for name, theirs in {**paper, "list, doubling": "bit-wise"}.items()
            for size, ms in zip(measures.PAPER_SIZES, times[theirs], strict=True)
        ]

    phase = {"table": 0.01, "list": 0.02}
    lines = made(matching_verdicts.PAPER_MS, "ms per event")
    judged = {one.claim: one.verdict for one in matching_verdicts.verdicts(lines, phase)}
    assert [judged[f"TOPSS-{number}"] for number in (23, 24, 25, 34)] == ["holds"] * 4
    flat = made(dict.fromkeys(matching_verdicts.PAPER_MS, (1.0,) * 8), "ms per event")
    judged = {one.claim: one.verdict for one in matching_verdicts.verdicts(flat, phase)}
    assert [judged[f"TOPSS-{number}"] for number in (23, 24, 25)] == ["fails"] * 3
    for times, expected in (
        (loading.PAPER_MS, ["holds"] * 3),
        (dict.fromkeys(loading.PAPER_MS, (1.0,) * 8), ["fails"] * 3),
    ):
        lines = made(times, "ms")
        found = [loading._bit_wise(lines), loading._list_based(lines), loading._database(lines)]
        assert [one.verdict for one in found] == expected, found
