"""A status in the text format that Prometheus and what speaks like it read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

PREFIX = "pubsub_cluster"
MICROSECONDS = 1e6


class Metric(NamedTuple):
    """A family of samples.

    Attributes
    ----------
    name : str
        Without the prefix; counters end in ``_total``.
    text : str
        What it counts.
    path : tuple of str
        Where a status has its value. What a status does not have, of an older cluster say, is left out.
    scale : float
        The value is divided by it.
    """

    name: str
    text: str
    path: tuple[str, ...]
    scale: float = 1.0


METRICS = (
    Metric("uptime_seconds", "Since the coordinator started", ("uptime_s",)),
    Metric("subscriptions", "Live subscriptions", ("subscriptions",)),
    Metric("catalogue_rows", "Rows of the catalogue, removed ones that still take room included", ("rows",)),
    Metric(
        "delta_rows", "Rows that are matched beside the layout until the next generation", ("delta_rows",)
    ),
    Metric("version", "Version of the last change in force", ("version",)),
    Metric("generation", "Generation of the layout in force", ("generation",)),
    Metric("batches_open", "Batches accepted and not answered", ("batches_open",)),
    Metric("chunks_free", "Free places for batches; at 0 publishers are told to wait", ("chunks_free",)),
    Metric("listeners", "Connections that listen", ("listeners",)),
    *(
        Metric(f"{name}_total", text, ("counters", name))
        for name, text in (
            ("batches_accepted", "Batches accepted"),
            ("batches_answered", "Batches answered with their matches"),
            ("batches_refused", "Batches refused after they were accepted"),
            ("events_matched", "Events matched"),
            ("events_refused", "Events refused for what is in them"),
            ("matches", "Pairs of an event and a subscription that it satisfies"),
            ("messages_refused", "Messages of clients that could not be read"),
            ("changes_applied", "Subscriptions made, updated and removed"),
            ("notifications_sent", "Notifications sent to owners"),
            ("notifications_dropped", "Notifications that a slow receiver did not get"),
            ("worker_restarts", "Workers started again"),
            ("tuner_restarts", "Tuners started again"),
            ("generations", "Generations published"),
        )
    ),
    Metric("durable_receivers", "Durable receivers", ("durable_receivers", "count")),
    Metric(
        "durable_waiting",
        "Records that durable receivers have not acknowledged",
        ("durable_receivers", "waiting"),
    ),
    Metric("durable_bytes", "Bytes kept for durable receivers", ("durable_receivers", "size_bytes")),
    Metric(
        "durable_dropped_total", "Records dropped for durable receivers", ("durable_receivers", "dropped")
    ),
    Metric("retained_events", "Retained events", ("retained", "events")),
    Metric("retained_bytes", "Bytes of retained events", ("retained", "size_bytes")),
    Metric("self_check_rows_total", "Subscriptions that events were checked against", ("self_check", "rows")),
    Metric(
        "self_check_differences_total",
        "Wrong answers that the self-check found",
        ("self_check", "differences"),
    ),
    Metric(
        "changes_since_snapshot",
        "Changes that a start reads beside the snapshot",
        ("durable", "changes_since"),
    ),
)
WORKER_METRICS = (
    Metric("worker_ready", "1 while the worker takes batches", ("ready",)),
    Metric("worker_tasks_running", "Batches that the worker has now", ("tasks_running",)),
    Metric("worker_tasks_total", "Batches that the worker has matched", ("tasks",)),
    Metric("worker_events_total", "Events that the worker has matched", ("events",)),
    Metric("worker_busy_seconds_total", "Processor time of the worker", ("busy_us",), MICROSECONDS),
)


def exposition(status: dict[str, Any]) -> str:
    """Return a status as the text exposition format has it, version 0.0.4, a final newline included."""
    lines: list[str] = []
    for metric in METRICS:
        lines += _family(metric, [("", status)])
    workers = [
        (f'{{worker="{one["worker"]}",shard="{one["shard"]}",replica="{one["replica"]}"}}', one)
        for one in status.get("workers", ())
    ]
    for metric in WORKER_METRICS:
        lines += _family(metric, workers)
    memory = status.get("memory")
    if isinstance(memory, dict):
        own = Metric("memory_bytes", "Bytes of memory that a process shares with none", ("own",))
        places = [(f'{{process="{name}"}}', {"own": size_bytes}) for name, size_bytes in memory.items()]
        lines += _family(own, places)
    segments = status.get("segments")
    if isinstance(segments, dict):
        shared = Metric("shared_memory_bytes", "Bytes of all shared memory segments", ("all",))
        lines += _family(shared, [("", {"all": sum(segments.values())})])
    return "\n".join(lines) + "\n"


def _family(metric: Metric, places: list[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    samples = [(labels, _value(place, metric)) for labels, place in places]
    samples = [(labels, value) for labels, value in samples if value is not None]
    if samples:
        name = f"{PREFIX}_{metric.name}"
        yield f"# HELP {name} {metric.text}."
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        yield from (f"{name}{labels} {value}" for labels, value in samples)


def _value(place: Any, metric: Metric) -> int | float | None:
    for name in metric.path:
        place = place.get(name) if isinstance(place, dict) else None
    if not isinstance(place, int | float):
        return None
    return int(place) if metric.scale == 1.0 and not isinstance(place, float) else place / metric.scale
