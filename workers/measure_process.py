"""The process that measures the cost model's constants; prints them as one JSON object.

Started by module name, ``python -m pubsub_cluster.workers.measure_process``, by the tuner soon after a start.
It is tied to the tuner before numba is imported, which takes longest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from pubsub_cluster.shm.lifeline import tie_to_parent

NICENESS = 10  # what starts beside it comes first


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.workers.measure_process")
    parser.add_argument("--parent", type=int, default=None)
    options = parser.parse_args(argv)
    if options.parent is not None:
        tie_to_parent(options.parent)
        os.nice(NICENESS)

    from pubsub_cluster.workers.measure import measure_steps

    sys.stdout.write(json.dumps(measure_steps()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
