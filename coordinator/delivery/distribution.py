"""The distribution method (RIABOV section 4): by which way an event goes to those who want to hear of it.

    nobody is interested                          nothing is sent; such an event is not in `Told`
    all who have joined are interested            one record for everybody, the group `EVERYBODY`
    the event lies in the catch-all set S_0       unicast
    few of its group's members are interested     unicast
    else                                          one record for the group; the others filter it out

"Few" is a share of the group's members below a threshold t (RIABOV-12; the paper prints the share with #S_q
for #M_q). One is set by the operator, or it follows from what the ways cost here: with s interested among m
members, s unicasts cost s * u, and a record g for sending it and w for each of the m - s who get it in vain,
so that the record pays where s * (u + w) >= g + m * w. What a receipt costs that is not in vain is the same
either way. No threshold lets a record go out that nobody is interested in.

Groups were formed of subscriptions as they were: who is interested now and is no member is told by unicast,
whatever becomes of the event, and does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.coordinator.delivery.membership import EVERYBODY, UNICAST
from pubsub_cluster.coordinator.delivery.told import Told

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class DeliveryCosts(NamedTuple):
    """What the ways cost on this machine, nanoseconds.

    Attributes
    ----------
    unicast_ns : float
        u: to send one notification over a connection.
    group_ns : float
        g: to send one record to a group, whoever is in it.
    wasted_ns : float
        w: a receipt in vain, for the one who gets it.
    """

    unicast_ns: float = 8_000.0
    group_ns: float = 30_000.0
    wasted_ns: float = 10_000.0


DEFAULT_COSTS = DeliveryCosts()
"""A measurement on a 2.3 GHz Xeon."""


class Rule(NamedTuple):
    """When a record to a group pays.

    Attributes
    ----------
    threshold : float, optional
        The least share of the members who are interested; None: it follows from the costs.
    costs : DeliveryCosts
    """

    threshold: float | None = None
    costs: DeliveryCosts = DEFAULT_COSTS

    def least(self, members: I8) -> npt.NDArray[np.float64]:
        """Return how many of so many members have to be interested, at least."""
        if self.threshold is not None:
            return np.asarray(self.threshold * members, np.float64)
        unicast_ns, group_ns, wasted_ns = self.costs
        return np.asarray((group_ns + wasted_ns * members) / (unicast_ns + wasted_ns), np.float64)

    def pays(self, interested: I8, members: I8) -> Bools:
        """Return where a record to so many members pays, of whom so many are interested."""
        found: Bools = (interested > 0) & (interested >= self.least(members))
        return found


class Members:
    """Who gets a group's records, for looking up.

    Parameters
    ----------
    members : mapping of int to int32[m]
        By group, the numbers of its members; groups are numbered from `EVERYBODY` on without gaps.

    Attributes
    ----------
    numbers : mapping of int to int32[m]
        As given.
    size : int64[n + 1]
        Members of each group; the last stands for `UNICAST` and has none.
    """

    def __init__(self, members: Mapping[int, I4]) -> None:
        self.numbers = members
        count = max(members, default=EVERYBODY) + 1
        width = 1 + max((int(numbers.max(initial=-1)) for numbers in members.values()), default=-1)
        # A row more, for `UNICAST`, and a column more, for numbers beyond all: nobody is in either.
        self._holds = np.zeros((count + 1, width + 1), np.bool_)
        for group, numbers in members.items():
            self._holds[group, numbers] = True
        self.size: I8 = self._holds.sum(axis=1, dtype=np.int64)

    @property
    def group_count(self) -> int:
        """Number of groups, `EVERYBODY` among them."""
        return len(self.size) - 1

    def holds(self, group: Any, number: I4) -> Bools:
        """Return whether owners are members of groups, element by element; of `UNICAST` nobody is."""
        found: Bools = self._holds[group, np.minimum(number, self._holds.shape[1] - 1)]
        return found


def least_interested(members: Members, rule: Rule) -> float:
    """Return how many have to be interested in an event before a record can pay, to whatever group."""
    sizes = members.size[members.size > 0]
    return max(1.0, float(rule.least(sizes).min(initial=np.inf)))


def decide(told: Told, members: Members, group: I4, rule: Rule) -> I4:
    """Return the way of each event that anybody is told of.

    Parameters
    ----------
    told : Told
    members : Members
    group : int32[e]
        The group of each of ``told.events``, by its cell; `UNICAST` where it lies in S_0.
    rule : Rule

    Returns
    -------
    int32[e]
        A group, `EVERYBODY` or `UNICAST`. With a group go the interested who are its members, and the others
        by unicast.
    """
    everybody = told.counts(members.holds(EVERYBODY, told.number))
    to_all = (everybody == members.size[EVERYBODY]) & rule.pays(everybody, everybody)
    if to_all.all():
        return np.full(len(group), EVERYBODY, np.int32)
    group = np.where((group > EVERYBODY) & (group < members.group_count), group, UNICAST).astype(np.int32)
    interested = told.counts(members.holds(told.of_entries(group), told.number))
    way = np.where(rule.pays(interested, members.size[group]), group, UNICAST).astype(np.int32)
    way[to_all] = EVERYBODY
    return way


class Tally:
    """What all decisions came to; what each group was sent is in `SentCounters`.

    Attributes
    ----------
    unicasts, sent, received, in_vain : int
        Notifications that went alone, records, their receipts and those in vain.
    """

    def __init__(self) -> None:
        self.unicasts = self.sent = self.received = self.in_vain = 0

    def record(self, receipts: int, useful: int) -> None:
        """Count a record that so many receive, and so many of them want."""
        self.sent += 1
        self.received += receipts
        self.in_vain += receipts - useful

    def to_json(self) -> dict[str, int]:
        """Return the sums as operators are told them."""
        return {
            "unicasts": self.unicasts,
            "records": self.sent,
            "receipts": self.received,
            "wasted_receipts": self.in_vain,
        }
