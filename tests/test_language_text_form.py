"""The text form: what it reads, that writing is its inverse, and that its errors point at the place."""

from __future__ import annotations

import contextlib

import orjson
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import CallerError, LimitError, TextSyntaxError, error_from_dict
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MIN, Limits
from pubsub_cluster.language.schema import Attribute, Schema
from pubsub_cluster.language.text_form import format_text, parse_text
from pubsub_cluster.language.text_hints import bare_right_sides
from pubsub_cluster.language.wellformed import check_tree

INF = float("inf")
A1, B2, C3 = (Atom(name, Operator.EQ, number) for name, number in (("a", 1), ("b", 2), ("c", 3)))


def same(left: Expression, right: Expression) -> bool:
    """Equal with types: dataclasses hold 1, 1.0 and True to be equal, and both zeros."""
    return left == right and repr(left) == repr(right)


@given(strategies.schemas().flatmap(strategies.expressions))
@settings(max_examples=150)
def test_round_trip(expression: Expression) -> None:
    assert same(parse_text(format_text(expression)), expression)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(texts.filter(bool), texts, st.floats(allow_nan=False), st.integers(INT64_MIN, -(INT64_MIN + 1)))
def test_any_name_and_constant_survives(name: str, text: str, number: float, whole: int) -> None:
    expression = Or(
        (
            Atom(name, Operator.IN, (text, number, whole)),
            Atom(name, Operator.MATCHES, text),
            Atom(name, Operator.EQ, other=name),
        )
    )
    assert same(parse_text(format_text(expression)), expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 1 OR b = 2 AND c = 3", Or((A1, And((B2, C3))))),
        ("(a = 1 or b = 2) and c = 3", And((Or((A1, B2)), C3))),
        ("a = 1 AND b = 2 And c = 3", And((A1, B2, C3))),
        ("a = 1 AND (b = 2 AND c = 3)", And((A1, And((B2, C3))))),
        ("NOT a = 1 AND b = 2", And((Not(A1), B2))),
        ("NOT (a = 1 AND b = 2)", Not(And((A1, B2)))),
        ("NOT NOT a=1", Not(Not(A1))),
        ("((a=1))", A1),
        ("TRUE", And(())),
        ("false", Or(())),
        ("NOT TRUE OR a = 1", Or((Not(And(())), A1))),
        ("AND (a = 1)", And((A1,))),
        ("OR (a = 1, b = 2 AND c = 3)", Or((A1, And((B2, C3))))),
        ("AND ()", And(())),
        ("a = 1 AND AND (b = 2)", And((A1, And((B2,))))),
        ("a!=1", Atom("a", Operator.NE, 1)),
        ("a<>1", Atom("a", Operator.NE, 1)),
        ("a<-5", Atom("a", Operator.LT, -5)),
        ("a <= 1.5e3", Atom("a", Operator.LE, 1500.0)),
        ("a > -INF", Atom("a", Operator.GT, -INF)),
        ("a >= inf", Atom("a", Operator.GE, INF)),
        ("a = -0.0", Atom("a", Operator.EQ, -0.0)),
        ("a = -9223372036854775808", Atom("a", Operator.EQ, INT64_MIN)),
        ("a = TRUE", Atom("a", Operator.EQ, True)),
        ("a = 'it''s'", None),
        (r"""a = 'it\'s "so"'""", Atom("a", Operator.EQ, 'it\'s "so"')),
        (r'a = "\\\"\n\t\r\u00e9\U0001F600"', Atom("a", Operator.EQ, '\\"\n\t\ré😀')),
        ('a = "x\ny"', Atom("a", Operator.EQ, "x\ny")),
        ('a = "x" IGNORE CASE', Atom("a", Operator.EQ, "x", ignore_case=True)),
        ("a BETWEEN 1 AND 5 AND b = 2", And((Atom("a", Operator.BETWEEN, lo=1, hi=5), B2))),
        ("a IN [1, 5]", Atom("a", Operator.BETWEEN, lo=1, hi=5)),
        ("a IN [1, 5)", Atom("a", Operator.BETWEEN, lo=1, hi=5, hi_open=True)),
        ("a IN (1, 5]", Atom("a", Operator.BETWEEN, lo=1, hi=5, lo_open=True)),
        ("a IN ]1, 5[", Atom("a", Operator.BETWEEN, lo=1, hi=5, lo_open=True, hi_open=True)),
        ("a IN (1, 5)", Atom("a", Operator.IN, (1, 5))),
        ("a IN ()", Atom("a", Operator.IN, ())),
        ("a IN ('x', 2, inf, FALSE)", Atom("a", Operator.IN, ("x", 2, INF, False))),
        ("a not in ('x') ignore case", Atom("a", Operator.NOT_IN, ("x",), ignore_case=True)),
        ("EXISTS a", Atom("a", Operator.EXISTS)),
        ("a EXISTS", Atom("a", Operator.EXISTS)),
        ("NOT EXISTS a", Atom("a", Operator.NOT_EXISTS)),
        ("a NOT EXISTS", Atom("a", Operator.NOT_EXISTS)),
        ("NOT a EXISTS", Not(Atom("a", Operator.EXISTS))),
        ("NOT NOT EXISTS a", Not(Atom("a", Operator.NOT_EXISTS))),
        ("a PREFIX 'x'", Atom("a", Operator.PREFIX, "x")),
        ("a SUFFIX 'x'", Atom("a", Operator.SUFFIX, "x")),
        ("a CONTAINS 'x' IGNORE CASE", Atom("a", Operator.CONTAINS, "x", ignore_case=True)),
        ("a LIKE '*x?'", Atom("a", Operator.LIKE, "*x?")),
        (r"a MATCHES '^\\d+$'", Atom("a", Operator.MATCHES, r"^\d+$")),
        ("a UNDER 'x/y'", Atom("a", Operator.UNDER, "x/y")),
        ("a IN_NETWORK '10.0.0.0/8'", Atom("a", Operator.IN_NETWORK, "10.0.0.0/8")),
        ("ANY ATTRIBUTE CONTAINS 'x'", Atom(None, Operator.CONTAINS, "x")),
        ("any = attribute", Atom("any", Operator.EQ, other="attribute")),
        ("a < b", Atom("a", Operator.LT, other="b")),
        ("`a b` = `in`", Atom("a b", Operator.EQ, other="in")),
        (r"`\`` = 1", Atom("`", Operator.EQ, 1)),
        ("$x.y-z@w:1 = _q", Atom("$x.y-z@w:1", Operator.EQ, other="_q")),
        ("größe=1", Atom("größe", Operator.EQ, 1)),
        ("\n a\t=\n1 ", A1),
    ],
)
def test_reading(text: str, expected: Expression | None) -> None:
    if expected is None:
        with pytest.raises(TextSyntaxError):
            parse_text(text)
    else:
        assert same(parse_text(text), expected)


def test_writing_is_readable() -> None:
    text = 'origin = "JFK" AND dest IN ("LAX", "SFO") AND dep_delay > 60 AND NOT carrier = "UA"'
    assert format_text(parse_text(text)) == text
    assert format_text(parse_text("(a=1 or b!=2) and c in [1,2)")) == "(a = 1 OR b != 2) AND c IN [1, 2["


# -- errors


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 0, "name of an attribute"),
        ("a", 1, "expected an operator"),
        ("a =", 3, "expected a constant"),
        ("a == 1", 3, "expected a constant"),
        ("a = 1 b", 6, "expected AND, OR or the end"),
        ("a = 1 AND", 9, "name of an attribute"),
        ("a = 1 AND OR", 10, "name of an attribute"),
        ("(a = 1", 6, "not closed"),
        ("a = 1)", 5, "expected AND, OR or the end"),
        ("AND (a = 1", 10, "comma or a closing"),
        ("a CONTANS 'x'", 2, "Did you mean CONTAINS"),
        ("a NOT LIKE 'x'", 2, "in front of the predicate"),
        ("a NOT IN [1, 2]", 9, "list in parentheses"),
        ("a IN 5", 5, "list in parentheses or an interval"),
        ("a IN [1, 2, 3]", 5, "two ends"),
        ("a IN (1, 2, 3]", 5, "two ends"),
        ("a IN (1 2)", 8, "comma"),
        ("a IN (1, 2", 10, "comma"),
        ("a BETWEEN 1 OR 2", 12, "needs AND"),
        ("a BETWEEN 1 AND b", 16, "A text goes in quotes"),
        ("a = NULL", 4, "NULL is not a constant"),
        ("a = nan", 4, "NAN is not a constant"),
        ("a IN (b)", 6, "A text goes in quotes"),
        ("in = 1", 0, "backquotes"),
        ("'a' = 1", 0, "name of an attribute"),
        ("a PREFIX 5", 0, "takes a string"),
        ("b = 1 AND a < TRUE", 10, "no order"),
        ("a < b IGNORE CASE", 0, "cannot ignore case"),
        ("a = 5 IGNORE CASE", 0, "only strings"),
        ("ANY ATTRIBUTE = 5", 0, "needs the name"),
        ("`` = 1", 0, "empty"),
        (r'a = "\ud800"', 0, "not valid Unicode"),
        (r'a = "x\d"', 6, "unknown escape"),
        (r'a = "\u00e"', 5, "unknown escape"),
        (r'a = "\U00110000"', 5, "unknown escape"),
        ('a = "x', 4, "not closed"),
        ("a = 2013-01-01", 4, "in quotes"),
        ("a = 1e400", 4, "too large"),
        ("a = 9223372036854775808", 0, "64 bits"),
        ("a = " + "9" * 10_000, 4, "64 bits"),
        ("a = .5", 4, "not a number"),
        ("a = +5", 4, "not a number"),
        ("1a = 5", 0, "not a number"),
        ("a & b", 2, "unexpected character"),
        ("a = 1;", 5, "unexpected character"),
        ("€ = 1", 0, "unexpected character"),
    ],
)
def test_errors_point_at_the_place(text: str, position: int, said: str) -> None:
    with pytest.raises(TextSyntaxError, match=said) as refused:
        parse_text(text)
    error = refused.value
    assert error.fields["position"] == position
    picture, caret = error.fields["picture"].splitlines()
    assert caret.strip() == "^"
    assert (picture + " ")[caret.index("^")] == (text + " ")[position]
    copy = error_from_dict(error.to_dict())
    assert (type(copy), copy.remedy, copy.fields) == (TextSyntaxError, error.remedy, error.fields)


@pytest.mark.parametrize(("text", "position"), [('a = "\udced"', 5), ("a\ud800 = 1", 1), ("\udced", 0)])
def test_half_a_character_is_refused_and_the_error_can_be_printed_and_sent(text: str, position: int) -> None:
    with pytest.raises(TextSyntaxError, match=r"not valid Unicode.*Send UTF-8") as refused:
        parse_text(text)
    error = refused.value
    picture, caret = error.fields["picture"].splitlines()
    assert error.fields["position"] == caret.index("^") == position and picture[position] == "?"
    assert rf'seen "\u{ord(text[position]):04x}"' in str(error)
    assert str(error).isascii() and orjson.dumps(error.to_dict())


def test_the_picture_shows_one_line_and_not_all_of_it() -> None:
    text = "a = 1 AND\n" + "b = 2 AND " * 50 + "c = = 3 AND d = 4" + " AND e = 5" * 50 + "\nAND f = 6"
    with pytest.raises(TextSyntaxError) as refused:
        parse_text(text)
    picture, caret = refused.value.fields["picture"].splitlines()
    assert picture[caret.index("^") - 4 :].startswith("c = = 3 AND")
    assert len(picture) < 80


@given(st.text(st.sampled_from("a1\"'`\\ ()[],=<>!-.é\nu") | st.characters(), max_size=20))
@settings(max_examples=200)
def test_garbage_is_refused_in_our_own_words(text: str) -> None:
    with contextlib.suppress(CallerError):
        check_tree(parse_text(text))


WORDS = [
    "a",
    "b",
    "NOT",
    "AND",
    "OR",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "<",
    "1",
    "'x'",
    "IN",
    "EXISTS",
    "BETWEEN",
    "PREFIX",
]


@given(
    st.lists(st.sampled_from([*WORDS, "ANY", "ATTRIBUTE", "IGNORE", "CASE", "TRUE", "FALSE"]), max_size=14)
)
@settings(max_examples=300)
def test_words_in_any_order_parse_or_are_refused(words: list[str]) -> None:
    try:
        expression = parse_text(" ".join(words))
    except TextSyntaxError as refused:
        assert 0 <= refused.fields["position"] <= len(" ".join(words))
    else:
        assert same(parse_text(format_text(expression)), expression)


# -- with a schema

SCHEMA = Schema((Attribute("origin", "string"), Attribute("dep_delay", "integer")))


def test_a_misspelt_attribute_is_suggested() -> None:
    with pytest.raises(TextSyntaxError, match="Did you mean 'dep_delay'") as refused:
        parse_text('origin = "JFK" AND dep_dealy > 60', SCHEMA)
    assert refused.value.fields["position"] == 19
    with pytest.raises(TextSyntaxError, match="Did you mean 'origin'"):
        parse_text("dep_delay < orgin", SCHEMA)
    assert parse_text("`orgin` = 1 AND price < 5", SCHEMA) == parse_text("orgin = 1 AND price < 5")


def test_a_closed_schema_knows_all_names() -> None:
    closed = Schema(SCHEMA.attributes, closed=True)
    for text in ("price < 5", "`orgin` = 1", "origin = JFK"):
        with pytest.raises(TextSyntaxError, match="closed"):
            parse_text(text, closed)


# -- limits


def test_limits() -> None:
    deep = "NOT " * 128 + "a = 1"
    check_tree(parse_text(deep))
    nested = "a = 1"
    for level in range(127):
        nested = f"b = 2 {'AND' if level % 2 else 'OR'} ({nested})"
    check_tree(parse_text(f"a = 1 AND ({nested})"))
    for text in (f"NOT {deep}", "(" * 100_000 + "a = 1", f"NOT NOT ({nested})", "AND (" * 500 + "a = 1"):
        with pytest.raises(LimitError):
            parse_text(text)
    with pytest.raises(LimitError):
        parse_text("a = 1 OR b = 2", limits=Limits(nodes_per_subscription_max=2))
    with pytest.raises(LimitError):
        parse_text("a = 'éé'", limits=Limits(string_size_bytes_max=3))
    assert DEFAULT_LIMITS.nesting_depth_max == 128


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a == 1", "Write = once."),
        ("a => 1", "Write >=."),
        ("a =< 1", "Write <=."),
        ("a = 1 && b = 2", "Write AND."),
        ("a = 1 || b = 2", "Write OR."),
        ("!a = 1", "Write NOT"),
        ("a IS NULL", "EXISTS name"),
        ("a is not null", "EXISTS name"),
        ('a STARTSWITH "x"', "Write PREFIX."),
        ('a endswith "x"', "Write SUFFIX."),
        ("a = 'it''s'", "not doubled"),
        ('a = "say ""x"""', "not doubled"),
        ("a roughly 1", "Operators: = != < <="),
        ('a PREFX "1"', "Did you mean PREFIX? Operators"),
        ("a", "docs/language.md"),
        ("a IN (LAX)", 'in quotes: "LAX"'),
    ],
)
def test_advice_for_those_who_come_from_elsewhere(text: str, advice: str) -> None:
    with pytest.raises(TextSyntaxError) as refused:
        parse_text(text)
    assert advice in str(refused.value.remedy)


def test_without_advice_there_is_no_remedy_but_a_picture() -> None:
    with pytest.raises(TextSyntaxError) as refused:
        parse_text("(a = 1")
    assert refused.value.remedy is None
    assert str(refused.value).splitlines()[1:] == ["  (a = 1", "        ^"]


def test_an_undeclared_name_on_the_right_may_be_a_text() -> None:
    closed = Schema((Attribute("origin", "string"),), closed=True)
    with pytest.raises(TextSyntaxError) as refused:
        parse_text("origin = JFK", closed)
    assert 'for a text write "JFK"' in str(refused.value.remedy)
    with pytest.raises(TextSyntaxError) as refused:
        parse_text("JFK = origin", closed)
    assert "for a text" not in str(refused.value.remedy)


def test_bare_names_on_the_right_are_found() -> None:
    text = 'origin = JFK AND a = "x" AND b != TRUE AND c < `d` AND x >= y.z AND e IN (1)'
    assert bare_right_sides(text) == [("origin", "JFK"), ("x", "y.z")]
