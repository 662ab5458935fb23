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


def reason(policy: FoldPolicy, now_s: float) -> str | None:
    """Why a generation should be built now, if nothing of the delta is removed."""
    return policy.reason(now_s, lambda row: policy.rows - row)


def test_nothing_to_do() -> None:
    assert reason(built(1_000), 1e6) is None
    assert reason(FoldPolicy(30.0), 1e6) is None


def test_a_delta_is_folded_when_it_rests_costs_or_is_large() -> None:
    policy = built(10_000)
    policy.changed(10_000 + DELTA_ROWS_MIN, 10.0)
    assert reason(policy, 10.1) is None
    assert reason(policy, 11.0) == "delta at rest"
    for _ in range(50):
        policy.measured(100, 20)
    assert reason(policy, 10.1) == "costly delta"
    policy.build_s, policy.build_cpu_s = 60.0, 0.01
    assert reason(policy, 10.1) is None, "it has not cost as much as a build"
    for _ in range(450):
        policy.measured(100, 20)
    assert reason(policy, 10.2) is None, "as many may have come before a build is there"
    assert reason(policy, 70.1) == "costly delta"
    policy.changed(40_000, 10.0)
    assert reason(policy, 10.0) == "large delta"
    policy = built(100_000)
    policy.changed(199_999, 10.0)
    assert reason(policy, 10.0) is None, "nobody says that it costs anything"
    policy.changed(200_000, 10.0)
    assert reason(policy, 10.0) == "large delta"
    policy = built(1_000_000)
    policy.changed(1_000_000 + DELTA_ROWS_MIN, 10.0)
    assert reason(policy, 1e6) is None, "a rebuild of a million rows for a few is not worth it"


def test_a_delta_that_would_be_there_again_is_not_folded() -> None:
    """A thousand come each second; a build takes 4 s, and each stays for 3 s or for an hour."""

    def reasons(stay_s: float, build_cpu_s: float) -> list[str | None]:
        policy = built(10_000)
        policy.build_s, policy.build_cpu_s = 4.0, build_cpu_s
        found = []
        for tick in range(1, 101):
            now_s = tick / 10
            policy.changed(10_000 + 100 * tick, now_s)
            policy.measured(100, 20)

            def live_from(row: int, now_s: float = now_s, policy: FoldPolicy = policy) -> int:
                begun_s = max((row - 10_000) / 1_000, now_s - stay_s)
                return round(1_000 * max(now_s - begun_s, 0.0))

            found.append(policy.reason(now_s, live_from))
        return found

    borne = reasons(3.0, 1e-4)  # as much as five measured tasks cost
    assert set(borne[:39]) == {None}
    assert "costly delta" in borne[39:51], "but not for ever: a build may help in another way"
    stays = reasons(3_600.0, 1e-3)
    assert "costly delta" not in stays[:80], "not before there is twice what comes during a build"
    assert "costly delta" in stays[80:95]


def test_dead_rows_are_folded_away() -> None:
    policy = built(10_000)
    policy.changed(10_000, 1.0, removed=900)
    assert reason(policy, 100.0) is None
    policy.changed(10_000, 1.0, removed=100)
    assert reason(policy, 100.0) == "dead rows"
    policy.started()
    assert reason(policy, 100.0) is None


def test_dead_rows_are_reclaimed_when_they_are_many_or_nothing_else_is_going_on() -> None:
    policy = built(30_000)
    policy.changed(30_000, 10.0, dead_rows=9_000)
    assert reason(policy, 10.1) is None
    assert reason(policy, 13.0) == "dead rows to reclaim"
    policy.changed(30_000, 10.0, dead_rows=10_000)
    assert reason(policy, 10.1) == "dead rows to reclaim"
    policy.reclaim_from_s = 20.0  # the last try failed
    assert not policy.reclaims(19.0) and policy.reclaims(20.0)
    policy.changed(1_000, 10.0, dead_rows=1)
    assert not policy.reclaims(100.0), "not worth a copy"
    policy.asked = True
    assert policy.reclaims(100.0)


def test_statistics_are_renewed_as_long_as_events_come() -> None:
    policy = built(1_000, sample=0)
    policy.sample_count = 500
    assert reason(policy, 29.0) is None
    assert reason(policy, 31.0) == "better statistics"
    policy.samples_count = False
    assert reason(policy, 31.0) is None, "tables are chosen by imported statistics"
    policy.samples_count = True
    policy = built(1_000, sample=2_048)
    policy.sampled_since_build = 2_000
    assert reason(policy, 31.0) is None
    policy.sampled_since_build = 2_048
    assert reason(policy, 31.0) == "new statistics"
    policy.build_s = 10.0
    assert reason(policy, 31.0) is None, "building takes at most a share of the time"
    assert reason(policy, 201.0) == "new statistics"


def test_asked_for() -> None:
    policy = built(1_000)
    policy.asked = True
    assert reason(policy, 0.0) == "asked for"
