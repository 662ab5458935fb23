"""From a catalogue predicate to a test on labels of a generation that was built before the predicate came.

A constant that the generation does not know lies between two that it knows, in a gap with others: no label
tells it from them. So a predicate with such a constant has no test (`NO_TEST`), nor has one that needs
bits, nor one by order where lookups give all gaps the same label (`kernels.lookup`, HASH).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.predicate import PredicateKind, ValueKind
from pubsub_cluster.shm.code_space import (
    FALSE_LABEL,
    FIRST_NUMBER_LABEL,
    HAS_HI,
    HAS_LO,
    HI_OPEN,
    LO_OPEN,
    TRUE_LABEL,
)
from pubsub_cluster.workers.kernels._jit import routine
from pubsub_cluster.workers.kernels.keyed_tables import NO_TEST, SET_LABELS, SET_LABELS_MAX, SETS
from pubsub_cluster.workers.kernels.lookup import HASH, number_label, text_label

_EXISTS, _RANGE, _SET, _EXCEPT = (
    int(kind) for kind in (PredicateKind.EXISTS, PredicateKind.RANGE, PredicateKind.SET, PredicateKind.EXCEPT)
)
_BOOLEAN, _NUMBER = int(ValueKind.BOOLEAN), int(ValueKind.NUMBER)
NO_LABEL = np.int64(-1)


class PredicateSource(NamedTuple):
    """The catalogue's columns of predicates."""

    predicate_kind: Any
    predicate_attribute: Any
    predicate_value_kind: Any
    predicate_flags: Any
    predicate_lo_whole: Any
    predicate_lo_part: Any
    predicate_hi_whole: Any
    predicate_hi_part: Any
    predicate_constant_start: Any
    predicate_constant_count: Any


class ConstantSource(NamedTuple):
    """The catalogue's columns of constants."""

    constant_kind: Any
    constant_whole: Any
    constant_part: Any
    constant_size: Any
    heap: Any


class LabelSource(NamedTuple):
    """The labels of a generation."""

    attribute_of: Any  # int32[]: by catalogue attribute, -1 for none
    lookup: Any  # lookup.Lookup
    label_start: Any  # int64[A+1]


@routine
def label_of_constant(kind: Any, key: Any, attribute: Any, constants: Any, lookup: Any) -> Any:
    """Return the label of a constant, `NO_LABEL` if the generation does not know it.

    `key` is (whole, part) of a number or a boolean, or (first byte in the heap, size) of a text.
    """
    whole, part = key
    if kind == _BOOLEAN:
        return FALSE_LABEL + whole
    if kind == _NUMBER:
        label = number_label(lookup.numbers, attribute, whole, part)
        return label if (label - FIRST_NUMBER_LABEL) & 1 else NO_LABEL
    label = text_label(lookup.texts, attribute, constants.heap, whole, whole + np.int64(part))
    return label if (label - lookup.texts.text_base[attribute]) & 1 else NO_LABEL


@routine
def end_label(kind: Any, whole: Any, part: Any, attribute: Any, constants: Any, lookup: Any) -> Any:
    """Return the label of one end of a range; as `label_of_constant`."""
    if kind != _BOOLEAN and kind != _NUMBER:
        text = constants.constant_whole[whole], np.float64(constants.constant_size[whole])
        return label_of_constant(kind, text, attribute, constants, lookup)
    return label_of_constant(kind, (whole, part), attribute, constants, lookup)


@routine
def kind_region(kind: Any, attribute: Any, labels: Any) -> Any:
    """Return first and last label of the values of a kind."""
    if kind == _BOOLEAN:
        return np.int64(FALSE_LABEL), np.int64(TRUE_LABEL)
    first_text = labels.lookup.texts.text_base[attribute]
    if kind == _NUMBER:
        return np.int64(FIRST_NUMBER_LABEL), first_text - 1
    return first_text, labels.label_start[attribute + 1] - labels.label_start[attribute] - 1


@routine
def range_test(predicate: Any, attribute: Any, predicates: Any, constants: Any, labels: Any) -> Any:
    """Return attribute, lo and hi of the test of a range."""
    kind = predicates.predicate_value_kind[predicate]
    flags = np.int64(predicates.predicate_flags[predicate])
    first, last = kind_region(kind, attribute, labels)
    lo, hi = first, last
    if flags & HAS_LO:
        whole, part = predicates.predicate_lo_whole[predicate], predicates.predicate_lo_part[predicate]
        lo = end_label(kind, whole, part, attribute, constants, labels.lookup)
        if lo < 0:
            return NO_TEST, lo, hi
        lo += 1 if flags & LO_OPEN else 0
    if flags & HAS_HI:
        whole, part = predicates.predicate_hi_whole[predicate], predicates.predicate_hi_part[predicate]
        hi = end_label(kind, whole, part, attribute, constants, labels.lookup)
        if hi < 0:
            return NO_TEST, lo, hi
        hi -= 1 if flags & HI_OPEN else 0
    is_whole = lo == first and hi == last
    is_constant = lo == hi and flags & HAS_LO and flags & HAS_HI and not flags & (LO_OPEN | HI_OPEN)
    if kind == _NUMBER:
        by_hash = labels.lookup.numbers.number_method[attribute] == HASH
    else:
        by_hash = kind != _BOOLEAN and labels.lookup.texts.text_method[attribute] == HASH
    return NO_TEST if by_hash and not is_whole and not is_constant else attribute, lo, hi


@routine
def list_members(predicate: Any, attribute: Any, sources: Any, first: Any, set_label: Any) -> Any:
    """Write the labels of a set's members, ascending, from ``set_label[first]`` on; return their end.

    `NO_LABEL` if one is not known or there are more than `SET_LABELS_MAX`.
    """
    predicates, constants, labels = sources
    start = predicates.predicate_constant_start[predicate]
    count = np.int64(predicates.predicate_constant_count[predicate])
    if count > SET_LABELS_MAX:
        return NO_LABEL
    for number in range(count):
        constant = start + number
        kind = constants.constant_kind[constant]
        part = constants.constant_part[constant]
        if kind != _BOOLEAN and kind != _NUMBER:
            part = np.float64(constants.constant_size[constant])
        key = constants.constant_whole[constant], part
        label = label_of_constant(kind, key, attribute, constants, labels.lookup)
        if label < 0:
            return NO_LABEL
        at = first + number
        while at > first and set_label[at - 1] > label:
            set_label[at] = set_label[at - 1]
            at -= 1
        set_label[at] = label
    return first + count


@routine
def write_test(predicate: Any, sources: Any, to: Any, tables: Any) -> None:
    """Write the test of a catalogue predicate as number `to` of the tests.

    Parameters
    ----------
    predicate : int
    sources : tuple
        PredicateSource, ConstantSource, LabelSource.
    to : int
    tables : tuple
        `used`, `predicate_test`, `set_start` and `set_label` of KeyedTables; there is room for a set.
    """
    predicates, constants, labels = sources
    used, test, set_start, set_label = tables
    kind = predicates.predicate_kind[predicate]
    named = np.int64(predicates.predicate_attribute[predicate])
    test[4 * to] = NO_TEST
    test[4 * to + 3] = -1
    if kind > _EXCEPT or named < 0 or named >= labels.attribute_of.shape[0]:
        return
    attribute = np.int64(labels.attribute_of[named])
    if attribute < 0:
        return
    last = labels.label_start[attribute + 1] - labels.label_start[attribute] - 1
    lo, hi = np.int64(FALSE_LABEL), last
    if kind == _RANGE:
        attribute, lo, hi = range_test(predicate, attribute, predicates, constants, labels)
    elif kind != _EXISTS:
        first = used[SET_LABELS]
        stop = list_members(predicate, attribute, sources, first, set_label)
        if stop < 0:
            return
        if kind == _EXCEPT:
            lo, hi = kind_region(predicates.predicate_value_kind[predicate], attribute, labels)
        elif stop > first:
            lo, hi = np.int64(set_label[first]), np.int64(set_label[stop - 1])
        else:
            hi = np.int64(0)
        test[4 * to + 3] = 2 * used[SETS] + (1 if kind == _EXCEPT else 0)
        used[SETS] += 1
        used[SET_LABELS] = stop
        set_start[used[SETS]] = stop
    test[4 * to] = attribute
    test[4 * to + 1] = lo
    test[4 * to + 2] = hi
