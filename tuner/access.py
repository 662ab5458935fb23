"""Access: through which slot a clause is reached, so that it is looked at only when it has a chance.

Every predicate has one *way in* when it must hold: its label (equality), the labels of its members (a small
set), its bit, or else the "present" slot of its attribute. A clause hangs off the cheapest way in of its
positive literals by estimated probability (the papers' nu); one with none is always looked at. A Boolean
program hangs off an access set: literals of which one must hold (AND: the cheapest child's set, OR: the
union of all).

The literal of a way in is left out of the residuals where reaching the slot implies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, FALSE_LABEL, I4, I8, TEST_WIDTH, CodeSpaces, LabelTests
from pubsub_cluster.tuner.statistics import LabelStatistics

SPREAD_MAX = 32
"""A set of up to this many members is registered under each of them."""

BIT_PROBABILITY = 0.1
NEVER_IN = np.inf


class Ways(NamedTuple):
    """The way in of every predicate, and what is known of all slots.

    Attributes
    ----------
    probability : float64[P]
        That the predicate holds for an event.
    cost : float64[P]
        Probability that the way in is open.
    slot_start : int64[P+1]
    slot : int64[]
        Slots of each predicate's way in.
    is_spread, is_implied, is_impossible : bool[P]
        Several slots; the slot implies the predicate; holds for no value at all.
    slot_probability : float64[S]
    slot_attribute : int32[S]
        -1 for bits and the "always" slot.
    """

    probability: F8
    cost: F8
    slot_start: I8
    slot: I8
    is_spread: npt.NDArray[np.bool_]
    is_implied: npt.NDArray[np.bool_]
    is_impossible: npt.NDArray[np.bool_]
    slot_probability: F8
    slot_attribute: I4

    @property
    def always_slot(self) -> int:
        """The slot that every event opens."""
        return len(self.slot_probability) - 1


def find_ways(spaces: CodeSpaces, tests: LabelTests, statistics: LabelStatistics) -> Ways:
    """Work out the way in of every predicate."""
    attribute, lo, hi, reference = tests.test.reshape(-1, TEST_WIDTH).astype(np.int64).T
    attribute_count, bit_count = spaces.attribute_count, len(tests.bit_predicate)
    bit_base = int(spaces.label_start[-1])
    present_base = bit_base + bit_count
    is_bit = attribute < 0
    probability = _probabilities(spaces, tests, statistics)

    set_count = np.diff(tests.set_start)
    is_set = (reference >= 0) & ((reference & 1) == 0)
    member_count = np.zeros(len(attribute), np.int64)
    member_count[is_set] = set_count[reference[is_set] >> 1]
    is_spread = is_set & (member_count > 0) & (member_count <= SPREAD_MAX)
    is_label = ~is_bit & (reference < 0) & (lo == hi)
    last = (
        np.diff(spaces.label_start)[attribute] - 1 if attribute_count else np.zeros(len(attribute), np.int64)
    )
    is_exists = ~is_bit & (reference < 0) & (lo == FALSE_LABEL) & (hi == last)

    width = np.where(is_spread, member_count, 1)
    slot_start = np.zeros(len(attribute) + 1, np.int64)
    np.cumsum(width, out=slot_start[1:])
    slot = np.zeros(int(slot_start[-1]), np.int64)
    base = np.append(spaces.label_start[:-1], 0)[attribute]  # -1 picks the appended 0
    single = np.where(is_bit, bit_base + lo, np.where(is_label, base + lo, present_base + attribute))
    slot[slot_start[:-1]] = single
    for predicate in np.flatnonzero(is_spread):
        first = tests.set_start[reference[predicate] >> 1]
        labels = tests.set_label[first : first + member_count[predicate]]
        slot[slot_start[predicate] : slot_start[predicate + 1]] = base[predicate] + labels

    narrow = is_bit | is_label | is_spread
    cost = np.where(narrow, probability, np.append(statistics.present, 1.0)[attribute])
    slot_probability = np.concatenate(
        (statistics.label, np.full(bit_count, BIT_PROBABILITY), statistics.present, np.ones(1))
    )
    numbers = np.arange(attribute_count, dtype=np.int32)
    slot_attribute = np.concatenate(
        (
            np.repeat(numbers, np.diff(spaces.label_start)),
            np.full(bit_count, -1, np.int32),
            numbers,
            np.full(1, -1, np.int32),
        )
    )
    is_impossible = ~is_bit & (lo > hi)
    return Ways(
        probability,
        cost,
        slot_start,
        slot,
        is_spread,
        narrow | is_exists,
        is_impossible,
        slot_probability,
        slot_attribute,
    )


def _probabilities(spaces: CodeSpaces, tests: LabelTests, statistics: LabelStatistics) -> F8:
    """Estimate how often each predicate holds; several values of an attribute are separate chances."""
    attribute, lo, hi, reference = tests.test.reshape(-1, TEST_WIDTH).astype(np.int64).T
    up_to = np.concatenate((np.zeros(1), np.cumsum(statistics.label)))
    base = np.append(spaces.label_start[:-1], 0)[attribute]
    is_bit = attribute < 0
    lo_slot, hi_slot = np.where(is_bit, 0, base + lo), np.where(is_bit, -1, base + np.maximum(hi, lo - 1))
    interval = up_to[hi_slot + 1] - up_to[lo_slot]

    has_set = np.flatnonzero(reference >= 0)
    sets = reference[has_set] >> 1
    owner = np.repeat(np.arange(len(tests.set_start) - 1), np.diff(tests.set_start))
    set_base = np.zeros(len(tests.set_start) - 1, np.int64)
    set_base[sets] = base[has_set]
    members = np.bincount(
        owner, statistics.label[set_base[owner] + tests.set_label], minlength=len(tests.set_start) - 1
    )[sets]
    is_except = (reference[has_set] & 1) == 1
    interval[has_set] = np.where(is_except, interval[has_set] - members, members)
    present = np.append(statistics.present, 1.0)[attribute]
    probability: F8 = np.where(is_bit, BIT_PROBABILITY, np.clip(interval, 0.0, present))
    return probability


def choose_access(clause_start: I8, literal: I4, ways: Ways) -> I8:
    """Choose for every clause the position of its access literal in `literal`; -1 for always.

    Parameters
    ----------
    clause_start : int64[n+1]
        Literals of each clause; every clause has at least one.
    literal : int32[]
    """
    cost = np.where(literal & 1, NEVER_IN, ways.cost[literal >> 1])
    least = np.minimum.reduceat(cost, clause_start[:-1]) if len(clause_start) > 1 else np.zeros(0)
    count = np.diff(clause_start)
    position = np.arange(len(literal), dtype=np.int64)
    candidate = np.where(cost == np.repeat(least, count), position, len(literal))
    chosen = np.minimum.reduceat(candidate, clause_start[:-1]) if len(clause_start) > 1 else position
    return np.where(least == NEVER_IN, -1, chosen).astype(np.int64)


def program_access(program: Sequence[int], ways: Ways) -> frozenset[int] | None:
    """Return predicates of which at least one holds whenever the program does; None when there are none.

    Parameters
    ----------
    program : sequence of int
        Postfix code over the layout's predicates.
    """
    stack: list[tuple[float, frozenset[int] | None]] = []
    for code in program:
        if code >= 0:
            predicate = code >> 1
            known = (NEVER_IN, None) if code & 1 else (float(ways.cost[predicate]), frozenset((predicate,)))
            stack.append(known)
            continue
        operand_count = -code >> 1
        operands = stack[len(stack) - operand_count :]
        del stack[len(stack) - operand_count :]
        if code & 1 == 0:
            stack.append(min(operands, key=lambda operand: operand[0]))
        elif any(access is None for _, access in operands):
            stack.append((NEVER_IN, None))
        else:
            union = frozenset().union(*(access for _, access in operands if access is not None))
            stack.append((sum(cost for cost, _ in operands), union))
    return stack[0][1]
