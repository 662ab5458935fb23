"""Wildcards, regular expressions and ranges of decimal texts: generated cases against plain definitions."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

import sigma.types as types
from sigma_oracle import COMPARE, folded, wildcard_holds

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.text_match import compile_matches
from pubsub_cluster.sigma_rules.decimals import decimal_pattern
from pubsub_cluster.sigma_rules.expressions import _text_test
from pubsub_cluster.sigma_rules.regexes import to_re2

SIGNS = "ab*?\\ÄäΣ\n"
texts = st.text(SIGNS, max_size=8)
OPERATORS = {"LT": Operator.LT, "LTE": Operator.LE, "GT": Operator.GT, "GTE": Operator.GE}


def parts_by_the_contract(text: str) -> list[object]:
    """Sigma's escapes, one regular expression: an escaped sign, a wildcard, or anything else."""
    found: list[object] = []
    for escaped, wildcard, plain in re.findall(r"\\([*?\\])|([*?])|(.)", text, re.DOTALL):
        if wildcard == "*":
            found.append(types.SpecialChars.WILDCARD_MULTI)
        elif wildcard == "?":
            found.append(types.SpecialChars.WILDCARD_SINGLE)
        else:
            found.append(escaped or plain)
    return found


def atom_holds(atom: Atom, text: str) -> bool:
    return holds(atom, {"a": (text,)})


@given(texts, texts, st.sampled_from(["", "contains", "startswith", "endswith"]), st.booleans())
def test_wildcards_and_escapes(pattern: str, text: str, modifier: str, ignore_case: bool) -> None:
    run = types.SpecialChars.WILDCARD_MULTI
    value, parts = types.SigmaString(pattern), parts_by_the_contract(pattern)
    if modifier in ("contains", "endswith"):
        value, parts = run + value, [run, *parts]
    if modifier in ("contains", "startswith"):
        value, parts = value + run, [*parts, run]
    expected = wildcard_holds(parts, text, ignore_case)
    assert atom_holds(_text_test("a", value.s, ignore_case), text) is expected


@given(texts)
def test_a_text_that_is_escaped_is_found(text: str) -> None:
    escaped = re.sub(r"[*?\\]", r"\\\g<0>", text)
    atom = _text_test("a", types.SigmaString(escaped).s, True)
    assert atom_holds(atom, folded(text)) and not atom_holds(atom, text + "a")


@given(
    st.lists(st.sampled_from(["*", "?", "ab", "\\*", "\\\\", "c"]), max_size=300).map("".join),
    st.text("abc*\\", max_size=300),
)
def test_long_patterns(pattern: str, text: str) -> None:
    atom = _text_test("a", types.SigmaString(pattern).s, True)
    assert atom_holds(atom, text) is wildcard_holds(parts_by_the_contract(pattern), text, True)


PIECES = [
    *(
        "a",
        "B",
        "é",
        "-",
        ".",
        "^",
        "$",
        "|",
        "(",
        "(?:",
        ")",
        "[",
        "[^",
        "]",
        "*",
        "+",
        "?",
        "{2}",
        "{,2}",
        "{1,}",
    ),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\b", r"\Z", r"\\", r"\.", r"\[", r"\u00e9", r"\x41"),
    *("(?i)", "(?s)", "(?#x)"),
]


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.text("aAbBé1_ \t\v\n\u00a0.[\\-", max_size=8),
)
def test_regular_expressions(pattern: str, text: str) -> None:
    """What Python's `re` compiles means the same, or is refused."""
    # `\b` next to a letter beyond ASCII is a known difference, and so is what follows a group with `$` in it.
    assume(not ("\\b" in pattern and not text.isascii()))
    try:
        expected = re.search(pattern, text) is not None
    except re.error:
        return
    try:
        found = compile_matches(to_re2(pattern))(text)
    except ExpressionError:
        return
    if "$" in pattern and text.endswith("\n"):
        assume(not re.search(r"\$\)+[^)|]", pattern))
    assert found is expected


@pytest.mark.parametrize("pattern", ["x$y", "(?m:^a)", r"[\W]"])
def test_what_has_no_spelling_is_refused(pattern: str) -> None:
    with pytest.raises(ExpressionError):
        to_re2(pattern)


decimals = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from(["", "0", "00"]),
    st.integers(0, 130),
    st.sampled_from(["", ".0", ".5", ".50", ".05", ".25", ".999"]),
)
bounds = st.one_of(
    st.integers(-120, 120), st.sampled_from([0.5, -0.5, 10.05, 1e-7, -1e-7, 1e22, 99.5, 2.25, 0.1])
)


@given(st.sampled_from(sorted(OPERATORS)), bounds, decimals)
def test_decimal_texts(name: str, bound: int | float, text: str) -> None:
    matches = compile_matches(decimal_pattern(OPERATORS[name], bound))
    assert matches(text) is COMPARE[name](Decimal(text), Decimal(str(bound)))


@given(
    st.sampled_from(sorted(OPERATORS)),
    bounds,
    st.sampled_from(["", "a", "1.", ".5", "+1", "1e3", " 1", "1\n", "--1"]),
)
def test_texts_that_are_no_decimals(name: str, bound: int | float, text: str) -> None:
    assert not compile_matches(decimal_pattern(OPERATORS[name], bound))(text)
