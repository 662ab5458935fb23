"""Which tests get a flag: those of attributes with few of them, where many clauses ask.

A flag is set when the event is laid out: each label has a list of the tests that it passes. Setting them
costs a store for every test that holds, whoever asks; an interval or a set that is checked entry by entry
costs a few nanoseconds each time. So an attribute's tests get flags when an event passes few of them,
measured by how many clauses have one (RR-4089, section 2.1: the predicate bit vector); but not ranges that
most clauses have, for which the clusters have a better form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8, CodeSpaces, LabelTests

STORES_PER_USE = 200.0
"""An event may pass so many tests of an attribute if every clause has one: some 50 candidates are checked per
event, and a check is worth about four stores."""
STORES_MAX = 256.0
"""Stores per event, over all attributes."""
COMMON_USES = 0.5
"""Ranges of an attribute that so many clauses have (per clause) have no flags: they stand in uniform columns,
which are checked faster than flags (`tuner.columns`)."""
LIST_ITEMS_MAX = 1 << 22
"""Labels times tests of an attribute, and items of all lists."""

Bools = npt.NDArray[np.bool_]


class FlagLists(NamedTuple):
    """Tests that each label passes.

    Attributes
    ----------
    base : int64[A]
        First item of an attribute in `start`, -1 without flagged tests; its labels follow.
    start : int32[n+1]
    test : int32[]
        Numbers of tests, label by label.
    """

    base: I8
    start: I4
    test: I4


def choose_flagged(
    test: I4, tests: LabelTests, able: Bools, use_count: I8, clause_count: int, spaces: CodeSpaces, label: F8
) -> Bools:
    """Mark the tests that get a flag.

    Parameters
    ----------
    test : int32[P, 4]
        Attribute, first and last label, set.
    tests : LabelTests
        For the sets.
    able : bool[P]
        Which may be marked.
    use_count : int64[P]
        Literals of each test over all clauses.
    clause_count : int
    spaces : CodeSpaces
    label : float64[L]
        Probability of each label slot.
    """
    marked = np.zeros(len(test), bool)
    mine = np.flatnonzero(able)
    mine = mine[np.argsort(test[mine, 0], kind="stable")]
    wishes = []
    for attribute, own in _by_attribute(test, mine):
        labels = slice(*spaces.label_start[attribute : attribute + 2].tolist())
        uses = float(use_count[own].sum()) / max(clause_count, 1)
        if uses >= COMMON_USES and (test[own, 3] < 0).all():
            continue
        if len(own) * (labels.stop - labels.start) > LIST_ITEMS_MAX or not uses:
            continue
        held = holds(test[own], tests, labels.stop - labels.start)
        stores = float((held @ label[labels]).sum())
        if stores <= STORES_PER_USE * uses:
            wishes.append((stores / uses, stores, int(np.count_nonzero(held)), own))
    stores_left, items_left = STORES_MAX, LIST_ITEMS_MAX
    for _, stores, item_count, own in sorted(wishes, key=lambda wish: wish[0]):
        if stores <= stores_left and item_count <= items_left:
            stores_left, items_left = stores_left - stores, items_left - item_count
            marked[own] = True
    return marked


def _by_attribute(test: I4, numbers: I8) -> list[tuple[int, I8]]:
    """Return attributes and their tests; `numbers` are ordered by attribute."""
    attributes, first = np.unique(test[numbers, 0], return_index=True)
    bounds = [*first.tolist(), len(numbers)]
    return [(int(a), numbers[bounds[i] : bounds[i + 1]]) for i, a in enumerate(attributes)]


def holds(test: I4, tests: LabelTests, label_count: int) -> Bools:
    """Return which labels of their attribute pass each of some tests, bool[len(test), label_count]."""
    label = np.arange(label_count)
    found: Bools = (test[:, 1:2] <= label) & (label <= test[:, 2:3])
    for number in np.flatnonzero(test[:, 3] >= 0).tolist():
        reference = int(test[number, 3])
        first, stop = tests.set_start[reference >> 1 : (reference >> 1) + 2].tolist()
        member = np.zeros(label_count, bool)
        member[tests.set_label[first:stop]] = True
        found[number] &= member != bool(reference & 1)
    return found


def list_flags(test: I4, tests: LabelTests, first: int, stop: int, spaces: CodeSpaces) -> FlagLists:
    """List the tests numbered [first, stop), ordered by attribute, under the labels that pass them."""
    base = np.full(spaces.attribute_count, -1, np.int64)
    counts: list[I8] = [np.zeros(1, np.int64)]
    lists: list[I8] = [np.zeros(0, np.int64)]
    label_count = 0
    for attribute, own in _by_attribute(test, np.arange(first, stop)):
        mine = int(spaces.label_start[attribute + 1] - spaces.label_start[attribute])
        label, number = np.nonzero(holds(test[own], tests, mine).T)
        base[attribute] = label_count
        counts.append(np.bincount(label, minlength=mine))
        lists.append(own[number])
        label_count += mine
    starts = np.cumsum(np.concatenate(counts)).astype(np.int32)
    return FlagLists(base, starts, np.concatenate(lists).astype(np.int32))
