"""A status as metrics."""

from __future__ import annotations

import re

from pubsub_cluster.cli.prometheus import METRICS, WORKER_METRICS, exposition

STATUS = {
    "uptime_s": 1.5,
    "subscriptions": 3,
    "counters": {"matches": 7},
    "durable_receivers": {"count": 2},
    "retained": None,
    "workers": [
        {"worker": 0, "shard": 0, "replica": 0, "ready": True, "busy_us": 2_500_000},
        {"worker": 4, "shard": 1, "replica": 0, "ready": False, "busy_us": 0},
    ],
    "memory": {"coordinator": 100, "worker 0": 20},
    "segments": {"a": 10, "b": 5},
}
SAMPLE = re.compile(r'(pubsub_cluster_[a-z_]+)(\{[a-z]+="[\w ]+"(,[a-z]+="\d+")*\})? \d+(\.\d+)?')


def test_what_a_status_has_is_told_with_its_kind() -> None:
    lines = exposition(STATUS).splitlines()
    assert "pubsub_cluster_uptime_seconds 1.5" in lines
    assert "pubsub_cluster_subscriptions 3" in lines
    assert "# TYPE pubsub_cluster_subscriptions gauge" in lines
    assert "# TYPE pubsub_cluster_matches_total counter" in lines
    assert "pubsub_cluster_matches_total 7" in lines
    assert 'pubsub_cluster_worker_busy_seconds_total{worker="0",shard="0",replica="0"} 2.5' in lines
    assert 'pubsub_cluster_worker_ready{worker="4",shard="1",replica="0"} 0' in lines
    assert "pubsub_cluster_shared_memory_bytes 15" in lines
    assert 'pubsub_cluster_memory_bytes{process="worker 0"} 20' in lines
    samples = [line for line in lines if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert len(samples) == 11  # what an older cluster does not tell is left out


def test_names_are_given_once_and_every_family_is_explained() -> None:
    names = [metric.name for metric in (*METRICS, *WORKER_METRICS)]
    assert len(set(names)) == len(names)
    lines = exposition(STATUS).splitlines()
    explained = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert explained == [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert {line.split("{")[0].split()[0] for line in lines if not line.startswith("#")} == set(explained)
