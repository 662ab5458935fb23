"""When a new generation is asked for."""

from __future__ import annotations

from pubsub_cluster.coordinator.folding import DELTA_ROWS_MIN, FoldPolicy


def built(rows: int, sample: int = 0) -> FoldPolicy:
    """A policy whose current generation covers `rows` and was built on `sample` events."""
    policy = FoldPolicy(retune_interval_s=30.0)
    policy.changed(rows, 0.0)
    policy.sample_count = sample
    policy.started()
    policy.published(rows, 0.0)
    return policy


def test_nothing_to_do() -> None:
    assert built(1_000).reason(1e6) is None
    assert FoldPolicy(30.0).reason(1e6) is None


def test_a_delta_is_folded_when_it_rests_costs_or_is_large() -> None:
    policy = built(10_000)
    policy.changed(10_000 + DELTA_ROWS_MIN, 10.0)
    assert policy.reason(10.1) is None
    assert policy.reason(11.0) == "delta at rest"
    for _ in range(50):
        policy.measured(100, 20)
    assert policy.reason(10.1) == "costly delta"
    policy.build_s, policy.build_cpu_s = 60.0, 0.01
    assert policy.reason(10.1) is None, "it has not cost as much as a build"
    for _ in range(450):
        policy.measured(100, 20)
    assert policy.reason(10.1) == "costly delta"
    policy.changed(40_000, 10.0)
    assert policy.reason(10.0) == "large delta"
    policy = built(100_000)
    policy.changed(199_999, 10.0)
    assert policy.reason(10.0) is None, "nobody says that it costs anything"
    policy.changed(200_000, 10.0)
    assert policy.reason(10.0) == "large delta"
    policy = built(1_000_000)
    policy.changed(1_000_000 + DELTA_ROWS_MIN, 10.0)
    assert policy.reason(1e6) is None, "a rebuild of a million rows for a few is not worth it"


def test_dead_rows_are_folded_away() -> None:
    policy = built(10_000)
    policy.changed(10_000, 1.0, removed=900)
    assert policy.reason(100.0) is None
    policy.changed(10_000, 1.0, removed=100)
    assert policy.reason(100.0) == "dead rows"
    policy.started()
    assert policy.reason(100.0) is None


def test_dead_rows_are_reclaimed_when_they_are_many_or_nothing_else_is_going_on() -> None:
    policy = built(30_000)
    policy.changed(30_000, 10.0, dead_rows=9_000)
    assert policy.reason(10.1) is None
    assert policy.reason(13.0) == "dead rows to reclaim"
    policy.changed(30_000, 10.0, dead_rows=10_000)
    assert policy.reason(10.1) == "dead rows to reclaim"
    policy.reclaim_from_s = 20.0  # the last try failed
    assert not policy.reclaims(19.0) and policy.reclaims(20.0)
    policy.changed(1_000, 10.0, dead_rows=1)
    assert not policy.reclaims(100.0), "not worth a copy"
    policy.asked = True
    assert policy.reclaims(100.0)


def test_statistics_are_renewed_as_long_as_events_come() -> None:
    policy = built(1_000, sample=0)
    policy.sample_count = 500
    assert policy.reason(29.0) is None
    assert policy.reason(31.0) == "better statistics"
    policy.samples_count = False
    assert policy.reason(31.0) is None, "tables are chosen by imported statistics"
    policy.samples_count = True
    policy = built(1_000, sample=2_048)
    policy.sampled_since_build = 2_000
    assert policy.reason(31.0) is None
    policy.sampled_since_build = 2_048
    assert policy.reason(31.0) == "new statistics"
    policy.build_s = 10.0
    assert policy.reason(31.0) is None, "building takes at most a share of the time"
    assert policy.reason(201.0) == "new statistics"


def test_asked_for() -> None:
    policy = built(1_000)
    policy.asked = True
    assert policy.reason(0.0) == "asked for"
