"""Starts a module behind everybody else: ``python -S gentle_start.py NICENESS MODULE ARGUMENTS``.

A process that is to answer like all others later cannot be started behind them: without privileges priority
is only ever lost. An interpreter started as usual takes 40 milliseconds of a processor until it has come to a
line that could do something about that, and whoever answers meanwhile is late by as much. So this file is run
by its path, without `site`, and imports nothing that has to be read: after a few milliseconds a thread of low
priority does the rest, up to the imports of the module, whose `main` is then called by the first thread.
"""

from __future__ import annotations

import _thread
import os
import sys


def main() -> None:
    """Import the module that the second argument names in a thread of low priority, then run it."""
    niceness, module = int(sys.argv[1]), sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    imported = _thread.allocate_lock()
    imported.acquire()
    _thread.start_new_thread(_import_behind, (niceness, module, imported))
    imported.acquire()
    from importlib import import_module

    from pubsub_cluster.shm.lifeline import leave

    leave(import_module(module).main())  # imported already, unless that failed: then the error is told here


def _import_behind(niceness: int, module: str, imported: _thread.LockType) -> None:
    try:
        niceness = max(os.getpriority(os.PRIO_PROCESS, 0), niceness)
        os.setpriority(os.PRIO_PROCESS, _thread.get_native_id(), niceness)
        import site

        site.main()  # where packages are
        from importlib import import_module

        from pubsub_cluster.shm.lifeline import give_way

        give_way(niceness)  # turns of the usual length, too
        import_module(module)
    finally:
        imported.release()


if __name__ == "__main__":
    main()
