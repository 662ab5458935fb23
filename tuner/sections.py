"""Reading sections back: where those of a stretch of a blob begin, and what their words are (`shm.blob`).

For whoever takes sections over from one blob into another: literals and targets are numbered by their layout,
and so are the attributes and labels that columns of intervals hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import I4, I8, expand_slices
from pubsub_cluster.tuner.entries import Bools

_PLAIN = form.ENTRY_MASK | form.HEAD_MORE | form.HEAD_ONCE | form.FLAG_MASK << form.FLAG_SHIFT
"""What heads have of sections of flag columns alone."""

_SIDES = form.COLUMN_FIRST | form.COLUMN_LAST


class Stretch(NamedTuple):
    """Sections that lie one behind the other.

    Attributes
    ----------
    chain : int64[s]
        Which of the chains each belongs to, ascending.
    start, words : int64[s]
        First word, and how many; sections that begin a line of memory may leave words before them.
    size : int64[s]
        Entries of each.
    is_front : bool[s]
    labelled : bool[s]
        Whether attributes and labels are among its words.
    first : int
        First word of the stretch.
    literals : list of (int64[], int64[])
        Where literals stand, as words of the stretch and how many follow each other.
    is_target : bool[w]
        Of each word of the stretch.
    """

    chain: I8
    start: I8
    words: I8
    size: I8
    is_front: Bools
    labelled: Bools
    first: int
    literals: list[tuple[I8, I8]]
    is_target: Bools

    def is_literal(self) -> Bools:
        """Return which words of the stretch are literals (bool[w])."""
        found = np.zeros(len(self.is_target), bool)
        for at, count in self.literals:
            found |= _marked(len(found), at, count)
        return found


class _Parsed(NamedTuple):
    """What heads say: `literals` are stretches of literals as (first word, words)."""

    words: I8
    size: I8
    is_front: Bools
    labelled: Bools
    has_more: Bools
    literals: tuple[tuple[I8, I8], ...]


def read_stretch(blob: I4, head: I8, relabelled: Bools) -> Stretch:
    """Read all sections of some chains.

    Parameters
    ----------
    blob : int32[]
    head : int64[k]
        Where each chain begins, ascending; at least one, and nothing else lies between them.
    relabelled : bool[A]
        Attributes whose labels count as such.
    """
    start, chain = head, np.arange(len(head))
    parsed = _parse(blob, start, relabelled)
    known = [(start, chain, parsed)]
    while parsed.has_more.any():
        more = np.flatnonzero(parsed.has_more)
        after = start[more] + parsed.words[more]
        # Behind a front the next section begins a line, too.
        start = after + np.where(parsed.is_front[more], -after % form.LINE_WORDS, 0)
        chain = chain[more]
        parsed = _parse(blob, start, relabelled)
        known.append((start, chain, parsed))
    starts = np.concatenate([one for one, _, _ in known])
    order = np.argsort(starts, kind="stable") if len(known) > 1 else slice(None)

    def ordered(column: Callable[[_Parsed], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.asarray(np.concatenate([column(one) for _, _, one in known])[order])

    starts, chain = starts[order], np.concatenate([one for _, one, _ in known])[order]
    words, size = ordered(lambda one: one.words), ordered(lambda one: one.size)
    first = int(starts[0])
    is_target = _marked(int(starts[-1] + words[-1]) - first, starts + words - size - first, size)
    return Stretch(
        chain,
        starts,
        words,
        size,
        ordered(lambda one: one.is_front),
        ordered(lambda one: one.labelled),
        first,
        [(at - first, count) for _, _, one in known for at, count in one.literals],
        is_target,
    )


def _marked(size: int, start: I8, count: I8) -> Bools:
    """Mark disjoint stretches, of which no two touch."""
    filled = count > 0
    if not filled.all():
        start, count = start[filled], count[filled]
    change = np.zeros(size + 1, np.int8)
    change[start] = 1
    change[start + count] = -1
    return np.cumsum(change[:-1], dtype=np.int8).view(bool)


def _parse(blob: I4, start: I8, relabelled: Bools) -> _Parsed:
    """Read the heads at `start`; the order of what follows them is that of `shm.blob`."""
    head = blob[start].astype(np.int64)
    size = head & form.ENTRY_MASK
    is_front = head < 0
    flags = head >> form.FLAG_SHIFT & form.FLAG_MASK
    at = start + 1
    has_more = head & form.HEAD_MORE > 0
    if not (head & ~_PLAIN).any():  # as most sections are
        flag_words, none = flags * size, np.zeros(len(head), bool)
        return _Parsed(1 + flag_words + size, size, none, none, has_more, ((at, flag_words),))
    uniforms = head >> form.UNIFORM_SHIFT & form.UNIFORM_MASK
    intervals = head >> form.INTERVAL_SHIFT & form.INTERVAL_MASK
    tests = head >> form.TEST_SHIFT & form.TEST_MASK
    is_long = np.flatnonzero((head & form.HEAD_LONG > 0) & ~is_front)
    for number, counts in enumerate((flags, uniforms, intervals, tests)):
        counts[is_long] = blob[at[is_long] + number]
    at[is_long] += 4
    has_digits = np.flatnonzero(head & form.HEAD_LABELS)
    at[has_digits] += 1 + blob[at[has_digits]]

    run_count = np.zeros(len(start), np.int64)
    runs = np.flatnonzero(head & form.HEAD_RUNS)
    run_count[runs] = blob[at[runs]]
    run_at = at + 1
    at[runs] += 1 + 2 * run_count[runs]
    in_flags = flags > 0
    flag_words = (flags - ((run_count > 0) & in_flags)) * size
    test_words = (tests - ((run_count > 0) & ~in_flags)) * size
    labelled = (intervals > 0) & bool(relabelled.any())
    for number in range(int(uniforms.max(initial=0))):
        mine = np.flatnonzero(uniforms > number)
        code = blob[at[mine]].astype(np.int64)
        labelled[mine] |= relabelled[code >> form.COLUMN_SHIFT]
        at[mine] += _uniform_words(code, size[mine])
    is_narrow = head & form.HEAD_NARROW > 0
    interval_words = intervals * np.where(is_narrow, (3 * size + 1) // 2, 3 * size)
    flag_at, test_at = at, at + flag_words + interval_words
    target_at = test_at + test_words
    front = np.flatnonzero(is_front)
    if len(front):
        even = at[front] + (at[front] & 1)
        rows = size[front] * form.row_words(intervals[front])
        target_at[front] = even + form.front_words(size[front]) + rows
        flag_words[front], test_words[front] = 0, 0
    literals = ((run_at, run_count), (flag_at, flag_words), (test_at, test_words))
    return _Parsed(target_at + size - start, size, is_front, labelled, has_more, literals)


def _uniform_words(code: I8, size: I8) -> I8:
    """Return the words of uniform columns."""
    sides = (code & form.COLUMN_FIRST > 0).astype(np.int64) + (code & form.COLUMN_LAST > 0)
    per_word = np.where(code & form.COLUMN_WIDE, 2, 4)
    return np.asarray(1 + ((code & _SIDES) != _SIDES) - (-(sides * size) // per_word))


def gaps(start: I8, words: I8) -> I8:
    """Return the words between sections that lie in this order."""
    stop = (start + words)[:-1]
    has = np.flatnonzero(start[1:] != stop)
    return expand_slices(stop[has], start[has + 1] - stop[has])


def without_gaps(blob: I4, start: I8, words: I8) -> I4:
    """Return the words of sections that lie in this order, and nothing between them."""
    if not len(start):
        return blob[:0]
    first, stop = int(start[0]), int(start[-1] + words[-1])
    between = gaps(start, words)
    return np.delete(blob[first:stop], between - first) if len(between) else blob[first:stop]
