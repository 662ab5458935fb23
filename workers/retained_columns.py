"""Columns of a block of retained events: `RawBatch` made small, joined and thinned out.

An attribute that every event has once needs no event numbers, whole numbers keep no fractions and take the
narrowest type that holds them, texts are numbered within the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.batch import BooleanEntries, NumberEntries, RawBatch, TextEntries

Mask: TypeAlias = npt.NDArray[np.bool_]
I4: TypeAlias = npt.NDArray[np.int32]
Whole: TypeAlias = npt.NDArray[Any]

_NARROW: tuple[Any, ...] = (np.int8, np.int16, np.int32)


class Numbers(NamedTuple):
    """Numbers of one attribute, by event.

    Attributes
    ----------
    event : int32[k] or None
        Ascending; None: row i is of event i, and every event has one.
    whole : int8[k], int16[k], int32[k] or int64[k]
    part : float64[k] or None
        Number key; None where every part is 0.
    """

    event: I4 | None
    whole: Whole
    part: npt.NDArray[np.float64] | None


class Coded(NamedTuple):
    """Texts or booleans of one attribute, by event.

    Attributes
    ----------
    event : int32[k] or None
        As of `Numbers`.
    code : int32[k]
        Number of the value in `distinct`.
    distinct : list of bytes or bool
    """

    event: I4 | None
    code: I4
    distinct: list[Any]


class Column(NamedTuple):
    """An attribute's values by kind; None where no event has one of that kind."""

    numbers: Numbers | None = None
    texts: Coded | None = None
    booleans: Coded | None = None


class Block(NamedTuple):
    """Events 0 to `event_count`, and their columns by attribute."""

    event_count: int
    columns: dict[str, Column]

    @property
    def size_bytes(self) -> int:
        """About the memory that it takes."""
        return sum(_size_bytes(column) for column in self.columns.values())


def block_of(raw: RawBatch) -> Block:
    """Return a batch as a block; its refused events are there and have no values."""
    columns: dict[str, Column] = {}
    for name, (numbers, texts, booleans) in raw.attributes.items():
        columns[name] = Column(
            None if numbers is None else _numbers(numbers, raw.event_count),
            None if texts is None else _texts(texts, raw.event_count),
            None if booleans is None else _booleans(booleans, raw.event_count),
        )
    return Block(raw.event_count, columns)


def joined(blocks: Sequence[Block]) -> Block:
    """Return the events of several blocks, one after the other, as one."""
    if len(blocks) == 1:
        return blocks[0]
    first = np.cumsum([0, *(block.event_count for block in blocks)])
    event_count = int(first[-1])
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for block in blocks for name in block.columns):
        found = [
            (int(at), block.event_count, block.columns[name])
            for at, block in zip(first[:-1], blocks, strict=True)
            if name in block.columns
        ]
        numbers = [(at, count, one.numbers) for at, count, one in found if one.numbers is not None]
        texts = [(at, count, one.texts) for at, count, one in found if one.texts is not None]
        booleans = [(at, count, one.booleans) for at, count, one in found if one.booleans is not None]
        columns[name] = Column(
            _joined_numbers(numbers, event_count) if numbers else None,
            _joined_codes(texts, event_count) if texts else None,
            _joined_codes(booleans, event_count) if booleans else None,
        )
    return Block(event_count, columns)


def selected(block: Block, kept: Mask) -> Block:
    """Return a block of the events that `kept`, bool[event_count], picks."""
    event_count = int(np.count_nonzero(kept))
    number = (np.cumsum(kept) - 1).astype(np.int32)
    columns: dict[str, Column] = {}
    for name, column in block.columns.items():
        numbers = column.numbers
        if numbers is not None:
            rows, event = _kept_rows(numbers.event, kept, number, event_count)
            part = None if numbers.part is None else numbers.part[rows]
            numbers = Numbers(event, numbers.whole[rows], part) if rows.any() else None
        columns[name] = Column(
            numbers,
            _kept_codes(column.texts, kept, number, event_count),
            _kept_codes(column.booleans, kept, number, event_count),
        )
    return Block(event_count, {name: column for name, column in columns.items() if any(column)})


def _events(event: I4, event_count: int) -> I4 | None:
    """Return None for rows that are one of each event, in order."""
    if len(event) == event_count and (not event_count or bool((event[1:] > event[:-1]).all())):
        return None
    return event.copy() if event.base is not None else event


def _numbers(entries: NumberEntries, event_count: int) -> Numbers:
    part = entries.part if entries.part.any() else None
    return Numbers(_events(entries.event, event_count), _narrowed(entries.whole), part)


def _narrowed(whole: Whole) -> Whole:
    least, most = int(whole.min(initial=0)), int(whole.max(initial=0))
    for narrow in _NARROW:
        bounds = np.iinfo(narrow)
        if bounds.min <= least and most <= bounds.max:
            return whole.astype(narrow)
    return whole


def _texts(entries: TextEntries, event_count: int) -> Coded:
    data = memoryview(np.ascontiguousarray(entries.data).data)
    number: dict[bytes, int] = {}
    bounds = zip(entries.start.tolist(), entries.end.tolist(), strict=True)
    code = np.fromiter(
        (number.setdefault(bytes(data[start:end]), len(number)) for start, end in bounds),
        np.int32,
        len(entries.start),
    )
    return Coded(_events(entries.event, event_count), code, list(number))


def _booleans(entries: BooleanEntries, event_count: int) -> Coded:
    return Coded(_events(entries.event, event_count), entries.value.astype(np.int32), [False, True])


def _joined_events(parts: Sequence[tuple[int, int, I4 | None]], event_count: int) -> I4 | None:
    whole = [
        np.arange(at, at + count, dtype=np.int32) if event is None else event + np.int32(at)
        for at, count, event in parts
    ]
    return _events(np.concatenate(whole), event_count)


def _joined_numbers(parts: Sequence[tuple[int, int, Numbers]], event_count: int) -> Numbers:
    event = _joined_events([(at, count, one.event) for at, count, one in parts], event_count)
    part = None
    if any(one.part is not None for _, _, one in parts):
        part = np.concatenate(
            [np.zeros(len(one.whole)) if one.part is None else one.part for _, _, one in parts]
        )
    return Numbers(event, np.concatenate([one.whole for _, _, one in parts]), part)


def _joined_codes(parts: Sequence[tuple[int, int, Coded]], event_count: int) -> Coded:
    event = _joined_events([(at, count, one.event) for at, count, one in parts], event_count)
    number: dict[Any, int] = {}
    codes: list[I4] = []
    for _, _, one in parts:
        renumbered = [number.setdefault(value, len(number)) for value in one.distinct]
        codes.append(np.array(renumbered, np.int32)[one.code])
    return Coded(event, np.concatenate(codes), list(number))


def _kept_rows(event: I4 | None, kept: Mask, number: I4, event_count: int) -> tuple[Mask, I4 | None]:
    if event is None:
        return kept, None
    rows = kept[event]
    return rows, _events(number[event[rows]], event_count)


def _kept_codes(coded: Coded | None, kept: Mask, number: I4, event_count: int) -> Coded | None:
    if coded is None:
        return None
    rows, event = _kept_rows(coded.event, kept, number, event_count)
    if not rows.any():
        return None
    used, code = np.unique(coded.code[rows], return_inverse=True)
    return Coded(event, code.astype(np.int32), [coded.distinct[each] for each in used.tolist()])


def _size_bytes(column: Column) -> int:
    size_bytes = 0
    if column.numbers is not None:
        size_bytes += sum(array.nbytes for array in column.numbers if array is not None)
    for coded in (column.texts, column.booleans):
        if coded is not None:
            size_bytes += coded.code.nbytes + (0 if coded.event is None else coded.event.nbytes)
            size_bytes += sum(map(len, coded.distinct)) if coded is column.texts else 0
    return size_bytes
