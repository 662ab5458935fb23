"""Measure one shard of one: build a layout of flight-like alerts, encode and match typed columns.

    python benchmarks/first_layout.py [--subscriptions 200000] [--events 2000]

Alerts mix equality, ranges, `in`, and one in five has a NOT or an OR; events have 20 text and 12 number
columns. Matches of a few events are compared with the naive matcher before anything is timed. Times are the
best of five passes, in microseconds per event; nothing is asserted about them.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
    event_values,
)
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine

CARDINALITY = {
    **{"carrier": 16, "origin": 3, "dest": 105, "tailnum": 4_000, "gate": 300, "terminal": 8, "status": 6},
    **{"aircraft": 40, "operator": 30, "alliance": 4, "region": 12, "state": 50, "city": 100, "country": 20},
    **{"weather": 15, "runway": 12, "remark": 500, "crew": 900, "service": 5, "code": 60},
}
NUMBERS: tuple[str, ...] = (
    "month",
    "day",
    "hour",
    "minute",
    "flight",
    "dep_delay",
    "arr_delay",
    "air_time",
    "distance",
)
NUMBERS += ("seats", "wind", "visibility")


def value_of(attribute: str, number: int) -> str:
    """Return a text value; lengths differ from attribute to attribute."""
    return (
        f"{attribute[:3].upper()}{number:04d}"
        if CARDINALITY[attribute] > 200
        else f"{attribute[:2].upper()}{number}"
    )


def random_text(rng: random.Random, attribute: str) -> str:
    """Draw a value, low numbers more often."""
    return value_of(attribute, int(CARDINALITY[attribute] * rng.random() ** 1.5))


def make_alert(rng: random.Random) -> Expression:
    """Draw one alert."""

    def equal(attribute: str) -> Atom:
        return Atom(attribute, Operator.EQ, random_text(rng, attribute))

    def above(attribute: str, lo: int, hi: int) -> Atom:
        return Atom(attribute, Operator.GT, rng.randrange(lo, hi, 5))

    def between(attribute: str, lo: int, hi: int, width: int) -> Atom:
        start = rng.randrange(lo, hi)
        return Atom(attribute, Operator.BETWEEN, lo=start, hi=start + width)

    def among(attribute: str, count: int) -> Atom:
        return Atom(attribute, Operator.IN, tuple({random_text(rng, attribute) for _ in range(count)}))

    draw = rng.random()
    if draw < 0.30:
        return And((equal("dest"), equal("carrier"), above("dep_delay", 30, 240)))
    if draw < 0.45:
        return And((equal("tailnum"), above("arr_delay", 0, 120)))
    if draw < 0.55:
        return And(
            (Atom("flight", Operator.EQ, rng.randrange(6_000)), equal("origin"), above("dep_delay", 0, 90))
        )
    if draw < 0.65:
        return And((equal("origin"), between("distance", 100, 2_500, 60), between("hour", 5, 22, 3)))
    if draw < 0.80:
        return And((among("dest", 3), among("carrier", 2), above("dep_delay", 30, 240)))
    if draw < 0.90:
        return And((equal("dest"), Not(equal("carrier")), between("air_time", 20, 400, 30), equal("gate")))
    return And((Or((equal("dest"), equal("city"))), above("arr_delay", 60, 300), equal("aircraft")))


def make_events(rng: np.random.Generator, event_count: int) -> RawBatch:
    """Draw events as typed columns."""
    event = np.arange(event_count, dtype=np.int32)
    attributes: dict[str, AttributeEntries] = {}
    for name, cardinality in CARDINALITY.items():
        picked = (cardinality * rng.random(event_count) ** 1.5).astype(int).tolist()
        texts = [value_of(name, number).encode() for number in picked]
        end = np.cumsum([len(text) for text in texts]).astype(np.int64)
        start = np.concatenate((np.zeros(1, np.int64), end[:-1]))
        data = np.frombuffer(b"".join(texts), np.uint8)
        attributes[name] = AttributeEntries(texts=TextEntries(event, start, end, data))
    ranges = {
        "month": 12,
        "day": 31,
        "hour": 24,
        "minute": 60,
        "flight": 6_000,
        "air_time": 420,
        "distance": 2_600,
    }
    for name in NUMBERS:
        if name in ("dep_delay", "arr_delay"):
            whole = (rng.exponential(25.0, event_count) - 10).astype(np.int64)
        else:
            whole = rng.integers(0, ranges.get(name, 200), event_count)
        attributes[name] = AttributeEntries(numbers=NumberEntries(event, whole, np.zeros(event_count)))
    return RawBatch(event_count, attributes, {})


def best_us(run: object, event_count: int, passes: int = 5) -> float:
    """Return the best time per event of a callable, microseconds."""
    times = []
    for _ in range(passes):
        started_ns = time.perf_counter_ns()
        run()  # type: ignore[operator]
        times.append(time.perf_counter_ns() - started_ns)
    return min(times) / 1_000 / event_count


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscriptions", type=int, default=200_000)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--checked", type=int, default=5)
    arguments = parser.parse_args()
    rng = random.Random(1)
    alerts = [make_alert(rng) for _ in range(arguments.subscriptions)]
    writer = CatalogueWriter.in_memory(max(2 * arguments.subscriptions, 1_024))
    forms = [normalise(alert, EMPTY_SCHEMA) for alert in alerts]
    writer.append_many(NewRow(row + 1, str(row), None, form, None, None) for row, form in enumerate(forms))
    catalogue, counts = CatalogueReader.of(writer), writer.counts()
    raw = make_events(np.random.default_rng(2), arguments.events)
    sample = EventSample()
    sample.add(make_events(np.random.default_rng(3), 2_000))

    started_ns = time.perf_counter_ns()
    layout = build_layout(catalogue, counts, 1, sample, 1)
    build_s = (time.perf_counter_ns() - started_ns) / 1e9
    engine = MatchEngine(catalogue, EMPTY_SCHEMA, Limits())
    engine.warm_up()
    engine.attach_layout(1, layout)
    result = engine.match(raw, 1, counts)
    for event in range(arguments.checked):
        values = event_values(raw, event)
        expected = [row for row, alert in enumerate(alerts) if holds(alert, values, EMPTY_SCHEMA)]
        found = sorted(result.rows[result.event_offsets[event] : result.event_offsets[event + 1]].tolist())
        assert found == expected, (event, len(found), len(expected))

    base = engine._generations[1].base
    encoded = base.encode(raw)
    encode_us = best_us(lambda: base.encode(raw), arguments.events)
    match_us = best_us(lambda: base.match(encoded, 1 << 30), arguments.events)
    whole_us = best_us(lambda: engine.match(raw, 1, counts), arguments.events)
    size_mib = layout.size_bytes / 2**20
    print(f"{arguments.subscriptions} subscriptions, layout {size_mib:.1f} MiB, build {build_s:.2f} s")
    print(f"{len(result.rows) / arguments.events:.1f} matches per event, {arguments.checked} events checked")
    print(f"encode {encode_us:.2f} us, match {match_us:.2f} us, whole {whole_us:.2f} us per event")


if __name__ == "__main__":
    main()
