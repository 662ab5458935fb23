"""ADS: equality, ranges and sets over many attributes of unequal popularity, few of them in an event.

After the workload that PS-Tree (PVLDB 2018) takes from BE-Tree: 122 attributes, popularity Zipf with s = 1,
domains log-uniform between 10 and 10,000, 4 to 12 predicates (8 on average), of which 60 % are equality, 25 %
a range of 5 % of the domain, 15 % a set of 2 to 20 values. Ours: sets come from a pool of `SET_POOL` per
attribute, as targeting lists do; an event has 20 attributes by the same popularity; since next to nothing
matches by chance, one event in `PLANTED_EVERY` also takes the values that some subscription asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubsub_cluster.benchmarks.workloads import draw
from pubsub_cluster.benchmarks.workloads.rules import I4, MISSING, Domain, Events, Rules, sorted_within

SET_POOL = 1_000
SET_SIZE = (2, 20)
PREDICATES = (4, 12)
RULE_DRAWS, EVENT_DRAWS = 48, 192
STEP = 1 << 17
PLANTED_EVERY = 100


@dataclass(frozen=True)
class Ads:
    """See the module.

    Attributes
    ----------
    name : str
    subscriptions : int
    seed : int
    attributes, event_attributes : int
    """

    name: str = "ADS"
    subscriptions: int = 3_000_000
    seed: int = 1
    attributes: int = 122
    event_attributes: int = 20

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The attributes."""
        return tuple(Domain(f"a{number}") for number in range(self.attributes))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of values of each attribute: 10 to 10,000, log-uniform in 300 steps."""
        share = draw.below(draw.words(self.seed, 10, 0, self.attributes, 1), 301)[:, 0]
        return np.array([round(10 * 10 ** (step / 100)) for step in share.tolist()], np.int64)

    def popular(self, stream: int, first: int, rows: int, draws: int, most: int) -> I4:
        """Return up to `most` distinct attributes per row by popularity, in order drawn; -1 where fewer came.

        Drawing with repeats and passing over repeats is drawing without repeats.
        """
        weight = 1.0 / np.arange(1, self.attributes + 1)
        cumulative = np.floor(np.cumsum(weight) / weight.sum() * 2.0**32).astype(np.uint64)
        cumulative[-1] = 1 << 32
        word = draw.words(self.seed, stream, first, rows, draws) >> np.uint64(32)
        drawn = np.searchsorted(cumulative, word, side="right").astype(np.int64)
        place = np.arange(draws)
        by_value = np.sort(drawn * draws + place, axis=1)
        fresh = np.ones(by_value.shape, bool)
        fresh[:, 1:] = by_value[:, 1:] // draws != by_value[:, :-1] // draws
        late = draws * self.attributes
        order = np.sort(np.where(fresh, by_value % draws * self.attributes + by_value // draws, late), axis=1)
        found = order[:, :most]
        return np.where(found < late, found % self.attributes, -1).astype(np.int32)

    def rules(self) -> Rules:
        """Draw the subscriptions."""
        literals, counts = [], []
        for first in range(0, self.subscriptions, STEP):
            number, used = self._literals(first, min(STEP, self.subscriptions - first))
            literals.append(number[used])
            counts.append(used.sum(axis=1))
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))))
        return self._numbered(np.concatenate(literals), start)

    def _literals(self, first: int, rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return numbers of predicates [rows, 12] and which are used.

        All possible predicates are numbered: points by (attribute, value), ranges by (attribute, low end),
        sets by (attribute, place in the pool).
        """
        sizes, most = self.sizes, PREDICATES[1]
        base = np.cumsum(sizes) - sizes
        values = int(sizes.sum())
        attribute = self.popular(1, first, rows, RULE_DRAWS, most)
        word = draw.words(self.seed, 2, first, rows, 2 * most + 1)
        count = PREDICATES[0] + draw.below(word[:, -1], PREDICATES[1] - PREDICATES[0] + 1)
        used = (attribute >= 0) & (np.arange(most) < count[:, None])
        kind, at = draw.below(word[:, :most], 100), word[:, most : 2 * most]
        point = base[attribute] + draw.below(at, sizes[attribute])
        interval = values + base[attribute] + draw.below(at, (sizes - _width(sizes) + 1)[attribute])
        pooled = 2 * values + attribute * SET_POOL + draw.below(at, SET_POOL)
        return np.where(kind < 60, point, np.where(kind < 85, interval, pooled)), used

    def _numbered(self, literal: npt.NDArray[np.int64], start: npt.NDArray[np.int64]) -> Rules:
        """Make rules with the predicates that are used, from numbers of all possible ones."""
        sizes = self.sizes
        width = _width(sizes)
        base = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        distinct, number = np.unique(literal, return_inverse=True)
        values = int(base[-1])
        is_set = distinct >= 2 * values
        flat = np.where(is_set, 0, distinct % values)
        attribute = np.searchsorted(base, flat, side="right") - 1
        attribute[is_set] = (distinct[is_set] - 2 * values) // SET_POOL
        lo = flat - base[attribute]
        hi = np.where(distinct < values, lo, lo + width[attribute] - 1)
        lo[is_set], hi[is_set] = 0, sizes[attribute[is_set]] - 1
        member_counts = np.zeros(len(distinct), np.int64)
        members: list[I4] = []
        for predicate in np.flatnonzero(is_set).tolist():
            chosen = int(distinct[predicate] - 2 * values)
            word = draw.words(self.seed, 11, chosen, 1, SET_SIZE[1] + 1)
            found = _set(word[0], int(sizes[chosen // SET_POOL]))
            members.append(found)
            member_counts[predicate] = len(found)
        return Rules(
            self.domains,
            attribute.astype(np.int32),
            lo.astype(np.int32),
            hi.astype(np.int32),
            np.zeros(len(distinct), bool),
            np.concatenate((np.zeros(1, np.int64), np.cumsum(member_counts))),
            np.concatenate(members) if members else np.zeros(0, np.int32),
            start,
            sorted_within(number.astype(np.int32), start),
        )

    def events(self, count: int, first: int = 0) -> Events:
        """Draw events [first, first + count)."""
        sizes = self.sizes
        attribute = self.popular(3, first, count, EVENT_DRAWS, self.event_attributes)
        drawn = draw.below(draw.words(self.seed, 4, first, count, self.event_attributes), sizes[attribute])
        value = np.full((count, self.attributes), MISSING, np.int32)
        for place in range(self.event_attributes):
            used = np.flatnonzero(attribute[:, place] >= 0)
            value[used, attribute[used, place]] = drawn[used, place]
        for event in range(-first % PLANTED_EVERY, count, PLANTED_EVERY):
            self._plant(value[event], (first + event) * 7_919 % self.subscriptions)
        return Events(self.domains, value)

    def _plant(self, row: I4, subscription: int) -> None:
        """Give an event the values that a subscription asks for."""
        number, used = self._literals(subscription, 1)
        rules = self._numbered(number[used], np.array([0, int(used.sum())]))
        row[rules.attribute] = rules.lo
        listed = np.flatnonzero(np.diff(rules.member_start))
        row[rules.attribute[listed]] = rules.member[rules.member_start[listed]]


def _width(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many values a range has: a twentieth of the domain, at least one."""
    return np.maximum(sizes // 20, 1)


def _set(word: draw.U8, domain: int) -> I4:
    """Return the members of a set: 2 to 20 draws without repeats; a set of one would be an equality."""
    count = SET_SIZE[0] + int(draw.below(word[-1:], SET_SIZE[1] - SET_SIZE[0] + 1)[0])
    found = np.unique(draw.below(word[:count], domain))
    if len(found) == 1:
        found = np.sort(np.array([found[0], (found[0] + 1) % domain]))
    return found.astype(np.int32)


def ads(subscriptions: int = 3_000_000, seed: int = 1) -> Ads:
    """Return ADS."""
    return Ads(subscriptions=subscriptions, seed=seed)
