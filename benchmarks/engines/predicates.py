"""Predicates and subscriptions as the compiled rivals read them, and their common first phase.

The first phase (the papers' predicate testing) finds the predicates that hold for an event: points through a
table by value, everything else by testing it. It writes a byte per predicate and a list, and clears by the
list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.workloads.rules import MISSING, Rules
from pubsub_cluster.workers.kernels._jit import kernel, leaf

POINT_VALUES_MAX = 1 << 24


class Unfit(Exception):
    """A rival cannot take this workload; the message says why."""


class Tests(NamedTuple):
    """Predicates of a workload.

    Attributes
    ----------
    attribute, lo, hi : int32[P]
    except_ : uint8[P]
    member_start : int64[P+1]
    member : int32[]
    point_base : int64[A]
        Where an attribute's points start in `point_predicate`, by value.
    point_span : int64[A]
    point_predicate : int32[]
        Predicate ``= value``, or -1.
    other : int32[]
        The predicates that are no points, grouped by attribute.
    other_start : int64[A+1]
    """

    attribute: Any
    lo: Any
    hi: Any
    except_: Any
    member_start: Any
    member: Any
    point_base: Any
    point_span: Any
    point_predicate: Any
    other: Any
    other_start: Any


def tests_of(rules: Rules) -> Tests:
    """Arrange the predicates of a workload."""
    attribute_count = len(rules.domains)
    has_members = np.diff(rules.member_start) > 0
    point = (rules.lo == rules.hi) & ~has_members & (rules.lo >= 0)
    span = np.zeros(attribute_count, np.int64)
    np.maximum.at(span, rules.attribute[point], rules.lo[point].astype(np.int64) + 1)
    if span.sum() > POINT_VALUES_MAX:
        point[:] = False
        span[:] = 0
    base = np.cumsum(span) - span
    point_predicate = np.full(int(span.sum()) + 1, -1, np.int32)
    numbers = np.flatnonzero(point)
    place = base[rules.attribute[numbers]] + rules.lo[numbers]
    point_predicate[place] = numbers
    # A range may be the same point as an equality; the table has room for one of them.
    point[numbers[point_predicate[place] != numbers]] = False
    other = np.flatnonzero(~point)
    other = other[np.argsort(rules.attribute[other], kind="stable")].astype(np.int32)
    other_start = np.zeros(attribute_count + 1, np.int64)
    np.cumsum(np.bincount(rules.attribute[other], minlength=attribute_count), out=other_start[1:])
    return Tests(
        rules.attribute,
        rules.lo,
        rules.hi,
        rules.except_.astype(np.uint8),
        rules.member_start,
        rules.member,
        base,
        span,
        point_predicate,
        other,
        other_start,
    )


@leaf
def passes(predicate: Any, value: Any, tests: Any) -> Any:
    """Say whether a present value passes a predicate."""
    if value < tests.lo[predicate] or value > tests.hi[predicate]:
        return False
    first, stop = tests.member_start[predicate], tests.member_start[predicate + 1]
    if first == stop:
        return True
    found = False
    for at in range(first, stop):
        if tests.member[at] == value:
            found = True
            break
    return found != (tests.except_[predicate] != 0)


@kernel
def test_predicates(row: Any, tests: Any, flag: Any, holding: Any) -> Any:
    """Set the flags of the predicates that hold for a row of values; list them; return their number."""
    count = 0
    for attribute in range(row.shape[0]):
        value = row[attribute]
        if value == MISSING:
            continue
        if 0 <= value < tests.point_span[attribute]:
            predicate = tests.point_predicate[tests.point_base[attribute] + value]
            if predicate >= 0:
                flag[predicate] = 1
                holding[count] = predicate
                count += 1
        for at in range(tests.other_start[attribute], tests.other_start[attribute + 1]):
            predicate = tests.other[at]
            if passes(predicate, value, tests):
                flag[predicate] = 1
                holding[count] = predicate
                count += 1
    return count
