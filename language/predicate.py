"""Canonical predicates and the normal form of an expression: what every engine compiles.

A `Predicate` is what is left of an atom when its constants have been brought to the attribute's
domain: comparisons have become ranges of one value kind, ``in`` a set, ``!=`` and ``not in`` a value
kind without some constants. Equal predicates are equal tuples, so a dictionary interns them.

Value kinds and constants
    number: Python int or float, compared exactly; timestamps are int microseconds, enumerated values
    their rank, hierarchical values their pre-order number. text: UTF-8 bytes (byte order is code point
    order). boolean: False and True.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

CanonicalConstant: TypeAlias = bool | int | float | bytes


class ValueKind(enum.IntEnum):
    """Kind of a value; predicates never hold across kinds."""

    BOOLEAN = 1
    NUMBER = 2
    TEXT = 3


class PredicateKind(enum.IntEnum):
    """Form of a canonical predicate."""

    EXISTS = 0  # some value of any kind
    RANGE = 1  # some value of `value_kind` between `lo` and `hi`
    SET = 2  # some value equal to one of `constants`
    EXCEPT = 3  # some value of `value_kind` different from all `constants`
    TEXT = 4  # some text for which `text_operator` holds with `constants`
    COMPARE = 5  # a value of `attribute` compares by `text_operator` with one of `other`


class Predicate(NamedTuple):
    """A canonical predicate; hashable.

    Attributes
    ----------
    kind : PredicateKind
    attribute : str or None
        None: any attribute (kind TEXT only).
    value_kind : ValueKind or None
        For RANGE and EXCEPT.
    lo, hi : CanonicalConstant or None
        For RANGE; None is unbounded within the value kind.
    lo_open, hi_open : bool
        For RANGE.
    constants : tuple of (ValueKind, CanonicalConstant)
        For SET and EXCEPT, sorted by kind and value and without repeats; for TEXT the pattern or
        patterns, as bytes of the text as written (not folded).
    text_operator : str
        For TEXT one of ``= != in "not in" prefix suffix contains like matches in_network`` (the first four
        only with `ignore_case`); for COMPARE one of ``= != < <= > >=``; else empty.
    ignore_case : bool
        For TEXT, and for COMPARE by ``=`` and ``!=``: texts are folded.
    other : str or None
        For COMPARE.
    """

    kind: PredicateKind
    attribute: str | None
    value_kind: ValueKind | None = None
    lo: CanonicalConstant | None = None
    hi: CanonicalConstant | None = None
    lo_open: bool = False
    hi_open: bool = False
    constants: tuple[tuple[ValueKind, CanonicalConstant], ...] = ()
    text_operator: str = ""
    ignore_case: bool = False
    other: str | None = None


class NormalForm(NamedTuple):
    """An expression as clauses, or as a Boolean program when clauses would be many.

    A literal is ``2 * i + negated`` for the predicate ``predicates[i]``.

    Attributes
    ----------
    predicates : tuple of Predicate
        Distinct predicates, in order of first use.
    clauses : tuple of tuple of int, or None
        Literals of each clause, sorted and without repeats. ``()`` never holds; a clause ``()`` always does.
    program : tuple of int
        Postfix code, empty when there are clauses: a literal >= 0 pushes its truth, ``-2 * n`` replaces the
        top n values by their conjunction, ``-2 * n - 1`` by their disjunction (n >= 1).
    """

    predicates: tuple[Predicate, ...]
    clauses: tuple[tuple[int, ...], ...] | None
    program: tuple[int, ...] = ()
