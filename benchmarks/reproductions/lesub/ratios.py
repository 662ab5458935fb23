"""LESUB's figure on the ratio of nonequality predicates; equalities that select little; equalities only."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.reproductions.lesub.cores import CORES, built, measured
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe

SIZE: dict[Scale, int] = {"small": 30_000, "paper": 200_000}
EQUAL_SIZES: dict[Scale, tuple[int, ...]] = {
    "small": (300, 3_000, 30_000, 100_000),
    "paper": (1_000, 10_000, 100_000, 1_000_000),
}
RATIOS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
DOMAINS = (2, 3, 4, 6, 8, 16, 32)
EVENTS = 60
MATCHERS = tuple(name for name in CORES if name != "naive")
PREFERRED, QUARANTINING = "equality-preferred", "quarantining"
WORK = ("probes", "additions", "look-ups", "checks")


def lines_of(kind: str, made: LeSubscribe, at: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Measure one load; return lines that say of which figure they are and where on its axis."""
    events = made.events(EVENTS)
    found = measured(made, built(names, made.conjunctions()), events)
    return [{"figure": kind, "at": at, **line} for line in found]


def run(scale: Scale, note: Note) -> Outcome:
    """Measure the three loads."""
    lines: list[dict[str, Any]] = []
    for ratio in RATIOS:
        made = LeSubscribe(SIZE[scale], strings=0, numbers=10, equality_probability=1 - ratio)
        lines += lines_of("ratio", made, ratio, MATCHERS)
    note("ratio of nonequality predicates")
    for values in DOMAINS:
        made = LeSubscribe(
            SIZE[scale],
            string_values=values,
            number_values=6,
            predicate_probability=0.6,
            equality_probability=0.0,
        )
        lines += lines_of("domain", made, values, (PREFERRED, QUARANTINING))
    note("equalities that select little")
    for size in EQUAL_SIZES[scale]:
        # So many values that there is next to no output.
        made = LeSubscribe(size, strings=10, numbers=0, string_values=10_000)
        lines += lines_of("equality only", made, size, (PREFERRED, QUARANTINING))
    note("equality only")
    return Outcome(lines, [*_ratio(lines), _domain(lines), _equality_only(lines)], partial(_draw, lines))


def _of(lines: list[dict[str, Any]], figure: str, matcher: str, what: str) -> Any:
    return np.array([one[what] for one in lines if one["figure"] == figure and one["matcher"] == matcher])


def _ratio(lines: list[dict[str, Any]]) -> list[Verdict]:
    times = {name: _of(lines, "ratio", name, "us per event") for name in MATCHERS}
    hits = _of(lines, "ratio", "fair-predicate", "additions per event")
    falls = [
        f"{name} from {RATIOS[at]:.1f} to {RATIOS[at + 1]:.1f}"
        for name, mine in times.items()
        for at in np.flatnonzero(np.diff(mine) <= 0).tolist()
    ]
    ours = "; ".join(f"{name} {mine[0]:.0f} to {mine[-1]:.0f} us" for name, mine in times.items())
    none = [one for one in lines if one["figure"] == "ratio" and one["at"] == 0.0]
    mine, other = (one for name in (PREFERRED, QUARANTINING) for one in none if one["matcher"] == name)
    same = all(mine[f"{what} per event"] == other[f"{what} per event"] for what in WORK)
    candidates = mine["comparisons per event"] - other["comparisons per event"]
    share = mine["us per event"] / other["us per event"]
    return [
        decided(
            "LESUB-24",
            not falls and bool((np.diff(hits) > 0).all()),
            f"{ours}; {hits[0]:,.0f} to {hits[-1]:,.0f} satisfied predicates of subscriptions an event",
            f"time falls: {', '.join(falls)}" if falls else "satisfied predicates do not grow",
        ),
        decided(
            "LESUB-25",
            same and 0.9 <= share <= 1.1,
            f"ratio of times {share:.2f}; {'no counter differs' if same else 'a counter differs'} but for "
            f"{candidates:.0f} comparisons of candidates, which LESUB-16 counts and LESUB-19 does not",
            "one of the two does work that the other leaves out",
        ),
    ]


def _domain(lines: list[dict[str, Any]]) -> Verdict:
    share = _of(lines, "domain", PREFERRED, "us per event") / _of(
        lines, "domain", QUARANTINING, "us per event"
    )
    ours = "; ".join(f"{values} values: {one:.2f}" for values, one in zip(DOMAINS, share, strict=True))
    return decided(
        "LESUB-22",
        bool((share < 1).any() and share[-1] > 1),
        f"equality preferred / quarantining: {ours}",
        "a check stops at the first false predicate, so several are cheaper than the additions they replace",
    )


def _equality_only(lines: list[dict[str, Any]]) -> Verdict:
    sizes = _of(lines, "equality only", QUARANTINING, "at")
    probed = _of(lines, "equality only", QUARANTINING, "look-ups per event")
    times = _of(lines, "equality only", QUARANTINING, "us per event")
    first = int(np.argmax(probed >= 0.95 * probed[-1]))
    # Per factor of ten, where sizes lie closer.
    tens = np.log10(sizes[1:] / sizes[:-1])
    growth = ((times[1:] / times[:-1]) ** (1 / tens))[first:]
    matches = _of(lines, "equality only", QUARANTINING, "matches per event")[-1]
    ours = (
        f"95 % of the schemas probed ({probed[-1]:.0f}) at {sizes[first]:,.0f} subscriptions; time x "
        f"{', '.join(f'{one:.2f}' for one in growth)} per factor of ten beyond; "
        f"{matches:.1f} matches an event"
    )
    return decided(
        "LESUB-26",
        sizes[first] <= sizes[-1] / 10 and bool((growth <= 1.5).all()),
        ours,
        "the clusters outgrow the caches, so that a look-up waits for memory",
    )


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 3, "Nonequality predicates (LESUB)")
    titles = {
        "ratio": "ratio of nonequality predicates (1)",
        "domain": "values per equality attribute (number)",
        "equality only": "subscriptions, only equalities (number)",
    }
    for one, (kind, label) in zip(axes.flat, titles.items(), strict=True):
        for name in MATCHERS:
            at = _of(lines, kind, name, "at")
            if len(at):
                one.plot(at, _of(lines, kind, name, "us per event"), marker="o", label=name)
        one.set(xlabel=label, ylabel="processing time per event (µs)", ylim=(0, None))
        one.legend(fontsize="small")
    axes[0, 1].set_xscale("log", base=2)
    axes[0, 1].set_xticks(DOMAINS, map(str, DOMAINS))
    axes[0, 1].minorticks_off()
    axes[0, 2].set(xscale="log")
    save(pyplot, figure, path)
