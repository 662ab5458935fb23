"""Rows appended as columns are the rows that `append_many` would have made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind, ValueKind
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow
from pubsub_cluster.shm.catalogue_bulk import RowColumns, decimal_ids


def point(attribute: str, value: int) -> Predicate:
    """An equality."""
    return Predicate(PredicateKind.RANGE, attribute, ValueKind.NUMBER, value, value)


PREDICATES = [
    point("a", 1),
    point("b", 2),
    Predicate(PredicateKind.RANGE, "t", ValueKind.TEXT, b"x", b"y", hi_open=True),
    Predicate(PredicateKind.SET, "t", constants=((ValueKind.NUMBER, 3), (ValueKind.TEXT, b"z"))),
]
CLAUSE = st.lists(st.integers(0, 2 * len(PREDICATES) - 1), unique_by=lambda code: code >> 1, max_size=3)
ROWS = st.lists(st.lists(CLAUSE.map(sorted), max_size=3), max_size=12)


def columns_of(rows: list[list[list[int]]], first_id: int = 1) -> RowColumns:
    """The rows as columns."""
    clauses = [clause for row in rows for clause in row]
    sizes, text = decimal_ids(first_id, len(rows))
    return RowColumns(
        PREDICATES,
        np.array([len(row) for row in rows], np.int32),
        np.array([len(clause) for clause in clauses], np.int32),
        np.array([code for clause in clauses for code in clause], np.int32),
        np.arange(1, len(rows) + 1, dtype=np.uint64),
        sizes,
        text,
        "me",
    )


@settings(max_examples=50, deadline=None)
@given(before=ROWS, rows=ROWS)
def test_columns_are_rows(before: list[list[list[int]]], rows: list[list[list[int]]]) -> None:
    one, other = CatalogueWriter.in_memory(64), CatalogueWriter.in_memory(64)
    for writer in (one, other):
        writer.append_many(
            NewRow(100 + i, f"before{i}", None, NormalForm(tuple(PREDICATES), tuple(map(tuple, row))))
            for i, row in enumerate(before)
        )
    first = one.append_columns(columns_of(rows))
    other.append_many(
        NewRow(i + 1, str(i + 1), "me", NormalForm(tuple(PREDICATES), tuple(map(tuple, row))))
        for i, row in enumerate(rows)
    )
    assert first == len(before)
    if rows:
        assert one.counts() == other.counts()
    assert one.counts().rows == len(before) + len(rows)
    left, right = CatalogueReader.of(one), CatalogueReader.of(other)
    for row in range(first, first + len(rows)):
        assert left.normal_form(row) == right.normal_form(row)
        assert left.subscription_id(row) == right.subscription_id(row)
        for name in ("handle", "owner", "clause_start", "id_start"):
            assert getattr(left.columns, name)[row] == getattr(right.columns, name)[row]


@pytest.mark.parametrize("first,count", [(1, 0), (1, 12), (98, 5), (999, 3), (0, 1)])
def test_decimal_ids(first: int, count: int) -> None:
    sizes, text = decimal_ids(first, count)
    ids = [str(number) for number in range(first, first + count)]
    assert sizes.tolist() == [len(text_id) for text_id in ids] and text.tobytes() == "".join(ids).encode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"clause_counts": np.ones(3, np.int32)},
        {"literal_counts": np.array([5], np.int32)},
        {"literals": np.array([8], np.int32)},
        {"literals": np.array([-1], np.int32)},
        {"id_sizes": np.array([0], np.int32)},
        {"id_text": np.zeros(0, np.uint8)},
    ],
)
def test_columns_that_do_not_fit_change_nothing(wrong: dict[str, object]) -> None:
    writer = CatalogueWriter.in_memory(64)
    counts = writer.counts()
    with pytest.raises(ValueError):
        writer.append_columns(columns_of([[[0]]])._replace(**wrong))
    assert writer.counts() == counts
