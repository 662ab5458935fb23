"""What groups save: STOCK for 100,000 subscriptions of 1,000 receivers, all of whom listen.

    python -m pubsub_cluster.benchmarks.delivery [--offline] [--keep]

The tuner forms groups from the catalogue and 2,048 sampled events; the distribution method then decides on
other events, of which brute force says who is interested. *Messages* are notifications sent alone and
records sent to groups, as a share of what unicast alone would send; *wasted* are receipts by members who are
not interested, as a share of all receipts. First without a cluster, for all mixtures of the workload, some
numbers of groups and thresholds, and for interests so narrow that groups save little; then in a cluster.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.benchmarks.delivery_cluster import deliver
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.workloads.rules import Rules
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.coordinator.delivery.distribution import Members, Rule, decide
from pubsub_cluster.coordinator.delivery.measure import measure_costs
from pubsub_cluster.coordinator.delivery.membership import EVERYBODY, UNICAST
from pubsub_cluster.coordinator.delivery.told import Told
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_bulk import RowColumns
from pubsub_cluster.shm.code_space import I4, I8, expand_slices
from pubsub_cluster.tuner.group_builder import BuiltGroups, build_groups
from pubsub_cluster.tuner.groups import GroupOptions
from pubsub_cluster.tuner.statistics import SAMPLE_EVENTS_MAX

SUBSCRIPTIONS, RECEIVERS = 100_000, 1_000
EVENTS, CLUSTER_EVENTS = 5_000, 500
MODES, NARROWING = (9, 4, 1), 8.0
GROUPS_DEFAULT = GroupOptions().group_count
GROUPS = (20, GROUPS_DEFAULT, 200)
THRESHOLDS = (None, 0.0, 0.15, 0.5)
TARGETS = {"messages, of unicast's": "<= 35", "receipts wasted, of all": "<= 30"}


class Heard(NamedTuple):
    """Who is interested in some events: bool[events, receivers]."""

    is_interested: npt.NDArray[np.bool_]

    @property
    def counts(self) -> I8:
        """How many are interested in each event: int64[events]."""
        found: I8 = self.is_interested.sum(axis=1, dtype=np.int64)
        return found

    def told(self) -> Told:
        """Return it as a publication tells it, without the matches."""
        event, number = np.nonzero(self.is_interested)
        return Told(
            event,
            number.astype(np.int32),
            np.zeros(len(event), np.uint64),
            np.zeros(len(event) + 1, np.int64),
            np.zeros(0, np.uint64),
            np.zeros(0, np.int32),
        )


def receiver_columns(stock: Stock) -> Iterator[tuple[int, RowColumns]]:
    """Yield the subscriptions of each receiver that has any, as catalogue columns."""
    rules, receiver_of = stock.rules(), stock.receiver_of()
    everything = rules.columns()
    for receiver in np.unique(receiver_of).tolist():
        yield receiver, _columns_of(rules, everything, np.flatnonzero(receiver_of == receiver), receiver)


def _columns_of(
    rules: Rules, everything: RowColumns, rows: npt.NDArray[np.int64], receiver: int
) -> RowColumns:
    size = np.diff(rules.start)[rows]
    used, number = np.unique(rules.literal[expand_slices(rules.start[rows], size)], return_inverse=True)
    ids = [str(row + 1).encode() for row in rows.tolist()]
    return RowColumns(
        [everything.predicates[predicate] for predicate in used.tolist()],
        np.ones(len(rows), np.int32),
        size.astype(np.int32),
        (2 * number).astype(np.int32),
        (rows + 1).astype(np.uint64),
        np.array([len(one) for one in ids], np.int32),
        np.frombuffer(b"".join(ids), np.uint8),
        receiver_name(receiver),
    )


def receiver_name(receiver: int) -> str:
    """Return the owner that a receiver is."""
    return f"receiver-{receiver}"


def interested(stock: Stock, first: int, count: int) -> Heard:
    """Say by brute force who is interested in events [first, first + count)."""
    rectangles = stock.rectangles()
    order = np.argsort(rectangles.receiver, kind="stable")
    receiver = rectangles.receiver[order]
    start = np.flatnonzero(np.append(True, receiver[1:] != receiver[:-1]))
    lo, hi = (np.ascontiguousarray(ends[order].T) for ends in (rectangles.lo, rectangles.hi))
    found = np.zeros((count, stock.receivers), np.bool_)
    for event, point in enumerate(stock.numbers(stock.events(count, first))):
        holds = np.logical_and.reduce([(lo[axis] < x) & (x <= hi[axis]) for axis, x in enumerate(point)])
        found[event, receiver[start]] = np.logical_or.reduceat(holds, start)
    return Heard(found)


class Groups(NamedTuple):
    """What the tuner made, by receivers' numbers."""

    built: BuiltGroups
    members: Members
    seconds: float


def groups_of(stock: Stock, options: GroupOptions) -> Groups:
    """Form groups as the tuner does, of all receivers, by the first events."""
    writer = CatalogueWriter.in_memory(stock.subscriptions)
    receivers = []
    for receiver, columns in receiver_columns(stock):
        writer.append_columns(columns)
        receivers.append(receiver)
    owners = np.arange(len(receivers), dtype=np.int32)
    begin = time.process_time()
    sample = stock.events(SAMPLE_EVENTS_MAX).raw()
    built = build_groups(CatalogueReader.of(writer), writer.counts(), 0, owners, sample, options)
    assert built is not None
    seconds = time.process_time() - begin
    number: I4 = np.array(receivers, np.int32)
    members = {1 + group: number[mine] for group, mine in enumerate(built.members())}
    return Groups(built, Members({0: number, **members}), seconds)


class Account(NamedTuple):
    """What decisions came to, by group: int64[n].

    Attributes
    ----------
    records : int64[n]
        Sent to each group.
    receipts : int64[n]
        By its members.
    wasted : int64[n]
        Of them in vain.
    unicasts : int
        Notifications that went alone.
    """

    records: I8
    receipts: I8
    wasted: I8
    unicasts: int


def account(told: Told, members: Members, way: I4) -> Account:
    """Return what the ways of ``told.events`` come to."""
    chosen = told.of_entries(way)
    goes_with = members.holds(chosen, told.number)
    count = members.group_count
    records = np.bincount(way[way >= EVERYBODY], minlength=count).astype(np.int64)
    receipts = records * members.size[:count]
    useful = np.bincount(chosen[goes_with], minlength=count)
    return Account(records, receipts, receipts - useful, int(len(chosen) - goes_with.sum()))


class Outcome(NamedTuple):
    """Shares, as the targets have them."""

    messages: float
    wasted: float

    @classmethod
    def of(cls, told: Told, found: Account) -> Outcome:
        """Return what an account comes to."""
        records, receipts, wasted = (int(one.sum()) for one in found[:3])
        return cls((found.unicasts + records) / len(told.event), wasted / (found.unicasts + receipts))

    def figures(self, stock: Stock, what: str, has_targets: bool = True) -> list[Figure]:
        """Return them as figures; `what` says of which events and groups."""
        return [
            _figure(stock, f"{what}: {name}", 100 * share, "%", target if has_targets else "")
            for (name, target), share in zip(TARGETS.items(), self, strict=True)
        ]


def _figure(stock: Stock, name: str, value: float, unit: str, target: str = "") -> Figure:
    return Figure(name, value, unit, target, "", stock.seed, "STOCK", stock.subscriptions)


def outcome(groups: Groups, stock: Stock, told: Told, events: int, rule: Rule) -> Outcome:
    """Let the distribution method decide on events after the sampled ones."""
    formed = groups.built.formed.groups
    cell = formed.grid.locate(stock.events(events, SAMPLE_EVENTS_MAX).raw())[told.events]
    group = np.where((cell >= 0) & (formed.of_cell[cell] >= 0), 1 + formed.of_cell[cell], UNICAST)
    way = decide(told, groups.members, group.astype(np.int32), rule)
    return Outcome.of(told, account(told, groups.members, way))


def offline(stock: Stock, rule: Rule) -> list[Figure]:
    """Form groups and decide, without a cluster: by cost, and by some thresholds."""
    heard = interested(stock, SAMPLE_EVENTS_MAX, EVENTS)
    told = heard.told()
    name = f"{stock.modes} mode{'s' * (stock.modes > 1)}" + (
        f", 1/{stock.narrowing:g} as wide" if stock.narrowing > 1 else ""
    )
    share = 100 * float(heard.counts.mean()) / stock.receivers
    figures = [_figure(stock, f"{name}: interested in an event, of receivers", share, "%")]
    for count in GROUPS:
        groups = groups_of(stock, GroupOptions(group_count=count))
        formed = groups.built.formed.groups
        shape = " x ".join(f"{one.attribute} {one.cell_count}" for one in formed.grid.dimensions)
        print(f"{name}: {len(formed.size)} groups over {shape}", flush=True)
        figures.append(_figure(stock, f"{name}, {count} groups: formed, CPU", groups.seconds, "s"))
        for threshold in THRESHOLDS if count == GROUPS_DEFAULT else (None,):
            found = outcome(groups, stock, told, EVENTS, rule._replace(threshold=threshold))
            when = "by cost" if threshold is None else f"from {threshold:.0%} on"
            is_default = threshold is None and count == GROUPS_DEFAULT and stock.narrowing == 1
            figures += found.figures(stock, f"{name}, {count} groups, {when}", is_default)
            _print(figures[-2:])
    return figures


def in_a_cluster(stock: Stock) -> list[Figure]:
    """Deliver in a cluster whose listeners are told by records."""
    counts = interested(stock, SAMPLE_EVENTS_MAX, CLUSTER_EVENTS).counts
    found = deliver(stock, [receiver_name(number) for number in range(stock.receivers)], counts)
    what = (
        f"in a cluster, {stock.modes} modes, {found.groups} groups, by cost (from {found.threshold:.0%} on)"
    )
    figures = Outcome(found.messages_share, found.wasted_share).figures(stock, what)
    _print(figures)
    return figures


def _print(figures: Sequence[Figure]) -> None:
    for one in figures:
        print(f"  {one.figure}: {one.value:.3g} {one.unit} {one.target}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; print, and keep if that is asked for."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.benchmarks.delivery")
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument("--receivers", type=int, default=RECEIVERS)
    parser.add_argument("--offline", action="store_true", help="Leave the cluster out.")
    parser.add_argument("--keep", action="store_true", help="Write benchmarks/results/delivery.csv.")
    options = parser.parse_args(argv)
    stock = Stock(subscriptions=options.subscriptions, receivers=options.receivers)
    costs = measure_costs()
    names = ("a push", "a record to a group", "a receipt in vain")
    figures = [Figure(name, cost / 1e3, "us") for name, cost in zip(names, costs, strict=True)]
    _print(figures)
    for modes in MODES:
        figures += offline(replace(stock, modes=modes), Rule(None, costs))
    figures += offline(replace(stock, narrowing=NARROWING, fraction_bits=8), Rule(None, costs))
    if not options.offline:
        figures += in_a_cluster(stock)
    if options.keep:
        write("delivery", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
