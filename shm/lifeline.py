"""How a process takes its place: a child dies with its coordinator and is pinned early; all wake soon.

Called first thing in a child's `main`, before numba is imported: numba reads the affinity mask when it
is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import platform
import signal
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

SHORT_TURN_US = 100
SYSTEM_TURN_US = 0
BEHIND_NICENESS = 10  # a tenth of what the coordinator gets of a busy processor: a snapshot comes to an end
GENTLE_NICENESS = 12  # a fifth of what a worker gets of a busy processor: enough to come to an end

T = TypeVar("T")
_PR_SET_PDEATHSIG = 1
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("<IIQiIQQQII")  # size, policy, flags, nice, priority, runtime, and what stays 0


def die_with(parent_pid: int) -> bool:
    """Have the kernel kill this process if its parent dies before this thread; say whether it is there."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent_pid


def tie_to_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent dies; leave at once if it already has."""
    if not die_with(parent_pid):
        sys.exit(3)
    # A terminal's Ctrl-C reaches the whole process group; only the coordinator decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def on_stop(stop: Callable[[], None]) -> None:
    """Have `stop` called when somebody ends this process: by Ctrl-C, ``kill``, or by closing its terminal.

    A process that was started to outlive its terminal, as by ``nohup``, goes on doing so.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: stop())


def pin_to(cpu: int | None) -> int | None:
    """Pin this process to `cpu`; return it, or None where that is not asked for or not allowed."""
    if cpu is None:
        return None
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return None
    return cpu


def take_turns(turn_us: int) -> bool:
    """Ask for turns of this length on the processor, for this thread and those that it starts.

    A thread that wakes displaces one that takes longer turns. Otherwise it may wait for the end of that one's
    turn, up to about 1.5 milliseconds: twice what an event takes in all. What share it gets stays the same.

    Parameters
    ----------
    turn_us : int
        0: as long as the system has it. Linux before 6.12 knows no other.

    Returns
    -------
    bool
        Whether the system has taken the wish.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, turn_us * 1_000, 0, 0, 0, 0)
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.c_char_p(wanted), 0)) == 0


def give_way(niceness: int = GENTLE_NICENESS) -> None:
    """Put this thread, and those that it starts, behind whatever else wants the processor, for good."""
    take_turns(SYSTEM_TURN_US)  # a parent's may be short
    nice = max(os.getpriority(os.PRIO_PROCESS, 0), niceness)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def gently(work: Callable[[], T]) -> T:
    """Do some work behind whatever else wants the processor; return or raise what it does.

    Priority belongs to a thread, and one that has lowered its own may not raise it again without privileges:
    so another thread does the work, while this one waits.
    """

    def behind_others() -> T:
        give_way()
        return work()

    with ThreadPoolExecutor(1, "gently") as thread:
        return thread.submit(behind_others).result()


def leave(exit_code: int) -> NoReturn:
    """End this process without taking the interpreter down, which is most of what a stop would wait for.

    The rest, unmapping, is done behind whatever else wants the processor: with a million subscriptions mapped
    it takes tens of milliseconds, in whichever thread is the last to end.
    """
    logging.shutdown()
    sys.stderr.flush()
    give_way()
    nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has just ended
            os.setpriority(os.PRIO_PROCESS, int(thread), nice)
    os._exit(exit_code)
