"""HTREE's experiments at tiny sizes: every claim is decided once, those without a clock rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")
pytest.importorskip("networkx", reason="needs the extra `reproduce`")

from pubsub_cluster.algorithms.htree.simple import SimpleCore
from pubsub_cluster.benchmarks.reproductions.htree import (
    constraints,
    experiments,
    index,
    memory,
    shapes,
    sizes,
    upkeep,
)
from pubsub_cluster.benchmarks.reproductions.htree.claims import CLAIMS
from pubsub_cluster.benchmarks.reproductions.htree.measure import (
    Load,
    Subject,
    at_size,
    built,
    timed,
)
from pubsub_cluster.benchmarks.workloads.htree import RESOLUTION, HTree
from pubsub_cluster.benchmarks.workloads.htree_ranges import RangeWorkload
from pubsub_cluster.cli.main import cli

TINY = Load(3, 6, 1)
COUNTED = (1, 2, 3, 4, 5, 6, 8, 9, 35, 36, 37, 38, 39, 40)
"""Claims that no clock decides, and that hold at any size."""


def test_the_even_draw_is_that_of_ht_n() -> None:
    mine, theirs = RangeWorkload(40), HTree(subscriptions=40)
    ranges, rules = mine.ranges(), theirs.rules()
    literals = np.sort(ranges.attribute.astype(np.int64) << 32 | ranges.lo)
    other = np.sort(rules.attribute[rules.literal].astype(np.int64) << 32 | rules.lo[rules.literal])
    assert np.array_equal(literals, other)
    assert np.array_equal(mine.events(5)[1:], theirs.events(5).value[1:])


@pytest.mark.parametrize("values", ["normal", "pareto"])
def test_centres_are_as_said(values: str) -> None:
    """Shares of centres below some values, within four standard errors; all ranges within the domain."""
    ranges = RangeWorkload(2_000, width=0.02, values=values).ranges()
    centre = (ranges.lo.astype(np.int64) + ranges.hi) / 2 / RESOLUTION
    for value in (0.4, 0.55, 0.7, 0.9):
        share = shapes.SHARES[values](value)
        assert abs((centre < value).mean() - share) < 4 * (0.25 / len(centre)) ** 0.5 + 1e-3
    assert ranges.lo.min() >= 0 and ranges.hi.max() < RESOLUTION and (ranges.lo <= ranges.hi).all()


def test_attributes_by_zipf() -> None:
    """Distinct within a subscription, and the first are the most popular; even choice has k/m of each."""
    workload = RangeWorkload(2_000, zipf=1.0)
    attribute = workload.ranges().attribute.reshape(-1, 20)
    assert (np.diff(attribute, axis=1) > 0).all()
    popularity = workload.popularity()
    assert popularity[0] > 0.95 and popularity[0] > popularity[10] > popularity[49]
    assert abs(RangeWorkload(2_000).popularity() - 0.4).max() < 0.05


def test_matchers_that_disagree_are_noticed() -> None:
    """Rows of one that stand for other subscriptions; and both wrong, beside brute force."""
    workload = RangeWorkload(50)
    ranges, values = workload.ranges(), workload.events(4, 1)
    good = built(SimpleCore(), ranges)
    bad = Subject(good.core, good.order[::-1], 0.0)
    assert timed({"Simple": good, "Tama": good}, values, TINY, ranges)["Simple"].matches >= 1
    with pytest.raises(AssertionError, match="matchers disagree"):
        timed({"Simple": good, "Tama": bad}, values, TINY)
    with pytest.raises(AssertionError, match="brute force disagrees"):
        timed({"Simple": bad}, values, TINY, ranges)


def test_small_sizes_decide_nothing_about_large_ones() -> None:
    small = at_size("HTREE-11", 10, 20, True, "7", "because")
    assert (small.verdict, small.ours) == ("not decided", "7; at 10") and "20 subscriptions" in small.why
    assert at_size("HTREE-11", 20, 20, True, "7", "because")[1:] == ("holds", "7", "")
    assert at_size("HTREE-11", 20, 20, False, "5", "because")[1:] == ("fails", "5", "because")


def test_every_claim_is_decided_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All experiments through the command."""
    tiny: dict[Any, dict[str, Any]] = {
        sizes: {"SIZES": (400, 800), "GROWN": (800,), "CELLS_SIZE": 800, "LOADS": TINY, "GROWN_LOADS": TINY},
        shapes: {"SIZES": (800,), "WIDTH_SIZE": 400, "LOADS": TINY},
        constraints: {"SIZE": 2_000, "ZIPF_SIZE": 800, "WIDE_SIZE": 200, "LOADS": TINY, "ZIPF_LOADS": TINY},
        upkeep: {"INSERTED": 400, "RANDOM_INSERTED": 40, "DELETED_FROM": 4_000},
        memory: {"SAMPLE": 500},
        index: {"SIZE": 4_000},
    }
    for module, changed in tiny.items():
        for name, value in changed.items():
            monkeypatch.setattr(module, name, {"small": value})
    monkeypatch.setattr(sizes, "CELLS_TRIED", (4, 5, 7, 8, 10))
    monkeypatch.setattr(sizes, "CELLS_LEVELS", 3)
    monkeypatch.setattr(sizes, "LEVELS_TRIED", (3, 4, 5))
    monkeypatch.setattr(constraints, "CONSTRAINTS", (10, 20))
    monkeypatch.setattr(constraints, "RCA_TRIED", (10, 50, 90))
    monkeypatch.setattr(constraints, "ZIPF_TRIED", (0.0, 1.0))
    monkeypatch.setattr(shapes, "FEW_SIZE", 300)
    monkeypatch.setattr(upkeep, "RUNS", 2)
    monkeypatch.setattr(upkeep, "DELETE_LEVELS", (2, 4))
    found = CliRunner().invoke(cli, ["reproduce", *experiments.EXPERIMENTS, "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    reports = json.loads(found.stdout)
    assert [report["name"] for report in reports] == list(experiments.EXPERIMENTS)
    judged = [verdict["claim"] for report in reports for verdict in report["verdicts"]]
    assert sorted(judged) == sorted(CLAIMS) and len(judged) == 42
    verdicts = {verdict["claim"]: verdict for report in reports for verdict in report["verdicts"]}
    counted = [f"HTREE-{number:02d}" for number in COUNTED]
    assert [claim for claim in counted if verdicts[claim]["verdict"] != "holds"] == []
    assert verdicts["HTREE-41"]["verdict"] == "fails"
    assert all(one["why"] or one["verdict"] == "holds" for one in verdicts.values())
    for report in reports:
        lines, picture, _ = (Path(path) for path in report["files"])
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert len(lines.read_text().splitlines()) > 3


def test_the_list_names_every_figure() -> None:
    names = {f"htree-{figure}" for figure in range(4, 16)} | {"htree-t3"}
    assert names <= set(experiments.EXPERIMENTS)
