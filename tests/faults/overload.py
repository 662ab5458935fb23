"""Ask too much of a cluster: publishers that never wait, receivers that read nothing; how much memory is it?

    python tests/faults/overload.py [--peers 24] [--seconds 20] [--record]

Each peer publishes as fast as its socket takes it, small batches with many matches, and reads no answer. A
client that behaves publishes beside them and waits for each answer, behind theirs. Prints a line; `--record`
writes ``benchmarks/results/overload.csv``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks import record
from pubsub_cluster.client.publishing import publication_of
from pubsub_cluster.coordinator.unread import ALL_SIZE_BYTES_MAX
from pubsub_cluster.language.protocol import Answer, Op, request_frames

SUBSCRIPTIONS = 2_000
EVENTS_PER_BATCH = 10
PAUSE_S = 2.0
GROWTH_SIZE_MB_MAX = (ALL_SIZE_BYTES_MAX >> 20) + 256
"""The bound over all unread answers, and what requests, groups and the reply window take beside it."""


def anonymous_mb(pid: int) -> float:
    """Return a process's private memory, MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1_024
    raise ValueError("no such line in smaps_rollup")


@contextmanager
def deaf_peers(endpoint: str, count: int) -> Iterator[list[Any]]:
    """Sockets that take one message and leave the rest where it is."""
    context = zmq.Context()
    peers = []
    for _ in range(count):
        peer = context.socket(zmq.DEALER)
        peer.setsockopt(zmq.RCVHWM, 1)
        peer.setsockopt(zmq.SNDHWM, 100)
        peer.connect(endpoint)
        peers.append(peer)
    try:
        yield peers
    finally:
        for peer in peers:
            peer.close(linger=0)
        context.term()


def run(peer_count: int, seconds: float) -> dict[str, float]:
    """Overload a cluster twice, for so long each time; return the figures by name."""
    with Cluster(replicas=1) as cluster, cluster.client(timeout_s=120.0) as client:
        client.subscribe_many([{"expr": f"x >= 0 AND y != {i}"} for i in range(SUBSCRIPTIONS)])
        client.publish([{"x": 1, "y": -1}])
        pid = int(client.status()["pid"])
        before_mb = anonymous_mb(pid)
        largest_mb: list[float] = []
        latencies_s: list[float] = []
        sent = 0
        for _ in range(2):
            largest_mb.append(before_mb)
            with deaf_peers(cluster.started["endpoint"], peer_count) as peers:
                until_s = time.monotonic() + seconds
                while time.monotonic() < until_s:
                    sent += sum(_publish(peer, number, sent) for number, peer in enumerate(peers))
                    begin_s = time.monotonic()
                    client.publish([{"x": 1, "y": -1}])
                    latencies_s.append(time.monotonic() - begin_s)
                    largest_mb[-1] = max(largest_mb[-1], anonymous_mb(pid))
            time.sleep(PAUSE_S)
            client.publish([{"x": 1, "y": -1}])
        counters, after_mb = client.status()["counters"], anonymous_mb(pid)
    return {
        "batches sent by peers that read nothing": sent,
        "batches answered to all": counters["batches_answered"],
        "coordinator before": before_mb,
        "coordinator, largest growth": largest_mb[0] - before_mb,
        "coordinator, largest growth the second time": largest_mb[1] - before_mb,
        "coordinator after the peers left": after_mb,
        "answer to a client that behaves, median": 1e3 * statistics.median(latencies_s),
        "answer to a client that behaves, longest": 1e3 * max(latencies_s),
    }


def _publish(peer: Any, number: int, sent: int) -> int:
    """Send what the socket takes now, at most ten batches; return how many it took."""
    for turn in range(10):
        fields = {"publisher": f"deaf{number}", "batch_id": f"{sent}-{turn}"}
        events = [{"x": turn, "y": -1}] * EVENTS_PER_BATCH
        publication = publication_of(events, Answer.HANDLES, False, fields, 1 << 20, 1_000)
        frames = request_frames(Op.PUBLISH, f"r{sent}-{turn}", publication.fields, publication.buffers)
        try:
            peer.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return turn
    return 10


def main() -> None:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description="Overload a cluster; say how much memory it takes.")
    parser.add_argument("--peers", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/overload.csv")
    options = parser.parse_args()
    found = run(options.peers, options.seconds)
    shown = ", ".join(f"{name} {value:,.0f}" for name, value in found.items())
    print(f"overload, {options.peers} peers: {shown}")
    if options.record:
        growth = "coordinator, largest growth"
        targets = dict.fromkeys((growth, f"{growth} the second time"), f"<= {GROWTH_SIZE_MB_MAX}")
        units = {"coordinator": "MB", "answer to": "ms"}
        record.write(
            "overload",
            [
                record.Figure(
                    name,
                    value,
                    next((unit for start, unit in units.items() if name.startswith(start)), ""),
                    targets.get(name, ""),
                    workload=f"{options.peers} peers",
                )
                for name, value in found.items()
            ],
        )


if __name__ == "__main__":
    main()
