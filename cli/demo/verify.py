"""Check what the cluster reported against the naive matcher, which knows nothing of layouts or shards.

Three samples, all drawn by seed. For some flights: a sample of the alerts, where reported and expected must
be equal, and every alert that was reported for them, which must hold. For a few flights: all alerts. The
work is cut into tasks for a small pool of processes; each compares for itself and returns the pairs that
differ.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo.alerts import Alert
from pubsub_cluster.cli.demo.flights import Flights
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.schema import Schema

SAMPLED_FLIGHTS = 500
SAMPLED_ALERTS = 4_000
FULL_FLIGHTS = 5
FLIGHTS_PER_TASK = 25
ALERTS_PER_TASK = 10_000
TASK_TIMEOUT_S = 600.0


class Task(NamedTuple):
    """Flights against alerts.

    Attributes
    ----------
    events : list of dict
    flight_idx : list of int
        Which flights they are.
    alert_idx : list of int or None
        The alerts; None means the sample that every process holds.
    expressions : list of dict
        Of `alert_idx`, in JSON form.
    reported : list of list of int
        Per event, the reported ones among these alerts.
    extra : list of list of (int, dict)
        Per event, further reported alerts, each of which must hold.
    """

    events: list[dict[str, Any]]
    flight_idx: list[int]
    alert_idx: list[int] | None
    expressions: list[dict[str, Any]]
    reported: list[list[int]]
    extra: list[list[tuple[int, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of the check.

    Attributes
    ----------
    event_count : int
        Flights that were checked.
    pair_count : int
        (flight, alert) pairs that the naive matcher decided.
    mismatches : list of (int, int)
        (flight, alert) pairs on which cluster and naive matcher differ; alert -1 stands for a reported
        handle that no alert has.
    """

    event_count: int
    pair_count: int
    mismatches: list[tuple[int, int]]


class Reported(NamedTuple):
    """Alerts reported for every flight: those of flight i are ``alert_idx[offsets[i]:offsets[i + 1]]``."""

    offsets: NDArray[np.int64]
    alert_idx: NDArray[np.int64]

    def of(self, flight_idx: int) -> list[int]:
        """Return the alerts reported for one flight."""
        found: list[int] = self.alert_idx[self.offsets[flight_idx] : self.offsets[flight_idx + 1]].tolist()
        return found


def verify(
    flights: Flights,
    alerts: list[Alert],
    reported: Reported,
    seed: int,
    on_task: Callable[[int, int], None],
    process_count: int | None = None,
) -> Verdict:
    """Check the sampled flights.

    Parameters
    ----------
    flights, alerts, reported
        What was published, subscribed and answered.
    seed : int
    on_task : callable
        Called with the (flight, alert) pairs decided by a finished task and the mismatches so far.
    process_count : int, optional
        Processes of the pool; by default one for each CPU that may be used.
    """
    rng = np.random.default_rng([seed, 1])
    sampled = rng.choice(len(flights), min(SAMPLED_FLIGHTS, len(flights)), replace=False).tolist()
    sample = np.sort(rng.choice(len(alerts), min(SAMPLED_ALERTS, len(alerts)), replace=False)).tolist()
    full = rng.choice(len(flights), min(FULL_FLIGHTS, len(flights)), replace=False).tolist()
    tasks = [
        *_sample_tasks(flights, alerts, reported, sampled, set(sample)),
        *_full_tasks(flights, alerts, reported, full),
    ]
    mismatches: list[tuple[int, int]] = []
    pair_count = 0
    shared = (flights.schema(), sample, [alerts[idx].expr for idx in sample])
    with ProcessPoolExecutor(
        process_count or len(os.sched_getaffinity(0)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare,
        initargs=shared,
    ) as pool:
        futures = [pool.submit(check_task, task) for task in tasks]
        try:
            for future in as_completed(futures, timeout=TASK_TIMEOUT_S):
                decided, differing = future.result()
                pair_count += decided
                mismatches += differing
                on_task(decided, len(mismatches))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Verdict(len({*sampled, *full}), pair_count, sorted(set(mismatches)))


def planned_pairs(flights: Flights, alerts: list[Alert]) -> int:
    """Return about how many pairs `verify` decides, for a progress bar."""
    sampled = min(SAMPLED_FLIGHTS, len(flights)) * min(SAMPLED_ALERTS, len(alerts))
    return sampled + min(FULL_FLIGHTS, len(flights)) * len(alerts)


def _sample_tasks(
    flights: Flights, alerts: list[Alert], reported: Reported, sampled: list[int], sample: set[int]
) -> list[Task]:
    tasks = []
    for first in range(0, len(sampled), FLIGHTS_PER_TASK):
        some = sampled[first : first + FLIGHTS_PER_TASK]
        told = [reported.of(idx) for idx in some]
        extra = [[(a, alerts[a].expr if a >= 0 else {}) for a in found if a not in sample] for found in told]
        inside = [[a for a in found if a in sample] for found in told]
        tasks.append(Task([flights.event(idx) for idx in some], some, None, [], inside, extra))
    return tasks


def _full_tasks(flights: Flights, alerts: list[Alert], reported: Reported, full: list[int]) -> list[Task]:
    events = [flights.event(idx) for idx in full]
    told = [reported.of(idx) for idx in full]
    unknown: list[list[tuple[int, dict[str, Any]]]] = [[(a, {}) for a in found if a < 0] for found in told]
    tasks = []
    for first in range(0, len(alerts), ALERTS_PER_TASK):
        chosen = list(range(first, min(first + ALERTS_PER_TASK, len(alerts))))
        inside = [[a for a in found if first <= a < first + ALERTS_PER_TASK] for found in told]
        expressions = [alerts[idx].expr for idx in chosen]
        tasks.append(
            Task(events, full, chosen, expressions, inside, unknown if first == 0 else [[]] * len(full))
        )
    return tasks


class _Shared(NamedTuple):
    """What a process of the pool keeps between tasks."""

    schema: Schema
    sample_matcher: NaiveMatcher
    sample_count: int


_shared: _Shared | None = None


def _prepare(schema: Schema, sample: list[int], expressions: list[dict[str, Any]]) -> None:
    """Make the matcher of the sampled alerts, once per process."""
    global _shared
    gc.disable()  # matchers are functions without cycles; scanning them doubles the time
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _shared = _Shared(schema, _matcher(schema, sample, expressions), len(sample))


def check_task(task: Task) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of pairs decided and the pairs that differ."""
    assert _shared is not None
    matcher, alert_count = _shared.sample_matcher, _shared.sample_count
    if task.alert_idx is not None:
        matcher = _matcher(_shared.schema, task.alert_idx, task.expressions)
        alert_count = len(task.alert_idx)
    differing: list[tuple[int, int]] = []
    decided = 0
    for flight_idx, event, told, extra in zip(
        task.flight_idx, task.events, task.reported, task.extra, strict=True
    ):
        expected = {int(found) for found in matcher.match(event)}
        decided += alert_count + len(extra)
        differing += [(flight_idx, a) for a in expected ^ set(told)]
        # A repeat in the list is a difference too: an alert is reported once per event.
        times = Counter([*told, *(a for a, _ in extra)])
        differing += [(flight_idx, a) for a, count in times.items() if count > 1]
        differing += [(flight_idx, a) for a, expression in extra if a < 0 or not _holds(a, expression, event)]
    return decided, differing


def _holds(alert_idx: int, expression: dict[str, Any], event: dict[str, Any]) -> bool:
    assert _shared is not None
    return bool(_matcher(_shared.schema, [alert_idx], [expression]).match(event))


def _matcher(schema: Schema, alert_idx: list[int], expressions: list[dict[str, Any]]) -> NaiveMatcher:
    matcher = NaiveMatcher(schema)
    for idx, expression in zip(alert_idx, expressions, strict=True):
        matcher.subscribe(str(idx), expression_from_json(expression))
    return matcher
