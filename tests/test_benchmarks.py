"""Benchmarks: workloads give the same bytes, rivals the right answers, wrong answers stop a run."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from pubsub_cluster.benchmarks import builds, drift, figures, rivals
from pubsub_cluster.benchmarks.cluster_level import atom
from pubsub_cluster.benchmarks.engines import predicates
from pubsub_cluster.benchmarks.engines.predicates import Unfit
from pubsub_cluster.benchmarks.measure import WrongAnswer, interleaved
from pubsub_cluster.benchmarks.runner import Settings, run_workload
from pubsub_cluster.benchmarks.suite import ITEMS, TARGETS, figures_of
from pubsub_cluster.benchmarks.workloads import WORKLOADS, draw
from pubsub_cluster.benchmarks.workloads.drift import DRIFTS
from pubsub_cluster.benchmarks.workloads.rules import MISSING, Events, Rules, expected_counts
from pubsub_cluster.cli.main import cli
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.tuner.builder import build_layout

SMALL = {"many-clauses": 3, "all-match": 50}
NAMES = ("W0", "W1", "W2", "HT-n", "ADS", "SERVICE", "giant-cluster", "wide")


def small(name: str, subscriptions: int = 400) -> tuple[Any, Rules, Events]:
    """A small workload with its rules and events."""
    workload = WORKLOADS[name].make(subscriptions=SMALL.get(name, subscriptions), seed=1)
    return workload, workload.rules(), workload.events(101)


def digest(*arrays: Any) -> str:
    """A short name of some bytes."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()[
        :12
    ]


def test_words_are_the_same_everywhere() -> None:
    word = draw.words(1, 2, 3, 4, 5)
    assert digest(word) == WORDS
    assert np.array_equal(draw.words(1, 2, 5, 2, 5), word[2:])
    assert digest(draw.distinct(word, 3), draw.below(word, 35)) == DRAWN


WORDS, DRAWN = "2e55d4c7d5c2", "39f770ac150d"
BYTES = {
    "W0": "3ca909880eb2",
    "W2": "d882677d5006",
    "HT-n": "074f79bc2967",
    "ADS": "e0ce8e9d3525",
    "SERVICE": "bcc814f0dd1b",
    "hot-value": "36d6e1b1001d",
}


@pytest.mark.parametrize("name", sorted(BYTES))
def test_a_name_and_a_seed_give_the_same_bytes(name: str) -> None:
    _, rules, events = small(name)
    assert (
        digest(rules.attribute, rules.lo, rules.hi, rules.literal, rules.member, events.value) == BYTES[name]
    )


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_events_can_be_drawn_in_slices(name: str) -> None:
    workload, rules, events = small(name)
    assert np.array_equal(workload.events(30, first=71).value, events.value[71:])
    assert rules.size == workload.subscriptions
    assert int(np.diff(rules.start).min()) > 0


@pytest.mark.parametrize("name", ["W1", "HT-n", "STOCK", "ADS", "SERVICE", "all-match", "many-clauses"])
def test_brute_force_agrees_with_the_naive_matcher(name: str) -> None:
    _, rules, events = small(name, 60)
    matcher = NaiveMatcher()
    atoms = [atom(rules, predicate) for predicate in range(len(rules.attribute))]
    clauses = [
        {"and": [atoms[number] for number in rules.literal[rules.start[row] : rules.start[row + 1]].tolist()]}
        for row in range(len(rules.start) - 1)
    ]
    each = rules.clauses_each
    for row in range(rules.size):
        form = {"or": clauses[row * each : (row + 1) * each]}
        matcher.subscribe(str(row), expression_from_json(form, Limits(nodes_per_subscription_max=1 << 20)))
    some = events.slice(0, 12)
    counts = [len(matcher.match(event)) for event in some.dictionaries()]
    assert counts == expected_counts(rules, some, 12).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_rivals_answer_correctly(name: str) -> None:
    workload, rules, events = small(name)
    events = events.slice(0, 25)
    counts = expected_counts(rules, events, 25)
    for rival in rivals.RIVALS:
        part = rules.subset(20) if rival == "rule-engine" else rules
        try:
            run = rivals.make_rival(rival, part, workload.events(64, first=1_000), events)
        except Unfit:
            continue
        truth = counts if part is rules else expected_counts(part, events, 25)
        assert run.run().tolist() == truth[: run.event_count].tolist(), rival


def test_a_range_of_one_value_is_not_lost_beside_the_equality() -> None:
    """Two predicates may be the same point: rivals find both."""
    rules = WORKLOADS["ADS"].make(subscriptions=400, seed=1).rules()
    doubled = rules._replace(
        attribute=np.append(rules.attribute, rules.attribute[rules.literal[0]]),
        lo=np.append(rules.lo, rules.lo[rules.literal[0]]),
        hi=np.append(rules.hi, rules.hi[rules.literal[0]]),
        except_=np.append(rules.except_, rules.except_[rules.literal[0]]),
        member_start=np.append(rules.member_start, rules.member_start[-1]),
    )
    tests = predicates.tests_of(doubled)
    points = tests.point_predicate[tests.point_predicate >= 0].tolist()
    assert sorted([*points, *tests.other.tolist()]) == list(range(len(doubled.attribute)))


@pytest.mark.timeout(600)  # compiles the rivals' kernels
@pytest.mark.usefixtures("small_heap")
def test_a_run_reports_what_was_promised() -> None:
    report = run_workload("W0", Settings(2_000, 300, passes=1, rivals=("scan", "propagation+prefetch")))
    for key in ("us_per_event", "events_per_second", "matches", "bytes_per_subscription", "floor_ratio"):
        assert report[key] >= 0
    assert {"scan", "propagation+prefetch"} <= set(report["ratios"]) and report["verified"] is True
    assert {figure.figure for figure in figures_of(report, ("W0", 2_000))} >= {"kernel", "index", "build"}


def test_a_wrong_answer_stops_the_run() -> None:
    class Liar:
        """Says one match more for the last event."""

        def run(self) -> Any:
            """Answer."""
            return np.array([0, 1])

    with pytest.raises(WrongAnswer, match="event 1 has 1 matches, not 0"):
        interleaved({"liar": Liar()}, {"liar": np.zeros(2, np.int64)}, 1)


def test_the_list_names_all_workloads() -> None:
    found = json.loads(CliRunner().invoke(cli, ["bench", "--list", "--json"]).output)
    assert [entry["name"] for entry in found] == list(WORKLOADS)
    assert CliRunner().invoke(cli, ["bench", "W9"]).exit_code == 2


@pytest.mark.usefixtures("small_heap")
def test_layouts_are_built_in_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """After changes of each size; and a layout that still has what is gone is not taken for right."""
    monkeypatch.setattr(builds, "CHANGES", (40,))
    found = {figure.figure: figure for figure in builds.measure("W0", 3_000, 2)}
    assert found["entries taken over after 40 were replaced"].value > 80.0
    assert found["build after 40 were replaced, whole"].value > 0.0
    rules = WORKLOADS["W0"].make(subscriptions=100, seed=1).rules()
    changing = builds.Changing(rules, 60, 1)
    layout = build_layout(changing.catalogue, changing.writer.counts(), 1, None, 1)
    value = np.zeros((60, len(rules.domains)), np.int32)
    for row in range(60):
        literals = rules.literal[rules.start[row] : rules.start[row + 1]]
        value[row, rules.attribute[literals]] = rules.lo[literals]
    events = Events(rules.domains, value)
    builds.check(changing, rules, layout, events)
    changing.change(40)
    with pytest.raises(WrongAnswer):
        builds.check(changing, rules, layout, events)


def test_a_drift_is_lived_through_and_summed_up() -> None:
    options = argparse.Namespace(hours=2, tick=1_200, events=60, passes=1)
    found = {figure.figure: figure.value for figure in drift.run(DRIFTS["DRIFT-SCHEMA"](2_000, 1), options)}
    assert {"dynamic / rebuilt, last window", "no change, last window / first"} <= set(found)
    assert found["throughput, dynamic, hour 2"] > 0.0


def test_a_drift_replaces_the_oldest_by_the_new_workload() -> None:
    workload = DRIFTS["DRIFT-SCHEMA"](30_000, 1)
    assert DRIFTS["DRIFT-SCHEMA"](2_880_000).inserted(16 * 3_600) == 16 * 3_600 * 48  # RR-23: 50 at 3 million
    attribute, constant = workload.predicates(0, 30_000)
    assert attribute.max() < 16 and len(np.unique(attribute[:, 0])) == 1
    both, _ = workload.predicates(29_000, 32_000)  # 3,600 are inserted in the first two hours
    assert both.max() < 16
    new, _ = workload.predicates(33_600, 33_700)
    assert new.min() >= 16 and (np.diff(np.sort(new, axis=1), axis=1) > 0).all()
    skewed = DRIFTS["DRIFT-SKEW"](30_000, 1)
    assert skewed.predicates(33_600, 34_600)[1][:, 0].max() == 2 and constant.max() == 35
    assert skewed.events(500, True).value[:, 0].max() == 2 < skewed.events(500, False).value[:, 0].max()


def test_targets_belong_to_runs_of_the_suite() -> None:
    runs = {(item.workload, item.subscriptions) for item in ITEMS}
    assert {key[:2] for key in TARGETS} <= runs


def test_targets_are_judged() -> None:
    assert figures.is_met("0.3", "<= 0.3") and not figures.is_met("9000", ">= 10,000")
    assert figures.is_met("27", "20 to 50") is None


def test_missing_values_are_below_every_constant() -> None:
    assert MISSING < 0


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_pages_quote_the_kept_figures(page: Path) -> None:
    assert figures.rendered(page.read_text()) == page.read_text()
