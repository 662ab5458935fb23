"""RIABOV figure 6: unicast or multicast, decided per event by a threshold, on a simulated network.

STOCK's subscriptions lie at the nodes of a transit-stub network (`network.Network`). Groups are formed from
a grid over the event space (`tuner.groups`: the T cells of the greatest p(g) * #l(g)) by Forgy k-means,
pairwise grouping, or a minimum spanning tree. An event goes to nobody, to each interested node, or to its
cell's group, as section 4 has it; what that costs is told as the share of what could be saved (D-23):

    improvement = 100 * (unicast - cost) / (unicast - ideal),   ideal: a group of exactly those interested

What the paper leaves open, and what we take: publishers are `PUBLISHERS` nodes drawn at random, each event is
of one of them; probabilities of cells are those of `SAMPLE` publications other than the measured ones. The
grid has C intervals per dimension, three for bst; C is not given: ours (`CELLS`) is the one of `CELLS_TRIED`
with which Forgy saves most at t = 15 %, over all modes and groups, which is what whoever runs it would take.

The distance of a cell from a group can be read in two ways (`tuner.group_forming`): the increase of the
waste of a message (``mean``), Forgy's groups renewed once per pass, which are the definitions D-20 and D-21
and decide the verdicts; and that of all expected waste (``total``), renewed by each move, which the product
has (ADR 20). What holds for passes holds for step 1, where the other cells join: all at once, or each to the
groups that those before it made. In either Forgy starts from the n heaviest cells, as in the paper; the
product does not. Costs are those of dense mode, which the paper assumes; application-level multicast stands
beside it. What else can be read in the text, and what becomes of RIABOV-14 then: `figure6`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from pubsub_cluster.algorithms.riabov.packed_tree import Searcher
from pubsub_cluster.algorithms.riabov.s_tree import pack
from pubsub_cluster.benchmarks.reproductions.outcome import Note, Scale
from pubsub_cluster.benchmarks.reproductions.riabov.network import F8, I8, RECEIVERS, Bools, Network
from pubsub_cluster.benchmarks.workloads.stock import ATTRIBUTES, MIXTURES, Stock
from pubsub_cluster.shm.code_space import U8
from pubsub_cluster.tuner.grid import Dimension, Grid, make_grid
from pubsub_cluster.tuner.group_forming import METHODS, Renewal, Start, forgy, form, group_members
from pubsub_cluster.tuner.groups import (
    CATCH_ALL,
    GroupOptions,
    Interests,
    cell_members,
    cell_totals,
    keep_cells,
)
from pubsub_cluster.tuner.interest import rectangle_cells

SUBSCRIPTIONS, KEPT_CELLS = 1_000, 200
CELLS_TRIED = (4, 6, 8, 10)
CELLS = 8
PUBLISHERS = 10
SAMPLE = 20_000
GROUP_COUNTS = (11, 61)
THRESHOLDS = np.arange(101) / 100
SEEDS: dict[Scale, int] = {"small": 10, "paper": 20}
SEEDS_TRIED = 5
"""Of the grids that are not `CELLS`."""
EVENTS: dict[Scale, int] = {"small": 400, "paper": 2_000}
Reading = Literal["total", "mean"]
READINGS: tuple[Reading, ...] = ("total", "mean")
FORGY: dict[Reading, tuple[Renewal, Start]] = {"total": ("move", "growing"), "mean": ("pass", "heaviest")}
FRAMEWORKS = ("network", "application")


class Case(NamedTuple):
    """What a line of the figure is drawn for; cells is C."""

    framework: str
    reading: Reading
    clustering: str
    modes: int
    groups: int
    cells: int


class Groups(NamedTuple):
    """Multicast groups.

    Attributes
    ----------
    of_cell : int32[cells]
        `CATCH_ALL` for those of S_0.
    members : bool[n, receivers]
    seconds : float
        Of forming them.
    passes : int
        Of Forgy k-means.
    is_stable : bool
        Whether the last pass moved nothing.
    """

    of_cell: Any
    members: Bools
    seconds: float
    passes: int
    is_stable: bool


class Delivery(NamedTuple):
    """How much of all that could be saved each threshold saves.

    Attributes
    ----------
    improvement : float64[101]
        Percent; threshold 0 to 100 %.
    missed : int
        Pairs of an event and somebody who is interested in it and not in its group.
    seconds : float
        Of forming the groups.
    passes : int
    is_stable : bool
    """

    improvement: F8
    missed: int
    seconds: float
    passes: int
    is_stable: bool


class World:
    """One drawing of everything: network, subscriptions, publications; and who is interested in each.

    Parameters
    ----------
    seed : int
    modes : int
    event_count : int
    network : Network, optional
        That of the same seed, if it is there.
    """

    def __init__(self, seed: int, modes: int, event_count: int, network: Network | None = None) -> None:
        self.stock = Stock(subscriptions=SUBSCRIPTIONS, seed=seed, receivers=RECEIVERS, modes=modes)
        self.rectangles = self.stock.rectangles()
        self.network = network or Network(seed)
        events = self.stock.events(event_count)
        self.points = self.stock.numbers(events)
        self.interested = self.interests_in(self.points)
        random = np.random.default_rng((seed, 1))
        publishers = random.choice(RECEIVERS, PUBLISHERS, replace=False)
        self.publisher = publishers[random.integers(PUBLISHERS, size=event_count)]
        self._sample = self.stock.numbers(self.stock.events(SAMPLE, 1 << 30))

    def interests_in(self, points: F8) -> Bools:
        """Return who is interested in publications, by an S-tree: bool[events, receivers]."""
        lo, hi = self.rectangles.lo.T, self.rectangles.hi.T
        tree = pack(np.nextafter(lo, np.inf), hi)  # open below
        stops, places, _ = Searcher(tree).places(np.ascontiguousarray(points))
        found = np.zeros((len(points), RECEIVERS), np.bool_)
        event = np.repeat(np.arange(len(points)), np.diff(stops))
        found[event, self.rectangles.receiver[tree.order[places]]] = True
        return found

    def grid(self, cells: int = CELLS) -> Grid:
        """Return the grid: equal intervals between the outermost finite ends of all rectangles (D-19)."""
        dimensions = [Dimension(ATTRIBUTES[0], np.array([0.5, 1.5]))]
        for at, name in enumerate(ATTRIBUTES[1:], 1):
            ends = np.concatenate((self.rectangles.lo[:, at], self.rectangles.hi[:, at]))
            ends = ends[np.isfinite(ends)]
            dimensions.append(Dimension(name, np.linspace(ends.min(), ends.max(), cells + 1)[1:-1]))
        return make_grid(dimensions)

    def cells_of(self, points: F8, grid: Grid) -> I8:
        """Return the cell of each publication."""
        cell = np.zeros(len(points), np.int64)
        for dimension in grid.dimensions:
            column = points[:, ATTRIBUTES.index(dimension.attribute)]
            cell = cell * dimension.cell_count + dimension.number_cells(column)
        return cell

    def interests(self, grid: Grid) -> Interests:
        """Return l(g) of all cells."""
        at = [ATTRIBUTES.index(dimension.attribute) for dimension in grid.dimensions]
        lo, hi = ([ends[:, place] for place in at] for ends in (self.rectangles.lo, self.rectangles.hi))
        blocks = list(rectangle_cells(self.rectangles.receiver, lo, hi, grid))
        names = tuple(f"{owner:04d}" for block in blocks for owner in block.owner.tolist())
        return Interests(names, np.concatenate([block.cells for block in blocks]))

    def kept(self, grid: Grid) -> tuple[Any, U8, tuple[str, ...]]:
        """Return the T cells of the greatest p(g) * #l(g), their members, and whom the bits stand for."""
        interests = self.interests(grid)
        weight = np.bincount(self.cells_of(self._sample, grid), minlength=grid.cell_count).astype(float)
        options = GroupOptions(max(GROUP_COUNTS), KEPT_CELLS, hyper_cells=False)
        kept = keep_cells(weight, cell_totals(interests, grid), options)
        return kept, cell_members(interests.cells, grid, kept.cell), interests.owners

    def groups(self, kept: Any, bits: U8, owners: Any, method: str, reading: Reading, count: int) -> Groups:
        """Form groups of kept cells."""
        begin = time.process_time()
        if method == "forgy":
            formed = forgy(kept.weight, bits, count, reading, *FORGY[reading])
        else:
            formed = form(method, kept.weight, bits, count, reading)
        seconds = time.process_time() - begin
        of_cell = np.where(kept.of_cell >= 0, formed.group[kept.of_cell], CATCH_ALL)
        packed = group_members(bits, formed.group).astype("<u8").view(np.uint8)
        is_in = np.unpackbits(packed, axis=1, bitorder="little")[:, : len(owners)].astype(np.bool_)
        members = np.zeros((len(is_in), RECEIVERS), np.bool_)
        members[:, [int(name) for name in owners]] = is_in
        return Groups(of_cell, members, seconds, formed.passes, formed.is_stable)

    def costs(self, framework: str, wanted: Bools) -> F8:
        """Return what multicast to a set of receivers costs for each event: bool[events, receivers]."""
        if framework == "application":
            return self.network.overlay(self.publisher, wanted)
        cost = np.zeros(len(wanted))
        for publisher in np.unique(self.publisher).tolist():
            mine = self.publisher == publisher
            cost[mine] = self.network.multicast(publisher, wanted[mine])
        return cost

    def unicast_costs(self) -> F8:
        """Return what unicast to those who are interested costs for each event."""
        distance = np.stack([self.network.paths(int(node)).distance[:RECEIVERS] for node in self.publisher])
        cost: F8 = (self.interested * distance).sum(axis=1)
        return cost

    def group_costs(self, framework: str, groups: Groups, group: Any) -> F8:
        """Return what multicast to its group costs for each event; 0 in S_0."""
        pairs, which = np.unique(np.stack((self.publisher, group)), axis=1, return_inverse=True)
        real = np.flatnonzero(pairs[1] != CATCH_ALL)
        cost = np.zeros(pairs.shape[1])
        if framework == "application":
            cost[real] = self.network.overlay(pairs[0, real], groups.members[pairs[1, real]])
        else:
            for publisher in np.unique(pairs[0, real]).tolist():
                mine = real[pairs[0, real] == publisher]
                cost[mine] = self.network.multicast(publisher, groups.members[pairs[1, mine]])
        found: F8 = cost[which.reshape(-1)]
        return found


def distribution_costs(unicast: F8, group_cost: F8, interested: I8, size: I8, threshold: float) -> F8:
    """Return what each event costs by the distribution method (RIABOV section 4).

    Parameters
    ----------
    unicast, group_cost : float64[events]
    interested : int64[events]
        Who is interested.
    size : int64[events]
        Members of the event's group; 0 in S_0.
    threshold : float
        t; at 0 all events with a group are multicast.
    """
    is_multicast = (size > 0) & (interested > 0) & (interested >= threshold * size)
    return np.where(interested == 0, 0.0, np.where(is_multicast, group_cost, unicast))


def deliveries(
    world: World, cells: int = CELLS, frameworks: tuple[str, ...] = FRAMEWORKS
) -> Iterator[tuple[Case, Delivery]]:
    """Deliver all events in all cases of one grid."""
    grid = world.grid(cells)
    kept, bits, owners = world.kept(grid)
    cell = world.cells_of(world.points, grid)
    interested = world.interested.sum(axis=1, dtype=np.int64)
    unicast = world.unicast_costs()
    ideal = {framework: world.costs(framework, world.interested) for framework in frameworks}
    for reading, method, count in itertools.product(READINGS, METHODS, GROUP_COUNTS):
        groups = world.groups(kept, bits, owners, method, reading, count)
        group = groups.of_cell[cell]
        missed = int(np.count_nonzero(world.interested & ~_members_of(groups, group)))
        size = np.where(group == CATCH_ALL, 0, groups.members.sum(axis=1)[group])
        for framework in frameworks:
            cost = world.group_costs(framework, groups, group)
            total = np.array(
                [distribution_costs(unicast, cost, interested, size, float(t)).sum() for t in THRESHOLDS]
            )
            saved = 100 * (unicast.sum() - total) / (unicast.sum() - ideal[framework].sum())
            case = Case(framework, reading, method, world.stock.modes, count, cells)
            yield case, Delivery(saved, missed, groups.seconds, groups.passes, groups.is_stable)


def _members_of(groups: Groups, group: Any) -> Bools:
    """Return who gets each event if its group is sent to; everybody for S_0, where it is unicast."""
    found: Bools = groups.members[group].copy()
    found[group == CATCH_ALL] = True
    return found


def run_all(scale: Scale, note: Note) -> dict[Case, list[Delivery]]:
    """Return the deliveries of all cases, one per seed; of other grids by network multicast only."""
    found: dict[Case, list[Delivery]] = {}
    for seed in range(1, SEEDS[scale] + 1):
        network = Network(seed)
        for modes in sorted(MIXTURES):
            world = World(seed, modes, EVENTS[scale], network)
            made = list(deliveries(world))
            for cells in CELLS_TRIED if seed <= SEEDS_TRIED else ():
                made += deliveries(world, cells, FRAMEWORKS[:1]) if cells != CELLS else ()
            for case, delivery in made:
                found.setdefault(case, []).append(delivery)
        note(f"seed {seed} of {SEEDS[scale]}")
    return found


def router_entries(world: World, publishers: int, groups: Groups) -> int:
    """Return the entries of all routers: one per publisher, group and node of its tree (dense mode)."""
    drawn = np.random.default_rng(0).choice(RECEIVERS, publishers, replace=False)
    return sum(int(world.network.router_entries(int(node), groups.members).sum()) for node in drawn)


def distinct_interests(world: World, count: int) -> int:
    """Return how many sets of interested rectangles the first `count` rectangles have, over the whole space.

    All of them are met on the grid of the rectangles' ends and the places between these.
    """
    lo, hi = world.rectangles.lo[:count], world.rectangles.hi[:count]
    alike = np.zeros((1, count), np.bool_) | True
    for below, above in zip(lo.T, hi.T, strict=True):
        ends = np.unique(np.concatenate((below, above)))
        ends = ends[np.isfinite(ends)]
        # Open below: an end stands for all values from there down to the next end.
        places = np.append(ends, ends.max(initial=0.0) + 1.0)
        inside = (below < places[:, None]) & (places[:, None] <= above)
        alike = np.unique((alike[:, None, :] & inside[None]).reshape(-1, count), axis=0)
    return int(alike.any(axis=1).sum())
