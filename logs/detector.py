"""Rules over log lines: what matches which, without asking the engine twice for the same thing.

The matches of an event are those of its projection (`pubsub_cluster.logs.projection`), so each distinct one
is matched once and remembered under a digest of 16 bytes, within bounded memory: when the newer half is
full, the older half is forgotten. Projections are cut out of the lines before anything is decoded
(`pubsub_cluster.workers.line_projector`); only lines out of the ordinary and those whose projections are new
are, and go to the engine as one batch per block. Order is that of the lines. An attribute that no rule of the
event's source reads is not looked at, nor checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from pubsub_cluster.language.errors import EventError, LimitError, PubSubError
from pubsub_cluster.language.events import EventReader
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.naive import Values
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.logs.files import BadLine, Block, OnBad, parse_line
from pubsub_cluster.logs.projection import (
    Projection,
    SourceClass,
    is_inexact,
    lines_to_take_whole,
    roots_of,
    text_of,
)
from pubsub_cluster.sigma_rules.events import Normaliser
from pubsub_cluster.workers.line_projector import LineProjector

REMEMBERED_MAX = 1 << 17
"""Distinct projections whose matches are remembered, in each of two halves."""
DIGEST_SIZE_BYTES = 16
_NESTED = frozenset({dict, list})

Event = dict[str, Any]


class Answer(NamedTuple):
    """What an engine says of a batch.

    Attributes
    ----------
    matches : sequence of sequence of int
        For each event the positions of the rules that hold, in any order.
    refused : mapping of int to PubSubError
        By index of the event.
    """

    matches: Sequence[Sequence[int]]
    refused: Mapping[int, PubSubError]


Matcher = Callable[[list[Event]], Answer]
"""Matches a batch of events; positions are those of the rules that it was made with."""


class Found(NamedTuple):
    """A line with detections.

    Attributes
    ----------
    line : int
        From 1.
    rules : tuple of int
        Positions of the rules that hold, ascending.
    """

    line: int
    rules: tuple[int, ...]


class Tally:
    """What was read so far.

    Attributes
    ----------
    event_count, blank_count, bad_count : int
        Lines by kind; bad ones are no events.
    distinct_count : int
        Projections that went to the engine.
    """

    def __init__(self) -> None:
        self.event_count = 0
        self.blank_count = 0
        self.bad_count = 0
        self.distinct_count = 0


class EventForm:
    """From a decoded event to what rules see.

    Parameters
    ----------
    normaliser : Normaliser, optional
        Of Sigma rules; without one an event is what a publisher would send.
    renamed : mapping of str to str, optional
        Attributes to rename, where the event has no attribute of the new name.
    limits : Limits
    schema : Schema
        Of the cluster that would take the events.

    Attributes
    ----------
    renamed : dict of str to str
    """

    def __init__(
        self,
        normaliser: Normaliser | None = None,
        renamed: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        schema: Schema = EMPTY_SCHEMA,
    ) -> None:
        self._normaliser = normaliser
        self.renamed = dict(renamed or {})
        self._reader = EventReader(schema, limits)
        self._flattener = EventReader(limits=limits)
        self._plain = Normaliser(aliases=())

    def sources(self) -> dict[str, tuple[str, ...]]:
        """Return the attributes that an aliased one depends on, by the name of the latter."""
        found: dict[str, tuple[str, ...]] = {}
        for alias in self._normaliser.aliases if self._normaliser is not None else ():
            found[alias.name] = (*found.get(alias.name, ()), alias.source, *alias.where)
        return found

    def flat(self, line: bytes) -> Event | None:
        """Return the event of a line, flat and renamed; None for a blank line.

        Raises
        ------
        EventError
            The line is no event.
        """
        event = parse_line(line)
        return None if event is None else self.flattened(event, line)

    def flattened(self, event: Event, line: bytes) -> Event:
        """Return the event of a line flat and renamed, and its integers exact.

        Raises
        ------
        EventError
            Two entries of the event have one name, or it is nested too deeply.
        """
        if is_inexact(event.values()):
            event = msgspec.json.decode(line)
        if any(map(_is_deep, event.values())):
            event = self._without_objects(event)
        for old, new in self.renamed.items():
            if event.get(old) is not None and event.get(new) is None:
                event[new] = event.pop(old)
        return event

    def seen(self, event: Event) -> Event:
        """Return a flat event, or a part of one, as rules see it."""
        if self._normaliser is None:
            return event
        found: Event = {}
        for name, value in event.items():
            if type(value) is str:
                found[name] = value
            elif type(value) is int:
                found[name] = str(value)
            elif value is not None:
                return dict(self._normaliser.normalise(event))
        for alias in self._normaliser.aliases:
            if alias.source in event and alias.name not in found:
                if alias.where or event[alias.source] is None:
                    return dict(self._normaliser.normalise(event))
                found[alias.name] = found[alias.source]
        return found

    def values(self, event: Mapping[str, Any]) -> Values:
        """Return the canonical values of a flat event, or of a part of one."""
        return self._reader.flatten(self.seen(dict(event)))

    def _without_objects(self, event: Event) -> Event:
        if self._normaliser is not None:
            return self._plain.normalise(event)
        flat = self._flattener.flatten(event)
        return {name: found[0] if len(found) == 1 else list(found) for name, found in flat.items()}


class _Unusual(NamedTuple):
    """A line that was decoded: its event, whether that has been made flat, and its class."""

    event: Event
    is_flat: bool
    source: SourceClass


class Detector:
    """Matches the lines of log files against rules.

    Parameters
    ----------
    expressions : sequence of Expression
        Of the rules, by position.
    match : Matcher
        Of an engine that has these rules.
    on_bad : callable
        Hears of every line that is no event.
    form : EventForm
        What the rules are written for.
    limits : Limits
        Of the engine.
    """

    def __init__(
        self,
        expressions: Sequence[Expression],
        match: Matcher,
        on_bad: OnBad,
        form: EventForm,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.tally = Tally()
        self._projection = Projection(expressions, form.values, form.sources())
        self._roots = self._projection.roots.union(form.renamed, *map(roots_of, form.renamed))
        self._projector = LineProjector(
            self._projection.gate_attributes, self._projection.fields, form.renamed, self._source_of
        )
        self._match = match
        self._on_bad = on_bad
        self._form = form
        self._limits = limits
        self._newer: dict[bytes, tuple[int, ...]] = {}
        self._older: dict[bytes, tuple[int, ...]] = {}
        self._lists: dict[tuple[int, ...], tuple[int, ...]] = {}

    def matches_of(self, block: Block) -> Iterator[Found]:
        """Return the lines of a block that some rule holds on, in order; every line is looked at."""
        lines = block.lines
        sources, bounds, text = self._projector.project(lines)
        keys: list[bytes | PubSubError | None] = [None] * len(lines)
        unusual: dict[int, _Unusual] = {}
        for i in [i for i, source in enumerate(sources) if source is None]:
            try:
                read = self._read(lines[i])
            except EventError as error:
                keys[i] = error
                continue
            if read is None:
                self.tally.blank_count += 1
            else:
                unusual[i], sources[i] = read, read.source
        whole = lines_to_take_whole(lines, sources)
        fresh: dict[bytes, Event] = {}
        found: dict[bytes, tuple[int, ...]] = {}
        for i, (source, span) in enumerate(zip(sources, pairwise(bounds), strict=True)):
            if source is None:
                continue
            if source.candidates:
                try:
                    if i in whole or i in unusual:
                        read = unusual.get(i) or self._read(lines[i])
                        assert read is not None
                        keys[i] = self._key(lines[i], read, i in whole, found, fresh)
                    else:
                        keys[i] = self._plain_key(text[span[0] : span[1]], found, fresh)
                except EventError as error:
                    keys[i] = error
                    continue
            self.tally.event_count += 1
        refused = self._ask(fresh, found)
        for number, key in enumerate(keys, start=block.first_line):
            if key is None:
                continue
            if isinstance(key, PubSubError):
                self._refuse(block.file, number, key)
            elif rules := found.get(key):
                yield Found(number, rules)
            elif key in refused:
                self.tally.event_count -= 1
                self._refuse(block.file, number, refused[key])

    def _source_of(self, line: bytes) -> SourceClass:
        """Return the class of a line that is an event."""
        read = self._read(line)
        assert read is not None
        return read.source

    def _read(self, line: bytes) -> _Unusual | None:
        """Decode a line; None for a blank one."""
        event = parse_line(line)
        if event is None:
            return None
        is_flat = not self._roots.isdisjoint(event)
        if is_flat:
            event = self._form.flattened(event, line)
        gate_values = list(map(event.get, self._projection.gate_attributes))
        return _Unusual(event, is_flat, self._projection.class_of(gate_values))

    def _plain_key(
        self, text: bytes, found: dict[bytes, tuple[int, ...]], fresh: dict[bytes, Event]
    ) -> bytes:
        """Return the digest of a projection that is the text of an object.

        What is known of it goes to `found`, what is not to `fresh`.
        """
        key = blake2b(text, digest_size=DIGEST_SIZE_BYTES).digest()
        if not self._is_known(key, found, fresh):
            fresh[key] = self._form.seen(self._form.flattened(parse_line(text) or {}, text))
        return key

    def _key(
        self,
        line: bytes,
        read: _Unusual,
        is_whole: bool,
        found: dict[bytes, tuple[int, ...]],
        fresh: dict[bytes, Event],
    ) -> bytes:
        """Return the digest of the projection of an event that was decoded; as `_plain_key`.

        With `is_whole` all of the event counts.
        """
        event, is_flat, source = read
        names: Sequence[str] = source.fields
        values = list(map(event.get, names))
        if is_whole or (float in map(type, values) and is_inexact(values)):
            if not is_flat:
                event = self._form.flattened(event, line)
            names = list(event) if is_whole else names
            values = list(map(event.get, names))
        # A list, which no text of an object is.
        text = text_of([names, values] if is_whole else values)
        key = blake2b(text, digest_size=DIGEST_SIZE_BYTES).digest()
        if not self._is_known(key, found, fresh):
            fresh[key] = self._form.seen(
                {name: value for name, value in zip(names, values, strict=True) if value is not None}
            )
        return key

    def _is_known(self, key: bytes, found: dict[bytes, tuple[int, ...]], fresh: dict[bytes, Event]) -> bool:
        """Say whether a projection was seen before; what is known of it goes to `found`."""
        if key in found or key in fresh:
            return True
        known = self._newer.get(key, self._older.get(key))
        if known is None:
            return False
        found[key] = known
        return True

    def _ask(
        self, fresh: dict[bytes, Event], found: dict[bytes, tuple[int, ...]]
    ) -> dict[bytes, PubSubError]:
        """Match projections that were never seen, into `found`; return those that the engine refuses."""
        self.tally.distinct_count += len(fresh)
        refused: dict[bytes, PubSubError] = {}
        keys, step = list(fresh), self._limits.events_per_batch_max
        for first in range(0, len(keys), step):
            some = keys[first : first + step]
            answer = self._answer([fresh[key] for key in some])
            for i, key in enumerate(some):
                if i in answer.refused:
                    refused[key] = answer.refused[i]
                    continue
                rules = tuple(sorted(answer.matches[i]))
                found[key] = self._lists.setdefault(rules, rules)
                self._remember(key, found[key])
        return refused

    def _answer(self, events: list[Event]) -> Answer:
        """Match a batch, in parts if it is too much for one."""
        try:
            return self._match(events)
        except LimitError as error:
            if len(events) == 1:
                return Answer([()], {0: error})
        middle = len(events) // 2
        parts = self._answer(events[:middle]), self._answer(events[middle:])
        refused = {**parts[0].refused, **{middle + i: error for i, error in parts[1].refused.items()}}
        return Answer([*parts[0].matches, *parts[1].matches], refused)

    def _remember(self, key: bytes, rules: tuple[int, ...]) -> None:
        if len(self._newer) >= REMEMBERED_MAX:
            self._older, self._newer = self._newer, {}
            self._lists.clear()
        self._newer[key] = rules

    def _refuse(self, file: str, line: int, error: PubSubError) -> None:
        self.tally.bad_count += 1
        self._on_bad(BadLine(file, line, error))


def _is_deep(value: Any) -> bool:
    """Say whether a value is an object, or a list of other than scalars."""
    kind = type(value)
    return kind is dict or (kind is list and not _NESTED.isdisjoint(map(type, value)))
