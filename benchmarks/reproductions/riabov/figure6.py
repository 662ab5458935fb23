"""RIABOV figure 6, its verdicts: from deliveries (`delivery`) to CSV, drawing and decisions.

Pairwise grouping is better than Forgy k-means here (RIABOV-14), though the paper says the opposite (5.2; in
A.3 that it can be better). Its text gives all three clusterings the same T = 200 heaviest cells, and pairwise
grouping as the exact one. What it leaves open was tried; improvement in % at t = 15 %, C = 8 and the set-up
of `delivery` where nothing else is said, 2 or 3 networks, 1,000 events:

    groups                                                  11                    61
    modes                                          1     4     9         1     4     9
    pairwise grouping, total                     68.8  50.0  55.5      76.7  64.4  66.3
    pairwise grouping, mean                      69.4  48.3  56.4      76.0  62.6  64.5
    pairwise grouping, mean, a pair as one cell  69.4  50.0  56.4      76.2  63.4  65.7
    Forgy, total, step 1 at once                 65.9  45.0  52.2      76.5  64.0  65.5
    Forgy, total, step 1 growing                 67.2  48.7  52.6      76.5  64.0  65.5
    - the list shuffled                          66.0  46.6  52.4      76.5  63.4  65.5
    Forgy, mean, step 1 at once                  52.9  37.3  39.8      75.4  61.3  63.7
    Forgy, mean, step 1 growing                  51.3  38.1  38.0      75.2  61.4  62.9
    not in the paper: of 20 shuffles, by total,
    that of least waste                          69.4  48.8  56.0      76.5  63.9  65.9
    Forgy, total, from pairs (ADR 20)            69.1  50.0  56.1      76.7  64.4  66.4

It is the waste itself that is higher: by total, growing, it is 30.7, 36.8, 34.5, 3.7, 5.9 and 7.3 receipts an
event, with pairwise grouping 24.9, 32.9, 28.1, 2.9, 4.8 and 5.9. So network, costs and threshold do not
explain it. With C = 6, 8 and 10, both distances, groups renewed per move or per pass, a cell's own group
judged with or without it, step 1 in either way, cells of the same members apart or as one (A.2 knows no
merging): in none of these 96 ways is Forgy best in any of the six cases. Others:

- C = 4, total, growing: best in 3 of 6, of 80 networks and of each 20 of them (of the first 5, as in the
  verdict, in 4). With 11 groups it is 0.1 points behind and 0.3 and 0.5 ahead, with 61 level or 0.01 and 0.02
  behind. T limits nothing there, 70 to 125 cells are all there are. At once: 1; mean: 0. C = 5: 1; mean: 3.
- Founders by p alone; n(g), which is not defined, as rectangles in place of subscribers; the list in the
  order of the grid, from either end, or lightest first; subscriptions in place of nodes as members; T of 100
  or 400; lengths that end at 12 or 20: at most 1 of 6. Lengths that do not end, as a Pareto distribution's:
  at most 3, with 61 groups and within 0.05 points, since there are hardly more cells then.
- The grid over 0 to 20 only, C = 5, 10, 20: 0, 0 and 2 of 6.
- (c, alpha) of the lengths as shape and scale, so that most are below 2; C = 4 to 20, 5 networks: by total 0
  to 2 of 6, by mean 2 to 6. Where these are more than 3 (C = 4, 6, 10, 12), 15 % is within 2 points of the
  best threshold in 7 to 13 of 18 cases, so that RIABOV-13 fails, and no clustering improves by more than 26
  %.
- The recursion as printed, which is not the expected waste (RIABOV-23), nor symmetric: pairwise grouping has
  to choose which of a pair is the group. The second of the list: at most 2 of 6. The closer: at most 3. The
  first, its waste kept: at most 2; the pair counted as one cell: 0 to 6, by how Forgy is read, but in 6 of
  18 cases, all the spanning tree's, 15 % is more than 2 points from the best threshold (RIABOV-13 fails).
- More cells for Forgy, because it is fast, against the text: T = 600, by total, 0, 4 and 6 of 6 with C = 8,
  10 and 16; with C = 16 the 200 cells of pairwise grouping hold 29 to 62 % of the events.

So no reading of the text was found with which Forgy is best and the other claims go on holding.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.riabov.delivery import (
    CELLS,
    CELLS_TRIED,
    EVENTS,
    GROUP_COUNTS,
    KEPT_CELLS,
    READINGS,
    SEEDS,
    THRESHOLDS,
    Case,
    Delivery,
    World,
    distinct_interests,
    distribution_costs,
    router_entries,
    run_all,
)
from pubsub_cluster.benchmarks.reproductions.riabov.network import BLOCKS, NODES, RECEIVERS
from pubsub_cluster.benchmarks.workloads.stock import BLOCK_SHARE, MIXTURES
from pubsub_cluster.tuner.group_forming import METHODS, PASSES_MAX, expected_waste

AT = 15
"""Percent: the paper's threshold."""
PUBLISHER_COUNTS, RECTANGLE_COUNTS = (1, 5, 10, 20), (1, 2, 4, 8, 16)
Means = dict[Case, Any]


def run(scale: Scale, note: Note) -> Outcome:
    """Deliver, average over the seeds, decide."""
    found = run_all(scale, note)
    means = {case: np.mean([one.improvement for one in made], axis=0) for case, made in found.items()}
    deviations = {case: np.std([one.improvement for one in made], axis=0) for case, made in found.items()}
    lines = [
        {
            **case._asdict(),
            "seeds": len(found[case]),
            "events": EVENTS[scale],
            "threshold %": percent,
            "improvement %": float(means[case][percent]),
            "deviation over seeds": float(deviations[case][percent]),
            "forming s": float(np.mean([one.seconds for one in found[case]])),
        }
        for case in found
        for percent in range(len(THRESHOLDS))
    ]
    world = World(1, 9, EVENTS[scale])
    verdicts = [
        _members(found, scale),
        _rule(),
        _threshold(means),
        _forgy_best(found, means),
        _gain(found, means),
        _scale_of(world, means),
        _sets(world),
        _state(world),
        _times(found),
        _spanning_tree(found, means),
        _stable(found),
        _grid(world),
        _recursion(),
        _network(world),
    ]
    return Outcome(lines, verdicts, partial(_draw, means))


def _cases(means: Means, reading: str, framework: str = "network") -> list[Case]:
    return [
        case
        for case in means
        if case.reading == reading and case.framework == framework and case.cells == CELLS
    ]


def _members(found: dict[Case, list[Delivery]], scale: Scale) -> Verdict:
    missed = sum(one.missed for made in found.values() for one in made)
    events = SEEDS[scale] * len(MIXTURES) * EVENTS[scale]
    ours = f"{events:,} events in {len(found)} ways: {missed} who are interested are not in the group"
    return decided("RIABOV-11", missed == 0, ours)


def _rule() -> Verdict:
    """Look at each branch of the rule on events made for it."""
    unicast, group = np.full(5, 7.0), np.full(5, 3.0)
    interested, size = np.array([0, 2, 1, 2, 3]), np.array([9, 0, 10, 10, 10])
    paid = distribution_costs(unicast, group, interested, size, 0.2).tolist()
    pure = distribution_costs(unicast, group, interested, size, 0.0).tolist()
    return decided("RIABOV-12", paid == [0, 7, 7, 3, 3] and pure == [0, 7, 3, 3, 3], "each branch, and t = 0")


def _threshold(means: Means) -> Verdict:
    parts, is_held = [], {}
    for framework in ("network", "application"):
        for reading in READINGS:
            cases = _cases(means, reading, framework)
            near = sum(bool(means[case][AT] >= means[case].max() - 2.0) for case in cases)
            worst = min(float(means[case][AT] - means[case][0]) for case in cases)
            best = sorted(int(means[case].argmax()) for case in cases)
            is_held[framework, reading] = near >= 0.8 * len(cases) and worst >= -1.0
            parts.append(
                f"{framework}, {reading}: {near} of {len(cases)} within 2 points, best t {best[0]} to "
                f"{best[-1]} % (median {best[len(best) // 2]}), against t = 0 at least {worst:+.1f}"
            )
    why = "see the cases in the CSV"
    return decided("RIABOV-13", is_held["network", "mean"], "; ".join(parts), why)


def _forgy_best(found: dict[Case, list[Delivery]], means: Means) -> Verdict:
    parts, is_held = [], {}
    for reading in READINGS:
        for cells in CELLS_TRIED:
            cases = [
                case for case in means if case[:3] == ("network", reading, "forgy") and case.cells == cells
            ]
            best = pairwise_better = 0
            for case in cases:
                mine = means[case][AT]
                pairwise, tree = (means[case._replace(clustering=name)][AT] for name in METHODS[1:])
                best += bool(mine >= pairwise and mine >= tree)
                pairwise_better += bool(pairwise > mine)
            is_held[reading, cells] = best > len(cases) / 2
            parts.append(
                f"{reading}, C = {cells}: best in {best} of {len(cases)}, "
                f"pairwise better in {pairwise_better} ({len(found[cases[0]])} seeds)"
            )
    why = (
        "started from the heaviest cells, which want much the same, Forgy rests in groups of more waste "
        "than pairwise grouping makes, most of all where groups are few; A.3 too says that pairwise can be "
        "better. Readings of the text that were tried: `benchmarks/reproductions/riabov/figure6.py`"
    )
    ours = f"decided by mean, C = {CELLS}; " + "; ".join(parts)
    return decided("RIABOV-14", is_held["mean", CELLS], ours, why)


def _gain(found: dict[Case, list[Delivery]], means: Means) -> Verdict:
    parts, gains = [], {}
    for reading in READINGS:
        for cells in CELLS_TRIED:
            case = Case("network", reading, "forgy", 9, 11, cells)
            gain = float(means[case][AT] - means[case][0])
            gains[reading, cells] = gain
            parts.append(f"{reading}, C = {cells}: {gain:+.1f} ({len(found[case])} seeds)")
    return decided(
        "RIABOV-15",
        gains["mean", CELLS] >= 5.0,
        f"decided by mean, C = {CELLS}; " + ", ".join(parts),
        "groups that waste little leave little for a threshold to save",
    )


def _scale_of(world: World, means: Means) -> Verdict:
    unicast = world.unicast_costs()
    ideal = world.costs("network", world.interested)
    nobody = np.zeros(len(unicast), np.int64)
    interested = world.interested.sum(axis=1, dtype=np.int64)
    alone = distribution_costs(unicast, ideal, interested, nobody, 0.0).sum()
    exact = distribution_costs(unicast, ideal, interested, interested, 1.0).sum()
    scale = (unicast.sum() - ideal.sum()) / 100
    zero, whole = (unicast.sum() - alone) / scale, (unicast.sum() - exact) / scale
    top = max(float(one.max()) for case, one in means.items() if case.framework == "network")
    low = min(float(one.min()) for one in means.values())
    is_held = abs(zero) < 1e-9 and abs(whole - 100) < 1e-9 and top <= 100 + 1e-9
    ours = f"unicast {zero:.0f}, ideal {whole:.0f}, all else {low:.1f} to {top:.1f}"
    return decided("RIABOV-16", is_held, ours)


def _sets(world: World) -> Verdict:
    counts = [distinct_interests(world, count) for count in RECTANGLE_COUNTS]
    bounds = [(2 * count + 1) ** 4 for count in RECTANGLE_COUNTS]
    is_held = all(a <= b for a, b in zip(counts, bounds, strict=True)) and sorted(set(counts)) == counts
    ours = ", ".join(f"k = {k}: {n}" for k, n in zip(RECTANGLE_COUNTS, counts, strict=True))
    return decided("RIABOV-17", is_held, ours)


def _state(world: World) -> Verdict:
    kept, bits, owners = world.kept(world.grid())
    sizes, entries = [], []
    for count in (11, 21, 41, 61):
        groups = world.groups(kept, bits, owners, "forgy", "total", count)
        for publishers in PUBLISHER_COUNTS:
            sizes.append(publishers * count)
            entries.append(router_entries(world, publishers, groups))
    factor = np.dot(sizes, entries) / np.dot(sizes, sizes)
    left = np.array(entries) - factor * np.array(sizes)
    fit = 1.0 - float((left**2).sum() / ((np.array(entries) - np.mean(entries)) ** 2).sum())
    ours = f"{factor:.0f} entries per publisher and group, of {NODES} nodes; R^2 = {fit:.3f}"
    return decided("RIABOV-18", fit >= 0.95, ours, "more groups are smaller groups, of smaller trees")


def _seconds(found: dict[Case, list[Delivery]], reading: str, clustering: str, groups: int) -> float:
    return float(
        np.mean(
            [
                one.seconds
                for case in found
                if (case.framework, case.reading, case.clustering, case.groups, case.cells)
                == ("network", reading, clustering, groups, CELLS)
                for one in found[case]
            ]
        )
    )


def _times(found: dict[Case, list[Delivery]]) -> Verdict:
    parts, is_held = [], {}
    for reading in READINGS:
        times = {name: [_seconds(found, reading, name, n) for n in GROUP_COUNTS] for name in METHODS}
        is_held[reading] = all(a < b for a, b in zip(times["forgy"], times["pairwise"], strict=True))
        parts += [
            f"{reading}, {name}: " + ", ".join(f"{1e3 * one:.1f} ms" for one in times[name])
            for name in METHODS
        ]
    ours = f"{KEPT_CELLS} cells, 11 and 61 groups; " + "; ".join(parts)
    why = "our pairwise grouping keeps each group's closest partner, which spares most distances"
    return decided("RIABOV-19", is_held["mean"], ours, why)


def _spanning_tree(found: dict[Case, list[Delivery]], means: Means) -> Verdict:
    parts, is_held = [], {}
    for reading in READINGS:
        ratio = max(
            _seconds(found, reading, "spanning-tree", n) / _seconds(found, reading, "pairwise", n)
            for n in GROUP_COUNTS
        )
        cases = [case for case in _cases(means, reading) if case.clustering == "spanning-tree"]
        lowest = sum(
            all(means[case][AT] <= means[case._replace(clustering=name)][AT] for name in METHODS[:2])
            for case in cases
        )
        is_held[reading] = ratio <= 0.5 and lowest > len(cases) / 2
        parts.append(f"{reading}: time ratio {ratio:.2f}, lowest in {lowest} of {len(cases)} cases")
    return decided(
        "RIABOV-20",
        is_held["mean"],
        "; ".join(parts),
        "with `mean` Forgy, started from the heaviest cells, is worse in the others",
    )


def _stable(found: dict[Case, list[Delivery]]) -> Verdict:
    parts, ends = [], True
    for reading in READINGS:
        runs = [
            one
            for case in found
            if case.reading == reading and case.clustering == "forgy" and case.framework == "network"
            for one in found[case]
        ]
        ends &= all(one.is_stable or one.passes == PASSES_MAX for one in runs)
        parts.append(f"{reading}: {sum(one.is_stable for one in runs)} of {len(runs)} runs came to rest")
    return decided("RIABOV-21", ends, "; ".join(parts) + f"; the others ended after {PASSES_MAX} passes")


def _grid(world: World) -> Verdict:
    grid = world.grid()
    numbers = int(np.prod([len(one.cuts) + 1 for one in grid.dimensions if one.cuts is not None]))
    interests = world.interests(grid)
    is_covered = len(interests.owners) == len(np.unique(world.rectangles.receiver))
    return decided(
        "RIABOV-22",
        numbers <= CELLS**4 and is_covered,
        f"{numbers} cells of numbers, C^N = {CELLS**4}; the outermost have no end",
    )


def _recursion() -> Verdict:
    """Grow random groups cell by cell, by the definition and by both recursions."""
    random = np.random.default_rng(23)
    differs = wrong = closed = 0
    for _ in range(2_000):
        cells = random.random((int(random.integers(2, 7)), 12)) < random.uniform(0.2, 0.8)
        weight = random.uniform(0.01, 1.0, len(cells))
        members, p = cells[0], weight[0]
        corrected = printed = 0.0
        for cell, mine in zip(cells[1:], weight[1:], strict=True):
            new, lost = (cell & ~members).sum(), (members & ~cell).sum()
            corrected = (p * (corrected + new) + mine * lost) / (p + mine)
            printed = (printed * p * (1 + new) + mine * lost) / (p + mine)
            members, p = members | cell, p + mine
        truth = float((weight * (members & ~cells).sum(axis=1)).sum() / p)
        size = np.array([members.sum()])
        reach = np.array([(weight * cells.sum(axis=1)).sum()])
        wrong += abs(corrected - truth) > 1e-9
        differs += abs(printed - truth) > 1e-9
        closed += abs(float(expected_waste(np.array([p]), reach, size)[0]) - truth) > 1e-9
    ours = f"of 2,000 random groups the corrected one is off in {wrong}, the printed one in {differs}"
    return decided("RIABOV-23", wrong == 0 and closed == 0 and differs > 0, ours)


def _network(world: World) -> Verdict:
    shares = np.bincount(world.rectangles.block, minlength=BLOCKS) / len(world.rectangles.block)
    error = np.sqrt(np.array(BLOCK_SHARE) * (1 - np.array(BLOCK_SHARE)) / len(world.rectangles.block))
    is_near = bool((np.abs(shares - BLOCK_SHARE) <= 4 * error).all())
    count = world.network.graph.number_of_nodes()
    ours = f"{RECEIVERS} stub nodes and {count - RECEIVERS} transit nodes; shares " + ", ".join(
        f"{share:.3f}" for share in shares
    )
    return decided("RIABOV-24", count == NODES and is_near, ours)


def _draw(means: Means, path: Path) -> None:
    title = f"Improvement over unicast by the threshold (RIABOV figure 6; C = {CELLS})"
    pyplot, figure, axes = canvas(len(GROUP_COUNTS) * len(READINGS), len(MIXTURES), title)
    rows = [(reading, groups) for reading in reversed(READINGS) for groups in GROUP_COUNTS]
    for row, (reading, groups) in enumerate(rows):
        for column, modes in enumerate(sorted(MIXTURES)):
            one = axes[row, column]
            for colour, method in zip(("#1f5a93", "#d9661f", "#5b8c3a"), METHODS, strict=True):
                for framework, style in (("network", "-"), ("application", ":")):
                    case = Case(framework, reading, method, modes, groups, CELLS)
                    label = method if framework == "network" else None
                    one.plot(100 * THRESHOLDS, means[case], style, color=colour, label=label)
            one.axvline(AT, color="#8a97a3", linewidth=0.8)
            one.set(xlabel="threshold (%)", ylabel="improvement (%)", xlim=(0, 100), ylim=(-40, 100))
            one.set_title(f"{modes} modes, {groups} groups, {reading}", fontsize=10)
    axes[0, 0].legend(fontsize="small", title="dotted: application level", title_fontsize="small")
    save(pyplot, figure, path)
