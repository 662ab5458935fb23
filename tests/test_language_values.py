"""Number keys order as exact numbers do; folding is one for one; names are checked."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import EventError, ExpressionError, LimitError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.values import (
    check_name,
    fold,
    number_key,
    number_keys_float64,
    number_keys_int64,
    number_of_key,
)

EDGES: list[int | float] = [
    0, -0.0, 1, 1.0, -1, -1.0, 0.5, -0.5, 1.5, -1.5, 5e-324, -5e-324,
    2**53, 2**53 + 1, 2.0**53, -(2**53) - 1, -(2.0**53),
    INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1, 2.0**63, -(2.0**63),
    float(np.nextafter(2.0**63, 0)), float(np.nextafter(-(2.0**63), 0)),
    float(np.nextafter(-(2.0**63), -np.inf)),
    1e300, -1e300, float("inf"), float("-inf"),
]  # fmt: skip
numbers = st.one_of(
    st.sampled_from(EDGES), st.integers(INT64_MIN, INT64_MAX), st.floats(allow_nan=False), st.floats(-3, 3)
)


def exact(number: int | float) -> tuple[int, Fraction]:
    """An independent exact order: infinities outside all fractions."""
    if number in (float("inf"), float("-inf")):
        return (1 if number > 0 else -1), Fraction(0)
    return 0, Fraction(number)


@settings(max_examples=100, deadline=None)
@given(numbers, numbers)
def test_keys_order_as_the_numbers_do(left: int | float, right: int | float) -> None:
    assert (number_key(left) < number_key(right)) == (exact(left) < exact(right))
    assert (number_key(left) == number_key(right)) == (exact(left) == exact(right))


def test_all_pairs_of_edges() -> None:
    for left in EDGES:
        for right in EDGES:
            assert (number_key(left) < number_key(right)) == (exact(left) < exact(right)), (left, right)
            assert (number_key(left) == number_key(right)) == (exact(left) == exact(right)), (left, right)


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, max_size=20))
def test_vectorised_keys_equal_the_scalar_ones(values: list[int | float]) -> None:
    floats = [value for value in values if isinstance(value, float)]
    whole, part = number_keys_float64(np.array(floats, dtype=np.float64))
    assert whole.dtype == np.int64 and part.dtype == np.float64
    assert list(zip(whole.tolist(), part.tolist(), strict=True)) == [number_key(value) for value in floats]
    assert not np.signbit(part[part == 0.0]).any()
    ints = [value for value in values if isinstance(value, int)]
    whole, part = number_keys_int64(np.array(ints, dtype=np.int64))
    assert list(zip(whole.tolist(), part.tolist(), strict=True)) == [number_key(value) for value in ints]


@settings(max_examples=60, deadline=None)
@given(numbers)
def test_the_number_comes_back(number: int | float) -> None:
    back = number_of_key(*number_key(number))
    assert exact(back) == exact(number)


def test_fold_follows_its_definition_on_every_character() -> None:
    for code_point in range(sys.maxunicode + 1):
        if 0xD800 <= code_point <= 0xDFFF:
            continue
        char = chr(code_point)
        folded, lowered = char.casefold(), char.lower()
        expected = folded if len(folded) == 1 else lowered if len(lowered) == 1 else char
        if fold(char) != expected:
            pytest.fail(f"fold of U+{code_point:04X}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("JFK", "jfk"),
        ("Straße", "straße"),
        ("STRAẞE", "straße"),
        ("İx", "İx"),
        ("\u03a3A\u03a3", "\u03c3a\u03c3"),
        ("\u017f", "s"),
    ],
)
def test_fold(text: str, expected: str) -> None:
    assert fold(text) == expected
    assert len(fold(text)) == len(text)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_fold_is_character_by_character(left: str, right: str) -> None:
    assert fold(left + right) == fold(left) + fold(right)


def test_names() -> None:
    assert check_name("a.b c") == "a.b c"
    assert check_name("é" * 512) == "é" * 512
    with pytest.raises(LimitError):
        check_name("é" * 513)
    for bad in ("", None, 3, b"a", "\ud800"):
        with pytest.raises(ExpressionError):
            check_name(bad)
    with pytest.raises(EventError, match="owner is empty"):
        check_name("", what="owner", error=EventError)
