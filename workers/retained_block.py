"""Which events of a block satisfy a normal form.

The other way round than everywhere else: many events, one expression. A clause begins with the literal that
is likely to let fewest events pass; each further one is asked of those that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.normal_truth import predicate_holds
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.language.values import number_key, number_of_key
from pubsub_cluster.workers.retained_columns import I4, Block, Column, Mask, Whole

I8: TypeAlias = npt.NDArray[np.int64]
FEW_MEMBERS = 8


def events_of(block: Block, form: NormalForm) -> I8:
    """Return the events of a block that satisfy a normal form, ascending."""
    if form.clauses is not None:
        found = [_clause_events(block, form.predicates, clause) for clause in form.clauses]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    truth = [_truth(block, predicate, None) for predicate in form.predicates]
    stack: list[Mask] = []
    for step in form.program:
        if step >= 0:
            stack.append(~truth[step >> 1] if step & 1 else truth[step >> 1])
            continue
        count, is_or = divmod(-step, 2)
        operands = stack[-count:]
        del stack[-count:]
        stack.append((np.logical_or if is_or else np.logical_and).reduce(operands))
    (result,) = stack
    return np.flatnonzero(result)


def _clause_events(block: Block, predicates: Sequence[Predicate], clause: Iterable[int]) -> I8:
    found: I8 | None = None
    for literal in sorted(clause, key=lambda literal: _expected(predicates[literal >> 1], literal & 1)):
        hit = _truth(block, predicates[literal >> 1], found)
        if literal & 1:
            hit = ~hit
        found = np.flatnonzero(hit) if found is None else found[hit]
        if not len(found):
            break
    return np.arange(block.event_count) if found is None else found


def _expected(predicate: Predicate, negated: int) -> tuple[int, int]:
    """Return where in its clause a literal comes: what lets few events pass first, what costs much last."""
    if predicate.kind is PredicateKind.RANGE:
        rank = 0 if predicate.lo is not None and predicate.lo == predicate.hi else 2
    elif predicate.kind is PredicateKind.SET:
        rank = 1
    else:
        rank = {PredicateKind.EXISTS: 3, PredicateKind.EXCEPT: 4, PredicateKind.TEXT: 5}.get(
            predicate.kind, 7
        )
    return (rank, 0) if not negated or rank > 4 else (4, 1)


# -- one predicate ------------------------------------------------------------------------------------------


def _truth(block: Block, predicate: Predicate, among: I8 | None) -> Mask:
    """Return for the events `among` (None: all) whether some value satisfies the predicate."""
    count = block.event_count if among is None else len(among)
    if predicate.kind is PredicateKind.COMPARE:
        return _compared(block, predicate, np.arange(count) if among is None else among)
    names = list(block.columns) if predicate.attribute is None else [predicate.attribute]
    result: Mask | None = None
    for name in names:
        column = block.columns.get(name)
        for hit in _hits(column, predicate, block.event_count, among) if column is not None else ():
            result = hit if result is None else result | hit
    return np.zeros(count, np.bool_) if result is None else result


def _hits(column: Column, predicate: Predicate, event_count: int, among: I8 | None) -> Iterable[Mask]:
    if column.numbers is not None and predicate.kind is not PredicateKind.TEXT:
        event, whole, part = column.numbers
        if event is None and among is not None:
            whole, part = whole[among], None if part is None else part[among]
        yield _spread(event, _number_hits(predicate, whole, part), event_count, among)
    for kind, coded in ((ValueKind.TEXT, column.texts), (ValueKind.BOOLEAN, column.booleans)):
        if coded is None:
            continue
        test = _value_test(predicate, kind)
        if test is None:
            continue
        code = coded.code if coded.event is not None or among is None else coded.code[among]
        yield _spread(coded.event, _code_hits(test, code, coded.distinct), event_count, among)


def _spread(event: I4 | None, hit: Mask, event_count: int, among: I8 | None) -> Mask:
    """Turn truth by row into truth by event."""
    if event is None:
        return hit
    truth = np.zeros(event_count, np.bool_)
    truth[event[hit]] = True
    return truth if among is None else truth[among]


def _code_hits(test: Callable[[Any], bool], code: I4, distinct: list[Any]) -> Mask:
    if len(code) < len(distinct):  # few candidates: look at no other text
        used, number = np.unique(code, return_inverse=True)
        table = np.array([test(distinct[each]) for each in used.tolist()], np.bool_)
        return table[number]
    return np.fromiter(map(test, distinct), np.bool_, len(distinct))[code]


def _value_test(predicate: Predicate, kind: ValueKind) -> Callable[[Any], bool] | None:
    """Return the test of a text (as bytes) or a boolean; None where no value of that kind can pass."""
    if predicate.kind is PredicateKind.EXISTS:
        return lambda value: True
    if predicate.kind is PredicateKind.TEXT:
        matches = compile_text(predicate)
        return (lambda value: matches(value.decode())) if kind is ValueKind.TEXT else None
    members = {constant for of, constant in predicate.constants if of is kind}
    if predicate.kind is PredicateKind.SET:
        return members.__contains__ if members else None
    if predicate.value_kind is not kind:
        return None
    if predicate.kind is PredicateKind.EXCEPT:
        return lambda value: value not in members
    lo: Any = predicate.lo
    hi: Any = predicate.hi
    lo_open, hi_open = predicate.lo_open, predicate.hi_open
    if lo is not None and lo == hi and not lo_open and not hi_open:
        return lambda value: bool(value == lo)
    return lambda value: (
        (lo is None or value > lo or (not lo_open and value == lo))
        and (hi is None or value < hi or (not hi_open and value == hi))
    )


def _number_hits(predicate: Predicate, whole: Whole, part: npt.NDArray[np.float64] | None) -> Mask:
    if predicate.kind is PredicateKind.EXISTS:
        return np.ones(len(whole), np.bool_)
    if predicate.kind is PredicateKind.SET:
        return _members(predicate, whole, part)
    if predicate.value_kind is not ValueKind.NUMBER:
        return np.zeros(len(whole), np.bool_)
    if predicate.kind is PredicateKind.EXCEPT:
        return ~_members(predicate, whole, part)
    above = _beyond(predicate.lo, predicate.lo_open, whole, part, 1)
    below = _beyond(predicate.hi, predicate.hi_open, whole, part, -1)
    if above is None or below is None:
        found = below if above is None else above
        return np.ones(len(whole), np.bool_) if found is None else found
    return above & below


def _beyond(
    bound: Any, is_open: bool, whole: Whole, part: npt.NDArray[np.float64] | None, way: int
) -> Mask | None:
    """Return which keys lie above (`way` 1) or below (-1) a bound; None: there is no bound."""
    if bound is None:
        return None
    at, fraction = number_key(bound)
    if part is None:  # (v, 0) beyond (at, fraction): a bound of whole numbers
        inside = at if fraction * way < 0 or (fraction == 0 and not is_open) else at + way
        return whole >= inside if way > 0 else whole <= inside
    further = whole > at if way > 0 else whole < at
    if is_open:
        nearer = part > fraction if way > 0 else part < fraction
    else:
        nearer = part >= fraction if way > 0 else part <= fraction
    hit: Mask = further | ((whole == at) & nearer)
    return hit


def _members(predicate: Predicate, whole: Whole, part: npt.NDArray[np.float64] | None) -> Mask:
    constants: list[Any] = [each for kind, each in predicate.constants if kind is ValueKind.NUMBER]
    keys = {number_key(constant) for constant in constants}
    if part is None:
        wanted = [at for at, fraction in keys if fraction == 0]
        if len(wanted) > FEW_MEMBERS:
            return np.isin(whole, np.array(wanted, np.int64))
        hit = np.zeros(len(whole), np.bool_)
        for at in wanted:
            hit |= whole == at
        return hit
    hit = np.isin(whole, np.array([at for at, _ in keys], np.int64))
    rows = np.flatnonzero(hit)
    found = zip(whole[rows].tolist(), part[rows].tolist(), strict=True)
    hit[rows] = np.fromiter((key in keys for key in found), np.bool_, len(rows))
    return hit


def _compared(block: Block, predicate: Predicate, events: I8) -> Mask:
    """Compare two attributes, event by event: rare, and asked last of all."""
    names = [str(predicate.attribute), str(predicate.other)]
    values = {name: _values(block.columns.get(name, Column()), events) for name in names}
    none: tuple[Any, ...] = ()
    found = (
        predicate_holds(predicate, {name: values[name].get(event, none) for name in names})
        for event in range(len(events))
    )
    return np.fromiter(found, np.bool_, len(events))


def _values(column: Column, events: I8) -> dict[int, tuple[Any, ...]]:
    """Return the values of the events, by place in `events`."""
    found: dict[int, tuple[Any, ...]] = {}

    def add(event: I4 | None, values: Callable[[I8], Iterable[Any]]) -> None:
        if event is None:
            rows, places = events, np.arange(len(events))
        else:
            place = np.searchsorted(events, event)
            place[place == len(events)] = 0
            rows = np.flatnonzero(events[place] == event) if len(events) else np.zeros(0, np.int64)
            places = place[rows]
        for at, value in zip(places.tolist(), values(rows), strict=True):
            found[at] = (*found.get(at, ()), value)

    numbers = column.numbers
    if numbers is not None:
        whole, part = numbers.whole, numbers.part
        add(
            numbers.event,
            lambda rows: (
                whole[rows].tolist()
                if part is None
                else map(number_of_key, whole[rows].tolist(), part[rows].tolist())
            ),
        )
    for coded in (column.texts, column.booleans):
        if coded is not None:
            shown = [each.decode() if isinstance(each, bytes) else each for each in coded.distinct]
            code = coded.code
            add(coded.event, lambda rows, code=code, shown=shown: [shown[i] for i in code[rows].tolist()])  # type: ignore[misc]
    return found
