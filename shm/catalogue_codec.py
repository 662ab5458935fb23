"""Canonical predicates as numbers in columns, and back.

Encoding goes column by column over many predicates at once: per predicate it costs a microsecond or two.
A predicate that comes back is equal to the one that went in (an integral number comes back as int).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

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

_CONSTANT_COLUMNS = ("constant_kind", "constant_whole", "constant_part", "constant_size")
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


def encode_predicates(
    predicates: Sequence[Predicate], number_of: Callable[[str], int], constant_count: int, heap: Heap
) -> tuple[dict[str, Sequence[Any]], int]:
    """Return the column values of new predicates and of their constants, and the number of constants after.

    Parameters
    ----------
    predicates : sequence of Predicate
    number_of : callable
        Gives an attribute's number by its name.
    constant_count : int
        Constants that are in the catalogue already.
    heap : Heap
        Takes the bytes of texts.
    """
    if not predicates:
        return {}, constant_count
    kinds, names, value_kinds, los, his, lo_open, hi_open, members, operators, folded, others = zip(
        *predicates, strict=True
    )
    constants: list[tuple[int, int, float, int]] = []

    def add_constant(kind: ValueKind, constant: CanonicalConstant) -> None:
        if isinstance(constant, bytes):
            constants.append((kind, heap.add(constant), 0.0, len(constant)))
        else:
            constants.append((kind, *number_key(constant), 0))

    def end_key(end: CanonicalConstant | None) -> tuple[int, float]:
        if end is None:
            return _NO_END
        if isinstance(end, bytes):
            add_constant(ValueKind.TEXT, end)
            return constant_count + len(constants) - 1, 0.0
        return number_key(end)

    # Most ends are integers, or both ends the same object; the general way costs twice as much.
    lo_keys = [(lo, 0.0) if type(lo) is int else end_key(lo) for lo in los]
    hi_keys = [
        lo_key if hi is lo else (hi, 0.0) if type(hi) is int else end_key(hi)
        for lo, hi, lo_key in zip(los, his, lo_keys, strict=True)
    ]
    member_counts = np.array(list(map(len, members)), np.int64)
    member_start = constant_count + len(constants) + np.cumsum(member_counts) - member_counts
    for kind, constant in chain.from_iterable(members):
        add_constant(kind, constant)
    values: dict[str, Any] = {
        "predicate_kind": kinds,
        "predicate_attribute": [-1 if name is None else number_of(name) for name in names],
        "predicate_other": [-1 if name is None else number_of(name) for name in others],
        "predicate_value_kind": [kind or 0 for kind in value_kinds],
        "predicate_flags": _flags(lo_open, hi_open, folded, los, his),
        "predicate_operator": [_OPERATOR_NUMBER[operator] for operator in operators],
        "predicate_constant_start": member_start,
        "predicate_constant_count": member_counts,
    }
    values["predicate_lo_whole"], values["predicate_lo_part"] = zip(*lo_keys, strict=True)
    values["predicate_hi_whole"], values["predicate_hi_part"] = zip(*hi_keys, strict=True)
    if constants:
        values |= zip(_CONSTANT_COLUMNS, zip(*constants, strict=True), strict=True)
    return values, constant_count + len(constants)


def _flags(
    lo_open: Sequence[bool],
    hi_open: Sequence[bool],
    folded: Sequence[bool],
    los: Sequence[CanonicalConstant | None],
    his: Sequence[CanonicalConstant | None],
) -> npt.NDArray[np.uint8]:
    flags = np.zeros(len(los), np.uint8)
    for flag, holds in (
        (FLAG_LO_OPEN, lo_open),
        (FLAG_HI_OPEN, hi_open),
        (FLAG_IGNORE_CASE, folded),
        (FLAG_HAS_LO, [lo is not None for lo in los]),
        (FLAG_HAS_HI, [hi is not None for hi in his]),
    ):
        flags[np.array(holds, np.bool_)] |= flag
    return flags


def decode_predicate(
    columns: CatalogueColumns, predicate_idx: int, attribute: str | None, other: str | None
) -> Predicate:
    """Return a predicate of the catalogue; its attributes' names are given by the caller."""
    kind = PredicateKind(int(columns.predicate_kind[predicate_idx]))
    value_kind = ValueKind(int(columns.predicate_value_kind[predicate_idx]) or 1)
    flags = int(columns.predicate_flags[predicate_idx])
    lo: CanonicalConstant | None = None
    hi: CanonicalConstant | None = None
    lo_key = columns.predicate_lo_whole[predicate_idx], columns.predicate_lo_part[predicate_idx]
    hi_key = columns.predicate_hi_whole[predicate_idx], columns.predicate_hi_part[predicate_idx]
    if flags & FLAG_HAS_LO:
        lo = _decode_end(columns, value_kind, *lo_key)
    if flags & FLAG_HAS_HI:
        hi = lo if lo is not None and hi_key == lo_key else _decode_end(columns, value_kind, *hi_key)
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
