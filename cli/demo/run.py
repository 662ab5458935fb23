"""`demo flights`: one real cluster, 200,000 real alerts, a year of real flights, and the proof.

The steps follow each other in `run_demo` as the reader of the screen sees them. Everything goes through
the public client, as any program would; the demo knows nothing of the cluster's inside.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo import prepared, stream, verify
from pubsub_cluster.cli.demo.alerts import Alert, draw_alerts
from pubsub_cluster.cli.demo.figure import FigureData, draw
from pubsub_cluster.cli.demo.flights import Flights, read_flights
from pubsub_cluster.cli.demo.screen import Screen
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.render import counted
from pubsub_cluster.cli.start import saying_why_it_takes_long
from pubsub_cluster.language.errors import CallerError, ClusterError, PubSubError
from pubsub_cluster.pipeline.flight_tables import data_folder

if TYPE_CHECKING:
    from pubsub_cluster.client import Client
    from pubsub_cluster.cluster import Cluster

ALERTS_PER_CALL = 20_000
CLIENT_TIMEOUT_S = 120.0
FIGURE_NAME = "flights.png"
BUSIEST_SHOWN = 12


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the person asked for.

    Attributes
    ----------
    flight_count : int or None
        Flights to publish, spread evenly over the year; None: all.
    alert_count, shards, seed : int
    output_dir : Path
    keep : bool
        Leave the cluster's data directory, with all alerts, under `output_dir`.
    spark : bool
        Take events and alerts from the pipeline, where it can run.
    """

    flight_count: int | None
    alert_count: int
    shards: int
    seed: int
    output_dir: Path
    keep: bool
    spark: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result, as ``--json`` prints it."""

    events: int
    subscriptions: int
    matches: int
    events_per_second: int
    verified_events: int
    mismatches: int
    generations: int
    shards: int
    worker_restarts: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in their order."""
        return asdict(self)


def run_demo(options: DemoOptions, screen: Screen) -> Outcome:
    """Run the whole demonstration.

    Raises
    ------
    PubSubError
        Something is not installed, or the cluster could not do its work.
    """
    begin_s = time.perf_counter()
    check_installed()
    screen.title("Who is to be told what about a year of flights from New York?")
    made = _prepare(options, screen) if options.spark else None
    flights = _read(screen) if made is None else made.flights
    alerts = _draw(options, flights, screen) if made is None else made.alerts
    published = _slice(flights, options.flight_count)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(_cluster(options, published, screen))
        client = stack.enter_context(cluster.client(timeout_s=CLIENT_TIMEOUT_S))
        control = stack.enter_context(cluster.client(timeout_s=CLIENT_TIMEOUT_S))
        handles = _load(client, control, alerts, screen)
        record = _publish(client, control, published, screen)
        reported = reported_alerts(record, handles)
        _show_results(options, published, alerts, reported, record, screen)
        verdict = _verify(options, published, alerts, reported, screen)
        worker_restarts = int(control.status()["counters"]["worker_restarts"])
        screen.step("Stop", "the cluster ends: no process, no shared memory and no socket stays.")
    screen.took()
    outcome = Outcome(
        events=record.event_count,
        subscriptions=len(alerts),
        matches=record.match_count,
        events_per_second=round(record.events_per_second),
        verified_events=verdict.event_count,
        mismatches=len(verdict.mismatches),
        generations=record.generation_count,
        shards=options.shards,
        worker_restarts=worker_restarts,
        seconds=round(time.perf_counter() - begin_s, 2),
    )
    screen.verdict(outcome.to_dict(), options.output_dir)
    return outcome


def check_installed() -> None:
    """Raise `CallerError` when the data or matplotlib is missing: before anything is started."""
    data_folder()
    if importlib.util.find_spec("matplotlib") is None:
        raise CallerError(
            "matplotlib is not installed",
            remedy="Install what the demo needs: pip install 'pubsub-cluster[demo]'",
        )


def _prepare(options: DemoOptions, screen: Screen) -> prepared.Prepared | None:
    """Let the pipeline make events and alerts; None where it cannot."""
    screen.step("Pipeline", "Spark joins the flights of 2013 with airports, airlines, planes and weather.")
    try:
        prepared.check_spark()
        screen.say("pubsub-cluster pipeline prepare flights; --no-spark does without")
        made = prepared.prepare(options.alert_count, options.seed)
    except prepared.NotPrepared as reason:
        screen.say(f"without Spark: {reason}")
        screen.took()
        return None
    events, alerts = made.report["events"], made.report["alerts"]
    screen.say(f"{events['rows']:,} flights: {events['written']:,} events, {events['rejected']:,} rejected")
    stand, fall = alerts["written"], alerts["rejected"]
    screen.say(f"{alerts['read']:,} alerts drawn from them: {stand:,} stand, {fall:,} rejected")
    _say_unknown(made.flights, screen)
    _say_alerts(made.alerts, screen)
    screen.took()
    return made


def _read(screen: Screen) -> Flights:
    screen.step("Data", "the flights of 2013, joined with airports, airlines, planes and hourly weather.")
    flights = read_flights()
    _say_unknown(flights, screen)
    screen.took()
    return flights


def _say_unknown(flights: Flights, screen: Screen) -> None:
    count = len(flights)
    missing = sum(int(np.ma.getmaskarray(values).sum()) for values in flights.numbers.values())
    missing += sum(int((column.codes < 0).sum()) for column in flights.texts.values())
    share = missing / (count * flights.attribute_count)
    screen.say(f"{count:,} flights, {flights.attribute_count} attributes, {share:.0%} of the values unknown")


def _draw(options: DemoOptions, flights: Flights, screen: Screen) -> list[Alert]:
    screen.step(
        "Alerts", f"drawn from the same flights (seed {options.seed}); one in five has a NOT or an OR."
    )
    alerts = draw_alerts(flights, options.alert_count, options.seed)
    _say_alerts(alerts, screen)
    screen.took()
    return alerts


def _say_alerts(alerts: list[Alert], screen: Screen) -> None:
    gc.freeze()  # a million small objects that live to the end need not be looked at again and again
    owners = len({alert.owner for alert in alerts})
    screen.say(f"{len(alerts):,} alerts of {owners:,} owners, such as")
    for alert in alerts[:3]:
        screen.say(f"  {alert.owner}: {alert.sentence}")


def _slice(flights: Flights, count: int | None) -> Flights:
    """Return `count` flights spread evenly over the year."""
    if count is None or count >= len(flights):
        return flights
    return flights.select(np.linspace(0, len(flights) - 1, count).round().astype(np.int64))


@contextlib.contextmanager
def _cluster(options: DemoOptions, flights: Flights, screen: Screen) -> Iterator[Cluster]:
    from pubsub_cluster.cluster import Cluster

    screen.step(
        "Cluster", f"{counted(options.shards, 'shard')}: each holds a part of the alerts, lists are merged."
    )
    data_dir = None
    if options.keep:
        data_dir = options.output_dir / f"cluster-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        made = Cluster(data_dir=data_dir, shards=options.shards, replicas=1, schema=flights.schema())
        with saying_why_it_takes_long(screen.say):
            cluster = stack.enter_context(made)
        screen.say("processes: " + screen.processes(cluster.pids()))
        screen.say("kill -9 a worker at any time: the result stays the same")
        screen.took()
        yield cluster
    if data_dir is not None:
        screen.say(f"kept: pubsub-cluster start --data {data_dir}")


def _load(client: Client, control: Client, alerts: list[Alert], screen: Screen) -> NDArray[np.uint64]:
    """Subscribe all alerts and wait for their first layout; return each one's handle."""
    screen.step("Load", "an alert is on disk when it is acknowledged, and counts from then on.")
    handles = np.zeros(len(alerts), dtype=np.uint64)
    with Progress("Loading", len(alerts), "alerts") as bar:
        for first in range(0, len(alerts), ALERTS_PER_CALL):
            some = alerts[first : first + ALERTS_PER_CALL]
            answered = 0

            def on_progress(count: int) -> None:
                nonlocal answered
                bar.advance(count - answered)
                answered = count

            results = client.subscribe_many([alert.item() for alert in some], on_progress=on_progress)
            for i, result in enumerate(results, start=first):
                if isinstance(result, PubSubError):
                    raise ClusterError(
                        f"the cluster refused {alerts[i].id}: {result.condition}", seen=result.seen
                    )
                handles[i] = result.handle
    screen.took()
    screen.step("Layout", "the tuner indexes the alerts by what selects best, beside the running cluster.")
    while _delta_count(control) > 0:
        stream.await_generation(control, int(control.status()["generation"]) + 1)
    screen.say(f"generation {control.status()['generation']} holds all alerts")
    screen.took()
    return handles


def _delta_count(control: Client) -> int:
    return int(control.status()["delta_rows"])


def _publish(client: Client, control: Client, flights: Flights, screen: Screen) -> stream.StreamRecord:
    screen.step("Stream", f"batches of {stream.EVENTS_PER_BATCH:,}; layouts are swapped while they run.")
    with Progress("Publishing", len(flights), "flights") as bar:
        match_count = 0

        def on_batch(record: stream.StreamRecord) -> None:
            nonlocal match_count
            match_count += record.match_counts[-1]
            bar.advance(record.event_counts[-1], f"{match_count:,} matches (layout {record.generations[-1]})")

        record = stream.publish_flights(client, control, flights, on_batch)
    screen.say(
        f"{record.match_count:,} matches, {record.match_count / record.event_count:.1f} per flight; "
        f"{record.events_per_second:,.0f} flights/s, {counted(record.generation_count, 'new generation')}"
    )
    screen.took()
    return record


def reported_alerts(record: stream.StreamRecord, handles: NDArray[np.uint64]) -> verify.Reported:
    """Translate handles to alerts; -1 for a handle that no alert has."""
    order = np.argsort(handles)
    found = record.all_handles()
    place = np.minimum(np.searchsorted(handles[order], found), len(handles) - 1)
    alert_idx = order[place]
    alert_idx[handles[alert_idx] != found] = -1
    return verify.Reported(record.all_offsets(), alert_idx)


def _show_results(
    options: DemoOptions,
    flights: Flights,
    alerts: list[Alert],
    reported: verify.Reported,
    record: stream.StreamRecord,
    screen: Screen,
) -> None:
    screen.step("Result", "the busiest alerts, and the figure.")
    screen.table(("flights", "owners", "alert"), busiest(alerts, reported.alert_idx))
    path = options.output_dir / FIGURE_NAME
    data = FigureData(
        np.array(record.answered_s),
        np.array(record.event_counts),
        record.swaps,
        routes_by_alerts(flights, np.diff(reported.offsets)),
        f"{record.event_count:,} flights against {len(alerts):,} alerts",
        f"{record.match_count:,} matches on {counted(options.shards, 'shard')}; "
        "flights from New York in 2013",
    )
    draw(data, path)
    screen.say(f"figure: {path}")
    screen.took()


def busiest(alerts: list[Alert], alert_idx: NDArray[np.int64]) -> list[tuple[int, str, str]]:
    """Return flights, owners and sentence of the alerts reported most; equal ones are one line."""
    counts = np.bincount(alert_idx[alert_idx >= 0], minlength=len(alerts))
    found: dict[str, tuple[int, list[str]]] = {}
    for i in np.argsort(-counts, kind="stable").tolist():
        alert = alerts[i]
        if counts[i] == 0 or (len(found) == BUSIEST_SHOWN and alert.sentence not in found):
            break
        found.setdefault(alert.sentence, (int(counts[i]), []))[1].append(alert.owner)
    return [
        (count, owners[0] + (f" +{len(owners) - 1}" if len(owners) > 1 else ""), sentence)
        for sentence, (count, owners) in found.items()
    ]


def routes_by_alerts(flights: Flights, match_counts: NDArray[np.int64]) -> list[tuple[str, int, int]]:
    """Return route, alerts reported and flights of every route, most alerts first."""
    origin, dest = flights.texts["origin"], flights.texts["dest"]
    route = origin.codes.astype(np.int64) * len(dest.texts) + dest.codes
    alert_count = np.bincount(route, weights=match_counts).astype(np.int64)
    flight_count = np.bincount(route)
    ranked = np.argsort(-alert_count, kind="stable")
    names = [
        f"{origin.texts[r // len(dest.texts)]} to {dest.texts[r % len(dest.texts)]}" for r in ranked.tolist()
    ]
    rows = zip(names, alert_count[ranked].tolist(), flight_count[ranked].tolist(), strict=True)
    return [(name, alerts, count) for name, alerts, count in rows if count]


def _verify(
    options: DemoOptions, flights: Flights, alerts: list[Alert], reported: verify.Reported, screen: Screen
) -> verify.Verdict:
    screen.step("Check", "a naive matcher, written from the semantics alone, decides samples again.")
    with Progress("Checking", verify.planned_pairs(flights, alerts), "pairs") as bar:

        def on_task(pair_count: int, mismatch_count: int) -> None:
            bar.advance(pair_count, counted(mismatch_count, "mismatch", "mismatches"))

        verdict = verify.verify(flights, alerts, reported, options.seed, on_task)
    differing = counted(len(verdict.mismatches), "mismatch", "mismatches")
    screen.say(f"{counted(verdict.event_count, 'flight')}, {verdict.pair_count:,} pairs: {differing}")
    for flight_idx, alert_idx in verdict.mismatches[:5]:
        sentence = alerts[alert_idx].sentence if alert_idx >= 0 else "an unknown handle"
        screen.say(f"  differs: flight {flight_idx}, {sentence}")
    screen.took()
    return verdict
