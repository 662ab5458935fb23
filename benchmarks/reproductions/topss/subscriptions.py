"""TOPSS figure 3: evaluating subscriptions of T4 by counting over a byte matrix, a bit matrix and lists.

"We measure subscription matching time only": all three are given the same predicate bit vectors. The byte
matrix stops where it would be larger than `association.BYTES_MAX`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.topss.association import BYTES_MAX, Matrix
from pubsub_cluster.algorithms.topss.counting import PREDICATES_MAX, Counting
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
from pubsub_cluster.benchmarks.reproductions.topss.cores import ASSOCIATIONS, counting
from pubsub_cluster.benchmarks.reproductions.topss.measures import (
    PAPER_SIZES,
    check_answers,
    interleaved,
    part,
)
from pubsub_cluster.benchmarks.workloads.topss import T4
from pubsub_cluster.language.errors import CallerError

SIZES: dict[Scale, tuple[int, ...]] = {"small": (*PAPER_SIZES[:5], 200_000), "paper": PAPER_SIZES}
EVENTS = 10
PASSES_FEW, PASSES_MANY = 3, 9
"""Of more than 100,000 subscriptions, and of fewer."""
WORD = 64
TOLERANCE = 0.1


def measure(catalogue: Conjunctions) -> list[dict[str, Any]]:
    """Time all that fit, interleaved; return lines of the CSV."""
    count, values = len(catalogue.owner), T4.events(EVENTS)
    cores = {}
    for name, association in ASSOCIATIONS.items():
        core = counting(association)
        try:
            core.build(catalogue)
        except CallerError:
            continue
        cores[name] = core
    bits = next(iter(cores.values())).predicates.bits(values)
    calls = {name: partial(core.count, bits) for name, core in cores.items()}
    best, answers = interleaved(calls, PASSES_FEW if count > 100_000 else PASSES_MANY)
    owners = {
        name: (np.repeat(np.arange(EVENTS), np.diff(stops)), found[: stops[-1]].astype(np.int64))
        for name, (stops, found) in answers.items()
    }
    check_answers(owners, catalogue, values)
    return [_line(name, core, bits, best[name], len(catalogue.attribute)) for name, core in cores.items()]


def _line(name: str, core: Counting, bits: Any, seconds: float, rows: int) -> dict[str, Any]:
    counters = np.zeros(3, np.int64)
    stops, _ = core.count(bits, counters)
    return {
        "association": name,
        "subscriptions": core.ids.count,
        "predicates": core.predicates.count,
        "associations": rows,
        "matches per event": float(stops[-1]) / EVENTS,
        "satisfied per event": float(counters[0]) / EVENTS,
        "looked at per event": float(counters[1]) / EVENTS,
        "compared per event": float(counters[2]) / EVENTS,
        "ms per event": 1e3 * seconds / EVENTS,
        "association bytes": core.association.bytes,
    }


def run(scale: Scale, note: Note) -> Outcome:
    """Count."""
    measure(T4.conjunctions(1_000))  # compile
    lines: list[dict[str, Any]] = []
    everything = T4.conjunctions(SIZES[scale][-1])
    for size in SIZES[scale]:
        lines += measure(part(everything, 0, size))
        note(f"{size:,} subscriptions")
    verdicts = [
        _limit(),
        *_costs(lines),
        _deletion(),
        _order(lines),
        _bits_against_bytes(lines),
        _eight_times(lines),
    ]
    return Outcome(lines, verdicts, partial(_draw, lines))


def of(lines: list[dict[str, Any]], name: str, column: str) -> dict[int, float]:
    """Return a column of an association table by the number of subscriptions."""
    return {line["subscriptions"]: line[column] for line in lines if line["association"] == name}


def _limit() -> Verdict:
    """One conjunction of 254 to 257 predicates, on events that satisfy all of them, and none."""
    seen = []
    for size in range(PREDICATES_MAX - 1, PREDICATES_MAX + 3):
        one = Conjunctions(
            np.zeros(1, np.int64),
            np.array([0, size]),
            np.arange(size, dtype=np.int32),
            np.full(size, Comparison.EQ, np.int8),
            np.ones(size),
        )
        for association in ASSOCIATIONS.values():
            core = counting(association)
            try:
                core.build(one)
                seen.append((size, core.match(np.array([[1.0] * size, [0.0] * size]))[0].tolist()))
            except CallerError:
                seen.append((size, None))
    expected = [[0], [0], None, None]
    holds = seen == [(254 + at, answer) for at, answer in enumerate(expected) for _ in ASSOCIATIONS]
    ours = "254 and 255 predicates are counted, 256 and 257 refused, by all three"
    return decided("TOPSS-14", holds, ours, "a conjunction is counted wrongly")


def _costs(lines: list[dict[str, Any]]) -> list[Verdict]:
    bit_is_exact, worst = True, 0.0
    for line in lines:
        count, satisfied = line["subscriptions"], line["satisfied per event"]
        if line["association"] == "bit-matrix":
            words = -(-count // WORD)
            bit_is_exact &= line["looked at per event"] == satisfied * words
        elif line["association"] == "list":
            expected = satisfied * line["associations"] / line["predicates"]
            worst = max(worst, abs(line["looked at per event"] / expected - 1))
        bit_is_exact &= line["compared per event"] == count
    last = {line["association"]: line for line in lines}
    bit, list_ = last["bit-matrix"], last["list"]
    shown = "at {subscriptions:,}: {satisfied per event:.1f} satisfied predicates, "
    shown += "{looked at per event:,.0f} {what}, "
    shown += "{compared per event:,.0f} comparisons an event"
    ours = shown.format(**bit, what=f"words of {WORD}")
    return [
        decided("TOPSS-17", bit_is_exact, ours, "words are not n_psat * n / 64, or comparisons not n"),
        decided(
            "TOPSS-18",
            worst <= TOLERANCE,
            f"{shown.format(**list_, what='ids')}; from n_psat * n * m_avg / m at most {100 * worst:.1f} %",
            "satisfied predicates are more popular than others",
        ),
    ]


def _deletion() -> Verdict:
    """Delete and insert; compare all that the structures hold before and after."""
    catalogue, holds = T4.conjunctions(1_000), True
    for association in ASSOCIATIONS.values():
        core = counting(association)
        core.build(catalogue)
        for owner in (0, 501, 999):
            holds &= _is_one_column(core, catalogue, owner)
    ours = "1,000 subscriptions: a column of m cells cleared, n_P set; or n_P lists one shorter"
    return decided("TOPSS-19", holds, ours, "more than a column changed, or a part of it stayed")


def _is_one_column(core: Counting, catalogue: Conjunctions, owner: int) -> bool:
    """Whether deleting a subscription, and inserting it again, changes what it should."""
    one = part(catalogue, owner, owner + 1)
    size, table = len(one.attribute), core.association
    if isinstance(table, GrowableLists):
        before = table.lengths.copy()
        core.delete(owner)
        touched = before - table.lengths
        core.insert(one)
        return bool(touched.sum() == size == (touched == 1).sum() and np.array_equal(before, table.lengths))
    assert isinstance(table, Matrix)
    filled = table.associated
    core.delete(owner)
    cleared = table.associated
    core.insert(one)
    column = filled != cleared
    is_cleared = not cleared[:, owner].any() and np.flatnonzero(column.any(axis=0)).tolist() == [owner]
    return is_cleared and bool(column.sum() == size and np.array_equal(table.associated, filled))


def _order(lines: list[dict[str, Any]]) -> Verdict:
    byte, bit, list_ = (of(lines, name, "ms per event") for name in ASSOCIATIONS)
    wrong = [size for size in bit if not list_[size] < bit[size] < byte.get(size, float("inf"))]
    at = max(byte)
    ours = f"at {at:,}: list {list_[at]:.3g}, bit {bit[at]:.3g}, byte {byte[at]:.3g} ms per event"
    where = ", ".join(
        f"{n:,} (list {list_[n]:.2g}, bit {bit[n]:.2g}, byte {byte.get(n, float('nan')):.2g} ms)"
        for n in wrong
    )
    why = f"not at {where}; see TOPSS-21"
    return decided("TOPSS-20", not wrong, ours, why)


def _bits_against_bytes(lines: list[dict[str, Any]]) -> Verdict:
    byte, bit = (of(lines, name, "ms per event") for name in ("byte-matrix", "bit-matrix"))
    ratios = {size: byte[size] / bit[size] for size in byte}
    ours = "t(byte)/t(bit) " + ", ".join(f"at {size:,}: {ratio:.2f}" for size, ratio in ratios.items())
    large = [ratio for size, ratio in ratios.items() if size >= 100_000]
    if not large:
        return Verdict("TOPSS-21", "not decided", ours, "the claim begins at 100,000 subscriptions")
    at = max(byte)
    rate = of(lines, "byte-matrix", "looked at per event")[at] / byte[at] / 1e6
    why = (
        f"a byte matrix makes {rate:.0f} additions a ns at {at:,}, since an instruction adds 32 at once; "
        "the bits of a word are added one by one"
    )
    return decided("TOPSS-21", min(large) >= 2, ours, why)


def _eight_times(lines: list[dict[str, Any]]) -> Verdict:
    byte, bit = (of(lines, name, "association bytes") for name in ("byte-matrix", "bit-matrix"))
    holds = all(byte[size] == 8 * bit[size] for size in byte)
    at = max(bit)
    stops = (
        ""
        if at in byte
        else f"; at {at:,} it would have {8 * bit[at]:,.0f} bytes and is refused ({BYTES_MAX:,})"
    )
    ours = f"{byte[max(byte)]:,.0f} and {bit[max(byte)]:,.0f} bytes at {max(byte):,}{stops}"
    return decided("TOPSS-22", holds, ours, "a byte matrix is not eight times a bit matrix")


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 2, "Subscription matching on T4 (TOPSS figure 3)")
    for name in ASSOCIATIONS:
        for at, column in enumerate(("ms per event", "looked at per event")):
            points = of(lines, name, column)
            axes[0, at].plot(list(points), list(points.values()), marker="o", label=name)
    axes[0, 0].set(ylabel="time per event (ms)")
    axes[0, 1].set(ylabel="looked at per event (number)")
    axes[0, 1].set(title="cells, words or ids")
    for one in axes.flat:
        one.set(xlabel="subscriptions (number)", xscale="log", yscale="log")
        one.legend(fontsize="small")
    save(pyplot, figure, path)
