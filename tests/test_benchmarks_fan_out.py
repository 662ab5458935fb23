"""The figures of fan-out, from times and costs that are known; nothing is measured here."""

from __future__ import annotations

from pubsub_cluster.benchmarks.fan_out import NOBODY, figures_of


def test_the_senders_part_is_what_goes_beyond_matching() -> None:
    times = {"auto": [2.0, 4.0, 3.0], "pubsub": [6.0], "unicast": [30.0]}
    costs = {"auto": [1.5], "pubsub": [2.0], "unicast": [20.5], NOBODY: [0.5]}
    pairs = [([4.0], [5.0]), ([4.0], [2.0]), ([4.0], [6.0])]
    figures = figures_of(times, costs, pairs, 1_000, 2)
    found = {figure.figure.removeprefix("2 processes: "): figure for figure in figures}
    assert found["one event to the last receiver, ring, median"].value == 3.0
    assert found["sender's CPU, ring by unicast"].value == 1.0 / 20.0
    assert found["coordinator's CPU, ring by unicast, matching included"].value == 1.5 / 20.5
    assert found["sender's CPU, pubsub by unicast"].value == 1.5 / 20.0
    stopped = found["p99 of the others beside a receiver that is stopped, median of pairs of rounds"]
    assert (stopped.value, stopped.spread) == (1.25, "0.5 to 1.5")
