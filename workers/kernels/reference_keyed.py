"""Plain versions of the kernels of the keyed delta: readable, slow, without order or memory to care for."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.code_space import (
    FALSE_LABEL,
    FIRST_NUMBER_LABEL,
    TRUE_LABEL,
    CodeSpaces,
    first_text_label,
    number_label,
    text_label,
)
from pubsub_cluster.workers.kernels.keyed_tables import (
    CLAUSES,
    COUNT_BITS,
    KEY_WIDTH,
    ONE_LABEL,
)

Clause = tuple[frozenset[tuple[int, int]], frozenset[int], int]
"""Label slots (attribute, label) of its key, other literals, catalogue row."""


def constant_label(spaces: CodeSpaces, attribute: int, kind: ValueKind, value: Any) -> int | None:
    """Return the label of a constant; None if the spaces do not have it."""
    if kind == ValueKind.BOOLEAN:
        return FALSE_LABEL + int(value)
    if kind == ValueKind.NUMBER:
        label = number_label(spaces, attribute, number_key(value))
        return label if (label - FIRST_NUMBER_LABEL) % 2 else None
    label = text_label(spaces, attribute, value)
    return label if (label - first_text_label(spaces, attribute)) % 2 else None


def labels_of(predicate: Predicate, spaces: CodeSpaces, attribute: int) -> set[int] | None:
    """Return the labels for which a predicate holds; None where labels do not decide it."""
    label_count = int(spaces.label_start[attribute + 1] - spaces.label_start[attribute])
    first_text = first_text_label(spaces, attribute)
    region = {
        ValueKind.BOOLEAN: range(FALSE_LABEL, TRUE_LABEL + 1),
        ValueKind.NUMBER: range(FIRST_NUMBER_LABEL, first_text),
        ValueKind.TEXT: range(first_text, label_count),
    }
    if predicate.kind == PredicateKind.EXISTS:
        return set(range(FALSE_LABEL, label_count))
    if predicate.kind == PredicateKind.RANGE:
        assert predicate.value_kind is not None
        lo, hi = region[predicate.value_kind][0], region[predicate.value_kind][-1]
        if predicate.lo is not None:
            found = constant_label(spaces, attribute, predicate.value_kind, predicate.lo)
            if found is None:
                return None
            lo = found + predicate.lo_open
        if predicate.hi is not None:
            found = constant_label(spaces, attribute, predicate.value_kind, predicate.hi)
            if found is None:
                return None
            hi = found - predicate.hi_open
        return set(range(lo, hi + 1))
    if predicate.kind in (PredicateKind.SET, PredicateKind.EXCEPT):
        members = {constant_label(spaces, attribute, kind, value) for kind, value in predicate.constants}
        if None in members:
            return None
        known = {member for member in members if member is not None}
        if predicate.kind == PredicateKind.SET:
            return known
        assert predicate.value_kind is not None
        return set(region[predicate.value_kind]) - known
    return None


def test_labels(number: int, tables: Any) -> set[int]:
    """Return the labels that pass a test of the tables."""
    _, lo, hi, reference = tables.predicate_test[4 * number : 4 * number + 4].tolist()
    inside = set(range(lo, hi + 1))
    if reference < 0:
        return inside
    first, stop = tables.set_start[reference // 2 : reference // 2 + 2].tolist()
    members = set(tables.set_label[first:stop].tolist())
    return inside - members if reference % 2 else inside & members


def clauses_of(tables: Any, label_start: Any) -> list[Clause]:
    """Return all clauses of the tables, with their keys."""
    found: dict[int, Clause] = {}
    starts = label_start.tolist()

    def point_of(slot: int) -> tuple[int, int]:
        attribute = max(a for a in range(len(starts) - 1) if starts[a] <= slot)
        return attribute, slot - starts[attribute]

    for key, entries in tables.key.reshape(-1, KEY_WIDTH).tolist():
        if entries < 0:
            continue
        first, count = divmod(entries, 1 << COUNT_BITS)
        slots = [slot for slot in (key >> 32, key & 0xFFFFFFFF) if slot != ONE_LABEL]
        for clause in tables.entry_clause[first : first + count].tolist():
            literals = tables.literal[tables.clause_start[clause] : tables.clause_start[clause + 1]].tolist()
            assert clause not in found
            row = int(tables.clause_row[clause])
            found[clause] = frozenset(map(point_of, slots)), frozenset(literals), row
    assert sorted(found) == list(range(tables.used[CLAUSES]))
    return [found[clause] for clause in sorted(found)]


def match_keyed(
    tables: Any, label_start: Any, events: Any, bounds: Any, removed: Any
) -> list[tuple[int, int]]:
    """Return the pairs of (event, row), sorted; `bounds` are row to stop before and version."""
    row_stop, version = bounds
    entry_start, entry_attribute, entry_label = (column.tolist() for column in events)
    pairs = set()
    for event in range(len(entry_start) - 1):
        span = slice(entry_start[event], entry_start[event + 1])
        labels = list(zip(entry_attribute[span], entry_label[span], strict=True))
        for points, literals, row in clauses_of(tables, label_start):
            if row >= row_stop or 0 < removed[row] <= version or not points <= set(labels):
                continue
            holds = True
            for literal in literals:
                attribute = tables.predicate_test[4 * (literal >> 1)]
                passing = test_labels(literal >> 1, tables)
                some = any(a == attribute and label in passing for a, label in labels)
                holds &= some != bool(literal & 1)
            if holds:
                pairs.add((event, row))
    return sorted(pairs)
