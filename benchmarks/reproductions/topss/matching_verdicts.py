"""Verdicts on TOPSS table 1 and section 4: how long an event takes, and what a database has to look at."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.benchmarks.reproductions.fits import log_slope
from pubsub_cluster.benchmarks.reproductions.outcome import Verdict, decided
from pubsub_cluster.benchmarks.reproductions.topss.cores import (
    ASSOCIATIONS,
    COLUMN_STORE,
    DATABASES,
    HAS_DUCKDB,
    WITHOUT_DUCKDB,
)

PAPER_MS = {
    "Kdb": (89.3, 206.4, 397.4, 1800.3, 3451.2, 17299.7, 33473.1, 338166.1),
    "bit-wise": (0.3, 1.9, 3.8, 20.0, 40.4, 264.0, 562.4, 1555.7),
    "list-based": (0.10, 0.27, 0.63, 3.85, 8.10, 79.00, 190.70, 1056.00),
}
MILLION = 1_000_000


def of(lines: list[dict[str, Any]], name: str, column: str = "ms per event") -> dict[int, float]:
    """Return a column by the number of subscriptions."""
    return {line["subscriptions"]: line[column] for line in lines if line["matcher"] == name}


def verdicts(lines: list[dict[str, Any]], phase: dict[str, float]) -> list[Verdict]:
    """Return those on TOPSS-23, -24, -25, -30, -31, -32 and -34.

    Parameters
    ----------
    lines
        Of the CSV.
    phase : mapping
        ms per event of the predicates alone, by "table" and "list".
    """
    return [
        _bit_wise(lines),
        _list_based(lines),
        _database(lines),
        *_rows(lines),
        _exact(lines),
        _fastest(lines, phase),
    ]


def _until(points: dict[int, float], least: int, most: int) -> dict[int, float]:
    return {size: value for size, value in points.items() if least <= size <= most}


def _slope(points: dict[int, float]) -> float:
    return log_slope(list(points), list(points.values()))


def _undecided(claim: str, ours: str, why: str = "the scale `paper` has 1,000,000 and 5,000,000") -> Verdict:
    return Verdict(claim, "not decided", ours, why)


def _shown(points: dict[int, float]) -> str:
    return ", ".join(f"{size:,}: {value:.3g}" for size, value in points.items())


def _bit_wise(lines: list[dict[str, Any]]) -> Verdict:
    bit = of(lines, "bit-matrix")
    found = _slope(_until(bit, 0, MILLION))
    ours = f"slope {found:.2f} up to {min(max(bit), MILLION):,}; ms per event {_shown(bit)}"
    if max(bit) < MILLION:
        return _undecided("TOPSS-23", ours)
    ns = {size: f"{1e6 * bit[size] / size:.0f} ns at {size:,}" for size in (min(bit), MILLION)}
    why = f"per subscription {' and '.join(ns.values())}, where matrix and hits are no longer in the caches"
    return decided("TOPSS-23", 0.9 <= found <= 1.2, ours, why)


def _list_based(lines: list[dict[str, Any]]) -> Verdict:
    bit, list_ = of(lines, "bit-matrix"), of(lines, "list")
    ratios = {size: bit[size] / list_[size] for size in bit}
    large = _until(list_, 100_000, MILLION)
    shrinks = [ratio for size, ratio in ratios.items() if size >= 100_000]
    ours = f"t(bit)/t(list) at {_shown(ratios)}; slope {_slope(large):.2f} from 100,000 on"
    if max(bit) < MILLION:
        return _undecided("TOPSS-24", ours)
    parts = {
        "the ratio is not 1.2 everywhere": min(ratios.values()) >= 1.2,
        "the lead does not shrink above 100,000": shrinks[-1] < shrinks[0],
        "the slope is not above 1.1": _slope(large) > 1.1,
    }
    why = "; ".join(part for part, is_held in parts.items() if not is_held)
    return decided("TOPSS-24", all(parts.values()), ours, f"{why}: see what is read per event, figure 3")


def _database(lines: list[dict[str, Any]]) -> Verdict:
    if not HAS_DUCKDB:
        return _undecided("TOPSS-25", "", WITHOUT_DUCKDB)
    both = [of(lines, name) for name in COLUMN_STORE]
    better = {size: min(one[size] for one in both) for size in both[0]}
    bit, list_ = of(lines, "bit-matrix"), of(lines, "list")
    by_bit = {size: better[size] / bit[size] for size in better}
    by_list = {size: better[size] / list_[size] for size in better}
    linear = _until(better, 5_000, MILLION)
    ours = (
        f"DBMS ms {_shown(better)}; DBMS/bit {_shown(by_bit)}; DBMS/list {_shown(by_list)}; "
        f"slope {_slope(linear):.2f} from 5,000 on"
    )
    if max(better) < MILLION:
        return _undecided("TOPSS-25", ours)
    parts = {
        "DBMS/bit is below 10 somewhere": min(by_bit.values()) >= 10,
        "DBMS/list is below 30 somewhere": min(by_list.values()) >= 30,
        "it is not linear, since a query costs some milliseconds before it reads": 0.9
        <= _slope(linear)
        <= 1.2,
    }
    why = "; ".join(part for part, is_held in parts.items() if not is_held)
    return decided("TOPSS-25", all(parts.values()), ours, f"{why}; grouping on a column store is quick")


def _rows(lines: list[dict[str, Any]]) -> list[Verdict]:
    of_databases = [line for line in lines if line["matcher"] in DATABASES]
    sequential, grouping = (
        [line for line in of_databases if kind in line["matcher"]] for kind in ("sequential", "grouping")
    )
    last = max(sequential, key=lambda line: int(line["subscriptions"]))
    wanted, distinct = last["associations"], last["distinct predicates"]
    is_all = all(line["rows"] == line["associations"] for line in sequential)
    is_once = all(
        line["rows"] == line["associations"] and line["predicates evaluated"] == line["distinct predicates"]
        for line in grouping
    )
    at = f"at {last['subscriptions']:,}: "
    return [
        decided(
            "TOPSS-30",
            is_all,
            f"{at}{wanted:,} rows and as many comparisons, of {distinct} distinct predicates",
            "rows are not the sum of n_P",
        ),
        decided(
            "TOPSS-31",
            is_once,
            f"{at}{distinct} predicates are evaluated; {wanted:,} rows of `subs_preds`",
            "rows or predicates are not those",
        ),
    ]


def _exact(lines: list[dict[str, Any]]) -> Verdict:
    """Answers have been compared already, with each other and with brute force."""
    seen = sorted({line["matcher"] for line in lines if line["matcher"] in DATABASES})
    sizes = len({line["subscriptions"] for line in lines})
    ours = f"{', '.join(seen)}: the same as all others and brute force, at {sizes} sizes"
    return decided("TOPSS-32", True, ours)


def _fastest(lines: list[dict[str, Any]], phase: dict[str, float]) -> Verdict:
    """Compare the phases' sums; both first phases feed the same second phase."""
    at = max(line["subscriptions"] for line in lines)
    rest = {
        name: min(of(lines, f"{name}{suffix}").get(at, float("inf")) - phase[kind] for suffix, kind in KINDS)
        for name in ASSOCIATIONS
    }
    total = {f"{kind} and {name}": rest[name] + phase[kind] for name in rest for _, kind in KINDS}
    total |= {name: of(lines, name)[at] for name in DATABASES if at in of(lines, name)}
    best = min(total, key=lambda name: total[name])
    order = sorted(total.items(), key=lambda one: one[1])
    ours = f"ms per event at {at:,}: " + ", ".join(
        f"{name} {ms:.4g}" for name, ms in order if ms < float("inf")
    )
    ours += f"; predicates alone: table {phase['table']:.4f}, list {phase['list']:.4f}"
    if at < MILLION:
        return _undecided("TOPSS-34", ours)
    return decided("TOPSS-34", best == "table and list", ours, f"{best} is the best")


KINDS = (("", "table"), ("-ordered", "list"))
