"""The one decorator of all kernels, and where their machine code is kept.

Rules: every compiled function of the project goes through `kernel`; `fastmath` stays off, because matching
compares floats exactly; kernels release the interpreter lock, never raise, never allocate and never grow. A
cached kernel is not rebuilt when a kernel or a constant that it uses from another file changes, so the
cache lives in a folder named by a hash of every source that kernels read, of the versions, of the CPU and
of the modes that change the code (`NUMBA_BOUNDSCHECK`). Kernels outside this package, of matchers that are
rivals, have such a folder of their own within.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import functools
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import llvmlite.binding
import numba
import numpy as np

from pubsub_cluster.language import predicate
from pubsub_cluster.shm import blob, code_space

F = TypeVar("F", bound=Callable[..., Any])


class Status(enum.IntEnum):
    """What a kernel answers; wrappers turn it into a retry or an error."""

    OK = 0
    OVERFLOW = 1  # an output array is full: grow it and go on from the value returned


OK = int(Status.OK)
OVERFLOW = int(Status.OVERFLOW)


def _kernel_hash() -> str:
    digest = hashlib.sha256()
    others = [Path(str(module.__file__)) for module in (blob, code_space, predicate)]
    for path in [*sorted(Path(__file__).parent.glob("*.py")), *others]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    cpu = llvmlite.binding.get_host_cpu_name()
    modes = [
        os.environ.get(name, "") for name in ("NUMBA_BOUNDSCHECK", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
    ]
    digest.update("|".join([numba.__version__, np.__version__, sys.version, cpu, *modes]).encode())
    return digest.hexdigest()[:16]


def _cache_roots() -> list[Path]:
    roots = []
    if named := os.environ.get("PUBSUB_CLUSTER_CACHE"):
        roots.append(Path(named))
    if named := os.environ.get("XDG_CACHE_HOME"):
        roots.append(Path(named) / "pubsub-cluster")
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        roots.append(Path(home) / ".cache" / "pubsub-cluster")
    roots.append(Path(tempfile.gettempdir()) / f"pubsub-cluster-{os.getuid()}" / "cache")
    return roots


def cache_folder() -> Path:
    """Return the folder of compiled kernels, made if needed: the first writable root that is ours alone.

    A cache is code, so a folder that belongs to someone else, or that others may write to, is passed over.
    """
    name = f"kernels-{_kernel_hash()}"
    for root in _cache_roots():
        folder = root / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            seen = folder.stat()
        except OSError:
            continue
        private = seen.st_uid == os.getuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if private and os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="pubsub-cluster-kernels-"))


_FOLDER = cache_folder()
RIVALS = ("algorithms", "engines")
"""Folders with kernels that the product does not need; a change there recompiles nothing here."""


@contextlib.contextmanager
def compiling(part: str, wait: bool = True) -> Iterator[bool]:
    """Do what compiles a part of the kernels in one process at a time: those that waited load what it made.

    Once it has been done with this folder of compiled kernels, nobody waits any more.

    Parameters
    ----------
    part : str
        A name for what is compiled; fit for a file.
    wait : bool
        False: do not wait for a process that is at it; the block is given False then, and should do nothing.
    """
    done = _FOLDER / f"{part}.done"
    with contextlib.ExitStack() as held:
        if not done.exists():
            try:
                file = held.enter_context(open(_FOLDER / f"{part}.lock", "wb"))
                fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:
                pass  # without a lock each compiles for itself, as it must
        yield True
        with contextlib.suppress(OSError):
            done.touch()


def compile_together(parts: Mapping[str, Callable[[], None]]) -> None:
    """Carry out what compiles parts of the kernels; processes that start together share them out.

    Parameters
    ----------
    parts : mapping of str to callable
        By name, as for `compiling`; what takes longest comes first.
    """
    left = dict(parts)
    while left:
        for part, carry_out in list(left.items()):
            with compiling(part, wait=False) as is_mine:
                if is_mine:
                    carry_out()
                    del left[part]
        for part, carry_out in list(left.items())[:1]:  # others are at all of these
            with compiling(part):
                carry_out()
            del left[part]


# Kernels allocate nothing, so they need no reference counts (`_nrt`): with them, every call that passes a
# tuple of arrays costs an atomic increment and decrement per array, 30 times the cost of matching itself.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile `function` at its first call, without the interpreter lock and with a cache on disk."""
    numba.config.CACHE_DIR = str(_folder_of(Path(function.__code__.co_filename)))  # type: ignore[attr-defined]
    compiled: Any = numba.njit(**_OPTIONS, cache=True)(function)
    return cast(F, compiled)


def _folder_of(source: Path) -> Path:
    """Return the cache's folder for kernels of a file: those outside this package have one of their own."""
    if source.parent == Path(__file__).parent:
        return _FOLDER
    return _folder_of_rivals(next((one for one in source.parents if one.name in RIVALS), source.parent))


@functools.cache
def _folder_of_rivals(root: Path) -> Path:
    """Return a folder named by all sources of kernels below another one, which also use each other's."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if "@kernel" in (source := path.read_text()) or "@leaf" in source:
            digest.update(path.name.encode() + b"\0" + source.encode())
    folder = _FOLDER / f"{root.name}-{digest.hexdigest()[:16]}"
    with contextlib.suppress(OSError):  # Numba looks for another place then
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def routine(function: F) -> F:
    """Compile a function that only kernels call, and for what is rare: its code stands in one place.

    An array is passed to it as seven words. Python cannot call it: the code for that, which nobody would run,
    takes as long to compile as the function.
    """
    options: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True}
    compiled: Any = numba.njit(**options)(function)
    return cast(F, compiled)


def leaf(function: F) -> F:
    """Compile a function that only kernels call, and put its code into each caller; else as `routine`."""
    options: dict[str, Any] = {**_OPTIONS, "forceinline": True, "no_cpython_wrapper": True}
    compiled: Any = numba.njit(**options)(function)
    return cast(F, compiled)


class Settled:
    """A kernel that one place calls, always with arguments of the types of the first call.

    A dispatcher finds out the type of every array of every call, which takes ten times as long as handing
    them over: for one event that is longer than matching it. Nothing of that is left here, so whoever calls
    must know the types (`workers.inputs`); with `NUMBA_BOUNDSCHECK` they are compared.

    Parameters
    ----------
    function : kernel
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Any = function
        self._code: Callable[..., Any] | None = None
        self._types: tuple[Any, ...] = ()

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel."""
        if self._code is None:
            self._code = self._settle(arguments)
        if numba.config.BOUNDSCHECK:  # type: ignore[attr-defined]
            assert self._types == _types_of(arguments), "a kernel met other types than at its first call"
        return self._code(*arguments)

    def _settle(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        self._types = _types_of(arguments)
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return cast(Callable[..., Any], self._function)
        return cast(Callable[..., Any], self._function.compile(self._types))


def _types_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(numba.typeof, arguments))
