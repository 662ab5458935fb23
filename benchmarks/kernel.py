"""One workload at kernel and engine level, quickly: for whoever works on the kernels.

    python -m pubsub_cluster.benchmarks.kernel --subscriptions 1000000 [--workload w0] [--engine]

Prints microseconds per event, index bytes per subscription and build seconds. The first events are checked
against brute force, and every timed pass against the first.
"""

from __future__ import annotations

import argparse
import sys
import time

from pubsub_cluster.benchmarks.levels import KernelRun, PayloadRun, load
from pubsub_cluster.benchmarks.measure import Run, interleaved
from pubsub_cluster.benchmarks.workloads import papers
from pubsub_cluster.benchmarks.workloads.rules import expected_counts

BATCH = 1_000


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", default="w0", choices=("w0", "w1", "w2", "w0_domains"))
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--checked", type=int, default=20)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--engine", action="store_true")
    arguments = parser.parse_args()
    workload = getattr(papers, arguments.workload)(arguments.subscriptions)
    rules = workload.rules()
    events = workload.events(arguments.events)
    loaded = load(rules, workload.events(2_048, first=1 << 30))
    batches = [events.slice(first, first + BATCH) for first in range(0, events.size, BATCH)]
    runs: dict[str, Run] = {"kernel": KernelRun(loaded, batches)}
    if arguments.engine:
        runs["engine"] = PayloadRun(loaded, batches, "columns")
    begin = time.perf_counter()
    counts = runs["kernel"].run()
    first_s = time.perf_counter() - begin
    expected = expected_counts(rules, events, arguments.checked)
    assert counts[: len(expected)].tolist() == expected.tolist(), "brute force disagrees"
    timings = interleaved(runs, dict.fromkeys(runs, counts), arguments.passes)
    for name, timing in timings.items():
        sys.stdout.write(f"{workload.name} {rules.size} {name}: {timing.best:.3f} us/event")
        sys.stdout.write(f" ({timing.spread}), {timing.matches} matches\n")
    sys.stdout.write(
        f"index {loaded.index_bytes / rules.size:.1f} bytes/subscription, load {loaded.load_s:.1f} s, "
        f"build {loaded.build_s:.1f} s, first pass {first_s:.1f} s\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
