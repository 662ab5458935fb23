"""Access: through which slot a clause is reached, so that it is looked at only when it has a chance.

Every predicate has one *way in* when it must hold: its point (equality), the points of its members (a small
set), its bit, or else the "present" slot of its attribute. A clause hangs off the cheapest way in of its
positive literals by estimated probability (the papers' nu), unless a table promises less (`tuner.tables`);
one with none is always looked at. A Boolean program hangs off an access set: literals of which one must hold
(AND: the cheapest child's set, OR: the union of all).

The literal of a way in is left out of the residuals where reaching the slot implies it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8, CodeSpaces, expand_slices
from pubsub_cluster.tuner.predicates import Predicates
from pubsub_cluster.tuner.statistics import LabelStatistics

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
    is_implied : bool[P]
        The slot implies the predicate.
    slot_probability : float64[S]
    slot_attribute : int32[S]
        -1 for bits and the "always" slot.
    """

    probability: F8
    cost: F8
    slot_start: I8
    slot: I8
    is_implied: npt.NDArray[np.bool_]
    slot_probability: F8
    slot_attribute: I4

    @property
    def always_slot(self) -> int:
        """The slot that every event opens."""
        return len(self.slot_probability) - 1


def find_ways(
    spaces: CodeSpaces, predicates: Predicates, statistics: LabelStatistics, bit_probability: F8
) -> Ways:
    """Work out the way in of every predicate; `bit_probability` is that of each bit."""
    attribute, lo, hi = predicates.attribute, predicates.lo, predicates.hi
    attribute_count, count = spaces.attribute_count, len(attribute)
    probability = _probabilities(spaces, predicates, statistics)
    probability[predicates.point_count : predicates.slotted_count] = bit_probability
    is_bit = attribute < 0
    is_label = ~is_bit & (predicates.reference < 0) & (lo == hi)
    sets = np.flatnonzero(predicates.is_set)
    member, member_count = predicates.members(sets)

    width = np.ones(count, np.int64)
    width[sets] = member_count
    slot_start = np.zeros(count + 1, np.int64)
    np.cumsum(width, out=slot_start[1:])
    slot = np.zeros(int(slot_start[-1]), np.int64)
    single = np.where(is_bit, np.arange(count), predicates.slotted_count + attribute)
    single[is_label] = predicates.point_at(attribute[is_label], lo[is_label])
    slot[slot_start[:-1]] = single
    slot[np.repeat(predicates.is_set, width)] = member

    narrow = is_bit | is_label | predicates.is_set
    cost = np.where(narrow, probability, np.append(statistics.present, 1.0)[attribute])
    slot_probability = np.concatenate(
        (probability[: predicates.slotted_count], statistics.present, np.ones(1))
    )
    numbers = np.arange(attribute_count, dtype=np.int32)
    slot_attribute = np.concatenate(
        (attribute[: predicates.slotted_count].astype(np.int32), numbers, np.full(1, -1, np.int32))
    )
    return Ways(
        probability,
        cost,
        slot_start,
        slot,
        narrow | predicates.is_exists,
        slot_probability,
        slot_attribute,
    )


def _probabilities(spaces: CodeSpaces, predicates: Predicates, statistics: LabelStatistics) -> F8:
    """Estimate how often each predicate holds; several values of an attribute are separate chances."""
    attribute, lo, hi, reference = predicates[2:6]
    up_to = np.concatenate((np.zeros(1), np.cumsum(statistics.label)))
    base = np.append(spaces.label_start[:-1], 0)[attribute]  # -1 picks the appended 0
    is_bit = attribute < 0
    lo_slot, hi_slot = np.where(is_bit, 0, base + lo), np.where(is_bit, -1, base + np.maximum(hi, lo - 1))
    interval = up_to[hi_slot + 1] - up_to[lo_slot]

    has_set = np.flatnonzero(reference >= 0)
    sets = reference[has_set] >> 1
    set_count = len(predicates.set_start) - 1
    owner = np.repeat(np.arange(set_count), np.diff(predicates.set_start))
    set_base = np.zeros(set_count, np.int64)
    set_base[sets] = base[has_set]
    members = np.bincount(
        owner, statistics.label[set_base[owner] + predicates.set_label], minlength=set_count
    )[sets]
    is_except = (reference[has_set] & 1) == 1
    interval[has_set] = np.where(is_except, interval[has_set] - members, members)
    present = np.append(statistics.present, 1.0)[attribute]
    probability: F8 = np.clip(interval, 0.0, present)
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


def slots_of(clause_start: I8, literal: I4, ways: Ways) -> tuple[I8, I8, I8]:
    """Return the position of each clause's access literal (-1: none), the slots, and how many each has."""
    count = np.diff(clause_start)
    access = np.full(len(count), -1, np.int64)
    filled = np.flatnonzero(count)
    filled_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(count[filled])))
    access[filled] = choose_access(filled_start, literal, ways)
    has_access = access >= 0
    predicate = literal[access[has_access]] >> 1
    slot_count = np.ones(len(count), np.int64)
    slot_count[has_access] = np.diff(ways.slot_start)[predicate]
    slot = np.full(int(slot_count.sum()), ways.always_slot, np.int64)
    slot[np.repeat(has_access, slot_count)] = ways.slot[
        expand_slices(ways.slot_start[predicate], slot_count[has_access])
    ]
    return access, slot, slot_count


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
