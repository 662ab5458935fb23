"""What groups save: STOCK for 100,000 subscriptions of 1,000 receivers, all of whom listen.

    python -m pubsub_cluster.benchmarks.delivery [--modes 1 4 9] [--groups N] [--thresholds T ...]

The tuner forms groups from the catalogue and 2,048 sampled events; the distribution method then decides on
other events, of which brute force says who is interested. `messages` are notifications sent alone and
records sent to groups, as a share of what unicast alone would send; `wasted` are receipts by members who are
not interested, as a share of all receipts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.benchmarks.workloads.rules import Rules
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.coordinator.delivery.distribution import Account, Members, Rule, account, decide
from pubsub_cluster.coordinator.delivery.told import Told
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.catalogue_bulk import RowColumns
from pubsub_cluster.shm.code_space import I4, expand_slices
from pubsub_cluster.tuner.group_builder import BuiltGroups, build_groups
from pubsub_cluster.tuner.groups import GroupOptions
from pubsub_cluster.tuner.statistics import SAMPLE_EVENTS_MAX

SUBSCRIPTIONS, RECEIVERS, EVENTS = 100_000, 1_000, 5_000
TARGETS = {"messages": "<= 35 %", "wasted": "<= 30 %"}


class Heard(NamedTuple):
    """Who is interested in some events: bool[events, receivers]."""

    is_interested: npt.NDArray[np.bool_]

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


class Outcome(NamedTuple):
    """Shares, as the targets have them."""

    messages: float
    wasted: float

    @classmethod
    def of(cls, told: Told, found: Account) -> Outcome:
        """Return what an account comes to."""
        records, receipts, wasted = (int(one.sum()) for one in found[:3])
        return cls((found.unicasts + records) / len(told.event), wasted / (found.unicasts + receipts))


def outcome(groups: Groups, stock: Stock, told: Told, events: int, rule: Rule) -> Outcome:
    """Let the distribution method decide on events after the sampled ones."""
    of_cell = groups.built.formed.groups.of_cell
    cell = groups.built.formed.groups.grid.locate(stock.events(events, SAMPLE_EVENTS_MAX).raw())
    group = np.where(cell >= 0, 1 + of_cell[cell], -1)
    group = np.where(group > 0, group, -1).astype(np.int32)[told.events]
    return Outcome.of(told, account(told, groups.members, decide(told, groups.members, group, rule)))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.benchmarks.delivery")
    parser.add_argument("--modes", type=int, nargs="+", choices=(1, 4, 9), default=[9])
    parser.add_argument("--groups", type=int, nargs="+", default=[GroupOptions().group_count])
    parser.add_argument("--thresholds", type=float, nargs="+", default=[])
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument("--receivers", type=int, default=RECEIVERS)
    parser.add_argument("--narrowing", type=float, default=1.0)
    parser.add_argument("--events", type=int, default=EVENTS)
    options = parser.parse_args(argv)
    for modes in options.modes:
        stock = Stock(
            subscriptions=options.subscriptions,
            receivers=options.receivers,
            modes=modes,
            narrowing=options.narrowing,
            fraction_bits=4 if options.narrowing <= 1 else 8,
        )
        told = interested(stock, SAMPLE_EVENTS_MAX, options.events).told()
        for count in options.groups:
            groups = groups_of(stock, GroupOptions(group_count=count))
            formed = groups.built.formed.groups
            shape = " x ".join(f"{one.attribute} {one.cell_count}" for one in formed.grid.dimensions)
            print(f"{modes} modes, {len(formed.size)} groups over {shape}, formed in {groups.seconds:.1f} s")
            for threshold in [None, *options.thresholds]:
                found = outcome(groups, stock, told, options.events, Rule(threshold))
                name = "by cost" if threshold is None else f"{threshold:.0%}"
                print(f"  threshold {name:>7}: messages {found.messages:6.1%}, wasted {found.wasted:6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
