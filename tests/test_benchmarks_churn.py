"""The churn benchmark: its figures have the targets that are named, and a wrong answer stops it."""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pubsub_cluster.benchmarks import restart
from pubsub_cluster.benchmarks.churn import BATCH, TARGETS, Publisher, figures_of
from pubsub_cluster.benchmarks.measure import WrongAnswer
from pubsub_cluster.benchmarks.pauses import HAPPENINGS, SHAPES, Pauses

BASE_SIZE = 10
FOUND = (
    *("durable_s", "ready_s", "inserted", "removed", "us_per_change", "quiet_per_second", "busy_per_second"),
    *("share", "worker_ratio", "seed"),
)
AT_HALF_LOAD = ("batch, longest", "single subscribe, p50", "single subscribe, p99")


def publisher() -> Publisher:
    """Return one whose first event matches the base's handles 3 and 4, and one more at most."""
    cluster = SimpleNamespace(pids=lambda: {"workers": [os.getpid()]})
    base, most = np.zeros(BATCH, np.int64), np.zeros(BATCH, np.int64)
    base[0], most[0] = 2, 1
    return Publisher(cast(Any, None), cast(Any, cluster), [], [base], [most], BASE_SIZE)


def matches(*handles: int) -> Any:
    counts = np.zeros(BATCH, np.int64)
    counts[0] = len(handles)
    return SimpleNamespace(handles=np.array(handles, np.uint64), counts=counts)


def test_answers_are_checked_event_by_event() -> None:
    for right in ((3, 4), (3, 4, 11)):
        publisher().check(0, matches(*right))
    for wrong in ((3,), (3, 11), (3, 4, 5), (3, 4, 11, 12)):
        with pytest.raises(WrongAnswer):
            publisher().check(0, matches(*wrong))


def test_every_target_has_its_figure() -> None:
    half_load = dict.fromkeys(AT_HALF_LOAD, 1)
    seen = dict.fromkeys(HAPPENINGS, Pauses(np.ones(1, np.int64), 0.004))
    speeds = dict(zip(SHAPES, (8.0, 9.0, 6.0), strict=True))
    half = {"beside_changes": half_load, "alone": half_load, "pauses": (seen, speeds)}
    found: dict[str, Any] = {**dict.fromkeys(FOUND, 1), "spread": {"share": "1 to 2"}, **half}
    figures = figures_of(found, "W0", 1_000_000)
    assert {figure.figure: figure.target for figure in figures if figure.target} == TARGETS
    assert {figure.figure for figure in figures if figure.spread} == {"events beside changes, share of quiet"}
    assert [figure.value for figure in figures if figure.figure == "full speed, 2 x 1 / 1 x 2"] == [0.75]
    assert not any(figure.target for figure in figures_of(found, "W0", 100_000))


def test_the_longest_restart_counts() -> None:
    seconds = {"loaded": [4.0], "killed": [3.0, 6.0], "stopped": [2.0, 1.0]}
    figures = restart.figures_of(seconds, "W0", 1_000_000, 1)
    assert [(figure.value, figure.spread) for figure in figures] == [
        (4.0, ""),
        (6.0, "3 to 6"),
        (2.0, "1 to 2"),
    ]
    assert {figure.target for figure in figures} == {"<= 5"}
    assert not any(figure.target for figure in restart.figures_of(seconds, "W0", 100_000, 1))


def test_a_first_answer_is_compared() -> None:
    """A stand-in for a cluster whose first answer is 1, 2."""
    client = SimpleNamespace(publish=lambda *_, answer: SimpleNamespace(counts=np.array([1, 2])))
    cluster = cast(Any, SimpleNamespace(start=lambda: None, client=lambda **_: nullcontext(client)))
    assert restart.first_answer(cluster, {}, np.array([1, 2])) < 60.0
    with pytest.raises(WrongAnswer):
        restart.first_answer(cluster, {}, np.array([1, 3]))
