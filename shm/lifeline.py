"""How a child process stays tied to its coordinator: it dies with it, and it is pinned early.

Called first thing in a child's `main`, before numba is imported: numba reads the affinity mask when it
is imported.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def tie_to_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies; leave at once if it already has."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit(3)
    # A terminal's Ctrl-C reaches the whole process group; only the coordinator decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def pin_to(cpu: int | None) -> int | None:
    """Pin this process to `cpu`; return it, or None where that is not asked for or not allowed."""
    if cpu is None:
        return None
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return None
    return cpu


def leave(exit_code: int) -> NoReturn:
    """End this process without taking the interpreter down, which is most of what a stop would wait for."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(exit_code)
