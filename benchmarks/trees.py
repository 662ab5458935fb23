"""Would a tree be the better matcher for purely range-based catalogues? Trees against the cluster's layouts.

    python -m pubsub_cluster.benchmarks.trees [--sizes 10000 100000 1000000] [--only STOCK] [--keep]

Conjunctions of a range on each of 1 to 6 attributes, of three widths, and STOCK, at three sizes. The layout
has the tables that the tuner chose, by constants measured at the start; it and the trees start from the
events' integers, encoded before. Beside them runs a layout that has a tree in the place of tables, up to as
many subscriptions as the tuner would pack, and the engine from columns, of whose time the layout's is a part.
All take turns in one process, by its processor time; every pass compares the matches of each event with those
that the layout has found, and brute force confirms the first events. A ratio above 1 means that the tree is
slower; bytes of a tree are those of its arrays and of a row number per box.

Of both layouts the cost model takes one: `chosen / better` is the time of the one that it took, by the less
of both; 1 where it was right.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.riabov import hilbert_r_tree, s_tree
from pubsub_cluster.algorithms.riabov.packed_tree import Searcher
from pubsub_cluster.benchmarks.levels import KernelRun, Loaded, PayloadRun, load
from pubsub_cluster.benchmarks.measure import Run, WrongAnswer
from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.benchmarks.runner import SAMPLE_EVENTS, SAMPLE_FIRST, batches_of
from pubsub_cluster.benchmarks.workloads import Workload
from pubsub_cluster.benchmarks.workloads.htree import HTree
from pubsub_cluster.benchmarks.workloads.rules import I4, I8, MISSING, TOP, Events, Rules, expected_counts
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.trees import TreeChoice, Weighed
from pubsub_cluster.workers.measure import measure_steps

SIZES = (10_000, 100_000, 1_000_000)
ATTRIBUTES, WIDTHS = (1, 2, 3, 4, 6), (0.001, 0.01, 0.1)
MATCHES_MAX = 3_000
"""Of an event: with more, all that is measured is output."""
EVENTS, FEW_EVENTS = 2_000, 200
CHECKED = 5
ROW_BYTES = 4
TREES: dict[str, Callable[[Any, Any], Any]] = {
    "S-tree": s_tree.pack,
    "S-tree, M = 16": lambda lo, hi: s_tree.pack(lo, hi, 16),
    "Hilbert R-tree": hilbert_r_tree.pack,
}


class TreeRun:
    """A tree over the integers of a workload of ranges.

    Parameters
    ----------
    pack : callable
        ``pack(lo, hi)``.
    rules : Rules
        Of ranges alone.
    batches : list of Events
    """

    def __init__(self, pack: Callable[[Any, Any], Any], rules: Rules, batches: list[Events]) -> None:
        lo, hi = boxes_of(rules)
        begin = time.process_time()
        tree = pack(lo, hi)
        self.build_s = time.process_time() - begin
        self.bytes = tree.bytes + ROW_BYTES * rules.size
        self._searcher = Searcher(tree)
        self._points = [np.ascontiguousarray(batch.value) for batch in batches]

    def run(self) -> I8:
        """Match all batches; return the matches of each event."""
        return np.concatenate([np.diff(self._searcher.places(points)[0]) for points in self._points])


def boxes_of(rules: Rules) -> tuple[I4, I4]:
    """Return the ranges of rules as boxes, int32[attributes, subscriptions]; a missing value is below all."""
    assert not len(rules.member) and rules.clauses_each == 1, "only ranges are boxes"
    lo = np.full((len(rules.domains), rules.size), MISSING, np.int32)
    hi = np.full((len(rules.domains), rules.size), TOP, np.int32)
    row = np.repeat(np.arange(rules.size), np.diff(rules.start))
    attribute = rules.attribute[rules.literal]
    lo[attribute, row], hi[attribute, row] = rules.lo[rules.literal], rules.hi[rules.literal]
    return lo, hi


def workloads(size: int) -> Iterator[tuple[str, Workload, int]]:
    """Give the workloads of one size: a name, what draws it, and the number of events."""
    for attributes in ATTRIBUTES:
        for width in WIDTHS:
            matches = size * width**attributes
            if matches <= MATCHES_MAX:
                name = f"{attributes} x {width:g}"
                made = HTree(name, size, attributes=attributes, constrained=attributes, width=width)
                yield name, made, EVENTS if matches < 300 else FEW_EVENTS
    yield "STOCK", Stock(subscriptions=size), FEW_EVENTS


def both_layouts(
    rules: Rules, sample: Events, constants: CostConstants
) -> tuple[Loaded, Loaded | None, Weighed]:
    """Return a layout of tables, one with a tree if there can be one, and which of them the tuner takes."""
    choice = TreeChoice()
    chosen = load(rules, sample, constants=constants, trees=choice)
    other = TreeChoice(not choice.weighed.is_used)
    loaded = load(rules, sample, constants=constants, trees=other)
    if choice.weighed.is_used:
        return loaded, chosen, choice.weighed
    return chosen, loaded if other.weighed.is_used else None, choice.weighed


def choice_figures(ratios: list[float], weighed: Weighed, figure: Callable[..., Figure]) -> list[Figure]:
    """Return how a layout with a tree compares, and what became of the tuner's choice."""
    ratio = statistics.median(ratios)
    lost = max(ratio if weighed.is_used else 1 / ratio, 1.0)
    expected = (
        "" if weighed.tree_ns is None else f"{weighed.tree_ns:.0f} / {weighed.tables_ns:.0f} ns expected"
    )
    return [
        figure("layout with a tree, time / layout's", ratio, "x", f"{min(ratios):.2f} to {max(ratios):.2f}"),
        figure("tree chosen", float(weighed.is_used), "yes", expected),
        figure("chosen / better", lost, "x"),
    ]


def compare(
    name: str, workload: Workload, event_count: int, passes: int, constants: CostConstants
) -> list[Figure]:
    """Time layouts and the trees in turns."""
    rules, events = workload.rules(), workload.events(event_count)
    batches = batches_of(events)
    sample = workload.events(SAMPLE_EVENTS, first=SAMPLE_FIRST)
    loaded, with_tree, weighed = both_layouts(rules, sample, constants)
    trees = {tree: TreeRun(pack, rules, batches) for tree, pack in TREES.items()}
    engine = PayloadRun(loaded, batches, "columns")
    runs: dict[str, Run] = {"layout": KernelRun(loaded, batches), "engine": engine, **trees}
    if with_tree is not None:
        runs["layout with a tree"] = KernelRun(with_tree, batches)
    expected = runs["layout"].run()
    if expected[:CHECKED].tolist() != expected_counts(rules, events, CHECKED).tolist():
        raise WrongAnswer("brute force finds other matches than the layout")
    times: dict[str, list[float]] = {run: [] for run in runs}
    for _ in range(passes):
        for run, timed in runs.items():
            begin = time.process_time()
            counts = timed.run()
            times[run].append(1e6 * (time.process_time() - begin) / event_count)
            if not np.array_equal(counts, expected):
                raise WrongAnswer(f"{run} has other matches than the layout")

    def figure(what: str, value: float, unit: str, spread: str = "") -> Figure:
        return Figure(what, value, unit, "", spread, 1, name, rules.size)

    found = [
        figure("matches", float(expected.mean()), "per event"),
        figure("layout, time", min(times["layout"]), "us/event"),
        figure("engine, time", min(times["engine"]), "us/event"),
        figure("layout, bytes", loaded.index_bytes / rules.size, "bytes/subscription"),
    ]

    def ratios_of(run: str) -> list[float]:
        return [one / other for one, other in zip(times[run], times["layout"], strict=True)]

    if with_tree is not None:
        found += choice_figures(ratios_of("layout with a tree"), weighed, figure)
    for tree, made in trees.items():
        ratios = ratios_of(tree)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        found.append(figure(f"{tree}, time / layout's", statistics.median(ratios), "x", spread))
        found.append(figure(f"{tree}, bytes", made.bytes / rules.size, "bytes/subscription"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; with ``--keep`` write ``benchmarks/results/trees.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--only", nargs="+", help="workloads, such as STOCK or '6 x 0.1'")
    parser.add_argument("--passes", type=int, default=9)
    parser.add_argument("--keep", action="store_true", help="lines of other sizes stay as they are")
    options = parser.parse_args(arguments)
    constants = CostConstants(**measure_steps())
    for size in options.sizes:
        for name, workload, event_count in workloads(size):
            if options.only and name not in options.only:
                continue
            figures = compare(name, workload, event_count, options.passes, constants)
            shown = (f"{one.figure} {one.value:.3g} {one.spread}".strip() for one in figures)
            sys.stdout.write(f"{name}, {size:,}: " + "; ".join(shown) + "\n")
            sys.stdout.flush()
            if options.keep:
                write("trees", figures, keep_others=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
