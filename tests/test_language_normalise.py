"""Normal forms: equivalent to the expression on every event, folded, counted before they are made."""

from __future__ import annotations

import itertools

import pytest
import strategies
from hypothesis import given, settings

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.normal_truth import form_holds
from pubsub_cluster.language.normalise import never, normalise
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, Schema
from pubsub_cluster.language.text_form import parse_text

INF = float("inf")
RANGE, NUMBER, TEXT, BOOLEAN = PredicateKind.RANGE, ValueKind.NUMBER, ValueKind.TEXT, ValueKind.BOOLEAN
SCHEMA = Schema(
    (
        Attribute("n", "integer"),
        Attribute("u", "integer", unique=True),
        Attribute("f", "float"),
        Attribute("s", "string"),
        Attribute("ok", "boolean"),
        Attribute("t", "timestamp"),
        Attribute("grade", "enumerated", ("low", "mid", "high"), ordered=True),
        Attribute("colour", "enumerated", ("red", "green")),
        Attribute("kind", "hierarchical", ("x/y/z", "x/w", "q")),
    )
)


def check_form(form: NormalForm) -> None:
    """Check the promises of `NormalForm` that do not depend on an event."""
    assert len(set(form.predicates)) == len(form.predicates)
    literals = [step for step in form.program if step >= 0]
    if form.clauses is not None:
        assert form.program == ()
        assert len(set(form.clauses)) == len(form.clauses)
        for clause in form.clauses:
            assert list(clause) == sorted(set(clause))
            assert len({literal >> 1 for literal in clause}) == len(clause)
        literals = [literal for clause in form.clauses for literal in clause]
    else:
        assert form.program
    assert {literal >> 1 for literal in literals} == set(range(len(form.predicates)))


def form(text: str, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> NormalForm:
    return normalise(parse_text(text), schema, limits)


def predicate(text: str, schema: Schema = EMPTY_SCHEMA) -> Predicate:
    """The one predicate of a text, which must not be negated."""
    found = form(text, schema)
    assert found.clauses == ((0,),)
    return found.predicates[0]


# -- equivalence


@given(strategies.cases())
@settings(max_examples=100)
def test_equals_the_naive_matcher(case: strategies.Case) -> None:
    events = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    for expression in case.expressions:
        found = normalise(expression, case.schema)
        check_form(found)
        for values in events:
            assert form_holds(found, values) == holds(expression, values, case.schema)


@given(strategies.cases(max_expressions=3))
@settings(max_examples=60)
def test_programs_equal_clauses(case: strategies.Case) -> None:
    events = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    for expression in case.expressions:
        clauses = normalise(expression, case.schema)
        program = normalise(expression, case.schema, Limits(clauses_max=1))
        check_form(program)
        for values in events:
            assert form_holds(clauses, values) == form_holds(program, values)


@given(strategies.cases(max_expressions=3, max_events=1))
@settings(max_examples=60)
def test_is_deterministic_and_never_means_never(case: strategies.Case) -> None:
    for expression in case.expressions:
        found = normalise(expression, case.schema)
        assert repr(found) == repr(normalise(expression, case.schema))
        if never(found):
            for event in case.events:
                values = flatten_event(event, case.schema, DEFAULT_LIMITS)
                assert not holds(expression, values, case.schema)


# -- predicates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('s = "é"', Predicate(RANGE, "s", TEXT, "é".encode(), "é".encode())),
        ("s = TRUE", Predicate(RANGE, "s", BOOLEAN, True, True)),
        ("s = 1.0", Predicate(RANGE, "s", NUMBER, 1, 1)),
        ("s < 5", Predicate(RANGE, "s", NUMBER, None, 5, False, True)),
        ("s >= 5", Predicate(RANGE, "s", NUMBER, 5)),
        ("s < inf", Predicate(RANGE, "s", NUMBER, None, INF, False, True)),
        ("s <= inf", Predicate(RANGE, "s", NUMBER)),
        ("s <= -inf", Predicate(RANGE, "s", NUMBER, -INF, -INF)),
        ('s >= ""', Predicate(RANGE, "s", TEXT)),
        ('s <= ""', Predicate(RANGE, "s", TEXT, b"", b"")),
        ('s PREFIX "ab"', Predicate(RANGE, "s", TEXT, b"ab", b"ac", False, True)),
        (
            's PREFIX "a\U0010ffff"',
            Predicate(RANGE, "s", TEXT, b"a\xf4\x8f\xbf\xbf", b"a\xf4\x8f\xbf\xc0", hi_open=True),
        ),
        ('s PREFIX ""', Predicate(RANGE, "s", TEXT)),
        ('s CONTAINS "" IGNORE CASE', Predicate(RANGE, "s", TEXT)),
        ("s IN [1, 5)", Predicate(RANGE, "s", NUMBER, 1, 5, False, True)),
        ("s IN (1.0, 1)", Predicate(RANGE, "s", NUMBER, 1, 1)),
        (
            's IN ("b", 2, "a", 1, TRUE)',
            Predicate(
                PredicateKind.SET,
                "s",
                constants=((BOOLEAN, True), (NUMBER, 1), (NUMBER, 2), (TEXT, b"a"), (TEXT, b"b")),
            ),
        ),
        ("s != 5", Predicate(PredicateKind.EXCEPT, "s", NUMBER, constants=((NUMBER, 5),))),
        (
            "s NOT IN (2, 1, 2.0)",
            Predicate(PredicateKind.EXCEPT, "s", NUMBER, constants=((NUMBER, 1), (NUMBER, 2))),
        ),
        ("s NOT IN ()", Predicate(PredicateKind.EXISTS, "s")),
        ("EXISTS s", Predicate(PredicateKind.EXISTS, "s")),
        ("s < r", Predicate(PredicateKind.COMPARE, "s", text_operator="<", other="r")),
        (
            's = "A" IGNORE CASE',
            Predicate(
                PredicateKind.TEXT, "s", constants=((TEXT, b"A"),), text_operator="=", ignore_case=True
            ),
        ),
        (
            's NOT IN ("A") IGNORE CASE',
            Predicate(
                PredicateKind.TEXT, "s", constants=((TEXT, b"A"),), text_operator="!=", ignore_case=True
            ),
        ),
        (
            'ANY ATTRIBUTE PREFIX ""',
            Predicate(PredicateKind.TEXT, None, constants=((TEXT, b""),), text_operator="prefix"),
        ),
    ],
)
def test_undeclared_predicates(text: str, expected: Predicate) -> None:
    assert predicate(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n > 2", Predicate(RANGE, "n", NUMBER, 3)),
        ("n >= 2.5", Predicate(RANGE, "n", NUMBER, 3)),
        ("n < inf", Predicate(RANGE, "n", NUMBER)),
        (f"n >= {INT64_MIN}", Predicate(RANGE, "n", NUMBER)),
        (f"n < {INT64_MIN + 1}", Predicate(RANGE, "n", NUMBER, INT64_MIN, INT64_MIN)),
        ("n IN ]1, 3[", Predicate(RANGE, "n", NUMBER, 2, 2)),
        ("n IN (1, 2.5)", Predicate(RANGE, "n", NUMBER, 1, 1)),
        ("f > 2", Predicate(RANGE, "f", NUMBER, 2, None, True)),
        ('t >= "1970-01-01T00:00:01Z"', Predicate(RANGE, "t", NUMBER, 1_000_000)),
        ('grade = "mid"', Predicate(RANGE, "grade", NUMBER, 1, 1)),
        ('grade > "low"', Predicate(RANGE, "grade", NUMBER, 1)),
        ('grade <= "low"', Predicate(RANGE, "grade", NUMBER, 0, 0)),
        ('grade >= "low"', Predicate(RANGE, "grade", NUMBER)),
        ('kind = "x"', Predicate(RANGE, "kind", NUMBER, 0, 0)),
        ('kind UNDER "x"', Predicate(RANGE, "kind", NUMBER, 0, 3)),
        ('kind UNDER "x/y"', Predicate(RANGE, "kind", NUMBER, 1, 2)),
    ],
)
def test_declared_predicates(text: str, expected: Predicate) -> None:
    assert predicate(text, SCHEMA) == expected


# -- folding


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "s IN ()",
        "s BETWEEN 2 AND 1",
        "s IN [1, 1)",
        's BETWEEN 1 AND "z"',
        "s < -inf",
        "s > inf",
        's < ""',
        's NOT IN (1, "a")',
        "s NOT IN (TRUE, FALSE)",
        "n = 2.5",
        "n IN (2.5, inf)",
        "n IN ]1, 2[",
        f"n > {INT64_MAX}",
        "n > 1e300",
        'grade > "high"',
        'colour NOT IN ("red", "green")',
        "s = 1 AND NOT s = 1",
        "(s = 1 OR s = 2) AND NOT s = 1 AND NOT s = 2",
        "s = 1 AND FALSE",
        "NOT (s = 1 OR NOT s = 1.0)",
        "u < 1 AND u > 1",
        "u = 1 AND (u = 2 OR u = 3)",
    ],
)
def test_never(text: str) -> None:
    found = form(text, WITHOUT_S)
    assert never(found)
    assert found == NormalForm((), ())


WITHOUT_S = Schema(tuple(attribute for attribute in SCHEMA.attributes if attribute.name != "s"))


@pytest.mark.parametrize("text", ["TRUE", "NOT FALSE", "s = 1 OR NOT s = 1", "NOT s IN ()", "s = 1 OR TRUE"])
def test_always(text: str) -> None:
    found = form(text)
    assert found == NormalForm((), ((),))
    assert not never(found)


def test_negation_is_of_truth_not_of_the_operator() -> None:
    assert form("NOT s = 5") == NormalForm((Predicate(RANGE, "s", NUMBER, 5, 5),), ((1,),))
    assert form("NOT EXISTS s") == NormalForm((Predicate(PredicateKind.EXISTS, "s"),), ((1,),))
    assert form("NOT NOT EXISTS s").clauses == ((0,),)
    assert form("NOT (a = 1 AND NOT b = 2)").clauses == ((1,), (2,))


def test_predicates_of_one_attribute_are_merged_only_if_unique() -> None:
    assert len(form("n >= 5 AND n <= 10", SCHEMA).predicates) == 2
    assert form("u >= 5 AND u <= 10", SCHEMA) == NormalForm((Predicate(RANGE, "u", NUMBER, 5, 10),), ((0,),))
    assert form("u >= 5 AND u <= 10 AND NOT u BETWEEN 5 AND 10", SCHEMA) == NormalForm((), ())
    kept = form("(u = 1 AND n = 1) OR (u = 1 AND u = 2) OR n = 3", SCHEMA)
    assert [p.attribute for p in kept.predicates] == ["u", "n", "n"]
    assert kept.clauses == ((0, 2), (4,))


def test_repeats_are_dropped_and_predicates_shared() -> None:
    assert form("a = 1 AND a = 1.0 AND (a = 1 OR a = 1)").clauses == ((0,),)
    found = form("(a = 1 AND b = 2) OR (b = 2 AND a = 1) OR (a = 1 AND c = 3)")
    assert found.clauses == ((0, 2), (0, 4))
    assert [p.attribute for p in found.predicates] == ["a", "b", "c"]


# -- size


def pairs(count: int) -> Expression:
    """A conjunction of disjunctions of two, whose disjunctive form has 2**count clauses."""
    return And(
        tuple(Or((Atom(f"a{i}", Operator.EQ, 0), Atom(f"b{i}", Operator.EQ, 0))) for i in range(count))
    )


def test_few_clauses_are_multiplied_out_and_many_become_a_program() -> None:
    few, many = normalise(pairs(6)), normalise(pairs(7))
    assert few.clauses is not None and len(few.clauses) == 64
    assert many.clauses is None
    assert many.program == (*itertools.chain(*((4 * i, 4 * i + 2, -5) for i in range(7))), -14)


def test_the_disjunctive_form_is_counted_without_making_it() -> None:
    found = normalise(pairs(5_000))  # of 2**5000 clauses
    assert found.clauses is None
    assert len(found.program) == 15_001


def test_few_but_huge_clauses_become_a_program() -> None:
    common = tuple(Atom(f"c{i}", Operator.EXISTS) for i in range(1_000))
    found = normalise(And((*common, *pairs(6).children)))
    assert found.clauses is None
    check_form(found)


def test_deep_trees_are_refused() -> None:
    expression: Expression = Atom("a", Operator.EQ, 1)
    for _ in range(128):
        expression = Not(expression)
    assert normalise(expression).clauses == ((0,),)
    with pytest.raises(LimitError) as refused:
        normalise(Not(expression))
    assert refused.value.fields["limit_name"] == "nesting_depth_max"
