"""Publish the flights, keep the answers, and let the tuner work meanwhile.

The stream has four parts. At the start of the first three the tuner is asked for a new generation, and the
stream goes on at full speed while it is built. A part that is through before its generation keeps some
batches back for it: they go out slowly, so that flights are on their way when the layouts are swapped, and
the time in which nothing is on its way is not counted as publishing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo.flights import Flights
from pubsub_cluster.language.errors import ClusterError

if TYPE_CHECKING:
    from pubsub_cluster.client import Client, Matches

EVENTS_PER_BATCH = 2_000
BATCHES_IN_FLIGHT = 4
GENERATIONS_WANTED = 3
PARTS = GENERATIONS_WANTED + 1
"""The last part asks for no generation: it shows the stream after the swaps."""
KEPT_BACK_BATCHES = 12
SLOW_S = 0.25
"""How long a batch that was kept back waits for the generation before it goes out without it."""
GENERATION_WAIT_S_MAX = 90.0
ASK_AGAIN_S = 2.0
POLL_S = 0.05


@dataclass(slots=True)
class StreamRecord:
    """What came back, batch by batch.

    Attributes
    ----------
    answered_s : list of float
        When each batch was answered, in seconds of publishing time.
    event_counts, match_counts, generations : list of int
        One entry per batch.
    offsets : list of int64[events + 1]
        Within the batch's handles.
    handles : list of uint64[matches]
    first_generation : int
        The one in force before the stream.
    """

    first_generation: int
    answered_s: list[float] = field(default_factory=list)
    event_counts: list[int] = field(default_factory=list)
    match_counts: list[int] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)
    offsets: list[NDArray[np.int64]] = field(default_factory=list)
    handles: list[NDArray[np.uint64]] = field(default_factory=list)

    def add(self, matches: Matches, now_s: float) -> None:
        """Take one batch's answer.

        Raises
        ------
        ClusterError
            An event was refused: every flight is a good event, so this is a fault of ours.
        """
        if matches.refused or matches.offsets is None or matches.handles is None:
            first = next(iter(matches.refused.items()), None)
            raise ClusterError("the cluster refused a flight", seen=str(first), remedy="Please report this.")
        self.answered_s.append(now_s)
        self.event_counts.append(matches.event_count)
        self.match_counts.append(matches.match_count)
        self.generations.append(matches.generation)
        self.offsets.append(matches.offsets)
        self.handles.append(matches.handles)

    @property
    def event_count(self) -> int:
        """Events answered so far."""
        return sum(self.event_counts)

    @property
    def match_count(self) -> int:
        """(flight, alert) pairs so far."""
        return sum(self.match_counts)

    @property
    def seconds(self) -> float:
        """Publishing time up to the last answer."""
        return self.answered_s[-1] if self.answered_s else 0.0

    @property
    def events_per_second(self) -> float:
        """Events by publishing time."""
        return self.event_count / self.seconds if self.seconds > 0 else 0.0

    @property
    def swaps(self) -> list[tuple[float, int]]:
        """When a new generation first answered a batch, and its number."""
        before = [self.first_generation, *self.generations]
        return [
            (at_s, after)
            for at_s, after, earlier in zip(self.answered_s, self.generations, before, strict=False)
            if after != earlier
        ]

    @property
    def generation_count(self) -> int:
        """Generations that were published during the stream."""
        return self.generations[-1] - self.first_generation if self.generations else 0

    def all_handles(self) -> NDArray[np.uint64]:
        """Return the handles of all batches, event by event."""
        return np.concatenate(self.handles) if self.handles else np.zeros(0, dtype=np.uint64)

    def all_offsets(self) -> NDArray[np.int64]:
        """Return where each event's handles start in `all_handles`."""
        counts = [np.diff(offsets) for offsets in self.offsets]
        flat = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
        return np.concatenate(([0], np.cumsum(flat)))


class _Clock:
    """Publishing time: stands still while the stream is held back."""

    def __init__(self) -> None:
        self._held_s = 0.0
        self._started_s = time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._started_s - self._held_s

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._held_s += time.perf_counter() - begin


def publish_flights(
    client: Client, control: Client, flights: Flights, on_batch: Callable[[StreamRecord], None]
) -> StreamRecord:
    """Publish all flights in their order.

    Parameters
    ----------
    client, control : Client
        Two connections: one for the stream, one for the tuner.
    flights : Flights
    on_batch : callable
        Hears of the record after each answer.
    """
    record = StreamRecord(first_generation=int(control.status()["generation"]))
    clock = _Clock()

    def run(some: Iterable[int]) -> None:
        for matches in client.publish_stream(_batches(flights, some), in_flight=BATCHES_IN_FLIGHT):
            record.add(matches, clock.now_s())
            on_batch(record)

    starts = list(range(0, len(flights), EVENTS_PER_BATCH))
    edges = [len(starts) * i // PARTS for i in range(PARTS + 1)]  # few batches: the first parts are empty
    for i in range(GENERATIONS_WANTED):
        control.tune_now()
        kept_back_from = max(edges[i], edges[i + 1] - KEPT_BACK_BATCHES)
        run(starts[edges[i] : kept_back_from])
        _run_slowly(
            run, starts[kept_back_from : edges[i + 1]], control, record.first_generation + 1 + i, clock
        )
    run(starts[edges[-2] :])
    return record


def _run_slowly(
    run: Callable[[list[int]], None], starts: list[int], control: Client, wanted: int, clock: _Clock
) -> None:
    """Run batches one by one until generation `wanted` is in force, then the rest."""
    while len(starts) > 1 and not _has_come(control, wanted, clock):
        run([starts.pop(0)])
    with clock.held():
        await_generation(control, wanted)
    run(starts)


def _has_come(control: Client, generation: int, clock: _Clock) -> bool:
    """Tell whether `generation` is in force, after `SLOW_S` at most."""
    until = time.monotonic() + SLOW_S
    with clock.held():
        while int(control.status()["generation"]) < generation:
            if time.monotonic() > until:
                return False
            time.sleep(POLL_S)
    return True


def await_generation(control: Client, generation: int) -> None:
    """Wait until `generation` is in force, asking for it as often as it takes.

    Raises
    ------
    ClusterError
        It did not come within `GENERATION_WAIT_S_MAX`.
    """
    until = time.monotonic() + GENERATION_WAIT_S_MAX
    ask_at = 0.0
    while int(control.status()["generation"]) < generation:
        now = time.monotonic()
        if now > until:
            raise ClusterError(
                "the tuner did not publish a generation in time",
                seen=control.status().get("tuner"),
                limit=f"{GENERATION_WAIT_S_MAX:.0f} s",
                remedy="Is the machine overloaded? `pubsub-cluster tune show` tells what the tuner does.",
            )
        if now >= ask_at and control.status().get("tuner", {}).get("building") is None:
            control.tune_now()
            ask_at = now + ASK_AGAIN_S
        time.sleep(POLL_S)


def _batches(flights: Flights, starts: Iterable[int]) -> Iterator[dict[str, Any]]:
    for start in starts:
        yield flights.batch(slice(start, start + EVENTS_PER_BATCH))
