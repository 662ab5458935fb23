"""Publish the flights, keep the answers, and let the tuner work meanwhile.

The stream is one pipelined `publish_stream`; at three moments the tuner is asked for a new generation, and
the stream goes on while it is built and swapped in. A short stream may end before three generations are
through: its last batches are then held back for them, one by one, and the time in which nothing is on its
way is not counted as publishing.
"""

from __future__ import annotations

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
TUNE_AT_SHARES = (0.20, 0.45, 0.70)
GENERATIONS_WANTED = len(TUNE_AT_SHARES)
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

    def hold(self, wait: Callable[[], None]) -> None:
        begin = time.perf_counter()
        wait()
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
    starts = list(range(0, len(flights), EVENTS_PER_BATCH))
    held_back = min(GENERATIONS_WANTED, len(starts))
    marks = [int(len(starts) * share) for share in TUNE_AT_SHARES]
    clock = _Clock()

    def run(some: Iterable[int]) -> None:
        for matches in client.publish_stream(_batches(flights, some), in_flight=BATCHES_IN_FLIGHT):
            record.add(matches, clock.now_s())
            on_batch(record)
            if len(record.answered_s) in marks and record.generation_count <= marks.index(
                len(record.answered_s)
            ):
                control.tune_now()

    run(starts[: len(starts) - held_back])
    for i, start in enumerate(starts[len(starts) - held_back :], start=1):
        wanted = record.first_generation + GENERATIONS_WANTED - held_back + i
        if int(control.status()["generation"]) < wanted:
            clock.hold(lambda generation=wanted: await_generation(control, generation))  # type: ignore[misc]
        run([start])
    return record


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
