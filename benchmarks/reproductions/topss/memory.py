"""TOPSS figure 4: memory of the association tables, and of a database, on T4.

Of the counting matchers: the bytes of association tables, hits and sizes, by the lengths of their arrays; of
a database what it says of itself. The paper's figures are the resident memory of whole processes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions
from pubsub_cluster.algorithms.topss.bit_matrix import BitMatrix
from pubsub_cluster.algorithms.topss.growable_lists import GrowableLists
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.reproductions.topss.cores import (
    COLUMN_STORE,
    HAS_DUCKDB,
    STEP,
    WITHOUT_DUCKDB,
    counting,
)
from pubsub_cluster.benchmarks.reproductions.topss.measures import PAPER_SIZES, part
from pubsub_cluster.benchmarks.workloads.topss import T4

SIZES: dict[Scale, tuple[int, ...]] = {"small": (*PAPER_SIZES[:5], 200_000), "paper": PAPER_SIZES}
ID_BYTES = 4
LARGEST = PAPER_SIZES[-1]


def measure(catalogue: Conjunctions) -> list[dict[str, Any]]:
    """Build each; return lines of the CSV."""
    count, associations = len(catalogue.owner), len(catalogue.attribute)
    found: dict[str, int] = {}
    bit = counting(BitMatrix)
    bit.build(catalogue)
    predicates, vectors = bit.predicates.count, 2 * bit.association.room
    found["bit-matrix"] = bit.association.bytes + vectors
    found["byte-matrix, by its formula"] = 8 * bit.association.bytes + vectors
    del bit
    found["list, ids only"] = ID_BYTES * associations
    found["list, ids only, and for deletion"] = 2 * ID_BYTES * associations
    core = counting(GrowableLists)
    core.build(catalogue)
    lists = core.association
    assert isinstance(lists, GrowableLists) and int(lists.lengths.sum()) == associations
    rooms = int((-(-lists.lengths // STEP) * STEP).sum())  # of lists that grow by a constant amount
    for name, size in (("growing by 16", lists.slots_bytes + ID_BYTES * rooms), ("doubling", lists.bytes)):
        found[f"list, {name}"] = size + vectors
        found[f"list, {name}, and for deletion"] = size + lists.deletion_bytes + vectors
    if HAS_DUCKDB:
        for name, make in COLUMN_STORE.items():
            core_in_sql = make()
            core_in_sql.build(catalogue)
            found[name] = core_in_sql.bytes
            del core_in_sql
    return [
        {
            "structure": name,
            "subscriptions": count,
            "predicates": predicates,
            "associations": associations,
            "bytes": size,
            "bytes per subscription": size / count,
        }
        for name, size in found.items()
    ]


def run(scale: Scale, note: Note) -> Outcome:
    """Build."""
    lines: list[dict[str, Any]] = []
    everything = T4.conjunctions(SIZES[scale][-1])
    for size in SIZES[scale]:
        lines += measure(part(everything, 0, size))
        note(f"{size:,} subscriptions")
    verdicts = [_space(lines), _deletion(lines), _database(lines)]
    return Outcome(lines, verdicts, partial(_draw, lines))


def of(lines: list[dict[str, Any]], name: str, column: str = "bytes") -> dict[int, float]:
    """Return a column by the number of subscriptions."""
    return {line["subscriptions"]: line[column] for line in lines if line["structure"] == name}


def _space(lines: list[dict[str, Any]]) -> Verdict:
    bit, ids = of(lines, "bit-matrix"), of(lines, "list, ids only")
    predicates, associations = (of(lines, "bit-matrix", one) for one in ("predicates", "associations"))
    holds = True
    for size in bit:
        padded = -(-size // 64) * 64
        holds &= bit[size] == padded * predicates[size] / 8 + 2 * padded
        holds &= ids[size] == ID_BYTES * associations[size]
    at = max(bit)
    ours = (
        f"at {at:,}: m = {predicates[at]}, bits n * m / 8 = {bit[at] - 2 * (-(-at // 64) * 64):,.0f} bytes "
        f"(n to whole words), lists n * m_avg = {associations[at]:,} ids of {ID_BYTES} bytes"
    )
    return decided("TOPSS-15", holds, ours, "the bytes are not those of the formula")


def _deletion(lines: list[dict[str, Any]]) -> Verdict:
    at = max(line["subscriptions"] for line in lines)
    names = ("bit-matrix", "list, ids only", "list, ids only, and for deletion")
    bit, alone, both = (of(lines, name, "bytes per subscription")[at] for name in names)
    bit -= 2 * (-(-at // 64) * 64) / at
    slack = [
        f"{of(lines, f'list, {name}, and for deletion', 'bytes per subscription')[at]:.1f} {name}"
        for name in ("growing by 16", "doubling")
    ]
    ours = (
        f"bytes per subscription at {at:,}: bits {bit:.1f}, lists {alone:.1f}, with those for deletion "
        f"{both:.1f}; as allocated, with slack, directories, hits and sizes: {', '.join(slack)}"
    )
    why = "two ids of each association are less than the bits of 400 predicates; slack and places are not"
    return decided("TOPSS-16", alone < bit < both, ours, why)


def _database(lines: list[dict[str, Any]]) -> Verdict:
    bit = of(lines, "bit-matrix")
    at, first = max(bit), min(bit)
    formula = LARGEST * 400 / 8 + 2 * LARGEST
    ours = f"bits {bit[at] / 2**20:.2f} MiB at {at:,} (formula at {LARGEST:,}: {formula / 2**20:.2f} MiB)"
    if not HAS_DUCKDB:
        return Verdict("TOPSS-29", "not decided", ours, WITHOUT_DUCKDB)
    ratios = {
        size: {name: of(lines, name)[size] / bit[size] for name in COLUMN_STORE} for size in (first, at)
    }
    shown = "; ".join(
        f"at {size:,} " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items())
        for size, found in ratios.items()
    )
    ours += f"; DBMS/bit {shown}"
    if at < LARGEST:
        return Verdict("TOPSS-29", "not decided", ours, f"the scale `paper` has {LARGEST:,} subscriptions")
    holds = bit[at] == formula and min(ratios[at].values()) >= 2 and min(ratios[first].values()) >= 10
    why = (
        "the smaller schema counts; a subscription has 3 rows on average: 20 bytes each in `rows` and 8 "
        "in `subs_preds`, and 50 bytes of bits"
    )
    return decided("TOPSS-29", holds, ours, why)


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "Memory on T4 (TOPSS figure 4)")
    figure.set_size_inches(10.5, 5)
    for name in dict.fromkeys(line["structure"] for line in lines):
        points = of(lines, name)
        axes[0, 0].plot(list(points), np.array(list(points.values())) / 1e6, marker="o", label=name)
    axes[0, 0].set(xlabel="subscriptions (number)", ylabel="memory (MB)", xscale="log", yscale="log")
    axes[0, 0].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    save(pyplot, figure, path)
