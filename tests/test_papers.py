"""All claims of the papers are there, and all experiments have a name."""

from __future__ import annotations

import csv

import pytest

pytest.importorskip("networkx", reason="needs the extra `reproduce`")
pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")

from pubsub_cluster.benchmarks.paper_figures import PAPERS, VERDICTS
from pubsub_cluster.benchmarks.record import RESULTS
from pubsub_cluster.benchmarks.reproductions.figures import FIGURES

CLAIMS = {"RR-4089": ("RR", 54), "TOPSS": ("TOPSS", 34), "RIABOV": ("RIABOV", 27), "HTREE": ("HTREE", 42)}
CLAIMS |= {"LESUB": ("LESUB", 33)}


def test_all_190_claims_are_there() -> None:
    assert sum(count for _, count in CLAIMS.values()) == 190
    for paper, (prefix, count) in CLAIMS.items():
        assert list(PAPERS[paper]) == [f"{prefix}-{number:02d}" for number in range(1, count + 1)]
        for claim in PAPERS[paper].values():
            assert claim.where and claim.says and claim.holds_when.partition(":")[0][0] in "ECRSN"


def test_what_was_kept_is_of_claims_and_experiments_that_are_there() -> None:
    with (RESULTS / "claims.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len({row["claim"] for row in rows}) == len(rows)
    for row in rows:
        assert row["claim"] in FIGURES[row["experiment"]].claims and row["verdict"] in VERDICTS
        assert row["ours"] and (row["verdict"] == "holds" or row["why"])
