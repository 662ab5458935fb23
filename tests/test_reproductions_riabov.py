"""The papers' experiments: what messages cost, who gets them, and that every claim is decided."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.cli.main import cli

networkx = pytest.importorskip("networkx", reason="needs the extra `reproduce`")
pytest.importorskip("matplotlib", reason="needs the extra `reproduce`")

from pubsub_cluster.benchmarks.reproductions import figures  # noqa: E402
from pubsub_cluster.benchmarks.reproductions.outcome import decided  # noqa: E402
from pubsub_cluster.benchmarks.reproductions.riabov import (  # noqa: E402
    claims,
    delivery,
    experiments,
    figure4,
    figure6,
    network,
    trees,
)
from pubsub_cluster.benchmarks.workloads.stock import MIXTURES  # noqa: E402


@pytest.fixture(scope="module")
def small_world() -> delivery.World:
    """A network with 40 publications of 9 modes."""
    return delivery.World(1, 9, 40)


def some_sets(count: int = 6) -> Any:
    """Sets of receivers: nobody, one, some, all."""
    random = np.random.default_rng(4)
    found = random.random((count, network.RECEIVERS)) < np.linspace(0, 0.1, count)[:, None]
    found[-1] = True
    found[1] = False
    found[1, 77] = True
    return found


def test_the_network_is_that_of_the_paper(small_world: delivery.World) -> None:
    """RIABOV-24: 600 stub nodes, 15 transit nodes; a stub has one way out."""
    graph = small_world.network.graph
    assert sorted(graph) == list(range(615)) and networkx.is_connected(graph)
    for stub in range(30):
        inside = set(range(20 * stub, 20 * stub + 20))
        assert networkx.is_connected(graph.subgraph(inside))
        out = [(one, other) for one in inside for other in graph[one] if other not in inside]
        assert len(out) == 1 and out[0][1] == 600 + stub // 2
    assert all(cost >= 1 and cost == int(cost) for _, _, cost in graph.edges(data="cost"))


@pytest.mark.parametrize("source", [0, 311])
def test_costs_are_sums_of_edges(small_world: delivery.World, source: int) -> None:
    """Against networkx: shortest paths, the union of the tree's paths, the minimum spanning tree."""
    made, wanted = small_world.network, some_sets()
    paths = networkx.single_source_dijkstra_path(made.graph, source, weight="cost")
    length = networkx.single_source_dijkstra_path_length(made.graph, source, weight="cost")
    unicast, multicast = made.unicast(source, wanted), made.multicast(source, wanted)
    overlay = made.overlay(np.full(len(wanted), source), wanted)
    entries = made.router_entries(source, wanted)
    for at, members in enumerate(wanted):
        receivers = np.flatnonzero(members).tolist()
        assert unicast[at] == sum(length[one] for one in receivers)
        edges = set()
        for one in receivers:
            steps = [one]
            while steps[-1] != source:
                steps.append(int(made.paths(source).parent[steps[-1]]))
            edges |= {frozenset(pair) for pair in itertools.pairwise(steps)}
            assert (
                sum(made.graph.edges[tuple(pair)]["cost"] for pair in itertools.pairwise(steps))
                == length[one]
            )
        assert multicast[at] == sum(made.graph.edges[tuple(edge)]["cost"] for edge in edges)
        assert entries[at] == len(edges) + 1
        if len(receivers) < 60:
            closure = networkx.Graph()
            closure.add_node(source)
            for one, other in itertools.combinations({source, *receivers}, 2):
                closure.add_edge(one, other, cost=made.distances[one, other])
            tree = networkx.minimum_spanning_tree(closure, weight="cost")
            assert overlay[at] == tree.size(weight="cost")
    assert paths and np.all(multicast <= unicast) and np.all(overlay <= unicast)


def test_who_is_interested(small_world: delivery.World) -> None:
    """By the S-tree and by comparison: open below, closed above."""
    boxes = small_world.rectangles
    for point, found in zip(small_world.points, small_world.interested, strict=True):
        inside = ((boxes.lo < point) & (point <= boxes.hi)).all(axis=1)
        assert np.array_equal(np.flatnonzero(found), np.unique(boxes.receiver[inside]))


@given(
    unicast=st.lists(st.integers(0, 50), min_size=1, max_size=8),
    data=st.data(),
    percent=st.integers(0, 100),
)
def test_the_distribution_method(unicast: list[int], data: st.DataObject, percent: int) -> None:
    """RIABOV-12, branch by branch, beside its words."""
    count = len(unicast)
    group = data.draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    size = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    interested = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    expected = []
    for one, other, members, wanted in zip(unicast, group, size, interested, strict=True):
        if wanted == 0:
            expected.append(0)
        elif members == 0 or wanted < percent / 100 * members:
            expected.append(one)
        else:
            expected.append(other)
    arrays = [np.array(column) for column in (unicast, group, interested, size)]
    paid = delivery.distribution_costs(*arrays, percent / 100)
    assert paid.tolist() == expected


def test_interested_sets_are_counted(small_world: delivery.World) -> None:
    """RIABOV-17: beside all places between all ends, tried one by one."""
    boxes = small_world.rectangles
    for count in (1, 3, 5):
        lo, hi = boxes.lo[:count], boxes.hi[:count]
        ends = [np.unique(np.concatenate((a, b))) for a, b in zip(lo.T, hi.T, strict=True)]
        places = [np.append(one[np.isfinite(one)], 1e6) for one in ends]
        sets = {
            tuple(np.flatnonzero(((lo < point) & (np.array(point) <= hi)).all(axis=1)).tolist())
            for point in itertools.product(*places)
        }
        assert delivery.distinct_interests(small_world, count) == len(sets - {()})


def test_a_verdict_says_why_only_where_it_fails() -> None:
    assert decided("x", True, "1", "because").why == "" and decided("x", True, "1").verdict == "holds"
    assert decided("x", False, "1", "because")[1:] == ("fails", "1", "because")


def test_every_claim_is_decided_and_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All experiments on a small scale, through the command."""
    monkeypatch.setattr(figure4, "COUNT", {"small": 4_000})
    monkeypatch.setattr(trees, "SIZES", {"small": (500, 1_000, 2_000)})
    monkeypatch.setattr(trees, "SHAPE_SIZE", 1_000)
    monkeypatch.setattr(delivery, "SEEDS", {"small": 1})
    for module in (delivery, figure6):
        monkeypatch.setattr(module, "EVENTS", {"small": 40})
        monkeypatch.setattr(module, "CELLS_TRIED", (8,))
        monkeypatch.setattr(module, "MIXTURES", {9: MIXTURES[9]})
    monkeypatch.setattr(figure6, "SEEDS", {"small": 1})
    found = CliRunner().invoke(cli, ["reproduce", *experiments.EXPERIMENTS, "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    reports = json.loads(found.stdout)
    assert [report["name"] for report in reports] == list(experiments.EXPERIMENTS)
    judged_claims = [verdict["claim"] for report in reports for verdict in report["verdicts"]]
    assert sorted(judged_claims) == sorted(claims.CLAIMS) and len(judged_claims) == 27
    exact = {f"RIABOV-{n:02d}" for n in (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 17, 21, 22, 23, 24, 25, 26)}
    verdicts = {one["claim"]: one for report in reports for one in report["verdicts"]}
    assert [one for one in sorted(exact) if verdicts[one]["verdict"] != "holds"] == []
    for report in reports:
        lines, picture, judged = (Path(path) for path in report["files"])
        assert picture.read_bytes().startswith(b"\x89PNG")
        with judged.open() as file:
            assert [line["claim"] for line in csv.DictReader(file)] == [
                verdict["claim"] for verdict in report["verdicts"]
            ]
        assert len(lines.read_text().splitlines()) > 10


def test_the_list_names_all_and_others_are_refused() -> None:
    found = CliRunner().invoke(cli, ["reproduce", "--list"])
    assert found.exit_code == 0 and all(name in found.output for name in figures.FIGURES)
    assert CliRunner().invoke(cli, ["reproduce", "riabov-7"]).exit_code == 2
