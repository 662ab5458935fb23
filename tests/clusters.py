"""Support for tests of live clusters: adapters to the vector runner, waits with bounds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pubsub_cluster import Client, Cluster, Engine
from pubsub_cluster.language.errors import PubSubError

WAIT_S_MAX = 120.0


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S_MAX) -> None:
    """Wait for a condition, fail with `what` when it does not come true in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.01)


def next_generation(client: Client) -> int:
    """Ask for a new generation and wait until it is in force; return its number."""
    before = client.status()["generation"]
    client.tune_now()
    wait_until(lambda: client.status()["generation"] > before, "a new generation")
    return int(client.status()["generation"])


@contextmanager
def stopped(cluster: Cluster) -> Iterator[int]:
    """Stop the only worker; give its pid. It goes on afterwards, unless it was killed."""
    with cluster.client() as client:
        wait_until(lambda: bool(client.status()["workers"][0]["ready"]), "the worker is ready")
        pid = int(client.status()["workers"][0]["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class ClusterAdapter:
    """A live cluster as the vector runner's `Matcher`; ids are kept apart by a prefix.

    Parameters
    ----------
    client : Client
    prefix : str
        Of every id; `clean` removes what is left.
    swap_every : int
        A new generation is published before every so many-th batch; 0: never.
    """

    def __init__(self, client: Client, prefix: str, swap_every: int = 0) -> None:
        self._client = client
        self._prefix = prefix
        self._swap_every = swap_every
        self._batches = 0
        self._live: set[str] = set()

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._client.subscribe(
            expr, id=self._prefix + subscription_id, valid_from=valid_from, valid_until=valid_until
        )
        self._live.add(subscription_id)

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        window = {"valid_from": valid_from, "valid_until": valid_until}
        given = {name: value for name, value in window.items() if value is not None}
        self._client.update(self._prefix + subscription_id, expr, **given)

    def unsubscribe(self, subscription_id: str) -> None:
        self._client.unsubscribe(self._prefix + subscription_id)
        self._live.discard(subscription_id)

    def publish(self, events: Sequence[Any], at: int | None) -> list[list[str] | PubSubError]:
        self._batches += 1
        if self._swap_every and self._batches % self._swap_every == 0:
            next_generation(self._client)
        matches = self._client.publish(list(events), at=at, ids=True)
        return _results(matches, self._prefix)

    def clean(self) -> None:
        """Remove what the vector left."""
        for subscription_id in self._live:
            self._client.unsubscribe(self._prefix + subscription_id)


class EngineAdapter:
    """The engine of this process as the vector runner's `Matcher`; rebuilds before every other batch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._batches = 0

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._engine.subscribe(expr, id=subscription_id, valid_from=valid_from, valid_until=valid_until)

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        window = {"valid_from": valid_from, "valid_until": valid_until}
        self._engine.update(
            subscription_id, expr, **{name: value for name, value in window.items() if value is not None}
        )

    def unsubscribe(self, subscription_id: str) -> None:
        self._engine.unsubscribe(subscription_id)

    def publish(self, events: Sequence[Any], at: int | None) -> list[list[str] | PubSubError]:
        self._batches += 1
        if self._batches % 2 == 0:
            self._engine.rebuild()
        return _results(self._engine.publish(list(events), at=at, ids=True), "")


def _results(matches: Any, prefix: str) -> list[list[str] | PubSubError]:
    found: list[list[str] | PubSubError] = []
    for event_idx in range(len(matches)):
        if event_idx in matches.refused:
            found.append(matches.refused[event_idx])
            continue
        ids = matches.ids_of(event_idx)
        assert all(subscription_id.startswith(prefix) for subscription_id in ids), (
            "another test's subscription"
        )
        found.append([subscription_id.removeprefix(prefix) for subscription_id in ids])
    return found
