"""Delivery of STOCK in a real cluster: processes listen for all receivers, groups are formed, events go out.

What was sent and received comes from the cluster's own counters; that every listener was told exactly what
brute force says, from the processes that listen.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.cluster_level import expressions
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.client import Client, Notification
from pubsub_cluster.cluster import Cluster
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.shm.code_space import I8
from pubsub_cluster.tuner.statistics import SAMPLE_EVENTS_MAX

PROCESSES = 2
LOADED_TOGETHER = 5_000
SAMPLED_TOGETHER = 128
BATCH_EVENTS = 10
"""Published together, when all have had those before: nothing is dropped for want of room."""
WAIT_S_MAX = 120.0
POLL_S, WAITING_S = 0.05, 0.005
SETTLED_S = 4.0
"""Groups that are in use for so long are those that stay, while nothing changes."""


class Delivered(NamedTuple):
    """What some events came to.

    Attributes
    ----------
    notifications : int
        Told to owners, by brute force and by the listeners' own count.
    unicasts, records, receipts, wasted : int
        As the cluster counts them.
    threshold : float
        Share of a large group from which on a record was sent.
    groups : int
    grid : dict of str to int
        Cells of each attribute.
    """

    notifications: int
    unicasts: int
    records: int
    receipts: int
    wasted: int
    threshold: float
    groups: int
    grid: dict[str, int]

    @property
    def messages_share(self) -> float:
        """Messages sent, as a share of unicast's."""
        return (self.unicasts + self.records) / self.notifications

    @property
    def wasted_share(self) -> float:
        """Receipts in vain, as a share of all."""
        return self.wasted / (self.unicasts + self.receipts)


class Part(NamedTuple):
    """What one process listens for."""

    data_dir: str
    owners: list[str]


def receive(part: Part, pipe: Connection) -> None:
    """Listen, and tell the number of notifications so far whenever the pipe asks, until it closes."""
    counts = [0, 0]

    def take(notification: Notification) -> None:
        counts[0] += 1
        counts[1] += notification.dropped

    with contextlib.suppress(EOFError, OSError), Client(part.data_dir, timeout_s=WAIT_S_MAX) as client:
        for owner in part.owners:
            client.listen(owner, on_notification=take)
        pipe.send("listening")
        while True:
            client.receive(POLL_S)
            if pipe.poll():
                pipe.recv()
                pipe.send(tuple(counts))


class Listening:
    """Processes that listen for all owners."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def counts(self) -> tuple[int, int]:
        """Return how many notifications they have had, and how many they were told are lost."""
        for pipe in self._pipes:
            pipe.send(True)
        told = [_answer(pipe) for pipe in self._pipes]
        return sum(one[0] for one in told), sum(one[1] for one in told)

    def wait_for(self, count: int) -> None:
        """Wait until they have had so many notifications, all of them and each once."""
        end_s = time.monotonic() + WAIT_S_MAX
        while (found := self.counts())[0] < count:
            if time.monotonic() > end_s:
                raise TimeoutError(f"{found[0]} notifications instead of {count}, {found[1]} told as lost")
            time.sleep(WAITING_S)
        if found[0] > count:
            raise AssertionError(f"{found[0]} notifications instead of {count}")


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(WAIT_S_MAX):
        raise TimeoutError("a process that listens does not answer")
    return pipe.recv()


@contextlib.contextmanager
def listening(data_dir: str, owners: Sequence[str]) -> Iterator[Listening]:
    """Listen for owners, spread over `PROCESSES`."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for number in range(PROCESSES):
            mine, theirs = context.Pipe()
            part = Part(data_dir, list(owners[number::PROCESSES]))
            process = context.Process(target=receive, args=(part, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        for pipe in pipes:
            _answer(pipe)
        yield Listening(pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in processes:
            process.join(10.0)
            if process.is_alive():
                process.kill()
                process.join()


def load(client: Client, stock: Stock, names: Sequence[str]) -> None:
    """Make all subscriptions, each for its receiver."""
    rules, receivers = stock.rules(), stock.receiver_of()
    for first in range(0, stock.subscriptions, LOADED_TOGETHER):
        stop = min(first + LOADED_TOGETHER, stock.subscriptions)
        items = [
            {**item, "owner": names[receiver]}
            for item, receiver in zip(
                expressions(rules, first, stop), receivers[first:stop].tolist(), strict=True
            )
        ]
        for made in client.subscribe_many(items):
            if isinstance(made, PubSubError):
                raise made


def deliver(stock: Stock, names: Sequence[str], interested: I8) -> Delivered:
    """Publish events after the sampled ones to a cluster whose listeners are in groups.

    Parameters
    ----------
    stock : Stock
    names : sequence of str
        Owners, by receiver.
    interested : int64[events]
        How many are to be told of each event.
    """
    expected = np.cumsum(interested)
    with (
        Cluster(pin=False, retune_interval_s=3_600.0) as cluster,
        cluster.client(timeout_s=WAIT_S_MAX) as client,
    ):
        load(client, stock, names)
        owners = [names[receiver] for receiver in np.unique(stock.receiver_of()).tolist()]
        _publish_until_sampled(client, stock)
        _have_layout_built(client)
        with listening(str(cluster.data_dir), owners) as heard:
            forming = _wait_for_groups(client, len(owners))
            before = client.status()["multicast"]
            for first in range(0, len(interested), BATCH_EVENTS):
                last = min(first + BATCH_EVENTS, len(interested))
                _publish(client, stock, SAMPLE_EVENTS_MAX + first, last - first, BATCH_EVENTS)
                heard.wait_for(int(expected[last - 1]))
            after = client.status()["multicast"]
            spent = {name: after[name] - before[name] for name in before if isinstance(before[name], int)}
            if after["generation"] != before["generation"]:
                raise AssertionError(f"groups have changed meanwhile: {before}, {after}")
            return Delivered(
                int(expected[-1]),
                spent["unicasts"],
                spent["records"],
                spent["receipts"],
                spent["wasted_receipts"],
                float(client.tune_show()["delivery"]["threshold"]),
                int(forming["groups"]),
                dict(forming["grid"]),
            )


def _publish(client: Client, stock: Stock, first: int, count: int, together: int) -> None:
    drawn = stock.events(count, first)
    for start in range(0, count, together):
        client.publish(drawn.slice(start, min(start + together, count)).columns(), answer="none")


def _publish_until_sampled(client: Client, stock: Stock) -> None:
    """Let the tuner see the first events until its sample is full; nobody listens yet."""
    end_s, first = time.monotonic() + WAIT_S_MAX, 0
    while client.status()["tuner"]["sampled_events"] <= SAMPLE_EVENTS_MAX - SAMPLED_TOGETHER:
        if time.monotonic() > end_s:
            raise TimeoutError("the tuner does not sample events")
        _publish(client, stock, first, SAMPLED_TOGETHER, SAMPLED_TOGETHER)
        first = (first + SAMPLED_TOGETHER) % SAMPLE_EVENTS_MAX
        time.sleep(POLL_S)


def _have_layout_built(client: Client) -> None:
    """Have all subscriptions in the layout."""
    before = int(client.tune_now()["generation"])
    end_s = time.monotonic() + WAIT_S_MAX
    while int(client.status()["generation"]) == before or client.status()["tuner"]["building"] is not None:
        if time.monotonic() > end_s:
            raise TimeoutError("no layout is built")
        time.sleep(POLL_S)


def _wait_for_groups(client: Client, owners: int) -> dict[str, Any]:
    """Wait until groups of all owners are in use and stay so."""
    end_s = time.monotonic() + WAIT_S_MAX
    since_s, generation = time.monotonic(), -1
    while time.monotonic() < end_s:
        found = client.status()["multicast"]
        is_whole = found["joined"] == owners and found["groups"] == found["forming"].get("groups")
        if not is_whole or found["generation"] != generation or found["forming"]["under_way"]:
            since_s, generation = time.monotonic(), found["generation"]
        elif time.monotonic() - since_s > SETTLED_S:
            forming: dict[str, Any] = found["forming"]
            return forming
        time.sleep(0.1)
    raise TimeoutError(f"no groups after {WAIT_S_MAX} s: {client.status()['multicast']}")
