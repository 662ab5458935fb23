"""Starts a module behind everybody else: ``python -S gentle_start.py NICENESS PARENT MODULE ARGUMENTS``.

A process that is to answer like all others later cannot be started behind them: without privileges priority
is only ever lost. An interpreter started as usual takes 40 milliseconds of a processor until it has come to a
line that could do something about that, and whoever answers meanwhile is late by as much. So this file is run
by its path, without `site`, and imports next to nothing: after a few milliseconds a thread of low priority
does the rest, up to the imports of the module, whose `main` is then called by the first thread.
"""

import os
import sys
import threading  # here, not in the thread: whoever imports it first is the main thread to it before 3.13

_errors: list[BaseException] = []


def main() -> None:
    """Import the module that the third argument names in a thread of low priority, then run it."""
    niceness, parent_pid, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.argv[:] = sys.argv[3:]
    behind = threading.Thread(target=_import_behind, args=(niceness, parent_pid, module))
    behind.start()
    behind.join()
    if _errors:
        raise _errors[0]
    from pubsub_cluster.shm.lifeline import leave

    leave(sys.modules[module].main())


def _import_behind(niceness: int, parent_pid: int, module: str) -> None:
    try:
        niceness = max(os.getpriority(os.PRIO_PROCESS, 0), niceness)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
        import site

        site.main()  # where packages are
        from importlib import import_module

        from pubsub_cluster.shm.lifeline import die_with, give_way

        if not die_with(parent_pid):  # what is to come may take long on a busy machine
            os._exit(3)
        give_way(niceness)  # turns of the usual length, too
        import_module(module)
    except BaseException as error:
        _errors.append(error)


if __name__ == "__main__":
    main()
