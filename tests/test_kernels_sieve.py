"""The sieve of lines: what holds a literal passes, what holds none does not, wherever it lies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.text_literals import line_literals, line_sieve
from pubsub_cluster.workers.line_sieve import LineSieve

LETTERS = "abks:\\u0.@`["
literals = st.lists(st.text(st.sampled_from(LETTERS), min_size=3, max_size=7), min_size=1, max_size=5)
lines = st.lists(
    st.text(st.sampled_from(LETTERS + "ABKU\ufffd\u017f\u212a"), max_size=24).map(str.encode), max_size=6
)


def passing_plainly(wanted: list[str], some: list[bytes]) -> list[bool]:
    """The reference: every literal is looked for in every line."""
    return [
        any(char in line.decode() for char in "\u017f\u212a")
        or any(literal.encode() in line.lower() for literal in wanted)
        for line in some
    ]


@given(literals, lines)
def test_lines_with_a_literal_pass(wanted: list[str], some: list[bytes]) -> None:
    assert LineSieve(literal.encode() for literal in wanted).passing(some) == passing_plainly(wanted, some)


@given(st.text(st.sampled_from(LETTERS), min_size=3, max_size=9), st.integers(0, 5), st.integers(0, 5))
def test_a_literal_passes_at_every_place(literal: str, before: int, after: int) -> None:
    line = b"-" * before + literal.upper().encode() + b"-" * after
    cut = [line[:before], line[before + 1 :], line]
    found = LineSieve([literal.encode()]).passing(cut)
    assert found == passing_plainly([literal], cut)
    assert found[2]


@given(literals, lines)
def test_what_the_expression_lets_pass_passes(wanted: list[str], some: list[bytes]) -> None:
    atoms = [Atom(None, Operator.CONTAINS, literal, ignore_case=True) for literal in wanted]
    needed, test = line_literals(atoms), line_sieve(atoms)
    assert (needed is None) == (test is None)
    if needed is None or test is None or min(map(len, needed)) < 3:
        return
    for passes, line in zip(LineSieve(needed).passing(some), some, strict=True):
        assert passes or not test(line)


def test_without_predicates_there_is_nothing_to_look_for() -> None:
    assert line_literals([]) == []
    assert line_literals([Atom(None, Operator.MATCHES, "abc")]) is None
