"""Every matcher of the papers: on the vectors within its language, and beside the naive one on any case."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from matching_cases import raw_batch
from numba import config
from strategies import cases
from vectors import load_vectors, run_vector

from pubsub_cluster.algorithms.interface import Matcher
from pubsub_cluster.algorithms.registry import MATCHERS, make_matcher
from pubsub_cluster.algorithms.riabov.boxes import BOXES_MAX
from pubsub_cluster.language.errors import (
    CallerError,
    DuplicateIdError,
    EventError,
    PubSubError,
    UnknownIdError,
)
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import And, Atom, Expression, Operator, Or
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.wellformed import check_tree
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.workers.matcher_engine import MatcherEngine

HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None
NAMES = [name for name in sorted(MATCHERS) if HAS_DUCKDB or "duckdb" not in name]
SPATIAL = ["hilbert-r-tree", "s-tree"]
DATABASES = [name for name in NAMES if name.startswith("sql-")]
OTHERS = [name for name in NAMES if name not in ("naive", *DATABASES)]


class Unsupported(Exception):
    """A vector needs more than the matcher's language."""


class MatcherAdapter:
    """A matcher as the vector runner's; ids become handles."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._handles: dict[str, int] = {}
        self._next = 0

    def _checked(self, expr: Any, *window: int | None) -> Expression:
        tree = expression_from_json(expr)
        check_tree(tree)
        reason = self._matcher.supports(tree)
        if window != (None, None):
            reason = "validity is the cluster's"
        if reason is not None:
            raise Unsupported(reason)
        return tree

    def subscribe(self, subscription_id: str, expr: Any, *window: int | None) -> None:
        tree = self._checked(expr, *window)
        if subscription_id in self._handles:
            raise DuplicateIdError("taken")
        self._matcher.insert(self._next, tree)
        self._handles[subscription_id] = self._next
        self._next += 1

    def update(self, subscription_id: str, expr: Any, *window: int | None) -> None:
        tree = self._checked(expr, *window)
        if subscription_id not in self._handles:
            raise UnknownIdError("unknown")
        handle = self._handles[subscription_id]
        self._matcher.delete(handle)
        self._matcher.insert(handle, tree)

    def unsubscribe(self, subscription_id: str) -> None:
        if subscription_id not in self._handles:
            raise UnknownIdError("unknown")
        self._matcher.delete(self._handles.pop(subscription_id))

    def publish(self, events: Sequence[Any], at: int | None) -> list[list[str] | PubSubError]:
        values, refused = [], {}
        for number, event in enumerate(events):
            try:
                values.append(flatten_event(event, EMPTY_SCHEMA, DEFAULT_LIMITS))
            except PubSubError as error:
                refused[number] = error
                values.append({})
        batch = raw_batch(values)._replace(refused=refused)
        found = self._matcher.match(batch)
        names = {handle: name for name, handle in self._handles.items()}
        return [
            refused.get(event, [names[handle] for handle in found.of(event).tolist()])
            for event in range(len(events))
        ]


@pytest.mark.parametrize("name", [name for name in NAMES if "duckdb" not in name])
def test_vectors_within_the_language(name: str) -> None:
    """All that `supports` lets through; and that is not next to nothing. SQL is the same on all databases."""
    passed = 0
    for vector in load_vectors():
        try:
            run_vector(vector, MatcherAdapter(make_matcher(name)))
        except Unsupported:
            continue
        passed += 1
    assert passed >= (60 if name == "naive" else 20), passed


class Trial:
    """What is to be done with matchers: build with some expressions, insert the others, delete some.

    Parameters
    ----------
    expressions : list of Expression
    events : list of dict
    data : st.DataObject
        Says where to begin to insert, and what to delete.
    schema : Schema
    """

    def __init__(
        self,
        expressions: list[Expression],
        events: list[Any],
        data: st.DataObject,
        schema: Schema = EMPTY_SCHEMA,
    ) -> None:
        handles = range(len(expressions))
        self._expressions, self._schema = expressions, schema
        self._built = data.draw(st.integers(0, len(expressions)), "built")
        some = st.lists(st.sampled_from(handles), unique=True) if expressions else st.just([])
        self._deleted = set(data.draw(some, "deleted"))
        self._batch = raw_batch([flatten_event(event, schema, DEFAULT_LIMITS) for event in events])
        naive = make_matcher("naive", schema)
        naive.build(list(enumerate(expressions)))
        found = naive.match(self._batch)
        self._expected = [found.of(event).tolist() for event in range(len(events))]

    def run(self, name: str) -> None:
        """Compare a matcher with the naive one each time; what it does not support is refused."""
        matcher = make_matcher(name, self._schema)
        supported = []
        for handle, expression in enumerate(self._expressions):
            if matcher.supports(expression) is None:
                supported.append((handle, expression))
            else:
                with pytest.raises(CallerError, match="cannot hold"):
                    matcher.insert(handle, expression)
        built = [one for one in supported if one[0] < self._built]
        matcher.build(built)
        live = {handle for handle, _ in built}
        self._check(matcher, live)
        for handle, expression in supported[len(built) :]:
            matcher.insert(handle, expression)
            live.add(handle)
        self._check(matcher, live)
        for handle in sorted(live & self._deleted):
            matcher.delete(handle)
        self._check(matcher, live - self._deleted)
        assert matcher.memory_bytes() >= 0

    def _check(self, matcher: Matcher, live: set[int]) -> None:
        found = matcher.match(self._batch)
        mine = [found.of(event).tolist() for event in range(len(self._expected))]
        assert mine == [[handle for handle in those if handle in live] for those in self._expected]


def run_all(names: list[str], trial: Trial) -> None:
    """Try matchers on a case, which takes longer to make than to match."""
    for name in names:
        note(name)
        trial.run(name)


@given(case=cases(), data=st.data())
def test_any_case(case: Any, data: st.DataObject) -> None:
    """Whatever is supported is right, after building and through changes; whatever is not is refused."""
    run_all(OTHERS, Trial(case.expressions, case.events, data, case.schema))


@settings(max_examples=20)
@given(case=cases(), data=st.data())
def test_any_case_in_sql(case: Any, data: st.DataObject) -> None:
    run_all(DATABASES, Trial(case.expressions, case.events, data, case.schema))


NUMBERS = st.sampled_from([-2.5, -1, 0, 0.5, 1, 2, 2.5, 7, 2**53, float("inf"), float("-inf"), 1e300])
VALUES = st.one_of(NUMBERS, st.sampled_from(["x", "y", True, False, 2**53 + 1, INT64_MAX]))


@st.composite
def range_atoms(draw: st.DrawFn) -> Atom:
    """Atoms within the language of boxes."""
    name = draw(st.sampled_from(["a", "b", "c"]))
    operator = draw(
        st.sampled_from([Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.IN])
    )
    if operator is Operator.IN:
        return Atom(name, operator, tuple(draw(st.lists(VALUES.filter(fits), min_size=1, max_size=3))))
    if operator is Operator.EQ:
        return Atom(name, operator, draw(VALUES.filter(fits)))
    return Atom(name, operator, draw(NUMBERS))


def fits(value: Any) -> bool:
    """Whether a constant is a double, or no number."""
    return isinstance(value, str | bool) or int(float(value)) == value if isinstance(value, int) else True


@st.composite
def box_expressions(draw: st.DrawFn) -> Expression:
    """Conjunctions of ranges, or a few of them."""
    clauses = [And(tuple(draw(st.lists(range_atoms(), max_size=4)))) for _ in range(draw(st.integers(1, 3)))]
    return clauses[0] if len(clauses) == 1 else Or(tuple(clauses))


BOX_EVENTS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c", "d"]), st.one_of(VALUES, st.lists(VALUES, max_size=2)), max_size=4
    ),
    max_size=8,
)


def kernels() -> list[Any]:
    """Every kernel of the matchers."""
    modules = [one for name, one in sys.modules.items() if name.startswith("pubsub_cluster.algorithms")]
    found = {
        id(one): one for module in modules for one in vars(module).values() if hasattr(one, "signatures")
    }
    return list(found.values())


def signature_counts() -> dict[str, int]:
    return {f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures) for kernel in kernels()}


@functools.cache
def after_warm_up(name: str) -> dict[str, int]:
    """Signatures of the kernels where only an engine has warmed up."""
    for kernel in kernels():  # what other tests have compiled
        kernel._reset_overloads()
        kernel.overloads.clear()
    MatcherEngine(CatalogueReader.of(CatalogueWriter.in_memory(1)), name=name).warm_up()
    return signature_counts()


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")  # type: ignore[attr-defined]
@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=5)
@given(expressions=st.lists(box_expressions(), max_size=14), events=BOX_EVENTS, data=st.data())
def test_warm_up_compiles_everything(
    name: str, expressions: list[Expression], events: list[Any], data: st.DataObject
) -> None:
    """A cluster that says it is ready does not compile when the first events come."""
    before = after_warm_up(name)
    Trial(expressions, events, data).run(name)
    assert signature_counts() == before


@settings(max_examples=150)
@given(expressions=st.lists(box_expressions(), max_size=14), events=BOX_EVENTS, data=st.data())
def test_boxes(expressions: list[Expression], events: list[Any], data: st.DataObject) -> None:
    """RIABOV-01, -10: ranges, sets and disjunctions, on events with many values, none, and odd ones."""
    for name in SPATIAL:
        matcher = make_matcher(name)
        assert [matcher.supports(expression) for expression in expressions] == [None] * len(expressions)
    run_all(SPATIAL, Trial(expressions, events, data))


@pytest.mark.parametrize("name", SPATIAL)
def test_all_pairs_of_comparisons(name: str) -> None:
    """Two predicates on one attribute, beside every sort of event: none, edges, odd ones, other kinds."""
    operators = (Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ)
    atoms = [Atom("a", operator, value) for operator in operators for value in (0, 1, 2**53)]
    catalogue = [(at, And(pair)) for at, pair in enumerate(itertools.product(atoms, atoms))]
    values = (-1, 0, 0.5, 1, 2, 2**53 - 1, 2**53, 2**53 + 1, INT64_MAX, 1e300, math.inf, -math.inf, "x", True)
    events = [{}, *({"a": (value,)} for value in values), {"a": (0, 2)}, {"a": (-1, "x")}, {"b": (0,)}]
    batch, found = raw_batch(events), []
    for matcher in (make_matcher(name), make_matcher("naive")):
        matcher.build(catalogue)
        found.append([part.tolist() for part in matcher.match(batch)])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NAMES)
def test_handles_are_kept_apart(name: str) -> None:
    matcher = make_matcher(name)
    everything = And(())
    matcher.build([(3, everything)])
    with pytest.raises(CallerError, match="taken"):
        matcher.insert(3, everything)
    with pytest.raises(CallerError, match="no subscription"):
        matcher.delete(4)
    with pytest.raises(CallerError, match="taken"):
        matcher.build([(1, everything), (1, everything)])
    batch = raw_batch([{}, {"a": (1,)}])._replace(refused={0: EventError("not this one")})
    assert matcher.match(batch).offsets.tolist() == [0, 0, 1]
    matcher.delete(3)
    assert matcher.match(batch).handles.tolist() == []
    with pytest.raises(CallerError, match="no such matcher"):
        make_matcher("b-tree")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ({"not": {"attr": "a", "op": "=", "value": 1}}, "negated"),
        ({"attr": "a", "op": "!=", "value": 1}, "differs"),
        ({"attr": "a", "op": "exists"}, "exists"),
        ({"attr": "a", "op": "prefix", "value": "x"}, "order"),
        ({"attr": "a", "op": "contains", "value": "x"}, "pattern"),
        ({"attr": "a", "op": "<", "value": "x"}, "order"),
        ({"attr": "a", "op": "<", "value": {"$int": str(2**53 + 1)}}, "no double"),
        (
            {"and": [{"attr": n, "op": "in", "value": list(range(20))} for n in ("a", "b")]},
            f"400 conjunctions, the most are {BOXES_MAX}",
        ),
    ],
)
@pytest.mark.parametrize("name", SPATIAL)
def test_reasons(name: str, expression: Any, reason: str) -> None:
    assert reason in str(make_matcher(name).supports(expression_from_json(expression)))


def test_the_schema_is_heeded() -> None:
    """An attribute that is declared unique has its ranges intersected, and instants are numbers."""
    schema = Schema.from_json({"attributes": [{"name": "at", "domain": "timestamp", "unique": True}]})
    matcher = make_matcher("s-tree", schema)
    tree = expression_from_json({"attr": "at", "op": ">=", "value": "1970-01-01T00:00:01Z"})
    matcher.build([(0, tree)])
    batch = raw_batch([flatten_event({"at": at}, schema, DEFAULT_LIMITS) for at in (999_999, 1_000_000)])
    assert np.diff(matcher.match(batch).offsets).tolist() == [0, 1]
