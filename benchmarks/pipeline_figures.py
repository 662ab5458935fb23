"""What the pipeline's measured figures mean for a very large catalogue, for the documents."""

from __future__ import annotations

import math
from typing import NamedTuple

from pubsub_cluster.benchmarks.record import read

SUBSCRIPTIONS, EVENTS_PER_SECOND = 1_000_000_000, 1_000_000
PART_SUBSCRIPTIONS = 6_000_000
"""The largest catalogue whose kernel was measured."""

HOST_CORES, HOST_BYTES = 32, 128 << 30
ROOM_SHARE = 0.5
EVENT_BYTES = 32 * 4
"""W0: 32 attributes, four bytes each on their way through Spark."""


class Sizing(NamedTuple):
    """What a catalogue and a stream need.

    Attributes
    ----------
    parts : int
    layout_bytes : float
        Of all parts, catalogue rows included.
    event_cpu_us : float
        Matching one event against all parts, on one core, Spark's share included.
    cores, hosts : int
    bundles : int
        Groups of parts that fit a host.
    shuffle_bytes_per_s : float
        Events on their way to the hosts, once per bundle.
    """

    parts: int
    layout_bytes: float
    event_cpu_us: float
    cores: int
    hosts: int
    bundles: int
    shuffle_bytes_per_s: float


def size_up(
    kernel_us: float,
    bytes_per_subscription: float,
    share: float,
    subscriptions: int = SUBSCRIPTIONS,
    events_per_second: int = EVENTS_PER_SECOND,
) -> Sizing:
    """Work out what is needed.

    Parameters
    ----------
    kernel_us : float
        Matching one event against a part.
    bytes_per_subscription : float
        Of a part's file.
    share : float
        Of a bare engine's rate that a Spark job reaches.
    """
    parts = math.ceil(subscriptions / PART_SUBSCRIPTIONS)
    layout_bytes = subscriptions * bytes_per_subscription
    event_cpu_us = parts * kernel_us / share
    cores = math.ceil(event_cpu_us * events_per_second / 1e6)
    bundles = math.ceil(layout_bytes / (ROOM_SHARE * HOST_BYTES))
    hosts = max(math.ceil(cores / HOST_CORES), bundles)
    return Sizing(
        parts, layout_bytes, event_cpu_us, cores, hosts, bundles, events_per_second * EVENT_BYTES * bundles
    )


def very_large() -> str:
    """Return the sizing of a billion subscriptions and a million events per second, as a table."""
    pipeline = {row["figure"]: float(row["value"]) for row in read("pipeline")}
    kernel = [
        float(row["value"])
        for row in read("engine")
        if (row["workload"], row["subscriptions"], row["figure"]) == ("W0", str(PART_SUBSCRIPTIONS), "kernel")
    ]
    share = pipeline.get("Parquet to Parquet, share of bare engines")
    per_row = pipeline.get("layout file, bytes per subscription")
    if not kernel or share is None or per_row is None:
        return "Not measured yet."
    need = size_up(kernel[0], per_row, share)
    rows = [
        ("subscriptions, events per second", f"{SUBSCRIPTIONS:,}; {EVENTS_PER_SECOND:,}", "given"),
        (
            "kernel, one event against a part",
            f"{kernel[0]:.3g} us",
            f"measured: W0, {PART_SUBSCRIPTIONS:,} subscriptions",
        ),
        ("file of a part, per subscription", f"{per_row:.3g} bytes", "measured: W0, 1,000,000 subscriptions"),
        ("Spark job / bare engines", f"{share:.3g}", "measured: Parquet to Parquet"),
        ("parts", f"{need.parts:,}", f"of {PART_SUBSCRIPTIONS:,} subscriptions"),
        ("all layouts", f"{need.layout_bytes / 1e9:,.0f} GB", "subscriptions x bytes"),
        ("CPU per event", f"{need.event_cpu_us:,.0f} us", "parts x kernel / share"),
        ("cores", f"{need.cores:,}", "CPU per event x events per second"),
        (
            "bundles of parts",
            f"{need.bundles:,}",
            f"all layouts / half of a host's {HOST_BYTES >> 30} GiB",
        ),
        ("hosts", f"{need.hosts:,}", f"of {HOST_CORES} cores"),
        (
            "events between hosts",
            f"{need.shuffle_bytes_per_s / 1e6:,.0f} MB/s",
            f"events per second x {EVENT_BYTES} bytes x bundles",
        ),
    ]
    return "\n".join(
        ["| what | how much | from |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
    )
