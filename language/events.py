"""One event, from a Python object to canonical values by attribute name.

Nested objects are flattened by joining names with a dot, arrays become several values, nulls and empty
lists are missing. Everything that is not plain JSON, or is outside a limit or a declared domain, makes the
event refused, with an `EventError` that names the attribute; nothing is coerced or cut. Most events are
flat: `EventReader.flatten` takes scalars in one pass and leaves objects and arrays to a slower walk.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NoReturn, TypeAlias

from pubsub_cluster.language.errors import DomainError, EventError, LimitError, PubSubError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.raw_batch import Value
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.language.values import check_name, utf8_size_bytes

FlatEvent: TypeAlias = dict[str, tuple[Value, ...]]

# Names that passed `check_name` are remembered, up to so many per reader.
_KNOWN_NAMES_MAX = 65_536
_READERS_MAX = 16
# Undeclared names for which a similar declared name was looked up, up to so many per reader.
_SUGGESTIONS_MAX = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# Domains whose canonical value is the value itself when it has exactly this type.
_UNCHANGED_TYPE: dict[DomainKind, type] = {
    DomainKind.INTEGER: int,
    DomainKind.FLOAT: float,
    DomainKind.STRING: str,
    DomainKind.BOOLEAN: bool,
    DomainKind.TIMESTAMP: int,
}


class EventReader:
    """Reads the events of one cluster: its schema and limits, and the names seen so far.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self.schema = schema
        self.limits = limits
        self._known_names: set[str] = set()
        self._declared = {each.name: (each, _UNCHANGED_TYPE.get(each.domain)) for each in schema.attributes}
        self._numbers = {each.name: _numbers_of_values(each) for each in schema.attributes if each.values}
        self._suggestions: dict[str, str | None] = {}

    def flatten(self, event: Any) -> FlatEvent:
        """Return the values of `event` by attribute; see `flatten_event`."""
        if not isinstance(event, dict):
            raise EventError("the event is not an object", seen=type(event).__name__, limit="a JSON object")
        known, size_max = self._known_names, self.limits.string_size_bytes_max
        is_declaring = bool(self._declared) or self.schema.closed
        flat: FlatEvent = {}
        nested: list[tuple[str, Any]] = []
        for name, value in event.items():
            if name not in known:
                self.check_name(name)
            kind = type(value)
            if kind is str:
                if not value.isascii() or len(value) > size_max:
                    self.check_text(name, value)
            elif kind is int:
                if not INT64_MIN <= value <= INT64_MAX:
                    self.check_scalar(name, value)
            elif kind is float:
                if value != value:
                    self.check_scalar(name, value)
            elif value is None:
                continue
            elif kind is not bool:
                if isinstance(value, dict | list | tuple):
                    nested.append((name, value))
                    continue
                value = self._checked_scalar(name, value)
            if is_declaring:
                value = self._declared_value(name, value)
            flat[name] = (value,)
        if nested:
            flat = self._with_nested(flat, nested)
        elif len(flat) > self.limits.attributes_per_event_max:
            refuse_count(self.limits.attributes_per_event_max)
        if self.schema.types is not None:
            self.schema.types.check_event(flat)
        return flat

    def check_name(self, name: Any) -> None:
        """Raise `EventError` unless `name` can name an attribute of an event."""
        try:
            check_name(name, limits=self.limits, error=EventError)
        except LimitError as found:
            raise as_event_error(found) from None
        if len(self._known_names) < _KNOWN_NAMES_MAX:
            self._known_names.add(name)

    def check_text(self, name: str, text: str) -> None:
        """Raise `EventError` for a text with a lone surrogate or beyond the limit."""
        size_bytes = utf8_size_bytes(text)
        if size_bytes < 0:
            raise EventError(
                f"attribute {name!r} has a text that is not valid Unicode",
                limit="no lone surrogates",
                attribute=name,
            )
        if size_bytes > self.limits.string_size_bytes_max:
            raise EventError(
                f"attribute {name!r} has a text that is too long, in UTF-8 bytes",
                seen=size_bytes,
                limit=self.limits.string_size_bytes_max,
                attribute=name,
                limit_name="string_size_bytes_max",
            )

    def check_scalar(self, name: str, value: Any) -> None:
        """Raise `EventError` unless `value` is a JSON scalar within the limits of its kind (not null)."""
        kind = type(value)
        if kind is str:
            self.check_text(name, value)
        elif kind is int:
            if not INT64_MIN <= value <= INT64_MAX:
                raise EventError(
                    f"attribute {name!r} has an integer outside 64 bits",
                    seen=value,
                    limit=[INT64_MIN, INT64_MAX],
                    attribute=name,
                )
        elif kind is float:
            if math.isnan(value):
                raise EventError(f"attribute {name!r} is NaN", remedy="Leave it out.", attribute=name)
        elif kind is not bool:
            raise EventError(
                f"attribute {name!r} has a value of a type that JSON does not have",
                seen=kind.__name__,
                limit="null, booleans, numbers, strings, lists and objects",
                remedy=_remedy_of(value),
                attribute=name,
            )

    def _checked_scalar(self, name: str, value: Any) -> Any:
        """Return a scalar that is checked; of an instant where the attribute is one, its microseconds."""
        if isinstance(value, datetime) and value.utcoffset() is not None:
            declared = self._declared.get(name)
            if declared is not None and declared[0].domain is DomainKind.TIMESTAMP:
                return (value - _EPOCH) // _MICROSECOND
        self.check_scalar(name, value)
        return value

    def _declared_value(self, name: str, value: Value) -> Value:
        """Return the canonical form of a checked scalar, or raise `EventError`."""
        declared = self._declared.get(name)
        if declared is None:
            if self.schema.closed:
                self.refuse_undeclared(name)
            return value
        attribute, unchanged_type = declared
        return value if type(value) is unchanged_type else self.canonical(attribute, value)

    def unchanged_type(self, name: str) -> type | None:
        """Return the type whose values a declared attribute takes as they are, if there is one."""
        return self._declared[name][1]

    def canonical(self, attribute: Attribute, value: Value) -> Value:
        """Return the canonical form of a checked scalar of a declared attribute, or raise `EventError`."""
        numbers = self._numbers.get(attribute.name)
        if numbers is not None and type(value) is str:
            number = numbers.get(value)
            if number is None:
                # No suggestion here: looking for one takes milliseconds, and a batch has many events.
                raise EventError(
                    f"attribute {attribute.name!r} has domain {attribute.domain}: not a declared value",
                    seen=value,
                    attribute=attribute.name,
                    domain=str(attribute.domain),
                )
            return number
        try:
            return attribute.canonical_value(value)
        except DomainError as found:
            raise as_event_error(found) from None

    def _with_nested(self, flat: FlatEvent, nested: list[tuple[str, Any]]) -> FlatEvent:
        """Add the values of the event's objects and arrays to those of its scalars."""
        found: dict[str, list[Value]] = {}
        # The structural path behind each name: two paths may not join to one name.
        owners: dict[str, tuple[str, ...]] = {name: () for name in flat}
        entry_count = len(flat)
        # Names from the root, object or array, its depth. Popped in the order of the event.
        pending: list[tuple[tuple[str, ...], Any, int]] = [
            ((name,), node, 1) for name, node in reversed(nested)
        ]
        while pending:
            path, node, depth = pending.pop()
            if isinstance(node, dict):
                inner = [(self._extended(path, name), value, depth + 1) for name, value in node.items()]
            elif isinstance(node, list | tuple):
                inner = [(path, value, depth + 1) for value in node]
            else:
                if node is not None:
                    entry_count += 1
                    self._take(path, node, found, owners)
                continue
            if depth > self.limits.nesting_depth_max:
                raise EventError(
                    "the event is nested too deeply",
                    limit=self.limits.nesting_depth_max,
                    remedy="Flatten it before it is published.",
                    limit_name="nesting_depth_max",
                )
            pending.extend(reversed(inner))
        if entry_count > self.limits.attributes_per_event_max:
            refuse_count(self.limits.attributes_per_event_max)
        for name, values in found.items():
            declared = self._declared.get(name)
            if declared is not None and declared[0].unique and len(values) > 1:
                refuse_several(name, len(values))
            flat[name] = tuple(values)
        return flat

    def _extended(self, path: tuple[str, ...], name: Any) -> tuple[str, ...]:
        if name not in self._known_names:
            self.check_name(name)
        return (*path, name)

    def _take(
        self,
        path: tuple[str, ...],
        value: Any,
        found: dict[str, list[Value]],
        owners: dict[str, tuple[str, ...]],
    ) -> None:
        name = path[0] if len(path) == 1 else ".".join(path)
        if len(path) > 1 and name not in self._known_names:
            self.check_name(name)
        value = self._declared_value(name, self._checked_scalar(name, value))
        if owners.setdefault(name, path) != path:
            raise EventError(
                f"two entries of the event have the name {name!r} once they are flattened",
                remedy="Rename one of them.",
                attribute=name,
            )
        found.setdefault(name, []).append(value)

    def refuse_undeclared(self, name: str) -> NoReturn:
        """Raise the `EventError` of an attribute that a closed schema does not declare."""
        if name not in self._suggestions and len(self._suggestions) < _SUGGESTIONS_MAX:
            self._suggestions[name] = self.schema.suggestion(name)
        near = self._suggestions.get(name)
        raise EventError(
            f"attribute {name!r} is not declared and the schema is closed",
            remedy=f"Did you mean {near!r}?" if near else "Declare it, or open the schema.",
            attribute=name,
        )


def flatten_event(event: Any, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> FlatEvent:
    """Return the canonical values of an event by attribute name.

    Parameters
    ----------
    event : object
        A dictionary with text keys, of JSON values as Python has them. Where an attribute is declared as
        `timestamp`, also a `datetime` with an offset.
    schema : Schema
        Values of declared attributes are brought to their canonical form.
    limits : Limits

    Returns
    -------
    dict of str to tuple of Value
        Never an empty tuple: what is missing has no entry.

    Raises
    ------
    EventError
        The event is refused; the caller adds ``event_index``.
    """
    return event_reader(schema, limits).flatten(event)


def event_reader(schema: Schema, limits: Limits) -> EventReader:
    """Return the reader for these very objects, made on first use."""
    key = (id(schema), id(limits))
    reader = _READERS.get(key)
    if reader is None:
        if len(_READERS) >= _READERS_MAX:
            _READERS.clear()
        # The reader keeps schema and limits alive, so that their addresses stay theirs.
        reader = _READERS[key] = EventReader(schema, limits)
    return reader


_READERS: dict[tuple[int, int], EventReader] = {}


def _numbers_of_values(attribute: Attribute) -> dict[str, Value]:
    """Return the canonical numbers of all values of an enumerated or hierarchical attribute."""
    return {path: attribute.canonical_value(path) for path in attribute.texts}


def as_event_error(found: PubSubError, **fields: Any) -> EventError:
    """Return an error about a value or a limit as the refusal of its event."""
    return EventError(
        found.condition, seen=found.seen, limit=found.limit, remedy=found.remedy, **{**found.fields, **fields}
    )


def refuse_several(name: str, count: int) -> NoReturn:
    """Raise the `EventError` of several values of an attribute that is declared unique."""
    raise EventError(
        f"attribute {name!r} is declared unique and the event has several values",
        seen=count,
        limit=1,
        attribute=name,
    )


def refuse_count(entry_count_max: int) -> NoReturn:
    """Raise the error of an event with more entries than the limit allows."""
    raise EventError(
        "the event has too many entries",
        limit=entry_count_max,
        remedy="Publish fewer attributes, or fewer values of one.",
        limit_name="attributes_per_event_max",
    )


def _remedy_of(value: Any) -> str | None:
    if isinstance(value, datetime) and value.utcoffset() is not None:
        return "Declare the attribute as `timestamp`, or send RFC 3339 text or integer microseconds."
    # By their names, because who reads events of JSON needs no NumPy for it.
    if isinstance(value, date | time | timedelta) or type(value).__name__ in ("datetime64", "timedelta64"):
        return "Send instants as RFC 3339 text with an offset or as whole microseconds, durations as numbers."
    return None
