"""Runs a module behind everybody else: ``python -m pubsub_cluster.shm.behind MODULE ARGUMENTS``.

What a module imports takes a quarter of a second of a processor. A process that lowers its priority when it
has all that, in short turns like its parent's, has held up by then whoever answers clients.
"""

from __future__ import annotations

import runpy
import sys

from pubsub_cluster.shm.lifeline import BEHIND_NICENESS, give_way


def main() -> None:
    """Give way, then be the module that the first argument names, with the others."""
    give_way(BEHIND_NICENESS)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
