"""Named instants at which a test may kill a process: before and after each write and each message.

A function that writes or sends is marked with `fault_point`. Without the environment variable
`VARIABLE`, which is read once, when this module is imported, the mark returns the function itself: nothing
is added to a call. With it, the variable names a directory, and a process that comes by an instant looks
there for a file of that name, ``before.store.write`` say. Whoever renames the file kills itself with SIGKILL:
one process, once, and at a moment that the test chooses by making the file (``tests/faults/``). The new name
ends with its pid, ``before.store.write.4711``.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

VARIABLE = "PUBSUB_CLUSTER_FAULT_POINTS"

_directory = os.environ.get(VARIABLE)
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def fault_point(name: str) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Mark a function: its beginning is the instant ``before.<name>``, its end ``after.<name>``."""
    if _directory is None:
        return lambda function: function
    return _watched(Path(_directory), name)


def _watched(directory: Path, name: str) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    before, after = str(directory / f"before.{name}"), str(directory / f"after.{name}")

    def mark(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @functools.wraps(function)
        def watched(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
            _reached(before)
            result = function(*args, **kwargs)
            _reached(after)
            return result

        return watched

    return mark


def _reached(path: str) -> None:
    try:
        os.rename(path, f"{path}.{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
