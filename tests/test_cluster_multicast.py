"""Groups in a real cluster: formed of listeners, used, set by an operator; each hears what it should."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from clusters import wait_until

from pubsub_cluster import Client, Cluster
from pubsub_cluster.client import Listener

pytestmark = pytest.mark.cluster
OWNERS, SIDE = 12, 16
EVENTS = SIDE * SIDE
TIMEOUT_S = 120.0


def wants(owner: int, x: int) -> bool:
    """Owners of equal remainder by 3 want the same: a third of all events."""
    return x // 5 == owner % 3


class Press:
    """A publisher, with listeners of all owners in another client."""

    def __init__(self, cluster: Cluster, press: Client, ears: Client) -> None:
        self.cluster, self.press = cluster, press
        self.listeners = [ears.listen(f"o{owner}", timeout_s=TIMEOUT_S) for owner in range(OWNERS)]

    def multicast(self) -> dict[str, Any]:
        found: dict[str, Any] = self.press.status()["multicast"]
        return found

    def publish(self) -> None:
        """Publish an event for each point, and see that each listener hears what it wants, in order."""
        x = np.random.default_rng(7).permutation(np.arange(EVENTS)) % SIDE
        self.press.publish({"x": x, "other": np.arange(EVENTS)})
        for owner, listener in enumerate(self.listeners):
            expected = [at for at in range(EVENTS) if wants(owner, x[at])]
            heard = [next(listener) for _ in expected]
            assert [one.event_index for one in heard] == expected
            assert all(one.dropped == 0 and one.ids == (f"s{owner}",) for one in heard)

    def wait_for_groups(self, count: int) -> None:
        """Let listeners answer invitations until so many groups are in use."""

        def are_there() -> bool:
            hear_nothing(self.listeners[0])
            found = self.multicast()
            return found["groups"] == count and found["joined"] == OWNERS

        wait_until(are_there, f"{count} groups")


def hear_nothing(listener: Listener) -> None:
    listener.timeout_s = 0.05
    assert next(listener, None) is None
    listener.timeout_s = TIMEOUT_S


@pytest.fixture(scope="module")
def press() -> Iterator[Press]:
    with Cluster(pin=False) as cluster, cluster.client() as client, Client(cluster.data_dir) as ears:
        for owner in range(OWNERS):
            low = 5 * (owner % 3)
            client.subscribe(f"x > {low - 1} AND x <= {low + 4}", owner=f"o{owner}", id=f"s{owner}")
        client.tune_set("multicast_threshold", 0.5)
        yield Press(cluster, client, ears)


def test_events_go_to_those_who_want_the_same(press: Press) -> None:
    press.publish()  # by unicast; the tuner has seen events now
    press.wait_for_groups(3)
    before = press.multicast()
    press.publish()
    after = press.multicast()
    wanted = sum(wants(0, at % SIDE) + wants(1, at % SIDE) + wants(2, at % SIDE) for at in range(EVENTS))
    assert after["records"] - before["records"] == wanted, "one for each event that anybody wants"
    assert after["unicasts"] == before["unicasts"] and after["wasted_receipts"] == 0
    assert after["receipts"] - before["receipts"] == wanted * OWNERS // 3
    assert after["forming"]["groups"] == 3 and "x" in after["forming"]["grid"]
    delivery = press.press.tune_show()["delivery"]
    assert delivery["threshold"] == 0.5 and delivery["wasted_ns"] > 0.0


def test_an_operator_changes_groups_while_everybody_listens(press: Press) -> None:
    press.press.tune_set("multicast_groups", 1)
    press.wait_for_groups(1)
    before = press.multicast()
    press.publish()
    after = press.multicast()
    assert after["unicasts"] - before["unicasts"] > 0, "a third is less than half of the one group"
    press.press.tune_set("multicast_groups", 0)
    press.wait_for_groups(0)
    press.publish()
    assert press.multicast()["records"] == after["records"]
    press.press.tune_set("multicast_groups", None)
    press.wait_for_groups(3)
    press.publish()
    assert press.multicast()["records"] > after["records"]


def test_another_tuner_forms_groups_too(press: Press) -> None:
    pid = press.press.status()["tuner"]["pid"]
    os.kill(pid, signal.SIGKILL)

    def is_back() -> bool:
        tuner = press.press.status()["tuner"]
        return bool(tuner["ready"]) and tuner["pid"] != pid

    wait_until(is_back, "another tuner")
    press.publish()
    press.press.tune_set("multicast_groups", 2)
    press.wait_for_groups(2)
    press.publish()
    assert {"measured", "unicast_ns"} <= press.press.tune_show()["delivery"].keys()
