"""LESUB's generator: its probabilities, and the same bytes for the same seed."""

from __future__ import annotations

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison
from pubsub_cluster.benchmarks.workloads.lesub import LeSubscribe


def test_probabilities() -> None:
    made = LeSubscribe(20_000)
    catalogue, events = made.conjunctions(), made.events(5_000)
    sizes = np.diff(catalogue.stops)
    assert sizes.min() == 1 and abs(sizes.mean() - 4.006) < 0.05
    is_number = catalogue.attribute >= made.strings
    assert (catalogue.comparison[~is_number] == Comparison.EQ).all()
    shares = [np.mean(catalogue.comparison[is_number] == one) for one in Comparison]
    assert np.allclose(shares, [0.25, 0, 0.5, 0, 0, 0.25], atol=0.02)
    assert catalogue.constant[is_number].max() == 99 and catalogue.constant[~is_number].max() == 29
    assert abs(np.mean(~np.isnan(events)) - 0.8) < 0.02


def test_a_slice_is_the_same() -> None:
    made = LeSubscribe(500, seed=7)
    assert np.array_equal(made.events(40)[10:30], made.events(20, 10), equal_nan=True)
    fewer, more = LeSubscribe(200, seed=7).conjunctions(), made.conjunctions()
    assert np.array_equal(fewer.constant, more.constant[: len(fewer.constant)])
