"""The figures of fan-out, from times and costs that are known; nothing is measured here."""

from __future__ import annotations

from pubsub_cluster.benchmarks.fan_out import NOBODY, figures_of


def test_the_senders_part_is_what_goes_beyond_matching() -> None:
    times = {
        "auto": [2.0, 4.0, 3.0],
        "pubsub": [6.0],
        "unicast": [30.0],
        "alone": [4.0],
        "beside a stopped one": [5.0],
    }
    costs = {"auto": [1.5], "pubsub": [2.0], "unicast": [20.5], NOBODY: [0.5]}
    found = {figure.figure: figure.value for figure in figures_of(times, costs, 1_000, 2)}
    assert found["2 processes: one event to the last receiver, ring, median"] == 3.0
    assert found["2 processes: sender's CPU, ring by unicast"] == 1.0 / 20.0
    assert found["2 processes: coordinator's CPU, ring by unicast, matching included"] == 1.5 / 20.5
    assert found["2 processes: sender's CPU, pubsub by unicast"] == 1.5 / 20.0
    assert found["2 processes: p99 of the others beside a receiver that is stopped"] == 1.25
