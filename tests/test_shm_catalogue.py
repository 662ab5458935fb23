"""The catalogue: what is appended reads back, whoever reads it, and an append that fails changes nothing."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import LimitError, SegmentError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.shm import catalogue_store
from pubsub_cluster.shm.catalogue import (
    NO_COUNTS,
    CatalogueCounts,
    CatalogueReader,
    CatalogueWriter,
    NewRow,
    capacity_for,
)
from pubsub_cluster.shm.catalogue_rows import clause_ranges, literal_ranges, window_of
from pubsub_cluster.shm.catalogue_store import CatalogueStore
from pubsub_cluster.shm.column_plan import length_in, length_symbols
from pubsub_cluster.shm.segment import Owner, current_owner, list_segments, unlink_segment

ROOT = Path(__file__).resolve().parents[1]
SMALL = Limits(subscriptions_max=50)

names = st.text(min_size=1, max_size=4)
numbers = st.one_of(
    st.integers(-3, 3),
    st.integers(INT64_MIN, INT64_MAX),
    st.floats(allow_nan=False),
    st.sampled_from([2.0**63, -(2.0**63), 2**53 + 1, 2.0**53, -0.0, 0.5, -0.5, 5e-324, math.inf, -math.inf]),
)
texts = st.one_of(st.sampled_from([b"", b"a"]), st.text(max_size=4).map(str.encode))
constants = {ValueKind.BOOLEAN: st.booleans(), ValueKind.NUMBER: numbers, ValueKind.TEXT: texts}
tagged = st.sampled_from(list(ValueKind)).flatmap(lambda kind: st.tuples(st.just(kind), constants[kind]))


@st.composite
def ranges(draw: st.DrawFn) -> Predicate:
    kind = draw(st.sampled_from(list(ValueKind)))
    lo, hi = draw(st.none() | constants[kind]), draw(st.none() | constants[kind])
    if draw(st.booleans()):
        hi = lo
    return Predicate(PredicateKind.RANGE, draw(names), kind, lo, hi, draw(st.booleans()), draw(st.booleans()))


@st.composite
def lists(draw: st.DrawFn) -> Predicate:
    members = tuple(draw(st.lists(tagged, max_size=5)))
    if draw(st.booleans()):
        return Predicate(PredicateKind.SET, draw(names), constants=members)
    kind = draw(st.sampled_from(list(ValueKind)))
    return Predicate(PredicateKind.EXCEPT, draw(names), kind, constants=members)


predicates = st.one_of(
    names.map(lambda name: Predicate(PredicateKind.EXISTS, name)),
    ranges(),
    lists(),
    st.builds(
        lambda attribute, operator, patterns, ignore_case: Predicate(
            PredicateKind.TEXT,
            attribute,
            constants=tuple((ValueKind.TEXT, pattern) for pattern in patterns),
            text_operator=operator,
            ignore_case=ignore_case,
        ),
        st.none() | names,
        st.sampled_from(
            ["=", "!=", "in", "not in", "prefix", "suffix", "contains", "like", "matches", "in_network"]
        ),
        st.lists(texts, min_size=1, max_size=3),
        st.booleans(),
    ),
    st.builds(
        lambda attribute, operator, other: Predicate(
            PredicateKind.COMPARE, attribute, text_operator=operator, other=other
        ),
        names,
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        names,
    ),
)


@st.composite
def forms(draw: st.DrawFn) -> NormalForm:
    found = tuple(draw(st.lists(predicates, min_size=1, max_size=5, unique=True)))
    literals = st.integers(0, 2 * len(found) - 1)
    if draw(st.integers(0, 3)) == 0:
        codes = st.lists(literals | st.integers(-9, -2), min_size=1, max_size=12)
        return NormalForm(found, None, tuple(draw(codes)))
    clause = st.sets(literals, max_size=4).map(lambda members: tuple(sorted(members)))
    return NormalForm(found, tuple(draw(st.lists(clause, max_size=4))))


def meaning(form: NormalForm) -> Any:
    """Return what a form says without the numbers of its predicates."""

    def literal(code: int) -> Any:
        return code if code < 0 else (form.predicates[code >> 1], bool(code & 1))

    if form.clauses is None:
        return [literal(code) for code in form.program]
    return [{literal(code) for code in clause} for clause in form.clauses]


def row(number: int, form: NormalForm, **changes: Any) -> NewRow:
    return NewRow(number, f"id-{number}", "owner", form)._replace(**changes)


def exists(name: str) -> NormalForm:
    return NormalForm((Predicate(PredicateKind.EXISTS, name),), ((0,),))


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = current_owner(uuid.uuid4().hex[:8])
    yield made
    for name in list_segments(made.cluster_id):
        unlink_segment(name)


@pytest.fixture(params=["shared", "private"])
def make(request: pytest.FixtureRequest, owner: Owner) -> Callable[[int], CatalogueWriter]:
    if request.param == "private":
        return CatalogueWriter.in_memory
    return lambda rows_max: CatalogueWriter.create(owner, Limits(subscriptions_max=rows_max))


def contents(writer: CatalogueWriter) -> dict[str, list[Any]]:
    """Return every column up to the writer's counts."""
    counts = writer.counts()._asdict()
    return {
        name: getattr(writer.columns, name)[: length_in(symbol, counts)].tolist()
        for name, symbol in catalogue_store._SYMBOLS.items()
    }


@settings(max_examples=80)
@given(st.lists(forms(), max_size=8), st.integers(0, 8))
def test_forms_read_back(all_forms: list[NormalForm], split: int) -> None:
    writer = CatalogueWriter.in_memory(100)
    rows = [row(number + 1, form) for number, form in enumerate(all_forms)]
    assert writer.append_many(rows[:split]) == 0
    assert writer.append_many(rows[split:]) == min(split, len(rows))
    reader = CatalogueReader.of(writer)
    for number, form in enumerate(all_forms):
        found = reader.normal_form(number)
        assert meaning(found) == meaning(form)
        assert all(list(clause) == sorted(set(clause)) for clause in found.clauses or ())
        assert reader.subscription_id(number) == f"id-{number + 1}"
    one_by_one = CatalogueWriter.in_memory(100)
    for entry in rows:
        one_by_one.append(*entry)
    assert [meaning(CatalogueReader.of(one_by_one).normal_form(n)) for n in range(len(rows))] == [
        meaning(form) for form in all_forms
    ]
    counts, other = writer.counts(), one_by_one.counts()
    assert counts == other


@settings(max_examples=80)
@given(st.lists(predicates, unique=True, max_size=8))
def test_equal_predicates_are_stored_once(found: list[Predicate]) -> None:
    writer = CatalogueWriter.in_memory(100)
    form = NormalForm(tuple(found), (tuple(range(0, 2 * len(found), 2)),))
    writer.append_many([row(1, form), row(2, form)])
    counts = writer.counts()
    writer.append_many([row(3, form)])
    assert counts.predicates == writer.counts().predicates == len(found)
    assert counts.attributes == len({n for p in found for n in (p.attribute, p.other) if n is not None})
    reader = CatalogueReader.of(writer)
    assert [reader.predicate(idx) for idx in range(len(found))] == found


def test_the_columns_of_a_row(make: Callable[[int], CatalogueWriter]) -> None:
    writer = make(50)
    predicate = Predicate(PredicateKind.RANGE, "price", ValueKind.NUMBER, 1, 2.5, True, False)
    other = Predicate(PredicateKind.TEXT, None, constants=((ValueKind.TEXT, b"x"),), text_operator="like")
    first = NormalForm((predicate, other), ((0, 3), ()))
    second = NormalForm((other, predicate), None, (0, 3, -4))
    assert writer.append_many([row(5, first), row(6, second, owner=None, valid_from=-1, valid_until=8)]) == 0
    counts, columns = writer.counts(), CatalogueReader.of(writer).columns
    assert columns.handle[:2].tolist() == [5, 6]
    assert columns.owner[:2].tolist() == [0, -1]
    assert [window_of(columns, counts.windows, row) for row in range(2)] == [None, (-1, 8)]
    found = [part.tolist() for part in clause_ranges(columns, np.arange(2, dtype=np.int32))]
    assert found == [[0, 2], [2, 1], [False, True]]
    assert [part.tolist() for part in literal_ranges(columns, np.arange(3))] == [[0, 2, 2], [2, 0, 3]]
    assert columns.literal[:5].tolist() == [0, 3, 2, 1, -4]
    assert columns.predicate_flags[:2].tolist() == [1 | 8 | 16, 0]
    assert (columns.predicate_hi_whole[0], columns.predicate_hi_part[0]) == (2, 0.5)
    assert columns.predicate_attribute[:2].tolist() == [0, -1]
    assert writer.counts() == CatalogueCounts(2, 1, 8, 3, 5, 2, 1, 11, 1, 1)


def test_owners_and_ids(make: Callable[[int], CatalogueWriter]) -> None:
    writer = make(50)
    ids = ["", "ä€😀", "plain", "x" * 1000]
    writer.append_many(
        [row(n, exists("a"), subscription_id=ids[n], owner="öwner" if n % 2 else None) for n in range(4)]
    )
    reader = CatalogueReader.of(writer)
    assert reader.owner_name(0) == "öwner"
    assert reader.columns.owner[:4].tolist() == [-1, 0, -1, 0]
    rows = np.array([3, 1, 0, 1], np.int32)
    offsets, text = reader.subscription_ids(rows)
    found = [text[start:end].decode() for start, end in itertools.pairwise(offsets.tolist())]
    assert found == [ids[n] for n in rows.tolist()] == [reader.subscription_id(n) for n in rows.tolist()]
    assert reader.subscription_ids(np.empty(0, np.int32))[0].tolist() == [0]


def test_a_full_catalogue_refuses_and_changes_nothing(make: Callable[[int], CatalogueWriter]) -> None:
    writer = make(3)
    writer.append_many([row(1, exists("a")), row(2, exists("b"))])
    before, counts = contents(writer), writer.counts()
    with pytest.raises(LimitError) as caught:
        writer.append_many([row(n, exists("c")) for n in (3, 4)])
    assert caught.value.fields["limit_name"] == "subscriptions_max"
    assert (caught.value.seen, caught.value.limit) == (4, 3)
    assert (contents(writer), writer.counts()) == (before, counts)
    assert writer.append(3, "three", "new owner", exists("c")) == 2
    reader = CatalogueReader.of(writer)
    assert [reader.attribute_name(idx) for idx in range(3)] == ["a", "b", "c"]
    assert reader.normal_form(2) == exists("c")


@pytest.mark.parametrize(
    "broken",
    [
        {"subscription_id": "\ud800"},
        {"handle": -1},
        {"owner": "\ud800"},
        {"valid_from": "x"},
    ],
)
def test_a_row_that_cannot_be_stored_changes_nothing(
    make: Callable[[int], CatalogueWriter], broken: dict[str, Any]
) -> None:
    writer = make(50)
    writer.append_many([row(1, exists("a"))])
    before, counts = contents(writer), writer.counts()
    new = NormalForm((Predicate(PredicateKind.SET, "new", constants=((ValueKind.TEXT, b"t"),)),), ((0,),))
    with pytest.raises((ValueError, OverflowError)):
        writer.append_many([row(2, new, owner="new owner"), row(3, exists("newer"), **broken)])
    assert (contents(writer), writer.counts()) == (before, counts)
    writer.append_many([row(4, new, owner="other owner")])
    reader = CatalogueReader.of(writer)
    assert meaning(reader.normal_form(1)) == meaning(new)
    assert reader.owner_name(1) == "other owner"


def test_no_memory_changes_nothing(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = CatalogueWriter.create(owner, SMALL)

    def refuse(*_: object) -> None:
        raise SegmentError("no room")

    monkeypatch.setattr(CatalogueStore, "_reserve", refuse)
    with pytest.raises(SegmentError):
        writer.append_many([row(1, exists("a"))])
    monkeypatch.undo()
    assert writer.counts() == NO_COUNTS
    assert writer.append_many([row(1, exists("b"))]) == 0
    assert CatalogueReader.of(writer).normal_form(0) == exists("b")


def test_a_full_pool_refuses_what_needs_more_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue_store, "CAPACITY_LEAST", CatalogueCounts(*[64] * 10))
    writer = CatalogueWriter.in_memory(5)
    clause = tuple(range(0, 2 * 52, 2))
    form = NormalForm(tuple(Predicate(PredicateKind.EXISTS, str(n)) for n in range(52)), (clause,))
    writer.append_many([row(1, form)])
    writer.append_many([row(2, form), row(3, form)])
    with pytest.raises(LimitError, match="literals"):
        writer.append_many([row(4, form)])
    assert writer.append_many([row(4, exists("0"))]) == 3  # what was accepted before still has room


def test_a_row_is_removed_once(make: Callable[[int], CatalogueWriter]) -> None:
    writer = make(50)
    writer.append_many([row(1, exists("a")), row(2, exists("b"))])
    reader = CatalogueReader.of(writer)
    writer.remove(1, 7)
    assert reader.columns.removed_version[:2].tolist() == [0, 7]
    for wrong_row, version in ((1, 8), (2, 8), (-1, 8), (0, 0)):
        with pytest.raises(ValueError):
            writer.remove(wrong_row, version)
        with pytest.raises(ValueError, match="cannot be removed"):
            writer.remove_many([0, wrong_row], [9, version])
    writer.append_many([row(3, exists("a")), row(4, exists("b"))])
    writer.remove_many([3, 0], [8, 9])
    assert reader.columns.removed_version[:4].tolist() == [9, 7, 0, 8]


def test_readers_cannot_write(make: Callable[[int], CatalogueWriter]) -> None:
    columns = CatalogueReader.of(make(50)).columns
    assert not any(column.flags.writeable for column in columns)


def test_the_segment_grows_as_rows_come(owner: Owner) -> None:
    writer = CatalogueWriter.create(owner, DEFAULT_LIMITS)
    path = Path("/dev/shm") / writer.name
    assert path.stat().st_size > 1 << 30
    assert path.stat().st_blocks * 512 < 4 << 20
    reader = CatalogueReader.attach(writer.name)  # before the first row, with room for all
    rows = [row(n + 1, exists(f"attribute {n % 1000}")) for n in range(20_000)]
    for start in range(0, len(rows), 500):
        writer.append_many(rows[start : start + 500])
    assert path.stat().st_blocks * 512 < 64 << 20
    assert reader.columns.handle[:20_000].tolist() == list(range(1, 20_001))
    assert reader.normal_form(19_999) == exists("attribute 999")
    assert reader.capacity == capacity_for(DEFAULT_LIMITS.subscriptions_max)


def test_another_process_reads_what_it_is_told_of(owner: Owner) -> None:
    writer = CatalogueWriter.create(owner, SMALL)
    writer.append_many([row(1, exists("a")), row(2, exists("ä"))])
    code = """
import sys
from pubsub_cluster.shm.catalogue import CatalogueReader
reader = CatalogueReader.attach(sys.argv[1])
for line in sys.stdin:
    number = int(line)
    attribute = reader.normal_form(number).predicates[0].attribute
    print(ascii(attribute), reader.subscription_id(number), flush=True)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, writer.name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdin.write("1\n")
        child.stdin.flush()
        assert child.stdout.readline() == "'\\xe4' id-2\n"
        writer.append_many([row(3, exists("late"))])
        output, errors = child.communicate("2\n", timeout=60)
    finally:
        child.kill()
        child.wait(60)
    assert (output, errors) == ("'late' id-3\n", "")


def test_counts_are_the_length_symbols() -> None:
    assert CatalogueCounts._fields == length_symbols("catalogue")
    with pytest.raises(LimitError):
        capacity_for(1 << 31)
