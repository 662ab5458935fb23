"""Epochs in a live cluster: rows of the dead are given back, and no answer ever tells."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import next_generation, wait_until

from pubsub_cluster import Client, Cluster
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.shm.owner import list_segments, parse_name

pytestmark = pytest.mark.cluster
TURNS, TUNER_DIES, WORKER_DIES = 90, 30, 60
MOVES, MOST_S = 3, 90.0  # epochs that must have been moved to: a quick machine takes more turns for them
PAUSE_S = 0.005  # of the watcher: answers are to be checked, not processors to be kept busy
EVENTS = [{"x": value, "name": f"n{value}"} for value in range(8)]
STEADY = {f"steady{value}": {value} for value in range(8)}


@pytest.fixture
def cluster(tmp_data_dir: Path) -> Iterator[Cluster]:
    with Cluster(tmp_data_dir, shards=2, limits=Limits(subscriptions_max=200)) as found:
        yield found


def expression(values: set[int]) -> str:
    """Return what holds for these values of x, in one of several forms."""
    numbers = ", ".join(map(str, sorted(values)))
    texts = ", ".join(f"'n{value}'" for value in sorted(values))
    return f"x in ({numbers}) and name in ({texts})"


def answers(client: Client, wanted: dict[str, set[int]]) -> None:
    """Check an answer against what every id is known to match."""
    found = client.publish(EVENTS, ids=True)
    for value in range(len(EVENTS)):
        expected = {name for name, values in wanted.items() if value in values}
        told = {name for name in found.ids_of(value) if not name.startswith("steady")}
        assert told == expected


def catalogues(client: Client) -> list[str]:
    parts = [parse_name(name) for name in list_segments(client.status()["cluster_id"])]
    return [str(part) for part in parts if part is not None and part.kind in ("catalogue", "moved")]


def moves(client: Client) -> int:
    return int(client.status()["epochs"]["moves"])


def turns_with_epochs(client: Client) -> Iterator[int]:
    """Count turns: so many at least, and on until there were epochs enough among them."""
    until_s = time.monotonic() + MOST_S
    for turn in itertools.count():
        if turn >= TURNS and (time.monotonic() > until_s or (turn % 10 == 0 and moves(client) >= MOVES)):
            return
        yield turn


def watch_steady(cluster: Cluster, stop: threading.Event, wrong: list[object]) -> None:
    """Publish all the time: what does not change must be in every answer."""
    with cluster.client() as client:
        while not stop.is_set():
            found = client.publish(EVENTS, ids=True)
            told = [
                {name for name in found.ids_of(i) if name.startswith("steady")} for i in range(len(EVENTS))
            ]
            if told != [{f"steady{i}"} for i in range(len(EVENTS))]:
                wrong.append(told)
            stop.wait(PAUSE_S)


def test_answers_do_not_tell_epochs_apart(cluster: Cluster) -> None:
    """Changes, epochs, a killed tuner and a killed worker at once; a dictionary knows every answer."""
    random_source = random.Random(1)
    stop, wrong = threading.Event(), []
    watcher = threading.Thread(target=watch_steady, args=(cluster, stop, wrong))
    with cluster.client() as client:
        for name, values in STEADY.items():
            client.subscribe(expression(values), id=name, owner=name)
        watcher.start()
        model: dict[str, set[int]] = {}
        try:
            for turn in turns_with_epochs(client):
                name, values = f"c{random_source.randrange(60)}", set(random_source.sample(range(8), 3))
                if name not in model:
                    client.subscribe(expression(values), id=name)
                    model[name] = values
                elif turn % 3:
                    client.unsubscribe(name)
                    del model[name]
                else:
                    client.update(name, expression(values))
                    model[name] = values
                if turn % 5 == 0:
                    client.tune_now()
                answers(client, model)
                if turn == TUNER_DIES:
                    os.kill(client.status()["tuner"]["pid"], signal.SIGKILL)
                elif turn == WORKER_DIES:
                    os.kill(client.status()["workers"][0]["pid"], signal.SIGKILL)
        finally:
            stop.set()
            watcher.join(130.0)
        assert not wrong
        answers(client, model)
        assert moves(client) >= MOVES, "hardly any epoch: this test would prove nothing"
        wait_until(lambda: bool(client.status()["tuner"]["ready"]), "the tuner is ready")
        client.unsubscribe_many(list(model))

        def is_clean() -> bool:
            next_generation(client)  # without an epoch for some seconds after the tuner was killed in one
            return bool(client.status()["rows"] == len(STEADY))

        wait_until(is_clean, "what is dead has gone")
        wait_until(lambda: len(catalogues(client)) == 1, "one catalogue is left")
        answers(client, {})


def test_rows_are_used_again_and_a_restart_finds_the_same(cluster: Cluster) -> None:
    """Far more subscriptions come and go than there may be at a time."""
    with cluster.client() as client:
        for turn in range(5):
            made = [{"id": f"a{turn}.{i}", "expr": f"x = {i % 8}", "owner": f"o{turn}"} for i in range(150)]
            client.subscribe_many(made)
            more = client.subscribe_many([{"id": f"b{i}", "expr": "x = 1"} for i in range(60)])
            refused = [one for one in more if isinstance(one, PubSubError)]
            assert len(refused) == 60 - (200 - 150 - 8 * turn)
            assert {error.fields["limit_name"] for error in refused} == {"subscriptions_max"}
            client.unsubscribe_many([f"b{i}" for i in range(60 - len(refused))])
            client.unsubscribe_many([item["id"] for item in made[8:]])
            answers(client, {f"a{old}.{i}": {i} for old in range(turn + 1) for i in range(8)})
            before = moves(client)
            client.tune_now()
            wait_until(lambda: moves(client) > before, "a new epoch")  # noqa: B023
            assert client.status()["rows"] == 8 * (turn + 1)
        wanted = {f"a{old}.{i}": {i} for old in range(5) for i in range(8)}
        answers(client, wanted)
        cluster.kill()
        cluster.start()
        answers(client, wanted)
        (described,) = client.describe_many(["a3.4"])
        assert not isinstance(described, PubSubError) and described["owner"] == "o3"
