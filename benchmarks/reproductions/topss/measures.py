"""What TOPSS's experiments share: interleaved times, slopes, and checks of answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Conjunctions, brute_force
from pubsub_cluster.algorithms.dimensions import F8

CHECKED = 1_000
"""Subscriptions that are compared with brute force."""
PAPER_SIZES = (1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000)
"""n of the paper's tables 1 and 2."""


def interleaved(
    calls: Mapping[str, Callable[[], Any]], passes: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Call each in turn, `passes` times over; return the best seconds and the last answer of each."""
    best = dict.fromkeys(calls, float("inf"))
    answers: dict[str, Any] = {}
    for _ in range(passes):
        for name, call in calls.items():
            answers.pop(name, None)
            begin = time.perf_counter()
            answers[name] = call()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best, answers


def pairs(answer: tuple[Any, Any], below: int | None = None) -> list[tuple[int, int]]:
    """Return (event, owner), sorted; of owners below a number only."""
    event, owner = answer
    keep = slice(None) if below is None else owner < below
    return sorted(zip(event[keep].tolist(), owner[keep].tolist(), strict=True))


def part(catalogue: Conjunctions, begin: int, stop: int) -> Conjunctions:
    """Return the conjunctions [begin, stop) of a catalogue."""
    first, last = catalogue.stops[[begin, stop]].tolist()
    return Conjunctions(
        catalogue.owner[begin:stop],
        catalogue.stops[begin : stop + 1] - first,
        catalogue.attribute[first:last],
        catalogue.comparison[first:last],
        catalogue.constant[first:last],
    )


def check_answers(answers: Mapping[str, tuple[Any, Any]], catalogue: Conjunctions, values: F8) -> None:
    """Fail unless all answers are the same, and on a sample those of brute force.

    Parameters
    ----------
    answers : mapping of str to (event, owner)
        Owners are places in the catalogue.
    catalogue, values
        What was asked.
    """
    canonical = {}
    for name, (event, owner) in answers.items():
        canonical[name] = np.sort(event * np.int64(len(catalogue.owner)) + owner)
    (first, expected), *others = canonical.items()
    for name, found in others:
        assert np.array_equal(found, expected), f"{name} and {first} do not agree"
    sample = min(CHECKED, len(catalogue.owner))
    assert pairs(answers[first], sample) == pairs(brute_force(part(catalogue, 0, sample), values))
