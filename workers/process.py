"""The worker process: a socket, the mapped segments and the in-process engine around `WorkerMachine`.

Started by module name: ``python -m pubsub_cluster.workers.process``. It finds its place on the machine before
NumPy and numba are imported, says `Hello`, compiles its kernels, says `Ready`, and then lives from message to
message. It holds no state that cannot be given to its successor.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import time
from typing import Any

from pubsub_cluster.shm.lifeline import SHORT_TURN_US, gently, leave, pin_to, take_turns, tie_to_parent

HEARTBEAT_S = 1.0
log = logging.getLogger("pubsub_cluster.worker")


def main(argv: list[str] | None = None) -> int:
    """Run a worker until it is told to stop or its coordinator dies."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.workers.process")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--worker", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--cpu", type=int, default=None)
    parser.add_argument("--gently", action="store_true", help="others answer: get ready behind them")
    options = parser.parse_args(argv)
    tie_to_parent(options.parent)
    pinned = pin_to(options.cpu)
    take_turns(SHORT_TURN_US)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s worker %(message)s")
    if options.cpu is not None and pinned is None:
        log.warning("cannot pin to CPU %d here; running unpinned", options.cpu)

    if options.gently:
        gently(lambda: importlib.import_module("pubsub_cluster.workers.loop"))
    from pubsub_cluster.workers.loop import WorkerLoop

    return WorkerLoop(options.endpoint, options.worker, pinned, options.gently).run()


def now_us() -> int:
    """Return a monotonic time in microseconds."""
    return time.perf_counter_ns() // 1_000


def error_body(error: Exception) -> dict[str, Any]:
    """Return any error as a dictionary for the wire."""
    from pubsub_cluster.language.errors import ClusterError, PubSubError

    if isinstance(error, PubSubError):
        return error.to_dict()
    remedy = "This is a defect: report it with the worker's log."
    return ClusterError("the worker failed", seen=repr(error), remedy=remedy).to_dict()


if __name__ == "__main__":
    leave(main())
