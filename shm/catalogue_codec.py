"""Canonical predicates as numbers in columns, and back.

Encoding collects plain Python lists for many predicates at once; the writer turns each into a column slice.
A predicate that comes back is equal to the one that went in (an integral number comes back as int).
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.language.predicate import CanonicalConstant, Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.values import number_key, number_of_key
from pubsub_cluster.shm.catalogue_store import CatalogueColumns

TEXT_OPERATOR_NAMES: tuple[str, ...] = (
    "",
    "=",
    "!=",
    "in",
    "not in",
    "prefix",
    "suffix",
    "contains",
    "like",
    "matches",
    "in_network",
    "<",
    "<=",
    ">",
    ">=",
)
"""`Predicate.text_operator` by its number in the column ``predicate_operator``."""

FLAG_LO_OPEN = 1
FLAG_HI_OPEN = 2
FLAG_IGNORE_CASE = 4
FLAG_HAS_LO = 8
FLAG_HAS_HI = 16

PREDICATE_COLUMNS = tuple(name for name in CatalogueColumns._fields if name.startswith("predicate_"))
CONSTANT_COLUMNS = tuple(name for name in CatalogueColumns._fields if name.startswith("constant_"))

_OPERATOR_NUMBER = {name: number for number, name in enumerate(TEXT_OPERATOR_NAMES)}
_NO_END = (0, 0.0)


class Heap:
    """Bytes to be appended to the heap; `end` is where the next ones go."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.pieces: list[bytes] = []

    def add(self, text: bytes) -> int:
        """Append `text`; return where it starts."""
        start = self.end
        self.pieces.append(text)
        self.end = start + len(text)
        return start


class PredicateDraft:
    """Predicates to be appended: one tuple per predicate and per constant, in the columns' order.

    Parameters
    ----------
    constant_count : int
        Constants that are in the catalogue already.
    heap : Heap
    """

    def __init__(self, constant_count: int, heap: Heap) -> None:
        self.predicates: list[tuple[Any, ...]] = []
        self.constants: list[tuple[int, int, float, int]] = []
        self.constant_end = constant_count  # number of the next constant
        self._heap = heap

    def add(self, predicate: Predicate, attribute: int, other: int) -> None:
        """Append a predicate whose attributes have these numbers (-1: none)."""
        kind, _, value_kind, lo, hi, lo_open, hi_open, constants, operator, ignore_case, _ = predicate
        flags = (lo_open and FLAG_LO_OPEN) | (hi_open and FLAG_HI_OPEN) | (ignore_case and FLAG_IGNORE_CASE)
        lo_key = hi_key = _NO_END
        if lo is not None:
            flags |= FLAG_HAS_LO
            lo_key = self._end(lo)
        if hi is not None:
            flags |= FLAG_HAS_HI
            hi_key = lo_key if hi is lo else self._end(hi)
        start = self.constant_end
        for constant_kind, constant in constants:
            self._add_constant(constant_kind, constant)
        self.predicates.append(
            (
                kind,
                attribute,
                other,
                value_kind or 0,
                flags,
                _OPERATOR_NUMBER[operator],
                *lo_key,
                *hi_key,
                start,
                len(constants),
            )
        )

    def _end(self, end: CanonicalConstant) -> tuple[int, float]:
        if type(end) is int:  # most are; the general way costs twice as much
            return end, 0.0
        if isinstance(end, bytes):
            self._add_constant(ValueKind.TEXT, end)
            return self.constant_end - 1, 0.0
        return number_key(end)

    def _add_constant(self, kind: ValueKind, constant: CanonicalConstant) -> None:
        self.constant_end += 1
        if isinstance(constant, bytes):
            self.constants.append((kind, self._heap.add(constant), 0.0, len(constant)))
        else:
            self.constants.append((kind, *number_key(constant), 0))


def decode_predicate(
    columns: CatalogueColumns, predicate_idx: int, attribute: str | None, other: str | None
) -> Predicate:
    """Return a predicate of the catalogue; its attributes' names are given by the caller."""
    kind = PredicateKind(int(columns.predicate_kind[predicate_idx]))
    value_kind = ValueKind(int(columns.predicate_value_kind[predicate_idx]) or 1)
    flags = int(columns.predicate_flags[predicate_idx])
    lo: CanonicalConstant | None = None
    hi: CanonicalConstant | None = None
    if flags & FLAG_HAS_LO:
        lo = _decode_end(
            columns,
            value_kind,
            columns.predicate_lo_whole[predicate_idx],
            columns.predicate_lo_part[predicate_idx],
        )
    if flags & FLAG_HAS_HI:
        hi = _decode_end(
            columns,
            value_kind,
            columns.predicate_hi_whole[predicate_idx],
            columns.predicate_hi_part[predicate_idx],
        )
    first = int(columns.predicate_constant_start[predicate_idx])
    count = int(columns.predicate_constant_count[predicate_idx])
    return Predicate(
        kind,
        attribute,
        value_kind if kind in (PredicateKind.RANGE, PredicateKind.EXCEPT) else None,
        lo,
        hi,
        bool(flags & FLAG_LO_OPEN),
        bool(flags & FLAG_HI_OPEN),
        tuple(decode_constant(columns, idx) for idx in range(first, first + count)),
        TEXT_OPERATOR_NAMES[int(columns.predicate_operator[predicate_idx])],
        bool(flags & FLAG_IGNORE_CASE),
        other,
    )


def decode_constant(columns: CatalogueColumns, constant_idx: int) -> tuple[ValueKind, CanonicalConstant]:
    """Return a constant of the catalogue with its kind."""
    kind = ValueKind(int(columns.constant_kind[constant_idx]))
    whole = int(columns.constant_whole[constant_idx])
    if kind == ValueKind.TEXT:
        return kind, columns.heap[whole : whole + int(columns.constant_size[constant_idx])].tobytes()
    if kind == ValueKind.BOOLEAN:
        return kind, bool(whole)
    return kind, number_of_key(whole, float(columns.constant_part[constant_idx]))


def _decode_end(columns: CatalogueColumns, kind: ValueKind, whole: Any, part: Any) -> CanonicalConstant:
    if kind == ValueKind.TEXT:
        return decode_constant(columns, int(whole))[1]
    if kind == ValueKind.BOOLEAN:
        return bool(whole)
    return number_of_key(int(whole), float(part))
