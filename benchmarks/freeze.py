"""Freeze the number of matches of workloads, found by a matcher that shares no code with the product's.

    python -m pubsub_cluster.benchmarks.freeze W0 100000 20000

Propagation (`benchmarks.engines.propagation`) answers all events, brute force the first ones; the total goes
into ``workloads/expected.json``, and every later run with the same name, size, seed and events must find it.
"""

from __future__ import annotations

import json
import sys

from pubsub_cluster.benchmarks.engines.propagation import Propagation
from pubsub_cluster.benchmarks.runner import FROZEN, SAMPLE_EVENTS, SAMPLE_FIRST, frozen_key
from pubsub_cluster.benchmarks.workloads import WORKLOADS
from pubsub_cluster.benchmarks.workloads.rules import expected_counts

CHECKED = 20
SEED = 1


def freeze(name: str, subscriptions: int, event_count: int) -> int:
    """Find and write the number of matches of a workload; return it."""
    workload = WORKLOADS[name].make(subscriptions=subscriptions, seed=SEED)
    rules, events = workload.rules(), workload.events(event_count)
    sample = workload.events(SAMPLE_EVENTS, first=SAMPLE_FIRST)
    counts = Propagation(rules, sample, True).match(events)
    truth = expected_counts(rules, events, CHECKED)
    assert counts[: len(truth)].tolist() == truth.tolist(), "brute force disagrees"
    known = json.loads(FROZEN.read_text()) if FROZEN.exists() else {}
    known[frozen_key(workload, event_count)] = int(counts.sum())
    FROZEN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    return int(counts.sum())


def main() -> int:
    """Freeze one workload."""
    name, subscriptions, events = sys.argv[1:4]
    sys.stdout.write(f"{freeze(name, int(subscriptions), int(events)):,} matches\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
