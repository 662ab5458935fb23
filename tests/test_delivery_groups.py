"""When groups are formed, and which group an event has, with the tuner's part done in this process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matching_cases import raw_batch
from owned_catalogue import owned_catalogue

from pubsub_cluster.coordinator.delivery.groups import (
    AGAIN_S,
    FAILURE_PAUSE_S,
    LAYOUT_S,
    LOOK_S,
    SETTLE_S,
    SETTLE_S_MAX,
    GroupDesk,
    Situation,
)
from pubsub_cluster.coordinator.delivery.listeners import Listeners
from pubsub_cluster.coordinator.delivery.membership import EVERYBODY, INVITE_AFTER_S, UNICAST, Membership
from pubsub_cluster.language.batch import payload_from_columns, payload_from_dicts
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.owner import SegmentName, current_owner, list_segments, unlink_segment
from pubsub_cluster.tuner.group_builder import form_group_map
from pubsub_cluster.tuner.messages import FormGroups, GroupsFailed, GroupsFormed

CLUSTER = uuid.uuid4().hex[:8]  # other processes run these tests too
SIDE = 16
EVENTS: list[dict[str, Any]] = [{"x": number % SIDE, "y": number // SIDE} for number in range(SIDE**2)]
QUARTERS = [f"x > {4 * quarter - 1} AND x <= {4 * quarter + 3}" for quarter in range(4)]


class Cluster:
    """A desk with what is around it, and a clock."""

    def __init__(self) -> None:
        self.owner = current_owner(CLUSTER)
        self.listeners, self.membership = Listeners(), Membership()
        self.desk = GroupDesk(self.owner, self.listeners, self.membership, EMPTY_SCHEMA, DEFAULT_LIMITS)
        # Numbers are given in the order of listening, catalogue owners in the order of subscribing.
        self.catalogue = owned_catalogue([(f"o{at}", QUARTERS[at % 4]) for at in reversed(range(8))])
        self.layout, self.sampled_events = 1, len(EVENTS)
        self.now_s = 1_000.0

    def listen(self, *names: str) -> None:
        """Let a connection for each of these listen, and join."""
        for name in names:
            number = self.listeners.add(name.encode(), name).number
            self.membership.listens(name.encode(), number, self.now_s)
        self.join(INVITE_AFTER_S)

    def leave(self, *names: str) -> None:
        for name in names:
            everybody = self.membership.members(EVERYBODY).tolist()
            number = next(one for one in everybody if self.listeners.heard(one).owner == name)
            self.listeners.remove(name.encode(), name)
            self.membership.leaves(name.encode(), number)

    def join(self, pause_s: float = 0.0) -> None:
        """Let everybody answer invitations, and time pass."""
        self.now_s += pause_s
        for invitation in (*self.membership.tick(self.now_s), *self.desk.offer(self.now_s)):
            self.membership.token_seen(invitation.token)
        self.membership.tick(self.now_s)

    def wanted(self, pause_s: float = LOOK_S) -> FormGroups | None:
        self.now_s += pause_s
        situation = Situation(self.catalogue, 0, self.layout, self.sampled_events)
        return self.desk.wanted(situation, self.now_s)

    def settle(self) -> FormGroups | None:
        assert self.wanted() is None
        return self.wanted(SETTLE_S)

    def form(self, request: FormGroups | None) -> None:
        """Do what the tuner does, and let the groups take over."""
        assert request is not None
        rows: list[dict[str, Any]] = [{name: (value,) for name, value in one.items()} for one in EVENTS]
        reader = CatalogueReader.of(self.catalogue)
        made = form_group_map(reader, request, raw_batch(rows), self.owner)
        self.desk.formed(GroupsFormed(request.number, *made), self.now_s)
        self.join()

    def groups(self) -> list[set[str]]:
        """Return the names of the members of each event's group; nobody where it goes by unicast."""
        payload = payload_from_dicts(EVENTS)
        picked = list(range(len(EVENTS)))
        found = self.desk.of_events(payload.header, payload.buffers, picked)
        members: dict[int, set[str]] = {UNICAST: set()}
        for group in self.membership.current.members:
            numbers = self.membership.members(group).tolist()
            members[group] = {self.listeners.heard(number).owner for number in numbers}
        return [members[group] for group in found.tolist()]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield Cluster()
    left = list_segments(CLUSTER)
    for name in left:
        unlink_segment(name)
    assert left == []


def interested(event: dict[str, Any], names: list[str]) -> set[str]:
    return {name for name in names if int(name[1:]) % 4 == event["x"] // 4}


def test_events_have_the_groups_of_those_who_listen(cluster: Cluster) -> None:
    names = ["o1", "o5", "o2", "o6", "stranger"]
    cluster.listen(*names)
    assert cluster.groups() == [set()] * len(EVENTS), "there are none yet"
    request = cluster.settle()
    assert request is not None and request.owners == [6, 2, 5, 1], "o7 has subscribed first"
    cluster.form(request)
    assert cluster.groups() == [interested(event, names[:4]) for event in EVENTS]
    assert cluster.desk.status()["groups"] == len(cluster.membership.current.members) == 2


def test_some_events_of_a_publication_in_columns(cluster: Cluster) -> None:
    cluster.listen("o1", "o2")
    cluster.form(cluster.settle())
    columns = {name: np.array([event[name] for event in EVENTS]) for name in "yx"}
    payload = payload_from_columns(columns)
    picked = [0, 5, 9, 20]
    found = cluster.desk.of_events(payload.header, payload.buffers, picked)
    assert found.dtype == np.int32
    by_quarter = dict(zip([EVENTS[event]["x"] // 4 for event in picked], found.tolist(), strict=False))
    assert by_quarter[0] == UNICAST and sorted([by_quarter[1], by_quarter[2]]) == [1, 2]


def test_groups_wait_for_the_last_listener_but_not_for_ever(cluster: Cluster) -> None:
    cluster.listen("o1")
    assert cluster.wanted(60.0) is None, "one is no group"
    begun_s = cluster.now_s
    asked = None
    while asked is None and cluster.now_s < begun_s + 2 * SETTLE_S_MAX:
        cluster.listen(f"more{cluster.now_s}", f"and{cluster.now_s}")
        asked = cluster.wanted(SETTLE_S / 2)
    assert asked is not None and cluster.now_s >= begun_s + SETTLE_S_MAX


def test_groups_are_formed_again_when_much_has_changed(cluster: Cluster) -> None:
    cluster.listen(*[f"o{at}" for at in range(8)], *[f"more{at}" for at in range(12)])
    cluster.form(cluster.settle())
    assert cluster.wanted(AGAIN_S) is None, "nothing has changed"
    cluster.leave("more0")
    cluster.listen("other")
    assert cluster.settle() is None, "a tenth of twenty is not more than a tenth"
    cluster.leave("more1")
    cluster.form(cluster.settle())
    cluster.layout += 1
    assert cluster.wanted(AGAIN_S) is None, "not so soon"
    cluster.form(cluster.wanted(LAYOUT_S - AGAIN_S))
    cluster.sampled_events *= 2
    request = cluster.wanted(AGAIN_S)
    assert request is not None
    assert cluster.wanted(AGAIN_S) is None, "one at a time"


def test_an_operator_has_another_number_of_groups_or_none(cluster: Cluster) -> None:
    names = [f"o{at}" for at in range(4)]
    cluster.listen(*names)
    cluster.form(cluster.settle())
    cluster.desk.group_count = 1
    request = cluster.wanted()
    assert request is not None and request.group_count == 1
    cluster.form(request)
    assert len(cluster.membership.current.members) == 1
    cluster.desk.group_count = 0
    assert cluster.wanted() is None
    cluster.join()
    assert cluster.membership.current.members == {} and cluster.groups() == [set()] * len(EVENTS)
    assert cluster.wanted(60.0) is None
    cluster.desk.group_count = 5
    cluster.form(cluster.wanted())
    assert cluster.groups() == [interested(event, names) for event in EVENTS]


def test_groups_that_failed_are_tried_again_and_the_old_ones_stay(cluster: Cluster) -> None:
    cluster.listen("o1", "o2")
    cluster.form(cluster.settle())
    before = cluster.groups()
    cluster.layout += 1
    request = cluster.wanted(LAYOUT_S)
    assert request is not None
    cluster.desk.failed(GroupsFailed(request.number, {"error": "no room"}), cluster.now_s)
    assert cluster.groups() == before and cluster.desk.status()["error"] == {"error": "no room"}
    assert cluster.wanted(FAILURE_PAUSE_S / 2) is None
    cluster.form(cluster.wanted(FAILURE_PAUSE_S / 2))
    assert "error" not in cluster.desk.status()


def test_what_a_dead_tuner_leaves_is_removed(cluster: Cluster) -> None:
    cluster.listen("o1", "o2")
    request = cluster.settle()
    assert request is not None and cluster.desk.asked_at_s == cluster.now_s
    rows: list[dict[str, Any]] = [{name: (value,) for name, value in one.items()} for one in EVENTS]
    reader = CatalogueReader.of(cluster.catalogue)
    name, summary = form_group_map(reader, request, raw_batch(rows), cluster.owner)
    assert name == str(SegmentName(cluster.owner, "group_map", request.number))
    cluster.desk.died(cluster.now_s)
    assert list_segments(CLUSTER) == [] and cluster.desk.asked_at_s is None
    cluster.desk.formed(GroupsFormed(request.number, name, summary), cluster.now_s)
    assert cluster.membership.offered is None, "it was not asked for any more"


def test_where_there_is_nothing_to_form_groups_of(cluster: Cluster) -> None:
    cluster.listen("stranger", "another")
    request = cluster.settle()
    assert request is not None and request.owners == []
    cluster.form(request)
    assert cluster.membership.current.number == 0 and cluster.membership.offered is None
