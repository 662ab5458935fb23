"""Subscriptions and events of a workload as plain arrays of small integers.

Every workload is drawn in integers, and an event is a row of them, `MISSING` where it has no value. This form
is what rivals and the brute-force check read; it knows nothing of labels, code spaces or layouts. Next to it
stand the ways into the product: catalogue rows, decoded batches, client columns and dictionaries. `scale`
turns the integers into floats (exactly: it is a power of two), `texts` into texts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch, TextEntries
from pubsub_cluster.shm.catalogue_bulk import RowColumns, decimal_ids

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
MISSING = np.iinfo(np.int32).min
TOP = (1 << 25) - 1  # larger than any value: an open end


class Domain(NamedTuple):
    """How the integers of one attribute are written.

    Attributes
    ----------
    name : str
    scale : float
        0: as integers; else value = origin + integer * scale.
    texts : tuple of str
        If not empty, value i is ``texts[i]``.
    origin : float
        Where the integers begin, for attributes with values below 0; a multiple of the scale.
    """

    name: str
    scale: float = 0.0
    texts: tuple[str, ...] = ()
    origin: float = 0.0

    def constant(self, value: int) -> tuple[ValueKind, int | float | bytes]:
        """Return a value as a constant of a canonical predicate."""
        if self.texts:
            return ValueKind.TEXT, self.texts[value].encode()
        return ValueKind.NUMBER, self.origin + value * self.scale if self.scale else value

    def value(self, value: int) -> int | float | str:
        """Return a value as an event carries it."""
        return self.texts[value] if self.texts else self.origin + value * self.scale if self.scale else value


class Rules(NamedTuple):
    """Conjunctions, one per subscription.

    Attributes
    ----------
    domains : tuple of Domain
        One per attribute.
    attribute, lo, hi : int32[P]
        Predicate p holds when the event has a value there with ``lo <= value <= hi`` and, if it has members,
        the value is (for ``except_[p]``: is not) one of them.
    except_ : bool[P]
    member_start : int64[P+1]
    member : int32[]
        Ascending.
    start : int64[n+1]
        First literal of each subscription.
    literal : int32[]
        Predicate numbers (positive), ascending within a conjunction and without repeats.
    clauses_each : int
        Conjunctions per subscription, one after the other; 1 but where a workload says otherwise.
    """

    domains: tuple[Domain, ...]
    attribute: I4
    lo: I4
    hi: I4
    except_: npt.NDArray[np.bool_]
    member_start: I8
    member: I4
    start: I8
    literal: I4
    clauses_each: int = 1

    @property
    def size(self) -> int:
        """Number of subscriptions."""
        return (len(self.start) - 1) // self.clauses_each

    def canonical(self, predicate: int) -> Predicate:
        """Return a predicate as the catalogue stores it."""
        domain = self.domains[int(self.attribute[predicate])]
        members = self.member[self.member_start[predicate] : self.member_start[predicate + 1]].tolist()
        if members:
            constants: Any = tuple(sorted(domain.constant(member) for member in members))
            if self.except_[predicate]:
                return Predicate(PredicateKind.EXCEPT, domain.name, constants[0][0], constants=constants)
            return Predicate(PredicateKind.SET, domain.name, constants=constants)
        kind, lo = domain.constant(int(self.lo[predicate]))
        _, hi = domain.constant(int(self.hi[predicate]))
        return Predicate(PredicateKind.RANGE, domain.name, kind, lo, hi)

    def columns(self) -> RowColumns:
        """Return the subscriptions as catalogue columns; their ids are their numbers from 1 on."""
        sizes, text = decimal_ids(1, self.size)
        return RowColumns(
            [self.canonical(predicate) for predicate in range(len(self.attribute))],
            np.full(self.size, self.clauses_each, np.int32),
            np.diff(self.start).astype(np.int32),
            2 * self.literal,
            np.arange(1, self.size + 1, dtype=np.uint64),
            sizes,
            text,
        )

    def subset(self, stop: int) -> Rules:
        """Return the first `stop` subscriptions."""
        stop *= self.clauses_each
        return self._replace(start=self.start[: stop + 1], literal=self.literal[: self.start[stop]])


def interval_rules(domains: tuple[Domain, ...], attribute: I4, lo: I4, hi: I4, start: I8) -> Rules:
    """Return rules whose literals are intervals, given one by one; equal ones become one predicate.

    Parameters
    ----------
    domains : tuple of Domain
    attribute, lo, hi : int32[L]
        Of each literal.
    start : int64[n+1]
    """
    # Distinct (attribute, lo, hi) through one sortable number: 13 bits, 25 bits, 25 bits.
    assert len(domains) <= 1 << 13 and int(lo.min(initial=0)) >= 0 and int(hi.max(initial=0)) <= TOP
    key = (attribute.astype(np.int64) << 50) | (lo.astype(np.int64) << 25) | hi.astype(np.int64)
    distinct, number = np.unique(key, return_inverse=True)
    predicate_count = len(distinct)
    number = sorted_within(number.astype(np.int32), start)
    return Rules(
        domains,
        (distinct >> 50).astype(np.int32),
        ((distinct >> 25) & TOP).astype(np.int32),
        (distinct & TOP).astype(np.int32),
        np.zeros(predicate_count, bool),
        np.zeros(predicate_count + 1, np.int64),
        np.zeros(0, np.int32),
        start,
        number,
    )


def sorted_within(number: I4, start: I8) -> I4:
    """Sort the numbers of each subscription."""
    sizes = np.diff(start)
    if len(sizes) and sizes.min() == sizes.max():
        return np.sort(number.reshape(len(sizes), -1), axis=1).reshape(-1)
    owner = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    return number[np.argsort((owner << 32) | number, kind="stable")]


class Events(NamedTuple):
    """Events as a matrix.

    Attributes
    ----------
    domains : tuple of Domain
    value : int32[n, A]
        `MISSING` where the event has no value.
    """

    domains: tuple[Domain, ...]
    value: I4

    @property
    def size(self) -> int:
        """Number of events."""
        return len(self.value)

    def slice(self, first: int, stop: int) -> Events:
        """Return events [first, stop)."""
        return self._replace(value=self.value[first:stop])

    def raw(self) -> RawBatch:
        """Return them as a decoded batch."""
        attributes: dict[str, AttributeEntries] = {}
        for number, domain in enumerate(self.domains):
            column = self.value[:, number]
            event = np.flatnonzero(column != MISSING).astype(np.int32)
            if not len(event):
                continue
            whole = column[event].astype(np.int64)
            if domain.texts:
                start, end, data = _text_slices(domain.texts, whole)
                attributes[domain.name] = AttributeEntries(texts=TextEntries(event, start, end, data))
                continue
            part: npt.NDArray[np.float64] = np.zeros(len(event))
            if domain.scale:
                part = np.asarray(domain.origin + whole * domain.scale, np.float64)
                whole = np.trunc(part).astype(np.int64)
                part = part - whole
            attributes[domain.name] = AttributeEntries(numbers=NumberEntries(event, whole, part))
        return RawBatch(self.size, attributes, {})

    def columns(self) -> dict[str, Any]:
        """Return them as a client publishes columns: integers, floats or texts, masked where missing."""
        columns: dict[str, Any] = {}
        for number, domain in enumerate(self.domains):
            column = self.value[:, number]
            missing = column == MISSING
            filled = np.where(missing, 0, column)
            values: Any
            if domain.texts:
                values = np.array(domain.texts)[filled]
            else:
                scaled = domain.origin + filled * domain.scale
                values = scaled if domain.scale else filled.astype(np.int64)
            columns[domain.name] = np.ma.masked_array(values, missing) if missing.any() else values
        return columns

    def dictionaries(self) -> list[dict[str, int | float | str]]:
        """Return them as dictionaries, attributes in order."""
        return [
            {
                domain.name: domain.value(value)
                for domain, value in zip(self.domains, row, strict=True)
                if value != MISSING
            }
            for row in self.value.tolist()
        ]


def _text_slices(texts: tuple[str, ...], value: I8) -> tuple[I8, I8, npt.NDArray[np.uint8]]:
    """Return start, end and bytes of values laid one after the other, as a publisher's column has them."""
    encoded = [text.encode() for text in texts]
    size = np.array([len(text) for text in encoded], np.int64)[value]
    end = np.cumsum(size)
    data = b"".join([encoded[number] for number in value.tolist()])
    return end - size, end, np.frombuffer(data, np.uint8)


def expected_counts(rules: Rules, events: Events, checked: int) -> I8:
    """Return the number of matches of the first `checked` events, by brute force on whole columns."""
    found = np.zeros(min(checked, events.size), np.int64)
    for event in range(len(found)):
        found[event] = len(matching(rules, events.value[event]))
    return found


def matching(rules: Rules, row: I4) -> I8:
    """Return the subscriptions that one event matches, by brute force; NumPy over all predicates."""
    holds = predicates_holding(rules, row)
    failed = np.flatnonzero(~holds)
    if not rules.size:
        return np.zeros(0, np.int64)
    is_failed = np.zeros(len(holds) + 1, bool)
    is_failed[failed] = True
    bad = is_failed[rules.literal]
    # reduceat would give an empty subscription its neighbour's value; there are none in our workloads
    assert int(np.diff(rules.start).min()) > 0
    clauses = np.flatnonzero(~np.logical_or.reduceat(bad, rules.start[:-1]))
    return np.unique(clauses // rules.clauses_each)


def predicates_holding(rules: Rules, row: I4) -> npt.NDArray[np.bool_]:
    """Say which predicates hold for one event."""
    value = row[rules.attribute]
    holds: npt.NDArray[np.bool_] = (value != MISSING) & (value >= rules.lo) & (value <= rules.hi)
    sizes = np.diff(rules.member_start)
    listed = np.flatnonzero(sizes)
    if len(listed):
        owner = np.repeat(listed, sizes[listed])
        is_member = np.logical_or.reduceat(rules.member == value[owner], rules.member_start[listed])
        holds[listed] &= is_member != rules.except_[listed]
    return holds
