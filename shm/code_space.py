"""Code spaces: a constant becomes an int32 label of its attribute, a comparison an interval of labels.

Labels of one attribute, in this order:
    0 missing | 1 false, 2 true | numbers: 3 + 2*i + 1 is the i-th constant, 3 + 2*i a value just below it,
    3 + 2*n a value above all n constants | texts: the same from 3 + 2*n + 1 on.
So an interval never reaches into another kind, and a value between two constants falls on the even/odd gap
label between theirs. `build_code_spaces` numbers the constants and rewrites each canonical predicate as one
*label test*:
    interval   some label in [lo, hi]
    set        some label in [lo, hi] that is a member of a sorted set
    except     some label in [lo, hi] that is no member
    bit        TEXT and COMPARE predicates: truth is a bit that the encoder sets
A negated literal is the complement of the test, missing and other kinds included.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.predicate import PredicateKind, ValueKind

I1: TypeAlias = npt.NDArray[np.int8]
I4: TypeAlias = npt.NDArray[np.int32]
I8: TypeAlias = npt.NDArray[np.int64]
U1: TypeAlias = npt.NDArray[np.uint8]
U8: TypeAlias = npt.NDArray[np.uint64]
F8: TypeAlias = npt.NDArray[np.float64]

MISSING_LABEL = 0
FALSE_LABEL = 1
TRUE_LABEL = 2
FIRST_NUMBER_LABEL = 3

TEST_WIDTH = 4
"""int32 per label test: attribute (-1: bit), lo (or bit index), hi, set reference (-1: interval)."""

LO_OPEN, HI_OPEN, IGNORE_CASE, HAS_LO, HAS_HI = 1, 2, 4, 8, 16
"""Bits of the catalogue's column `predicate_flags`."""


class CodeSpaces(NamedTuple):
    """Constants of A attributes, sorted within each; all arrays are flat, one slice per attribute.

    Attributes
    ----------
    number_start : int32[A+1]
    number_whole, number_part : int64[N], float64[N]
        Number keys (`language.values.number_key`), ascending within an attribute.
    text_start : int32[A+1]
    text_offset : int64[T+1]
        Slices of `text_bytes`, ascending by bytes within an attribute.
    text_bytes : uint8[]
    text_prefix : uint64[T]
        First eight bytes, big-endian, zero-padded: decides most comparisons.
    label_start : int64[A+1]
        First label slot of each attribute when all labels of all attributes are laid in one row.
    """

    number_start: I4
    number_whole: I8
    number_part: F8
    text_start: I4
    text_offset: I8
    text_bytes: U1
    text_prefix: U8
    label_start: I8

    @property
    def attribute_count(self) -> int:
        """Number of attributes."""
        return len(self.number_start) - 1


class LabelTests(NamedTuple):
    """One test per predicate.

    Attributes
    ----------
    test : int32[P * TEST_WIDTH]
        Per predicate: attribute, lo, hi, set reference; the reference is ``2 * set + is_except``, or -1.
        A bit predicate has attribute -1 and its bit index as lo.
    set_start : int32[K+1]
    set_label : int32[]
        Members, ascending within a set.
    bit_predicate : int32[B]
        Predicate of each bit.
    """

    test: I4
    set_start: I4
    set_label: I4
    bit_predicate: I4


class PredicateColumns(NamedTuple):
    """Predicates to compile, gathered from the catalogue, with attributes numbered from 0 without gaps.

    `constant_*` and `heap` are the catalogue's own columns; `predicate_id` and `attribute_id` its numbers.
    """

    predicate_id: I4
    attribute_id: I4
    kind: I1
    attribute: I4
    value_kind: I1
    flags: U1
    lo_whole: I8
    lo_part: F8
    hi_whole: I8
    hi_part: F8
    constant_start: I8
    constant_count: I4
    constant_kind: I1
    constant_whole: I8
    constant_part: F8
    constant_size: I4
    heap: U1


class _Points(NamedTuple):
    """Constants of all predicates in one list; `role` 0 is lo, 1 hi, 2 a member."""

    predicate: I8
    role: I8
    kind: I8
    whole: I8
    part: F8
    size: I8


def gather_predicates(columns: Any, predicate_id: I4) -> PredicateColumns:
    """Pick predicates out of the catalogue's columns and renumber their attributes.

    Parameters
    ----------
    columns : NamedTuple of arrays
        `CatalogueReader.columns`.
    predicate_id : int32[P]
        Catalogue predicates, ascending.

    Returns
    -------
    PredicateColumns
        `attribute` is an index into `attribute_id`, and -1 for bit predicates (TEXT, COMPARE).
    """
    kind = columns.predicate_kind[predicate_id]
    named = columns.predicate_attribute[predicate_id].astype(np.int32)
    by_label = kind < PredicateKind.TEXT
    attribute_id, local = np.unique(named[by_label], return_inverse=True)
    attribute = np.full(len(predicate_id), -1, np.int32)
    attribute[by_label] = local
    return PredicateColumns(
        predicate_id,
        attribute_id.astype(np.int32),
        kind,
        attribute,
        columns.predicate_value_kind[predicate_id],
        columns.predicate_flags[predicate_id],
        columns.predicate_lo_whole[predicate_id],
        columns.predicate_lo_part[predicate_id],
        columns.predicate_hi_whole[predicate_id],
        columns.predicate_hi_part[predicate_id],
        columns.predicate_constant_start[predicate_id],
        columns.predicate_constant_count[predicate_id],
        columns.constant_kind,
        columns.constant_whole,
        columns.constant_part,
        columns.constant_size,
        columns.heap,
    )


def build_code_spaces(predicates: PredicateColumns) -> tuple[CodeSpaces, LabelTests]:
    """Number the constants of `predicates` and rewrite every predicate as a label test.

    Python objects are made only for distinct text constants; everything else is vectorised.
    """
    attribute_count = len(predicates.attribute_id)
    points = _collect_points(predicates)
    point_attribute = predicates.attribute[points.predicate].astype(np.int64)
    label = np.where(points.kind == ValueKind.BOOLEAN, FALSE_LABEL + points.whole, 0)

    is_number = points.kind == ValueKind.NUMBER
    number_start, number_whole, number_part, number_rank = _rank_numbers(
        point_attribute[is_number], points.whole[is_number], points.part[is_number], attribute_count
    )
    number_count = np.diff(number_start).astype(np.int64)
    label[is_number] = FIRST_NUMBER_LABEL + 2 * number_rank + 1

    is_text = points.kind == ValueKind.TEXT
    text_start, texts, text_rank = _rank_texts(
        point_attribute[is_text],
        points.whole[is_text],
        points.size[is_text],
        predicates.heap,
        attribute_count,
    )
    text_count = np.diff(text_start).astype(np.int64)
    first_text = FIRST_NUMBER_LABEL + 2 * number_count + 1
    label[is_text] = first_text[point_attribute[is_text]] + 2 * text_rank + 1

    label_start = np.zeros(attribute_count + 1, np.int64)
    np.cumsum(first_text + 2 * text_count + 1, out=label_start[1:])
    text_offset = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=text_offset[1:])
    spaces = CodeSpaces(
        number_start,
        number_whole,
        number_part,
        text_start,
        text_offset,
        np.frombuffer(b"".join(texts), np.uint8),
        np.array([int.from_bytes(text[:8].ljust(8, b"\0"), "big") for text in texts], np.uint64),
        label_start,
    )
    return spaces, _label_tests(predicates, spaces, points, label)


def first_text_label(spaces: CodeSpaces, attribute: int) -> int:
    """Return the label of a text below all text constants of `attribute`."""
    count = int(spaces.number_start[attribute + 1] - spaces.number_start[attribute])
    return FIRST_NUMBER_LABEL + 2 * count + 1


def number_label(spaces: CodeSpaces, attribute: int, key: tuple[int, float]) -> int:
    """Return the label of a number by its key; the plain form of what the encoder does."""
    first, stop = int(spaces.number_start[attribute]), int(spaces.number_start[attribute + 1])
    keys = list(
        zip(spaces.number_whole[first:stop].tolist(), spaces.number_part[first:stop].tolist(), strict=True)
    )
    at = bisect_left(keys, key)
    return FIRST_NUMBER_LABEL + 2 * at + (1 if at < len(keys) and keys[at] == key else 0)


def text_constants(spaces: CodeSpaces, attribute: int) -> list[bytes]:
    """Return the text constants of `attribute`, ascending."""
    first, stop = int(spaces.text_start[attribute]), int(spaces.text_start[attribute + 1])
    offset = spaces.text_offset[first : stop + 1].tolist()
    data = spaces.text_bytes[offset[0] : offset[-1]].tobytes()
    return [data[lo - offset[0] : hi - offset[0]] for lo, hi in itertools.pairwise(offset)]


def text_label(spaces: CodeSpaces, attribute: int, text: bytes) -> int:
    """Return the label of a text; the plain form of what the encoder does."""
    constants = text_constants(spaces, attribute)
    at = bisect_left(constants, text)
    found = at < len(constants) and constants[at] == text
    return first_text_label(spaces, attribute) + 2 * at + (1 if found else 0)


def _collect_points(p: PredicateColumns) -> _Points:
    """List every constant of RANGE, SET and EXCEPT predicates."""
    is_range = p.kind == PredicateKind.RANGE
    parts: list[_Points] = []
    for role, flag, whole, part in ((0, HAS_LO, p.lo_whole, p.lo_part), (1, HAS_HI, p.hi_whole, p.hi_part)):
        at = np.flatnonzero(is_range & ((p.flags & flag) != 0))
        kind = p.value_kind[at].astype(np.int64)
        value, size = whole[at], np.zeros(len(at), np.int64)
        text = kind == ValueKind.TEXT
        constant = value[text]
        value[text], size[text] = p.constant_whole[constant], p.constant_size[constant]
        parts.append(_Points(at, np.full(len(at), role, np.int64), kind, value, part[at], size))
    at = np.flatnonzero((p.kind == PredicateKind.SET) | (p.kind == PredicateKind.EXCEPT))
    count = p.constant_count[at]
    constant = expand_slices(p.constant_start[at], count)
    parts.append(
        _Points(
            np.repeat(at, count),
            np.full(len(constant), 2, np.int64),
            p.constant_kind[constant].astype(np.int64),
            p.constant_whole[constant],
            p.constant_part[constant],
            p.constant_size[constant].astype(np.int64),
        )
    )
    return _Points(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def expand_slices(start: npt.NDArray[Any], count: npt.NDArray[Any]) -> I8:
    """Return the concatenation of the ranges ``start[i] .. start[i] + count[i]``."""
    if len(count) and count[0] > 0 and bool((count == count[0]).all()):  # as most clauses of a table are
        equal: I8 = (start.astype(np.int64)[:, None] + np.arange(int(count[0]))).reshape(-1)
        return equal
    count = count.astype(np.int64)
    end = np.cumsum(count)
    total = int(end[-1]) if len(end) else 0
    shift = start.astype(np.int64) - (end - count)
    expanded: I8 = np.arange(total, dtype=np.int64) + np.repeat(shift, count)
    return expanded


def _rank_numbers(attribute: I8, whole: I8, part: F8, attribute_count: int) -> tuple[I4, I8, F8, I8]:
    """Sort distinct keys per attribute; return starts, keys and each point's rank within its attribute."""
    order = np.lexsort((part, whole, attribute))
    a, w, f = attribute[order], whole[order], part[order]
    new = np.ones(len(order), bool)
    new[1:] = (a[1:] != a[:-1]) | (w[1:] != w[:-1]) | (f[1:] != f[:-1])
    start = _starts(a[new], attribute_count)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new) - 1
    return start, w[new], f[new], rank - start[attribute]


def _rank_texts(
    attribute: I8, offset: I8, size: I8, heap: U1, attribute_count: int
) -> tuple[I4, list[bytes], I8]:
    """Sort distinct texts per attribute; return starts, texts and each point's rank within its attribute."""
    view = heap.data
    points = attribute.tolist()
    texts = [bytes(view[at : at + n]) for at, n in zip(offset.tolist(), size.tolist(), strict=True)]
    ranks: list[dict[bytes, int]] = [{} for _ in range(attribute_count)]
    for a, text in zip(points, texts, strict=True):
        ranks[a][text] = 0
    ordered: list[bytes] = []
    start = np.zeros(attribute_count + 1, np.int32)
    for a, known in enumerate(ranks):
        mine = sorted(known)
        ranks[a] = dict(zip(mine, range(len(mine)), strict=True))
        ordered += mine
        start[a + 1] = len(ordered)
    rank = [ranks[a][text] for a, text in zip(points, texts, strict=True)]
    return start, ordered, np.array(rank, np.int64)


def _starts(attribute: I8, attribute_count: int) -> I4:
    start = np.zeros(attribute_count + 1, np.int32)
    np.cumsum(np.bincount(attribute, minlength=attribute_count), out=start[1:])
    return start


def _label_tests(p: PredicateColumns, spaces: CodeSpaces, points: _Points, label: I8) -> LabelTests:
    """Turn predicates into intervals, sets and bits, given the label of every constant."""
    test = np.full((len(p.kind), TEST_WIDTH), -1, np.int32)
    test[:, 0] = p.attribute
    by_label = np.flatnonzero(p.attribute >= 0)
    lo, hi = _kind_regions(p, spaces, by_label)
    test[by_label, 1], test[by_label, 2] = lo, hi
    for role, column, flag, step in ((0, 1, LO_OPEN, 1), (1, 2, HI_OPEN, -1)):
        mine = points.role == role
        at = points.predicate[mine]
        test[at, column] = label[mine] + np.where(p.flags[at] & flag, step, 0)

    member = points.role == 2
    order = np.lexsort((label[member], points.predicate[member]))
    set_label = label[member][order].astype(np.int32)
    owner = np.flatnonzero((p.kind == PredicateKind.SET) | (p.kind == PredicateKind.EXCEPT))
    set_start = np.zeros(len(owner) + 1, np.int32)
    np.cumsum(p.constant_count[owner], out=set_start[1:])
    is_set = p.kind[owner] == PredicateKind.SET
    test[owner, 3] = 2 * np.arange(len(owner)) + ~is_set
    sets, first, stop = owner[is_set], set_start[:-1][is_set], set_start[1:][is_set]
    filled = stop > first
    test[sets, 1], test[sets, 2] = 1, 0  # an empty set holds for nothing
    test[sets[filled], 1] = set_label[first[filled]]
    test[sets[filled], 2] = set_label[stop[filled] - 1]

    bit_predicate = np.flatnonzero(p.attribute < 0).astype(np.int32)
    test[bit_predicate, 1] = np.arange(len(bit_predicate))
    return LabelTests(test.reshape(-1), set_start, set_label, bit_predicate)


def _kind_regions(p: PredicateColumns, spaces: CodeSpaces, at: I8) -> tuple[I8, I8]:
    """Return first and last label of each predicate's value kind; of all kinds for EXISTS and SET."""
    attribute = p.attribute[at]
    number_last = FIRST_NUMBER_LABEL + 2 * np.diff(spaces.number_start).astype(np.int64)[attribute]
    last = np.diff(spaces.label_start)[attribute] - 1
    kind = p.value_kind[at]
    any_kind = (p.kind[at] == PredicateKind.EXISTS) | (p.kind[at] == PredicateKind.SET)
    boolean, number = kind == ValueKind.BOOLEAN, kind == ValueKind.NUMBER
    lo = np.select([any_kind | boolean, number], [FALSE_LABEL, FIRST_NUMBER_LABEL], number_last + 1)
    hi = np.select([any_kind, boolean, number], [last, TRUE_LABEL, number_last], last)
    return lo.astype(np.int64), hi.astype(np.int64)
