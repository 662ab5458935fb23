"""Run a coordinator as a process of its own: ``python -m pubsub_cluster.coordinator.main``.

Used by `pubsub_cluster.Cluster` and by ``pubsub-cluster start --detach``. The settings come as JSON on
standard input; one line of JSON goes to the descriptor of ``--ready-fd``: the status when every worker
takes tasks, or the error that kept the cluster from starting. The exit status is 0 for a cluster that was
stopped, `CANNOT_START` for one that was refused a start, and another one after a failure.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any

import numpy.ma  # noqa: F401 - or the first `np.unique` imports it, while a client waits for its answer
import orjson

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.running import run_coordinator
from pubsub_cluster.language.errors import PubSubError

CANNOT_START = 3


def main(argv: list[str] | None = None) -> int:
    """Run the coordinator; return the exit status."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.coordinator.main")
    parser.add_argument("--ready-fd", type=int, required=True)
    parser.add_argument("--parent", type=int, default=None, help="stop when this process ends")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s coordinator %(message)s")

    told = False

    def tell(body: dict[str, Any]) -> None:
        nonlocal told
        if told:
            logging.error("%s", body)
            return
        told = True
        with os.fdopen(options.ready_fd, "wb") as pipe:
            pipe.write(orjson.dumps(body) + b"\n")

    try:
        config = ClusterConfig.from_json(orjson.loads(sys.stdin.buffer.read()))
        return run_coordinator(config, lambda found: tell({"ready": found}), options.parent)
    except PubSubError as error:
        status = 1 if told else CANNOT_START
        tell({"error": error.to_dict()})
        return status


if __name__ == "__main__":
    raise SystemExit(main())
