"""Groups of owners: when the tuner is asked to form some, what becomes of them, and which one an event has.

Groups are formed of the owners whose listeners take records, and again when these have changed much, when a
new layout follows new subscriptions, when much more is known of events, or when an operator wants another
number of them. What the tuner makes is offered as the next generation of groups
(`coordinator.delivery.membership`), and its cells are looked up only when that has taken over: until then
events have the groups before.

A number that is given to another owner meanwhile makes that owner a member of groups that were not formed for
it: it gets records in vain, and misses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.coordinator.delivery.listeners import Listeners
from pubsub_cluster.coordinator.delivery.membership import (
    EVERYBODY,
    UNICAST,
    GroupGeneration,
    Invitation,
    Membership,
)
from pubsub_cluster.language.batch import Buffer, decode_some
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue import CatalogueWriter
from pubsub_cluster.shm.group_map import FAMILY, read_group_map
from pubsub_cluster.shm.owner import Owner, SegmentName, unlink_segment
from pubsub_cluster.tuner.grid import Grid
from pubsub_cluster.tuner.messages import FormGroups, GroupsFailed, GroupsFormed

GROUPS_DEFAULT = 100
OWNERS_MIN = 2
EVENTS_MIN = 64
LOOK_S = 0.5
SETTLE_S, SETTLE_S_MAX = 1.0, 10.0
"""While listeners come one after the other, groups wait for the last of them, but not for ever."""
CHANGED_SHARE = 0.1
"""Of the owners: when more have come or gone, groups are formed anew."""
AGAIN_S, LAYOUT_S = 10.0, 60.0
"""From one formation to the next: at least, and where only the layout is another."""
FAILURE_PAUSE_S, FAILURE_PAUSE_S_MAX = 5.0, 300.0
log = logging.getLogger("pubsub_cluster.coordinator")

I4 = npt.NDArray[np.int32]


class Situation(NamedTuple):
    """What groups are formed of.

    Attributes
    ----------
    catalogue : CatalogueWriter
    version : int
    layout : int
        Number of the layout's generation.
    sampled_events : int
        That the tuner holds.
    """

    catalogue: CatalogueWriter
    version: int
    layout: int
    sampled_events: int


class _Formation(NamedTuple):
    """A request to the tuner, and what was so when it was made."""

    number: int
    numbers: I4  # of the owners that have subscriptions, in the order of the request
    names: frozenset[str]  # of all owners
    layout: int
    sampled_events: int
    group_count: int
    at_s: float


class _Map(NamedTuple):
    """Which group the cells of a grid have: int32[cells]."""

    grid: Grid
    of_cell: I4


class GroupDesk:
    """Groups for one cluster's listeners.

    Parameters
    ----------
    segment_owner : Owner
        In whose name the tuner makes segments.
    listeners : Listeners
    membership : Membership
    schema : Schema
    limits : Limits
        Of events.

    Attributes
    ----------
    group_count : int
        The most groups; 0: none.
    """

    def __init__(
        self,
        segment_owner: Owner,
        listeners: Listeners,
        membership: Membership,
        schema: Schema,
        limits: Limits,
    ) -> None:
        self._segment_owner = segment_owner
        self._listeners = listeners
        self._membership = membership
        self._schema, self._limits = schema, limits
        self.group_count = GROUPS_DEFAULT
        self._number = 0
        self._asked: _Formation | None = None
        self._last: _Formation | None = None
        self._ready: GroupGeneration | None = None
        self._maps: dict[int, _Map] = {}
        self._look_at_s = 0.0
        self._seen: frozenset[str] = frozenset()
        self._seen_at_s = self._unsettled_since_s = 0.0
        self._failures = 0
        self._summary: dict[str, Any] = {}

    @property
    def asked_at_s(self) -> float | None:
        """When the tuner was asked for groups that it is forming; None: it is not."""
        return None if self._asked is None else self._asked.at_s

    # ---- forming -------------------------------------------------------------------------------

    def wanted(self, situation: Situation, now_s: float) -> FormGroups | None:
        """Return a request for new groups if they are due."""
        if self._asked is not None or now_s < self._look_at_s:
            return None
        self._look_at_s = now_s + LOOK_S
        everybody = self._membership.members(EVERYBODY)
        names = [self._listeners.heard(number).owner for number in everybody.tolist()]
        if not self._are_due(frozenset(names), situation, now_s):
            return None
        owners = [situation.catalogue.owner_number(name) for name in names]
        known = [place for place, owner in enumerate(owners) if owner is not None]
        formation = _Formation(
            self._next_number(),
            everybody[known],
            frozenset(names),
            situation.layout,
            situation.sampled_events,
            self.group_count,
            now_s,
        )
        if not self.group_count:
            self._last, self._summary = formation, {}
            self._ready = GroupGeneration(formation.number, {})
            return None
        self._asked = formation
        return FormGroups(
            formation.number,
            tuple(situation.catalogue.counts()),
            situation.version,
            situation.catalogue.name,
            [owner for owner in owners if owner is not None],
            self.group_count,
        )

    def _are_due(self, names: frozenset[str], situation: Situation, now_s: float) -> bool:
        last, is_settled = self._last, self._have_settled(names, now_s)
        has_another_count = last is not None and self.group_count != last.group_count
        if not self.group_count:
            return has_another_count
        if len(names) < OWNERS_MIN or situation.sampled_events < EVENTS_MIN or not is_settled:
            return False
        if last is None or has_another_count:
            return True
        return now_s - last.at_s >= AGAIN_S and (
            len(names ^ last.names) > CHANGED_SHARE * len(last.names)
            or (situation.layout != last.layout and now_s - last.at_s >= LAYOUT_S)
            or situation.sampled_events >= 2 * last.sampled_events
        )

    def _have_settled(self, names: frozenset[str], now_s: float) -> bool:
        if names != self._seen:
            if now_s - self._seen_at_s >= SETTLE_S:
                self._unsettled_since_s = now_s
            self._seen, self._seen_at_s = names, now_s
        return now_s - self._seen_at_s >= SETTLE_S or now_s - self._unsettled_since_s >= SETTLE_S_MAX

    def formed(self, message: GroupsFormed, now_s: float) -> None:
        """Take over what the tuner has made; without a segment the groups before stay."""
        asked = self._asked
        is_asked = asked is not None and asked.number == message.number  # else of a tuner that died since
        try:
            found = read_group_map(message.segment) if message.segment and is_asked else None
        except PubSubError as error:
            self._asked = None
            self._fail(error.to_dict(), now_s)
            return
        finally:
            if message.segment:
                unlink_segment(message.segment)
        if asked is None or not is_asked:
            return
        self._asked = None
        self._failures = 0
        self._last, self._summary = asked, message.summary
        if found is not None:
            grid = Grid.from_json(orjson.loads(found.grid_json))
            self._maps[asked.number] = _Map(grid, found.of_cell)
            members = {group: np.sort(asked.numbers[places]) for group, places in enumerate(found.members, 1)}
            self._ready = GroupGeneration(asked.number, members)

    def failed(self, message: GroupsFailed, now_s: float) -> None:
        """No groups; they will be tried again, later each time."""
        self._asked = None
        self._fail(message.error, now_s)

    def died(self, now_s: float) -> None:
        """The tuner is gone; its name is known, so a half-written segment does not outlive it."""
        if self._asked is not None:
            unlink_segment(str(SegmentName(self._segment_owner, FAMILY, self._asked.number)))
            self._asked = None
            self._fail({"error": "the tuner died"}, now_s)

    def _fail(self, error: dict[str, Any], now_s: float) -> None:
        log.error("groups were not formed: %s", error)
        self._look_at_s = now_s + min(FAILURE_PAUSE_S * 2.0**self._failures, FAILURE_PAUSE_S_MAX)
        self._failures += 1
        self._summary = {**self._summary, "error": error}

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    # ---- in use --------------------------------------------------------------------------------

    def offer(self, now_s: float) -> list[Invitation]:
        """Offer what is ready, when nothing else is on offer; return the invitations."""
        if self._ready is None or self._membership.offered is not None:
            return []
        ready, self._ready = self._ready, None
        return self._membership.offer(ready, now_s)

    def take_schema(self, schema: Schema) -> None:
        """Go on with an extended schema."""
        self._schema = schema

    def of_events(self, header: Mapping[str, Any], buffers: Sequence[Buffer], events: Sequence[int]) -> I4:
        """Return the group of each of some events of a publication, by its cell: int32[e].

        `UNICAST` for those of S_0, and where there are no groups.
        """
        current = self._membership.current.number
        for older in [number for number in self._maps if number < current]:
            del self._maps[older]
        found = self._maps.get(current)
        if found is None:
            return np.full(len(events), UNICAST, np.int32)
        names = [dimension.attribute for dimension in found.grid.dimensions]
        raw = decode_some(header, buffers, events, names, self._schema, self._limits)
        cell = found.grid.locate(raw)
        # OUTSIDE is -1: the last cell, whose group is not asked for.
        group: I4 = np.where(cell >= 0, found.of_cell[cell], UNICAST).astype(np.int32)
        return group

    def status(self) -> dict[str, Any]:
        """Return what an operator is told."""
        return {"under_way": self._asked is not None, **self._summary}
