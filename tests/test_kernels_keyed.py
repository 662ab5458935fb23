"""Kernels of the keyed delta against `workers.kernels.reference_keyed`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.shm.code_space import build_code_spaces, gather_predicates
from pubsub_cluster.shm.layout import empty_layout, frozen
from pubsub_cluster.workers import delta_keyed
from pubsub_cluster.workers.delta_keyed import KeyedRows
from pubsub_cluster.workers.encoder import Encoder
from pubsub_cluster.workers.kernels import reference_keyed as reference
from pubsub_cluster.workers.kernels.keyed_rows import interval_of
from pubsub_cluster.workers.kernels.keyed_tables import (
    ANY_CODE,
    ATTRIBUTES_MAX,
    COUNT_BITS,
    COUNT_MASK,
    ENTRIES,
    KEY_WIDTH,
    NO_TEST,
    PREDICATES,
)
from pubsub_cluster.workers.kernels.lookup import HASH
from pubsub_cluster.workers.pairs import Pairs
from pubsub_cluster.workers.text_bits import TextBits


def made_of(catalogue: Case, predicate_count: int) -> tuple[KeyedRows, Encoder, Any, Any]:
    """Return keyed rows and encoder on the labels of the first predicates, the spaces, their attributes."""
    known = gather_predicates(catalogue.reader.columns, np.arange(predicate_count, dtype=np.int32))
    spaces, tests = build_code_spaces(known)
    names = [catalogue.reader.attribute_name(int(i)) for i in known.attribute_id]
    encoder = Encoder(spaces, names, TextBits([]), tests.test)
    layout = empty_layout()._replace(attribute_catalogue=known.attribute_id, label_start=spaces.label_start)
    return KeyedRows(catalogue.reader, layout, encoder.lookup), encoder, spaces, known.attribute_id


@settings(max_examples=60)
@given(case=cases(max_expressions=12), draw=st.data())
def test_tests_keys_and_pairs(case: Any, draw: st.DataObject) -> None:
    """Tests are those of the labels, no clause is lost or changed, every pair is found once."""
    cut = draw.draw(st.integers(0, len(case.expressions)), "known")
    catalogue = Case(case.expressions[:cut], case.schema)
    predicate_count = catalogue.writer.counts().predicates
    catalogue.add(case.expressions[cut:])
    keyed, encoder, spaces, attributes = made_of(catalogue, predicate_count)
    attribute_count = len(attributes)
    shifts = draw.draw(
        st.lists(st.integers(0, 3), min_size=attribute_count, max_size=attribute_count), "shifts"
    )
    keyed._code_shift = frozen(np.array(shifts, np.uint8))  # as for so many labels that codes are coarse
    keyed.clear()
    if attribute_count > 1:
        keyed._pairs = draw.draw(
            st.lists(
                st.tuples(*[st.integers(0, attribute_count - 1)] * 2).filter(lambda p: p[0] < p[1]),
                unique=True,
                max_size=4,
            ),
            "pairs",
        )
        keyed.clear()
    row_count = catalogue.writer.counts().rows
    left = keyed.add(0, row_count, (0, 1), 0).tolist()
    check_tests(catalogue, keyed, spaces, attributes.tolist())
    check_clauses(catalogue, keyed, left, spaces.label_start)

    values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    encoded = encoder.encode(raw_batch(values))
    removed = catalogue.writer.columns.removed_version
    removed[:row_count] = draw.draw(st.lists(st.integers(0, 3), min_size=row_count, max_size=row_count))
    bounds = draw.draw(st.integers(0, row_count), "row stop"), draw.draw(st.integers(0, 3), "version")
    events = encoded.entry_start, *(column[: encoded.entry_start[-1]] for column in encoded[2:4])
    expected = reference.match_keyed(keyed._tables, spaces.label_start, events, bounds, removed)
    for is_pruned in (False, False, True):  # scratch memory is as before
        if is_pruned:
            check_pruned(keyed, removed, bounds[1], spaces.label_start)
        pairs = Pairs(DEFAULT_LIMITS)
        pairs._event, pairs._row = np.empty(1, np.int32), np.empty(1, np.int32)
        keyed.match(encoded._replace(bit_start=frozen(np.zeros(1, np.int64))), *bounds, pairs)
        event, row = pairs.arrays()
        assert sorted(zip(event.tolist(), row.tolist(), strict=True)) == expected


def check_pruned(keyed: KeyedRows, removed: Any, version: int, label_start: Any) -> None:
    """Have removed rows forgotten, however few; the clauses of the others are as before."""
    before = reference.clauses_of(keyed._tables, label_start)
    gone = [row for _, _, row in before if 0 < removed[row] <= version]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(delta_keyed, "PRUNE_SHARE", 0.0)
        assert not keyed.prune(version)
    kept = [clause for clause in before if clause[2] not in gone]
    assert reference.clauses_of(keyed._tables, label_start) == kept
    assert keyed.pruned_version == max((int(removed[row]) for row in gone), default=0)
    counts = keyed._tables.key.reshape(-1, KEY_WIDTH)[:, 1]
    ends = (counts >> COUNT_BITS) + (counts & COUNT_MASK)
    assert (ends[counts >= 0] <= keyed._tables.used[ENTRIES]).all()


def check_tests(catalogue: Case, keyed: KeyedRows, spaces: Any, attributes: list[int]) -> None:
    """Every predicate that was met has the test of its labels, or none where labels do not decide."""
    tables, lookup = keyed._tables, keyed._sources[2].lookup
    for number in range(tables.used[PREDICATES]):
        predicate_idx = int(tables.predicate_catalogue[number])
        named = int(catalogue.reader.columns.predicate_attribute[predicate_idx])
        found = int(tables.predicate_test[4 * number])
        if named not in attributes:
            assert found == NO_TEST
            continue
        attribute = attributes.index(named)
        passing = reference.labels_of(catalogue.reader.predicate(predicate_idx), spaces, attribute)
        if found == NO_TEST and passing is not None:  # by order, where all gaps have one label
            methods = lookup.numbers.number_method[attribute], lookup.texts.text_method[attribute]
            assert HASH in methods
            continue
        assert (found == NO_TEST) == (passing is None)
        if passing is not None:
            assert found == attribute
            assert reference.test_labels(number, tables) == passing


def check_clauses(catalogue: Case, keyed: KeyedRows, left: list[int], label_start: Any) -> None:
    """Key and literals of each clause are those of the catalogue; a row is here as a whole or not at all."""
    tables, columns = keyed._tables, catalogue.reader.columns
    found: dict[int, list[set[tuple[int, int]]]] = {}
    for points, literals, row in reference.clauses_of(tables, label_start):
        codes = {(int(tables.predicate_catalogue[literal >> 1]), literal & 1) for literal in literals}
        for attribute, label in points:
            test = [attribute, label, label, -1]
            numbers = [
                n
                for n in range(tables.used[PREDICATES])
                if tables.predicate_test[4 * n : 4 * n + 4].tolist() == test
            ]
            codes |= {(int(tables.predicate_catalogue[number]), 0) for number in numbers}
        found.setdefault(row, []).append(codes)
    for row in range(catalogue.writer.counts().rows):
        start, stop = columns.clause_start[row : row + 2].tolist()
        expected = []
        for clause in range(start >> 1, stop >> 1):
            span = columns.literal_start[clause : clause + 2].tolist()
            expected.append({(code >> 1, code & 1) for code in columns.literal[span[0] : span[1]].tolist()})
        if row in left or not expected:
            assert row not in found
        else:
            assert len(found[row]) == len(expected)
            for codes, clause_codes in zip(found[row], expected, strict=True):
                assert clause_codes <= codes


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (3, (3, 40 >> 2, 90 >> 2)),
        (ATTRIBUTES_MAX - 1, (ATTRIBUTES_MAX - 1, 40, 90)),
        (ATTRIBUTES_MAX, (0, 0, ANY_CODE)),
        (ATTRIBUTES_MAX + 3, (0, 0, ANY_CODE)),
    ],
)
def test_an_attribute_whose_number_does_not_fit_lets_all_events_pass(
    attribute: int, expected: tuple[int, int, int]
) -> None:
    """Cut to 16 bits it would be another one, whose value would be compared."""
    shift = np.zeros(ATTRIBUTES_MAX + 5, np.uint8)
    shift[3] = 2
    test = np.array([0, 0, 0, 0, attribute, 40, 90, 0], np.int32)
    plain: Any = getattr(interval_of, "py_func", interval_of)
    named, lo, hi = expected
    assert plain(2, test, shift) == named << 16 | lo << 8 | (hi - lo)
