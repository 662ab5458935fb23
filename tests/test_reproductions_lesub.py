"""LESUB's experiments at tiny sizes: each claim on a matcher is decided once, and exact ones hold."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")

from pubsub_cluster.benchmarks.reproductions.lesub import (
    claims,
    insertion,
    ratios,
    schema,
    times,
    trees_costs,
    trees_hanson,
    trees_neon,
    trees_network,
    trees_paths,
    workers,
)
from pubsub_cluster.benchmarks.reproductions.outcome import Outcome

EXACT = {
    "LESUB-01",
    "LESUB-02",
    "LESUB-04",
    "LESUB-05",
    "LESUB-06",
    "LESUB-09",
    "LESUB-12",
    "LESUB-15",
    "LESUB-16",
    "LESUB-17",
    "LESUB-19",
    "LESUB-30",
    "LESUB-31",
    "LESUB-32",
    "LESUB-33",
}


@pytest.mark.timeout(300)
def test_each_claim_is_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(times, "SIZES", {"small": (100, 300)})
    monkeypatch.setattr(times, "EXACT_SIZE", 60)
    monkeypatch.setattr(ratios, "SIZE", {"small": 400})
    monkeypatch.setattr(ratios, "EQUAL_SIZES", {"small": (100, 1_000)})
    monkeypatch.setattr(insertion, "SIZES", {"small": (200, 400)})
    monkeypatch.setattr(insertion, "TOUCHED", 10)
    monkeypatch.setattr(workers, "SIZE", {"small": 400})
    monkeypatch.setattr(workers, "WORKERS", (2,))
    monkeypatch.setattr(workers, "TYPES_SIZE", 200)
    monkeypatch.setattr(trees_paths, "GROWTH_SIZES", (30, 100))
    monkeypatch.setattr(trees_paths, "EVENTS", 200)
    monkeypatch.setattr(trees_paths, "OPTIONAL_SIZE", 8)
    monkeypatch.setattr(trees_paths, "EQUALITY_SIZES", {"small": (100, 1_000)})
    monkeypatch.setattr(trees_paths, "SHARE_SIZE", 300)
    monkeypatch.setattr(trees_hanson, "SIZES", {"small": (100, 1_000)})
    monkeypatch.setattr(trees_hanson, "BATCH", 20)
    monkeypatch.setattr(trees_neon, "SIZES", (100, 1_000))
    monkeypatch.setattr(trees_costs, "SIZES", (30, 100))
    monkeypatch.setattr(trees_network, "SIZE", 300)
    monkeypatch.setattr(trees_network, "GOUGH_SIZES", (2, 4, 64))
    monkeypatch.setattr(schema, "SEQUENCES", {"small": 20})
    trees = (trees_paths, trees_hanson, trees_neon, trees_costs, trees_network)
    outcomes: list[Outcome] = []
    for module in (times, ratios, insertion, workers, schema, *trees):
        outcomes.append(module.run("small", lambda _: None))
        outcomes[-1].draw(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert len({tuple(line) for line in outcomes[-1].lines}) == 1
    verdicts = {one.claim: one for outcome in outcomes for one in outcome.verdicts}
    assert len(verdicts) == sum(len(outcome.verdicts) for outcome in outcomes)
    assert set(verdicts) == {*claims.CLAIMS, "RR-54"}
    assert {one: verdicts[one].verdict for one in EXACT} == dict.fromkeys(EXACT, "holds")
    assert all(one.why for one in verdicts.values() if one.verdict == "fails")
