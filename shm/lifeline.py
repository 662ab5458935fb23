"""How a child process stays tied to its coordinator: it dies with it, and it is pinned early.

Called first thing in a child's `main`, before numba is imported: numba reads the affinity mask when it
is imported.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

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
