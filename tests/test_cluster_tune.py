"""What operators set while a cluster works."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from clusters import next_generation, wait_until

from pubsub_cluster import Client, Cluster, Subscription
from pubsub_cluster.language.errors import LimitError, ProtocolError

pytestmark = pytest.mark.cluster
DEFAULTS = {
    "bm_max": "auto",
    "b_min": "auto",
    "rp_min": "auto",
    "multicast_threshold": "auto",
    "multicast_groups": 100,
    "tree": "auto",
    "frozen": False,
    "set": [],
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Cluster(retune_interval_s=5.0, self_check_rows=7) as cluster, cluster.client() as found:
        yield found


def test_settings_change_and_are_told(client: Client) -> None:
    expected = {**DEFAULTS, "retune_interval_s": 5.0, "self_check_rows": 7}
    assert client.tune_show()["settings"] == expected
    assert client.tune_set("bm_max", 5000) == {**expected, "bm_max": 5000.0, "set": ["bm_max"]}
    assert client.tune_set("self_check_rows", 0)["self_check_rows"] == 0
    assert client.status()["self_check"]["rows_per_event"] == 0
    assert client.tune_set("retune_interval_s", 2)["retune_interval_s"] == 2.0
    assert client.tune_freeze()["frozen"] is True
    pid = client.status()["tuner"]["pid"]
    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        tuner = client.status()["tuner"]
        return bool(tuner["ready"]) and tuner["pid"] != pid

    wait_until(is_back, "another tuner")
    assert client.tune_show()["settings"]["bm_max"] == 5000.0
    next_generation(client)  # the new process has been told, and can still build
    assert client.tune_freeze(False)["frozen"] is False
    assert client.tune_set("bm_max", None)["bm_max"] == "auto"


def test_a_generation_takes_over_what_stays(client: Client) -> None:
    """And says how much of it; where something is gone, being asked for it numbers everything anew."""
    rules = {f"over-{number}": f"taken = {number} and over = {number % 7}" for number in range(300)}
    client.subscribe_many([{"id": name, "expr": rule} for name, rule in rules.items()])
    client.publish([{"taken": 3, "over": 3}])
    next_generation(client)
    next_generation(client)  # the first one may have found another sample of events
    client.subscribe("taken = 6 and over = 6", id="over-new")
    next_generation(client)
    assert 0.9 < client.tune_show()["layout"]["taken_over"] < 1.0
    events = [{"taken": 5, "over": 5}, {"taken": 6, "over": 6}]

    def answers() -> list[list[str]]:
        matches = client.publish(events, ids=True)
        return [sorted(matches.ids_of(event_idx)) for event_idx in range(len(events))]

    assert answers() == [["over-5"], ["over-6", "over-new"]]
    client.unsubscribe("over-5")
    next_generation(client)
    assert client.tune_show()["layout"]["taken_over"] == 0.0
    assert answers() == [[], ["over-6", "over-new"]]


def test_what_cannot_be_set_changes_nothing(client: Client) -> None:
    before = client.tune_show()["settings"]
    for name, value in (
        ("bm_min", 1),
        (None, 1),
        ("bm_max", "5"),
        ("bm_max", True),
    ):
        with pytest.raises(ProtocolError):
            client.tune_set(name, value)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="whole"):
        client.tune_set("self_check_rows", 1.5)
    for name in ("bm_max", "retune_interval_s", "self_check_rows"):
        with pytest.raises(LimitError):
            client.tune_set(name, -1)
    with pytest.raises(LimitError, match="too large"):  # the tuner would have no time for anything else
        client.tune_set("self_check_rows", 1_000_000)
    client.tune_set("rp_min", 10)
    with pytest.raises(LimitError, match="above `rp_min`"):
        client.tune_set("b_min", 11)
    client.tune_set("rp_min", None)
    assert client.tune_show()["settings"] == before


def test_a_forced_tree_answers_as_tables_do(client: Client) -> None:
    boxes = [((n % 40, n % 40 + 5), (n // 40, n // 40 + 3)) for n in range(400)]
    made = client.subscribe_many(
        {"id": f"box{n}", "expr": f"x between {x[0]} and {x[1]} and y between {y[0]} and {y[1]}"}
        for n, (x, y) in enumerate(boxes)
    )
    handles = [one.handle for one in made if isinstance(one, Subscription)]
    events: list[dict[str, Any]] = [{"x": at, "y": at / 4} for at in range(-1, 50, 3)]
    events += [{"x": 7}, {"x": [1, 30], "y": 2}]
    expected = [
        [
            handle
            for handle, (x, y) in zip(handles, boxes, strict=True)
            if "y" in event
            and any(x[0] <= value <= x[1] for value in np.atleast_1d(event["x"]))
            and y[0] <= event["y"] <= y[1]
        ]
        for event in events
    ]
    assert len(handles) == len(boxes) and sum(map(len, expected)) > 100
    for setting in (1, 0):
        client.tune_set("tree", setting)
        next_generation(client)
        layout = client.tune_show()["layout"]
        assert layout["tree_choice"]["is_used"] == bool(setting) == ("tree" in layout)
        assert [found.tolist() for found in client.publish(events)] == expected
    client.tune_set("tree", None)
