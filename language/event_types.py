"""Event types, and whether an event is what the types that it says it is of ask for.

An event says its types in the attribute `EVENT_TYPE`, one or several. A type lists attributes, each mandatory
or optional and unique or multiple. What an event of several types must be is their *view*: the union of their
lists, where mandatory prevails over optional and multiple over unique. An event is valid when it says a type,
has every mandatory attribute of the view, one value at most where the view says unique, and no attribute that
the view does not have. Source: LESUB, event model; `docs/semantics.md`, event types.

`EventTypes.check` judges one event by the numbers of its values. `checked_batch` judges the events of a
decoded batch, those of the same types together and by array operations, and asks `check` about the few that
are not valid: it alone knows what to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.declarations import check_keys, flag
from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, Value, without_events

EVENT_TYPE: Final = "event_type"
TYPES_TOLD_MAX: Final = 20
_VIEWS_MAX: Final = 4_096


class TypeAttribute(NamedTuple):
    """An attribute of an event type."""

    name: str
    is_optional: bool = False
    is_multiple: bool = False


@dataclass(frozen=True, slots=True)
class EventType:
    """An event type: its name, and the attributes that its events have.

    Attributes
    ----------
    name : str
    attributes : tuple of TypeAttribute
        Without `EVENT_TYPE`, which every event has.
    """

    name: str
    attributes: tuple[TypeAttribute, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(TypeAttribute(*each) for each in self.attributes))
        if not isinstance(self.name, str) or not self.name:
            raise CallerError(
                "an event type is declared without a name", seen=self.name, remedy="Give it a name."
            )
        names = [each.name for each in self.attributes]
        if repeated := sorted({str(name) for name in names if names.count(name) > 1}):
            raise CallerError(f"event type {self.name!r} has an attribute twice", seen=repeated)
        if EVENT_TYPE in names:
            raise CallerError(
                f"event type {self.name!r} lists `{EVENT_TYPE}`",
                remedy="Leave it out: every event has it, and an event may be of several types.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its attributes."""
        return tuple(each.name for each in self.attributes)

    def to_json(self) -> dict[str, Any]:
        """Return the form that `read_event_type` reads, without members that have their default."""
        flags = [("optional", "is_optional"), ("multiple", "is_multiple")]
        return {
            "name": self.name,
            "attributes": [
                {"name": each.name, **{member: True for member, attr in flags if getattr(each, attr)}}
                for each in self.attributes
            ],
        }


class View(NamedTuple):
    """What the events of a set of types are: the union of the types' attributes.

    Attributes
    ----------
    mandatory, optional : tuple of str
        In the order of first mention; disjoint.
    multiple : frozenset of str
        Attributes that may have several values, `EVENT_TYPE` among them.
    """

    mandatory: tuple[str, ...]
    optional: tuple[str, ...]
    multiple: frozenset[str]


@dataclass(frozen=True)
class EventTypes:
    """The event types of a schema.

    Parameters
    ----------
    types : tuple of EventType
    """

    types: tuple[EventType, ...]
    _by_name: dict[str, EventType] = field(init=False, repr=False, compare=False)
    _views: dict[tuple[str, ...], View] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, EventType] = {}
        for each in self.types:
            if each.name in by_name:
                raise CallerError("an event type is declared twice", seen=each.name)
            by_name[each.name] = each
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "_views", {})

    def get(self, name: str) -> EventType | None:
        """Return the type of this name, or None."""
        return self._by_name.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the types, in the order in which they were declared."""
        return tuple(self._by_name)

    def view(self, names: tuple[str, ...]) -> View:
        """Return the view of a set of types.

        Raises
        ------
        EventError
            There is no type of one of these names, or there are no names.
        """
        found = self._views.get(names)
        if found is None:
            found = self._made_view(names)
            if len(self._views) < _VIEWS_MAX:
                self._views[names] = found
        return found

    def _made_view(self, names: tuple[str, ...]) -> View:
        known = list(self._by_name)[:TYPES_TOLD_MAX]
        if not names:
            raise EventError(
                f"the event does not say its type: `{EVENT_TYPE}` is missing",
                limit=known,
                remedy="Say one type or several.",
                attribute=EVENT_TYPE,
            )
        optional: dict[str, bool] = {}
        multiple = {EVENT_TYPE}
        for name in names:
            if (found := self._by_name.get(name)) is None:
                raise EventError(
                    "there is no such event type",
                    seen=name,
                    limit=known,
                    remedy="`pubsub-cluster schema show` lists the types; `schema add-type` adds one.",
                    attribute=EVENT_TYPE,
                )
            for each in found.attributes:
                optional[each.name] = optional.get(each.name, True) and each.is_optional
                if each.is_multiple:
                    multiple.add(each.name)
        return View(
            (EVENT_TYPE, *(name for name, is_optional in optional.items() if not is_optional)),
            tuple(name for name, is_optional in optional.items() if is_optional),
            frozenset(multiple),
        )

    def check_event(self, values: Mapping[str, tuple[Value, ...]]) -> None:
        """Check one event by its canonical values; see `check`."""
        said = dict.fromkeys(str(value) for value in values.get(EVENT_TYPE, ()))
        self.check(tuple(said), {name: len(several) for name, several in values.items()})

    def check(self, names: tuple[str, ...], counts: Mapping[str, int]) -> None:
        """Check one event.

        Parameters
        ----------
        names : tuple of str
            Its types.
        counts : mapping of str to int
            How many values it has of each of its attributes; none is 0.

        Raises
        ------
        EventError
            It is not valid; the error names the attribute that is missing, has too many values, or does not
            belong to the event's types.
        """
        view = self.view(names)
        types = ", ".join(names)
        for name in view.mandatory:
            if name not in counts:
                raise EventError(
                    f"the event has no {name!r}, which is mandatory for its types", seen=types, attribute=name
                )
        allowed = {*view.mandatory, *view.optional}
        for name, count in counts.items():
            if name not in allowed:
                raise EventError(
                    f"attribute {name!r} belongs to none of the event's types",
                    seen=types,
                    remedy="Leave it out, or extend a type by it: `pubsub-cluster schema extend-type`.",
                    attribute=name,
                )
            if count > 1 and name not in view.multiple:
                raise EventError(
                    f"attribute {name!r} is unique for the event's types and has several values",
                    seen=count,
                    limit=1,
                    attribute=name,
                )


def checked_batch(raw: RawBatch, types: EventTypes) -> RawBatch:
    """Return a decoded batch in which the events that are not valid are refused too.

    Parameters
    ----------
    raw : RawBatch
        Its `refused` grows; its arrays are not changed.
    types : EventTypes
    """
    names = list(raw.attributes)
    counts = np.zeros((len(names), raw.event_count), np.int32)
    for row, name in enumerate(names):
        counts[row] = _value_counts(raw.attributes[name], raw.event_count)
    judged: dict[tuple[str, ...], list[int]] = {}
    for event_idx, found in enumerate(_types_of_events(raw)):
        if event_idx not in raw.refused:
            judged.setdefault(found, []).append(event_idx)
    refused: dict[int, EventError] = {}
    for said, event_idxs in judged.items():
        events = np.array(event_idxs)
        for event_idx in events[_suspects(types, said, names, counts[:, events])].tolist():
            present = {name: int(n) for name, n in zip(names, counts[:, event_idx], strict=True) if n}
            try:
                types.check(said, present)
            except EventError as error:
                error.fields["event_index"] = event_idx
                refused[event_idx] = error
    if not refused:
        return raw
    raw.refused.update(refused)
    return raw._replace(attributes=without_events(raw.attributes, refused, raw.event_count))


def _suspects(
    types: EventTypes, said: tuple[str, ...], names: list[str], counts: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Return which events (columns of `counts`) of the same types are not valid."""
    wrong = np.zeros(counts.shape[1], np.bool_)
    try:
        view = types.view(said)
    except EventError:
        return ~wrong
    most = dict.fromkeys((*view.mandatory, *view.optional), 1)
    most.update(dict.fromkeys(view.multiple, np.iinfo(np.int32).max))
    for row, name in enumerate(names):
        wrong |= counts[row] > most.get(name, 0)
    row_of = {name: row for row, name in enumerate(names)}
    for name in view.mandatory:
        wrong |= counts[row_of[name]] == 0 if name in row_of else True
    return wrong


def _value_counts(entries: AttributeEntries, event_count: int) -> npt.NDArray[np.int64]:
    total = np.zeros(event_count, np.int64)
    for rows in entries:
        if rows is not None:
            total += np.bincount(rows.event, minlength=event_count)
    return total


def _types_of_events(raw: RawBatch) -> list[tuple[str, ...]]:
    """Return the types that each event says, each once, in order; none for most refused events."""
    found: list[tuple[str, ...]] = [()] * raw.event_count
    texts = raw.attributes.get(EVENT_TYPE, AttributeEntries()).texts
    if texts is None:
        return found
    data, known = texts.data, dict[bytes, str]()
    spans = zip(texts.event.tolist(), texts.start.tolist(), texts.end.tolist(), strict=True)
    for event_idx, start, end in spans:
        key = data[start:end].tobytes()
        name = known.get(key)
        if name is None:
            name = known[key] = key.decode()
        if name not in found[event_idx]:
            found[event_idx] = (*found[event_idx], name)
    return found


def read_event_type(item: Any) -> EventType:
    """Read ``{"name", "attributes": [{"name", "optional"?, "multiple"?}]}``.

    Raises
    ------
    CallerError
        The object has another shape.
    """
    name = item.get("name") if isinstance(item, dict) else None
    what = f"event type {name!r}" if isinstance(name, str) and name else "an event type's declaration"
    check_keys(item, {"name", "attributes"}, what)
    listed = item.get("attributes", [])
    if not isinstance(listed, list):
        raise CallerError(f"{what}: `attributes` is not a list", seen=listed)
    return EventType(item.get("name"), tuple([_read_type_attribute(each, what) for each in listed]))


def _read_type_attribute(item: Any, what: str) -> TypeAttribute:
    check_keys(item, {"name", "optional", "multiple"}, f"{what}: an attribute")
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise CallerError(f"{what}: an attribute has no name", seen=name)
    return TypeAttribute(
        name, *(flag(item, member, f"{what}: {name!r}") for member in ("optional", "multiple"))
    )
