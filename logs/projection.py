"""What of an event its matches depend on: the fields that the rules of its source read.

Log events differ in time stamps, record numbers and process ids that few rules look at. Rules begin with a
*gate*: predicates at the top of their conjunction that tell the source they are for (channel, event id).
Events with the same values in the attributes of the gates have the same *candidates*, the rules whose gates
hold; the others are false whatever else the event says. So matches are a function of the gate attributes
and of the attributes that the candidates read: its *projection*. The attributes of the gates are found in
the rules; no name is known here.

Predicates on any attribute would make every event its own projection. Sieves over the raw line tell where
none of those of the candidates can hold: first a fast one (`pubsub_cluster.workers.line_sieve`), then an
exact one (`pubsub_cluster.language.text_literals`). They are as false on the projection then as on the event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import orjson

from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator
from pubsub_cluster.language.limits import INT64_MAX
from pubsub_cluster.language.naive import Test, Values, compile_expression
from pubsub_cluster.language.text_literals import line_literals, line_sieve
from pubsub_cluster.workers.line_sieve import LITERAL_BYTES_MIN, LineSieve

GATE_ATTRIBUTES_MAX = 3
GATE_SHARE_MIN = 0.1
"""An attribute is one of a gate when so many of the rules test it for equality at their top."""
CLASSES_MAX = 4_096
"""Combinations of gate values that are remembered; beyond it they are worked out anew."""
_GATE_OPERATORS = frozenset({Operator.EQ, Operator.IN})

Read = Callable[[Mapping[str, Any]], Values]


class AnywhereTest:
    """Whether a predicate on any attribute may hold on the event of a line; then all of it counts.

    Parameters
    ----------
    atoms : sequence of Atom
        On any attribute.
    """

    def __init__(self, atoms: Sequence[Atom]) -> None:
        self._test = line_sieve(atoms)
        literals = line_literals(atoms)
        is_useful = literals and min(map(len, literals)) >= LITERAL_BYTES_MIN
        self._sieve = LineSieve(literals) if literals and is_useful else None
        self._is_empty = not atoms

    def passing(self, lines: Sequence[bytes]) -> list[bool]:
        """Return for each line whether one may hold."""
        if self._is_empty or self._test is None:
            return [not self._is_empty] * len(lines)
        passing = repeat(True) if self._sieve is None else self._sieve.passing(lines)
        return [passes and self._test(line) for line, passes in zip(lines, passing, strict=False)]


class SourceClass(NamedTuple):
    """Events with like values in the attributes of the gates.

    Attributes
    ----------
    candidates : tuple of int
        Positions of the rules that may hold.
    fields : tuple of str
        Attributes that matches depend on, those of the gates first.
    anywhere : AnywhereTest
        Of the predicates on any attribute.
    """

    candidates: tuple[int, ...]
    fields: tuple[str, ...]
    anywhere: AnywhereTest


class Projection:
    """Finds the class of an event.

    Parameters
    ----------
    expressions : sequence of Expression
        Of the rules, by position.
    read : callable
        From attributes of an event as it came to the canonical values that rules see.
    sources : mapping of str to tuple of str
        Attributes of the event as it came that a rule's attribute may be taken from, itself not among them.

    Attributes
    ----------
    gate_attributes : tuple of str
    roots : frozenset of str
        Names under which an event may have an object that holds an attribute of some rule: of ``a.b`` it
        is ``a``.
    fields : tuple of str
        Attributes that the matches of some event depend on, those of the gates first.
    """

    def __init__(
        self, expressions: Sequence[Expression], read: Read, sources: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._read = read
        self._sources = sources
        self._atoms = [list(atoms_of(expression)) for expression in expressions]
        tops = [tuple(conjuncts(expression)) for expression in expressions]
        self.gate_attributes = _gate_attributes(tops, sources)
        names = frozenset(self.gate_attributes)
        by_gate: dict[tuple[Expression, ...], list[int]] = {}
        for position, top in enumerate(tops):
            gate = tuple(part for part in top if attributes_of(part) <= names)
            by_gate.setdefault(gate, []).append(position)
        self._gates: list[tuple[Test, list[int]]] = [
            (compile_expression(And(gate)), positions) for gate, positions in by_gate.items()
        ]
        read_names = {name for each in expressions for name in attributes_of(each) if name is not None}
        read_names.update(*(sources.get(name, ()) for name in tuple(read_names)))
        self.fields = (*self.gate_attributes, *sorted(read_names.difference(self.gate_attributes)))
        self.roots = frozenset(root for name in read_names for root in roots_of(name))
        self._classes: dict[bytes, SourceClass] = {}
        self._tests: dict[tuple[Atom, ...], AnywhereTest] = {}

    def class_of(self, gate_values: Sequence[Any]) -> SourceClass:
        """Return the class of an event.

        Parameters
        ----------
        gate_values : sequence
            The event's values of `gate_attributes`, in that order, as they came; None where one is missing.
        """
        key = text_of(gate_values)
        found = self._classes.get(key)
        if found is None:
            if len(self._classes) >= CLASSES_MAX:
                self._classes.clear()
            found = self._classes[key] = self._made(gate_values)
        return found

    def _made(self, gate_values: Sequence[Any]) -> SourceClass:
        if is_inexact(gate_values):
            # What the event says exactly is not known here, so any rule may hold.
            candidates = list(range(len(self._atoms)))
        else:
            values = self._read(dict(zip(self.gate_attributes, gate_values, strict=True)))
            candidates = sorted(i for test, positions in self._gates if test(values) for i in positions)
        read: set[str] = set()
        anywhere: dict[Atom, None] = {}
        for i in candidates:
            for atom in self._atoms[i]:
                if atom.attribute is None:
                    anywhere[atom] = None
                else:
                    read |= {atom.attribute} if atom.other is None else {atom.attribute, atom.other}
        read.update(*(self._sources.get(name, ()) for name in tuple(read)))
        fields = (*self.gate_attributes, *sorted(read.difference(self.gate_attributes)))
        return SourceClass(tuple(candidates), fields, self._anywhere(tuple(anywhere)))

    def _anywhere(self, atoms: tuple[Atom, ...]) -> AnywhereTest:
        found = self._tests.get(atoms)
        if found is None:
            found = self._tests[atoms] = AnywhereTest(atoms)
        return found


def lines_to_take_whole(lines: Sequence[bytes], sources: Sequence[SourceClass | None]) -> set[int]:
    """Return the lines on which a predicate on any attribute may hold, of those with candidates."""
    by_test: dict[AnywhereTest, list[int]] = {}
    for i, source in enumerate(sources):
        if source is not None and source.candidates:
            by_test.setdefault(source.anywhere, []).append(i)
    whole: set[int] = set()
    for test, numbers in by_test.items():
        passing = test.passing([lines[i] for i in numbers])
        whole.update(i for i, passes in zip(numbers, passing, strict=True) if passes)
    return whole


def text_of(values: Sequence[Any]) -> bytes:
    """Return a text that differs where JSON values do: 1, 1.0 and true are three, though equal for Python."""
    try:
        return orjson.dumps(values)
    except TypeError:  # an integer beyond 64 bits
        return repr(values).encode(errors="surrogatepass")


def is_inexact(values: Iterable[Any]) -> bool:
    """Say whether a number may be another one in the line: the decoder rounds integers beyond 64 bits."""
    return any(type(value) is float and abs(value) > INT64_MAX for value in values)


def roots_of(name: str) -> Iterator[str]:
    """Return the names that an object may have which holds the attribute: ``a`` and ``a.b`` for ``a.b.c``."""
    at = name.find(".")
    while at >= 0:
        yield name[:at]
        at = name.find(".", at + 1)


def atoms_of(expression: Expression) -> Iterator[Atom]:
    """Return all predicates of an expression, repeats included."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Atom):
            yield node
        elif isinstance(node, Not):
            pending.append(node.child)
        else:
            pending.extend(node.children)


def attributes_of(expression: Expression) -> frozenset[str | None]:
    """Return the names of all attributes that an expression reads; None stands for any attribute."""
    atoms = list(atoms_of(expression))
    others = (atom.other for atom in atoms if atom.other is not None)
    return frozenset((*(atom.attribute for atom in atoms), *others))


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Return what must all hold for an expression to hold."""
    if isinstance(expression, And):
        for child in expression.children:
            yield from conjuncts(child)
    else:
        yield expression


def _gate_attributes(
    tops: Sequence[Sequence[Expression]], sources: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the attributes that most rules test for equality at their top, the most frequent first."""
    counts: Counter[str] = Counter()
    for top in tops:
        counts.update({name for part in top for name in _compared(part) if name not in sources})
    often = [(name, n) for name, n in counts.items() if n >= max(2.0, GATE_SHARE_MIN * len(tops))]
    often.sort(key=lambda entry: (-entry[1], entry[0]))
    return tuple(name for name, _ in often[:GATE_ATTRIBUTES_MAX])


def _compared(expression: Expression) -> set[str]:
    """Return the attributes of a conjunct that is made of equalities with constants alone."""
    names: set[str] = set()
    for atom in atoms_of(expression):
        if atom.operator not in _GATE_OPERATORS or atom.attribute is None or atom.other is not None:
            return set()
        names.add(atom.attribute)
    return names
