"""From events as rows (JSON, MessagePack) to the arrays of a batch.

Nearly all events are flat, so they are not flattened one by one: their values are dealt to one list per
attribute, and each list is checked and turned into arrays as a whole. A value that is not plainly right there
(a list, a NaN, a wide integer, a text outside a declared list) makes its event *special*: special events
alone go through `EventReader.flatten`, which refuses them or gives their canonical values, and the columns
are then made again from the rest and from these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.event_types import checked_batch
from pubsub_cluster.language.events import EventReader
from pubsub_cluster.language.payload import DECODE_ERRORS, Buffer
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
    Value,
)
from pubsub_cluster.language.values import encode_texts, number_keys_float64, number_keys_int64

_SCALARS = frozenset({int, float, str, bool, type(None)})

Decode: TypeAlias = Callable[[Any], Any]
_Built: TypeAlias = Any  # what the builder of a kind returns

# From values of one kind to arrays: a wide integer or a lone surrogate raises.
_BUILDERS: dict[type, Callable[[list[Any]], _Built]] = {
    int: lambda values: np.array(values, dtype=np.int64),
    float: lambda values: np.array(values, dtype=np.float64),
    bool: lambda values: np.array(values, dtype=np.uint8),
    str: encode_texts,
}


def row_decoder(batch_format: str) -> Decode:
    """Return the function from the bytes of one event to its object, for ``json`` or ``msgpack``."""
    return msgspec.json.Decoder().decode if batch_format == "json" else msgspec.msgpack.Decoder().decode


def decode_rows(
    header: Mapping[str, Any],
    buffers: Sequence[Buffer],
    reader: EventReader,
    picked: Sequence[int] | None = None,
) -> RawBatch:
    """Decode a checked payload of rows; see `pubsub_cluster.language.decode.decode_payload`.

    With `picked`, only these events, numbered in their order here.
    """
    batch_format: str = header["format"]
    decode = row_decoder(batch_format)
    offsets = np.frombuffer(buffers[0], dtype="<i8").tolist()
    data = memoryview(buffers[1])
    events: list[Any] = []
    refused: dict[int, EventError] = {}
    bounds = pairwise(offsets) if picked is None else ((offsets[one], offsets[one + 1]) for one in picked)
    for event_idx, (start, end) in enumerate(bounds):
        try:
            events.append(decode(data[start:end]))
        except DECODE_ERRORS as found:
            events.append(None)
            error = EventError(f"the event is no {batch_format} document", seen=str(found))
            error.fields["event_index"] = event_idx
            refused[event_idx] = error
    return transpose_events(events, reader, refused)


def transpose_events(
    events: Sequence[Any], reader: EventReader, refused: dict[int, EventError] | None = None
) -> RawBatch:
    """Return the batch of events given as Python objects.

    Parameters
    ----------
    events : sequence of object
        As `pubsub_cluster.language.events.flatten_event` takes them.
    reader : EventReader
    refused : dict of int to EventError, optional
        Events refused already; their objects are not looked at.
    """
    refused = {} if refused is None else refused
    entry_count_max = reader.limits.attributes_per_event_max
    columns, special = _deal(events, entry_count_max, refused)
    if any([column.expand() for column in columns.values()]):
        entry_count = Counter(chain.from_iterable(column.event_idxs for column in columns.values()))
        special.update(event_idx for event_idx, count in entry_count.items() if count > entry_count_max)
    attributes: dict[str, AttributeEntries] = {}
    for name, column in columns.items():
        found = column.suspects(name, reader)
        if found:
            special.update(found)
        elif not special and (entries := column.entries(len(events))):
            attributes[name] = entries
    if special:
        flattened = _flatten_special(events, special, reader, refused)
        for name in sorted(columns.keys() | flattened.keys(), key=str):
            column = _merged(columns.get(name), flattened.get(name), special)
            entries = column.entries(len(events))
            if entries is None:
                attributes.pop(name, None)
            else:
                attributes[name] = entries
    raw = RawBatch(len(events), attributes, refused)
    return raw if reader.schema.types is None else checked_batch(raw, reader.schema.types)


class _Column:
    """Values of one attribute, and the events that they come from.

    Attributes
    ----------
    event_idxs : list of int
        Ascending.
    values : list
        As decoded.
    canonical : list
        The same once `suspects` has looked at them; where a suspect stands is undefined.
    is_many : bool
        Whether an event may have several values.
    kinds : set of type
        Of the values, once `expand` has looked at them.
    built : object
        The values as arrays, if the check of `suspects` has made them (one kind only).
    """

    __slots__ = ("built", "canonical", "event_idxs", "is_many", "kinds", "values")

    def __init__(self) -> None:
        self.event_idxs: list[int] = []
        self.values: list[Any] = []
        self.canonical: list[Any] = self.values
        self.is_many = False
        self.kinds: set[type] = set()
        self.built: _Built | None = None

    def expand(self) -> bool:
        """Replace each list by its members, once; return whether there was one."""
        self.kinds = set(map(type, self.values))
        if list not in self.kinds and tuple not in self.kinds:
            return False
        event_idxs: list[int] = []
        values: list[Any] = []
        for event_idx, value in zip(self.event_idxs, self.values, strict=True):
            # An empty list stays as a null: its name is judged all the same.
            members = (value or (None,)) if type(value) is list or type(value) is tuple else (value,)
            values += members
            event_idxs += [event_idx] * len(members)
        self.event_idxs, self.values, self.canonical, self.is_many = event_idxs, values, values, True
        self.kinds = set(map(type, values))
        return True

    def suspects(self, name: str, reader: EventReader) -> list[int]:
        """Return the events whose value needs a closer look; leave the canonical values of the others."""
        try:
            reader.check_name(name)
        except EventError:
            return self.event_idxs
        wrong: list[int] = []
        if not self.kinds <= _SCALARS:
            wrong += self._where(lambda value: type(value) not in _SCALARS)
        if not self._is_plain(reader.limits.string_size_bytes_max):
            wrong += self._where(lambda value: not _passes(reader, name, value))
        declared = reader.schema.get(name)
        if declared is None:
            if reader.schema.closed:
                wrong += self._where(lambda value: value is not None)
            return wrong
        if declared.unique and self.is_many:
            present = self._where(lambda value: value is not None)
            wrong += (event_idx for event_idx, count in Counter(present).items() if count > 1)
        if self.kinds - {reader.unchanged_type(name), type(None)}:
            wrong += self._convert(name, reader)
        return wrong

    def entries(self, event_count: int) -> AttributeEntries | None:
        """Return the arrays of the canonical values (None is missing); None when there are no values."""
        kinds, built = self.kinds, self.built
        if built is None or self.canonical is not self.values:
            kinds = set(map(type, self.canonical))
            if len(kinds) != 1:
                return _mixed_entries(self.event_idxs, self.canonical)
            (kind,) = kinds
            if kind not in _BUILDERS:
                return None
            built = _BUILDERS[kind](self.canonical)
        (kind,) = kinds
        # A column that is not `is_many` has distinct events, so if it has as many it has all of them.
        if not self.is_many and len(self.event_idxs) == event_count:
            event = np.arange(event_count, dtype=np.int32)
        else:
            event = np.array(self.event_idxs, dtype=np.int32)
        return _entries_of_kind(kind, event, built)

    def _is_plain(self, size_bytes_max: int) -> bool:
        """Whether all integers have 64 bits, no float is NaN, and all texts are valid and short enough."""
        is_single = len(self.kinds) == 1
        try:
            for kind in self.kinds & _BUILDERS.keys():
                values = self.values if is_single else [v for v in self.values if type(v) is kind]
                built = _BUILDERS[kind](values)
                if kind is float and np.isnan(built).any():
                    return False
                if kind is str and int((built[0][1:] - built[0][:-1]).max()) > size_bytes_max:
                    return False
                if is_single:
                    self.built = built
        except (OverflowError, UnicodeEncodeError):
            return False
        return True

    def _where(self, is_wrong: Callable[[Any], bool]) -> list[int]:
        pairs = zip(self.event_idxs, self.values, strict=True)
        return [event_idx for event_idx, value in pairs if is_wrong(value)]

    def _convert(self, name: str, reader: EventReader) -> list[int]:
        """Bring the values of a declared attribute to their canonical form; return the events that refuse."""
        declared = reader.schema.get(name)
        assert declared is not None
        wrong: list[int] = []
        canonical: list[Any] = []
        # Keyed by type as well: 1, 1.0 and True are one dictionary key.
        known: dict[tuple[type, Any], Value] = {}
        for event_idx, value in zip(self.event_idxs, self.values, strict=True):
            kind = type(value)
            found: Any = None
            if value is not None and kind in _SCALARS:
                found = known.get((kind, value))
                if found is None:
                    try:
                        found = known[kind, value] = reader.canonical(declared, value)
                    except EventError:
                        wrong.append(event_idx)
            canonical.append(found)
        self.canonical = canonical
        return wrong


class _Columns(dict[str, _Column]):
    """Columns by attribute, made on first use, with the two functions that add to each."""

    def __init__(self) -> None:
        self.add: _Adders = _Adders(self)


class _Adders(dict[str, tuple[Callable[[int], None], Callable[[Any], None]]]):
    def __init__(self, columns: _Columns) -> None:
        self._columns = columns

    def __missing__(self, name: str) -> tuple[Callable[[int], None], Callable[[Any], None]]:
        column = self._columns[name] = _Column()
        self[name] = adders = (column.event_idxs.append, column.values.append)
        return adders


def _deal(
    events: Sequence[Any], entry_count_max: int, refused: Mapping[int, EventError]
) -> tuple[_Columns, set[int]]:
    """Deal the entries of all flat-looking events to columns; return the others' indices as well."""
    columns = _Columns()
    if _is_uniform(events) and len(events[0]) <= entry_count_max:
        event_idxs = list(range(len(events)))  # shared: columns replace it, they never change it
        for name, values in zip(
            events[0], zip(*[event.values() for event in events], strict=True), strict=True
        ):
            columns[name] = column = _Column()
            column.event_idxs = event_idxs
            column.values = column.canonical = list(values)
        return columns, set()
    adders = columns.add
    special: set[int] = set()
    for event_idx, event in enumerate(events):
        if type(event) is not dict or len(event) > entry_count_max:
            if event_idx not in refused:
                special.add(event_idx)
            continue
        for name, value in event.items():
            add_event, add_value = adders[name]
            add_event(event_idx)
            add_value(value)
    return columns, special


def _is_uniform(events: Sequence[Any]) -> bool:
    """Whether all events are dictionaries with the same names in the same order."""
    if not events or type(events[0]) is not dict:
        return False
    names = tuple(events[0])
    return all([type(event) is dict and tuple(event) == names for event in events])


def _passes(reader: EventReader, name: str, value: Any) -> bool:
    if value is None or type(value) not in _SCALARS:
        return True  # seen to elsewhere
    try:
        reader.check_scalar(name, value)
    except EventError:
        return False
    return True


def _flatten_special(
    events: Sequence[Any], special: set[int], reader: EventReader, refused: dict[int, EventError]
) -> dict[str, _Column]:
    """Flatten special events one by one; return their canonical values by attribute, or refuse them."""
    columns = _Columns()
    for event_idx in sorted(special):
        try:
            flat = reader.flatten(events[event_idx])
        except EventError as error:
            error.fields["event_index"] = event_idx
            refused[event_idx] = error
            continue
        for name, values in flat.items():
            add_event, add_value = columns.add[name]
            for value in values:
                add_event(event_idx)
                add_value(value)
    return columns


def _merged(plain: _Column | None, flattened: _Column | None, special: set[int]) -> _Column:
    """Return the plain values of events that are not special together with those of the special ones."""
    pairs: list[tuple[int, Any]] = []
    if plain is not None:
        rows = zip(plain.event_idxs, plain.canonical, strict=True)
        pairs += [(event_idx, value) for event_idx, value in rows if event_idx not in special]
    if flattened is not None:
        pairs += zip(flattened.event_idxs, flattened.canonical, strict=True)
        pairs.sort(key=lambda pair: pair[0])
    merged = _Column()
    merged.is_many = True
    merged.event_idxs = [event_idx for event_idx, _ in pairs]
    merged.canonical = [value for _, value in pairs]
    return merged


def _entries_of_kind(kind: type, event: npt.NDArray[np.int32], built: _Built) -> AttributeEntries:
    if kind is str:
        offsets, data = built
        start, end = offsets[:-1].copy(), offsets[1:].copy()
        return AttributeEntries(texts=TextEntries(event, start, end, np.frombuffer(data, dtype=np.uint8)))
    if kind is bool:
        return AttributeEntries(booleans=BooleanEntries(event, built))
    whole, part = number_keys_int64(built) if kind is int else number_keys_float64(built)
    return AttributeEntries(numbers=NumberEntries(event, whole, part))


def _mixed_entries(event_idxs: list[int], values: list[Any]) -> AttributeEntries | None:
    event = np.array(event_idxs, dtype=np.int32)
    at: dict[type, list[int]] = {int: [], float: [], str: [], bool: [], type(None): []}
    for row, value in enumerate(values):
        at[type(value)].append(row)
    numbers = texts = booleans = None
    if at[int] or at[float]:
        whole = np.zeros(len(values), dtype=np.int64)
        part = np.zeros(len(values), dtype=np.float64)
        whole[at[int]] = np.array([values[row] for row in at[int]], dtype=np.int64)
        keys = number_keys_float64(np.array([values[row] for row in at[float]], dtype=np.float64))
        whole[at[float]], part[at[float]] = keys
        rows = np.sort(np.array(at[int] + at[float], dtype=np.int64))
        numbers = NumberEntries(event[rows], whole[rows], part[rows])
    if at[str]:
        built = encode_texts([values[row] for row in at[str]])
        texts = _entries_of_kind(str, event[at[str]], built).texts
    if at[bool]:
        flags = np.array([values[row] for row in at[bool]], dtype=np.uint8)
        booleans = BooleanEntries(event[at[bool]], flags)
    if numbers is None and texts is None and booleans is None:
        return None
    return AttributeEntries(numbers, texts, booleans)
