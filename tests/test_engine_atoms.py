"""Every operator on every kind of constant and value, dense enough that no wrong end of an interval survives.

Each seed shuffles all atoms over a pool of edge values into small catalogues, so that a value is now a
constant of the code space, now between two constants; atoms stand alone, negated, and combined in twos and
threes. Events have none, one or several values. Layout and delta must both agree with the naive matcher.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from matching_cases import Case, raw_batch, rows_of_events
from strategies import ADDRESSES, BOOLEANS, FLOATS, INTEGERS, TEXTS

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import (
    COMPARISONS,
    IGNORE_CASE_OPERATORS,
    TEXT_OPERATORS,
    And,
    Atom,
    Expression,
    Not,
    Operator,
    Or,
)
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.naive import compile_expression
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.workers.engine import MatchEngine

NUMBERS = (*INTEGERS, *FLOATS)
POOL = (*BOOLEANS, *NUMBERS, *TEXTS, *ADDRESSES)
PATTERNS = {
    Operator.MATCHES: ("^a", "b$", ".", "[a-c]{2}", "K"),
    Operator.IN_NETWORK: ("10.0.0.0/8", "::/0", "::ffff:0:0/96"),
    Operator.LIKE: ("*", "?", "a*", "*B?", "a\\*\\?\\\\"),
}
ATOMS_PER_CATALOGUE = 40


def atoms(rng: random.Random) -> Iterator[Atom]:
    """Give atoms of all operators on attribute ``a`` or ``b``, comparisons of the two among them."""

    def name() -> str:
        return rng.choice("aab")

    for operator in COMPARISONS:
        for value in POOL:
            if isinstance(value, bool) and operator not in (Operator.EQ, Operator.NE):
                continue
            yield Atom(name(), operator, value)
        yield Atom("a", operator, other="b")
        if operator in IGNORE_CASE_OPERATORS:
            yield Atom("a", operator, ignore_case=True, other="b")
    for _ in range(60):
        kind = rng.choice((NUMBERS, TEXTS))
        lo_open, hi_open = rng.random() < 0.5, rng.random() < 0.5
        ends = sorted(rng.sample(kind, 2))
        yield Atom(name(), Operator.BETWEEN, lo=ends[0], hi=ends[1], lo_open=lo_open, hi_open=hi_open)
        for operator in (Operator.IN, Operator.NOT_IN):
            pool = kind if operator is Operator.NOT_IN and rng.random() < 0.8 else POOL
            yield Atom(name(), operator, tuple(rng.sample(pool, rng.randint(0, 5))))
    for operator in (Operator.EXISTS, Operator.NOT_EXISTS):
        yield Atom("a", operator)
        yield Atom("b", operator)
    for operator in TEXT_OPERATORS:
        for pattern in PATTERNS.get(operator, TEXTS):
            ignore_case = operator in IGNORE_CASE_OPERATORS and rng.random() < 0.5
            yield Atom(rng.choice(("a", "b", None)), operator, pattern, ignore_case=ignore_case)
    for text in TEXTS:
        yield Atom(name(), rng.choice((Operator.EQ, Operator.NE)), text, ignore_case=True)


def combined(rng: random.Random, known: list[Atom]) -> list[Expression]:
    """Return the atoms, their negations, and conjunctions and disjunctions of them."""

    def literal() -> Expression:
        atom = rng.choice(known)
        return Not(atom) if rng.random() < 0.3 else atom

    found: list[Expression] = [*known, *(Not(atom) for atom in known)]
    found += [And((literal(), literal())) for _ in known]
    found += [And((literal(), literal(), literal())) for _ in known]
    found += [Or((And((literal(), literal())), literal())) for _ in known]
    return found


def make_events(rng: random.Random) -> list[dict[str, object]]:
    """Return events: every single value, and some with several values or none."""
    events: list[dict[str, object]] = [{"a": value, "b": rng.choice(POOL)} for value in POOL]
    events += [{"b": value} for value in rng.sample(POOL, 8)]
    for _ in range(20):
        several = [rng.choice(POOL) for _ in range(rng.randint(2, 4))]
        events.append({"a": several, "b": rng.choice(([], several, rng.choice(POOL)))})
    return [*events, {}]


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, Limits(clauses_max=0)], ids=["clauses", "programs"])
@pytest.mark.parametrize("seed", range(2))
def test_every_operator(seed: int, limits: Limits) -> None:
    """Layout and delta agree with the naive matcher on every pair."""
    rng = random.Random(seed)
    shuffled = list(atoms(rng))
    rng.shuffle(shuffled)
    events = [flatten_event(event, EMPTY_SCHEMA, DEFAULT_LIMITS) for event in make_events(rng)]
    raw = raw_batch(events)
    for first in range(0, len(shuffled), ATOMS_PER_CATALOGUE):
        expressions = combined(rng, shuffled[first : first + ATOMS_PER_CATALOGUE])
        tests = [compile_expression(expression) for expression in expressions]
        catalogue = Case(expressions, EMPTY_SCHEMA, limits)
        counts = catalogue.writer.counts()
        engine = MatchEngine(catalogue.reader)
        engine.attach_layout(1, build_layout(catalogue.reader, counts, 1, None, 1))
        by_layout = rows_of_events(engine.match(raw, 1, counts))
        by_delta = rows_of_events(engine.match(raw, 0, counts))
        for event, layout_rows, delta_rows in zip(events, by_layout, by_delta, strict=True):
            expected = [row for row, test in enumerate(tests) if test(event)]
            for way, rows in (("layout", layout_rows), ("delta", delta_rows)):
                wrong = set(rows) ^ set(expected)
                assert not wrong, (way, event, expressions[min(wrong)])
                assert len(rows) == len(set(rows)), (way, "a row was told twice")
