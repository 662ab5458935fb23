"""Kernels of many lists of numbers in one array, such as the subscriptions of each predicate, or of a bucket.

A list lies in one piece of the pool, so that it is read in order; the word before it is its capacity. A full
list moves to a piece of twice the size; pieces that are given up are used again, by powers of two.

`lists` is ``(int32[lists, 2] heads, int32[...] pool, int64[1 + CLASSES] state)``: a head is where a list
begins in the pool (0: it has no piece) and how long it is; ``state[0]`` is the first word of the pool that
was never used, ``state[1 + k]`` the first free piece with a capacity of 2**k to 2**(k + 1) - 1, whose first
word names the next.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel, leaf

CLASSES = 31


@leaf
def piece(lists: Any, size_class: Any) -> Any:
    """Return a piece with room for 2**size_class numbers; 0 if the pool is full."""
    _, pool, state = lists
    free = state[1 + size_class]
    if free:
        state[1 + size_class] = pool[free]
        return free
    start = state[0] + 1
    if start + (1 << size_class) > pool.shape[0]:
        return 0
    pool[start - 1] = 1 << size_class
    state[0] = start + (1 << size_class)
    return start


@leaf
def release(lists: Any, start: Any) -> None:
    """Keep a piece for others."""
    _, pool, state = lists
    size_class = 0
    while pool[start - 1] >> (size_class + 1):
        size_class += 1
    pool[start] = state[1 + size_class]
    state[1 + size_class] = start


@leaf
def push(lists: Any, which: Any, number: Any) -> Any:
    """Append a number to a list; return False, with nothing changed, if the pool is full."""
    heads, pool, _ = lists
    start, size = heads[which, 0], heads[which, 1]
    if start == 0 or size == pool[start - 1]:
        size_class = 0
        while 1 << size_class <= size:
            size_class += 1
        moved = piece(lists, size_class)
        if moved == 0:
            return False
        for at in range(size):
            pool[moved + at] = pool[start + at]
        if start:
            release(lists, start)
        heads[which, 0] = moved
        start = moved
    pool[start + size] = number
    heads[which, 1] = size + 1
    return True


@leaf
def remove(lists: Any, which: Any, number: Any) -> Any:
    """Take a number that is there once out of a list; the last takes its place.

    Returns how many numbers were compared.
    """
    heads, pool, _ = lists
    start, size = heads[which, 0], heads[which, 1]
    for at in range(size):
        if pool[start + at] == number:
            pool[start + at] = pool[start + size - 1]
            heads[which, 1] = size - 1
            if size == 1:
                release(lists, start)
                heads[which, 0] = 0
            return at + 1
    return size


@kernel
def lay_out(heads: Any, pool: Any, write: Any) -> Any:
    """Give each list a piece of exactly its length, one after the other, and empty it.

    Parameters
    ----------
    heads : int32[lists, 2]
        Lengths are there.
    pool : int32[...]
        Capacities (out).
    write : bool
        False: only find out how long the pool must be.

    Returns
    -------
    int
        The words of the pool that are used; the first one never is.
    """
    top = 1
    for which in range(heads.shape[0]):
        size = heads[which, 1]
        if size:
            if write:
                pool[top] = size
                heads[which, 0] = top + 1
                heads[which, 1] = 0
            top += 1 + size
    return top


@kernel
def push_all(lists: Any, which: Any, numbers: Any, begin: Any) -> Any:
    """Push number i to list ``which[i]``, for i from `begin` on; return how far the pool reached."""
    for at in range(begin, which.shape[0]):
        if not push(lists, which[at], numbers[at]):
            return at
    return which.shape[0]


@kernel
def remove_all(lists: Any, which: Any, numbers: Any) -> Any:
    """Remove number i from list ``which[i]``; return the numbers that were compared."""
    compared = 0
    for at in range(which.shape[0]):
        compared += remove(lists, which[at], numbers[at])
    return compared
