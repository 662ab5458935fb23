"""Text tests against slow, obvious oracles, and the refusals of patterns."""

from __future__ import annotations

import functools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language import text_match
from pubsub_cluster.language.errors import ExpressionError, LimitError
from pubsub_cluster.language.limits import LIKE_SEGMENT_MAX, LIKE_SEGMENTS_MAX, PATTERN_STEPS_MAX
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.text_match import TextTest, compile_like, compile_matches, compile_text
from pubsub_cluster.language.values import fold


def text_test(operator: str, *patterns: str, ignore_case: bool = False) -> TextTest:
    constants = tuple((ValueKind.TEXT, pattern.encode()) for pattern in patterns)
    return compile_text(
        Predicate(
            PredicateKind.TEXT, "a", constants=constants, text_operator=operator, ignore_case=ignore_case
        )
    )


def like_oracle(pattern: str, text: str) -> bool:
    """Wildcards by their definition, by recursion over both."""
    parsed: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            parsed.append(("char", pattern[at]))
        elif char in "*?":
            parsed.append((char, ""))
        else:
            parsed.append(("char", char))
        at += 1

    @functools.cache
    def rest(i: int, j: int) -> bool:
        if i == len(parsed):
            return j == len(text)
        kind, char = parsed[i]
        if kind == "*":
            return rest(i + 1, j) or (j < len(text) and rest(i, j + 1))
        return j < len(text) and (kind == "?" or text[j] == char) and rest(i + 1, j + 1)

    return rest(0, 0)


@settings(max_examples=100, deadline=None)
@given(st.text("ab*?\\\n😀", max_size=8), st.text("ab*?\\\n😀", max_size=8))
def test_like_equals_its_definition(pattern: str, text: str) -> None:
    assert compile_like(pattern)(text) == like_oracle(pattern, text)


@settings(max_examples=100, deadline=None)
@given(st.text("aAßİ\u017f*?", max_size=6), st.text("aAßİsSẞ", max_size=6))
def test_like_ignoring_case(pattern: str, text: str) -> None:
    assert compile_like(pattern, ignore_case=True)(text) == like_oracle(fold(pattern), fold(text))


@pytest.mark.parametrize(
    ("pattern", "text", "holds"),
    [
        ("", "", True),
        ("", "a", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*b*c", "a-b-b-c", True),
        ("*ab", "aab", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("a\\", "a\\", True),
        ("?", "😀", True),
        ("?*", "", False),
        ("*\0?", "x\0y", True),
        (".", "a", False),
    ],
)
def test_like_cases(pattern: str, text: str, holds: bool) -> None:
    assert text_test("like", pattern)(text) is holds


@settings(max_examples=200, deadline=None)
@given(st.text("ab*??*", max_size=12), st.text("ab\n", max_size=14))
def test_like_with_runs_of_both_wildcards(pattern: str, text: str) -> None:
    assert compile_like(pattern)(text) == like_oracle(pattern, text)


def test_like_stays_linear() -> None:
    text = "a" * 1_000_000
    for pattern in (
        "*a" * 10_000 + "*b*",
        "*?a" * 10_000 + "*b*",
        "*?" * 10_000 + "b*",
        "a?" * 10_000 + "*b*",
        "*" + "a?" * 10_000 + "b",
        "*a?a" * (LIKE_SEGMENTS_MAX // 3) + "*b*",
        f"*{'a' * (LIKE_SEGMENT_MAX - 2)}?b*",
        f"*{'a' * 500_000}b*",
    ):
        assert compile_like(pattern)(text) is False
        assert compile_like(pattern)(text + "b") is True
    assert compile_like("*?" * 10_000)(text[:9_999]) is False
    assert compile_like("*?" * 10_000)(text[:10_000]) is True


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        (f"*{'a' * (LIKE_SEGMENT_MAX - 1)}?b*", LIKE_SEGMENT_MAX + 1),
        ("*a?b" * 10_000 + "*", LIKE_SEGMENTS_MAX + 2),
    ],
)
def test_like_patterns_whose_cost_would_multiply_are_refused(pattern: str, seen: int) -> None:
    with pytest.raises(LimitError, match="LIKE pattern") as refused:
        compile_like(pattern)
    assert (refused.value.seen, refused.value.fields["limit_name"]) == (seen, "like_segment_max")


def test_regular_expressions_with_too_many_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = "|".join(f".{{1,900}}{letter}" for letter in "abcdefghij")
    with pytest.raises(LimitError, match="regular expression") as refused:
        compile_matches(many)
    assert refused.value.fields["limit_name"] == "pattern_steps_max"
    assert isinstance(refused.value.seen, int) and refused.value.seen > PATTERN_STEPS_MAX
    # A class is one step, however many bytes it is spelt by: what is no Latin-1 counts as any other.
    monkeypatch.setattr(text_match, "PATTERN_STEPS_MAX", 20)
    for pattern in (r"\p{L}+x", r"[\x{1680}-\x{2000}é]x", r"\\x{3}", "[\u0430-\u044f]x"):
        assert compile_matches(pattern)("") is False
    with pytest.raises(LimitError):
        compile_matches(r"\\x{168}")


@settings(max_examples=100, deadline=None)
@given(st.text("abAB", max_size=4), st.text("abAB", max_size=8), st.booleans())
def test_affixes(pattern: str, text: str, ignore_case: bool) -> None:
    left, right = (text.lower(), pattern.lower()) if ignore_case else (text, pattern)
    assert text_test("prefix", pattern, ignore_case=ignore_case)(text) == left.startswith(right)
    assert text_test("suffix", pattern, ignore_case=ignore_case)(text) == left.endswith(right)
    assert text_test("contains", pattern, ignore_case=ignore_case)(text) == (right in left)
    assert text_test("=", pattern, ignore_case=ignore_case)(text) == (left == right)
    assert text_test("!=", pattern, ignore_case=ignore_case)(text) == (left != right)


def test_lists() -> None:
    assert text_test("in", "JFK", "lax", ignore_case=True)("LAX")
    assert not text_test("in", "JFK", "lax")("LAX")
    assert text_test("not in", "JFK", "lax", ignore_case=True)("SFO")
    assert not text_test("not in", "JFK", "lax", ignore_case=True)("jfk")
    mixed = Predicate(
        PredicateKind.TEXT,
        "a",
        constants=((ValueKind.NUMBER, 1), (ValueKind.TEXT, b"x")),
        text_operator="not in",
        ignore_case=True,
    )
    assert not compile_text(mixed)("y")
    assert compile_text(mixed._replace(text_operator="in"))("X")


@pytest.mark.parametrize(
    ("pattern", "text", "ignore_case", "holds"),
    [
        ("JF[KL]", "xxJFKyy", False, True),
        ("^JFK$", "xJFK", False, False),
        ("jfk", "JFK", False, False),
        ("jfk", "JFK", True, True),
        ("ä", "Ä", True, True),
        ("^.$", "😀", False, True),
        ("a.b", "a\nb", False, False),
        ("a\\x00b", "a\0b", False, True),
        ("", "anything", False, True),
        ("\\pL+", "é", False, True),
    ],
)
def test_matches(pattern: str, text: str, ignore_case: bool, holds: bool) -> None:
    assert text_test("matches", pattern, ignore_case=ignore_case)(text) is holds


@settings(max_examples=100, deadline=None)
@given(st.text("ab", max_size=8), st.sampled_from(["a*b", "a+", "(a|b)b", "^a.b$", "a{2}", "[^a]", "b?$"]))
def test_matches_equals_another_library_on_common_syntax(text: str, pattern: str) -> None:
    assert compile_matches(pattern)(text) == (re.search(pattern, text) is not None)


@pytest.mark.parametrize("pattern", ["(a", "(?=a)", "(a)\\1", "a{1001}", "((a{100}){100}){100}", "[", "*"])
def test_patterns_that_are_refused(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ExpressionError, match="does not compile"):
        text_test("matches", pattern)
    assert capfd.readouterr() == ("", "")


def test_a_catastrophic_pattern_is_harmless() -> None:
    assert not compile_matches("^(a+)+$")("a" * 100_000 + "b")


@pytest.mark.parametrize(
    ("network", "text", "holds"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.0.0.0", False),
        ("0.0.0.0/0", "255.255.255.255", True),
        ("0.0.0.0/0", "::1", False),
        ("2001:db8::/32", "2001:db8::1", True),
        ("10.0.0.0/8", "::ffff:10.0.0.1", False),
        ("::ffff:0:0/96", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.0/8", "10.0.0", False),
        ("10.0.0.0/8", "10.1.2.3/8", False),
        ("10.0.0.0/8", "", False),
        ("10.0.0.0/8", "010.1.2.3", False),
        ("10.0.0.0/8", "\u0661\u0660.1.2.3", False),
    ],
)
def test_in_network(network: str, text: str, holds: bool) -> None:
    assert text_test("in_network", network)(text) is holds


@pytest.mark.parametrize("network", ["", "10.0.0.0/33", "x", "10.0.0/8", "::/129"])
def test_networks_that_are_refused(network: str) -> None:
    with pytest.raises(ExpressionError, match="no CIDR network"):
        text_test("in_network", network)


def test_other_predicates_are_not_ours() -> None:
    with pytest.raises(ValueError):
        compile_text(Predicate(PredicateKind.EXISTS, "a"))
    with pytest.raises(ValueError):
        text_test("sounds like", "x")
