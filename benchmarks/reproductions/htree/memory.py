"""HTREE figure 15 and table 3: memory, counted as the paper does, and as our arrays have it.

The paper counts two doubles per range, a 4-byte number per subscription, 4 bytes for each place where an
index has it, and Tama's 2-byte count; it leaves out the number of an attribute and the heads of buckets.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.htree.h_tree import HTreeCore
from pubsub_cluster.algorithms.htree.plan import Plan
from pubsub_cluster.algorithms.htree.simple import SimpleCore
from pubsub_cluster.algorithms.htree.tama import TamaCore
from pubsub_cluster.benchmarks.reproductions.htree.measure import CELLS, LEVELS, axes
from pubsub_cluster.benchmarks.reproductions.htree.upkeep import DOMAIN, doubles
from pubsub_cluster.benchmarks.reproductions.outcome import Note, Outcome, Scale, canvas, decided, save
from pubsub_cluster.benchmarks.workloads.htree_ranges import RangeWorkload

RANGE_BYTES, NUMBER_BYTES, COUNT_BYTES, HEAD_BYTES = 16, 4, 2, 8
TAMA_PLACES = 9
"""Of a range of width 0.1 at level 13, "at least"."""
SAMPLE: dict[Scale, int] = {"small": 20_000, "paper": 100_000}
SIZES = tuple(range(1_000_000, 6_000_000, 1_000_000))
NAMES = ("Simple", "Tama", "H-Tree", "H-Tree with heads")
HEADS = HEAD_BYTES * CELLS**LEVELS


def subscription_bytes(constraints: int, tama_places: float = TAMA_PLACES) -> dict[str, float]:
    """Return the bytes of a subscription as the paper counts them."""
    simple = constraints * RANGE_BYTES + NUMBER_BYTES
    places = constraints * tama_places * NUMBER_BYTES
    return {"Simple": simple, "Tama": simple + places + COUNT_BYTES, "H-Tree": simple + NUMBER_BYTES}


def measured(size: int, constraints: int) -> dict[str, float]:
    """Return places per range in Tama and the bytes per subscription of our arrays, heads apart."""
    ranges = doubles(RangeWorkload(size, constrained=constraints).ranges())
    tama, tree, simple = TamaCore(DOMAIN), HTreeCore(Plan(axes(range(LEVELS)), CELLS)), SimpleCore()
    for core in (tama, tree, simple):
        core.build(ranges)
    return {
        "places": tama.pieces / len(ranges.lo),
        "copies": float(tree.lists.heads[:, 1].sum(dtype=np.int64)) / size,
        "Simple": simple.bytes / size,
        "Tama": (tama.bytes - tama.lists.heads.nbytes) / size,
        "H-Tree": (tree.bytes - tree.lists.heads.nbytes) / size,
    }


def run_memory(scale: Scale, note: Note) -> Outcome:
    """Figure 15: HT-n by the number of subscriptions."""
    constraints = RangeWorkload(1).constrained
    ours = measured(SAMPLE[scale], constraints)
    note("figure 15: sample measured")
    each = subscription_bytes(constraints, ours["places"])
    each["H-Tree"] = each["Simple"] + ours["copies"] * NUMBER_BYTES
    lines = []
    for size in SIZES:
        paper = {name: size * each[name] for name in NAMES[:3]} | {NAMES[3]: size * each["H-Tree"] + HEADS}
        arrays = {name: size * ours[name] for name in NAMES[:3]} | {NAMES[3]: size * ours["H-Tree"] + HEADS}
        lines += [
            {
                "subscriptions": size,
                "matcher": name,
                "bytes as the paper counts": paper[name],
                "bytes of our arrays": arrays[name],
            }
            for name in NAMES
        ]
    ratio = each["H-Tree"] / each["Simple"]
    from_size = HEADS / (1.1 * each["Simple"] - each["H-Tree"])
    verdict = decided(
        "HTREE-37",
        each["Simple"] < each["H-Tree"] < each["Tama"] and ratio <= 1.1,
        f"bytes per subscription {each['Simple']:.0f} < {each['H-Tree']:.0f} < {each['Tama']:.0f}, "
        f"H-Tree / Simple = {ratio:.3f}; with heads within 1.1 from {from_size / 1e6:.1f} M on; our arrays "
        + ", ".join(f"{name} {ours[name]:.0f}" for name in NAMES[:3]),
        "see the bytes",
    )
    return Outcome(lines, [verdict], partial(_draw, lines))


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, plots = canvas(1, 2, "HT-n: m = 50, k = 20, w = 0.1, c = l = 8 (HTREE figure 15)")
    for plot, key in zip(plots.flat, ("bytes as the paper counts", "bytes of our arrays"), strict=True):
        for name in NAMES:
            mine = [line for line in lines if line["matcher"] == name]
            sizes = [line["subscriptions"] / 1e6 for line in mine]
            plot.plot(sizes, [line[key] / 1e9 for line in mine], marker="o", label=name)
        plot.set(xlabel="subscriptions (millions)", ylabel=key.replace("bytes", "GB"))
        plot.legend(fontsize="small")
    save(pyplot, figure, path)


def run_table(scale: Scale, note: Note) -> Outcome:
    """Table 3: bytes of a constraint and of a subscription of ten."""
    each = subscription_bytes(10)
    ours = measured(SAMPLE[scale], 10)
    note("table 3: sample measured")
    constraint = {"Simple": 16, "Tama": RANGE_BYTES + TAMA_PLACES * NUMBER_BYTES, "H-Tree": 16}
    lines = [
        {
            "matcher": name,
            "bytes of a constraint": constraint[name],
            "bytes of a subscription": each[name],
            "bytes of our arrays per subscription": ours[name],
        }
        for name in NAMES[:3]
    ]
    is_equal = (each["Simple"], each["Tama"], each["H-Tree"], constraint["Tama"]) == (164, 526, 168, 52)
    verdict = decided(
        "HTREE-36",
        is_equal and ours["copies"] == 1.0,
        f"{each['Simple']:.0f}, {each['Tama']:.0f}, {each['H-Tree']:.0f} bytes; heads of buckets, left "
        f"out there: {HEADS / 1e6:.0f} MB; ours: {ours['places']:.2f} places per range in Tama, and "
        f"{ours['copies']:.0f} per subscription in H-Tree",
        "see the bytes",
    )
    return Outcome(lines, [verdict], partial(_draw_table, lines))


def _draw_table(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, plots = canvas(1, 1, "A subscription of ten constraints (HTREE table 3)")
    place = np.arange(len(lines))
    for shift, key in ((-0.2, "bytes of a subscription"), (0.2, "bytes of our arrays per subscription")):
        plots[0, 0].bar(place + shift, [line[key] for line in lines], 0.4, label=key)
    plots[0, 0].set_xticks(place, [line["matcher"] for line in lines])
    plots[0, 0].set(xlabel="matcher", ylabel="bytes")
    plots[0, 0].legend(fontsize="small")
    save(pyplot, figure, path)
