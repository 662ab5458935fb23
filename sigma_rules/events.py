"""A log event as the rules' expressions want it: `normalise`, the plain and exact form.

What it promises, and what any faster reader has to promise too:

1. Nested objects are flattened with a dot, arrays become several values; null and empty lists are left out.
2. Every value is there as its text: a text itself, an integer in decimal (of any size), a boolean as ``true``
   or ``false``. A float is two values: itself, and its text as Python prints it.
3. A missing field that has an alias is added with the values of the field that it names, if the event has
   that one and meets the condition. Aliases are looked up in the event as it came, never in one another.
4. One value is a scalar, several are a list; the order of fields is the event's, aliases last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeAlias

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.values import fold
from pubsub_cluster.sigma_rules.logsources import Alias, Where, default_logsources

NormalEvent: TypeAlias = dict[str, "str | float | list[str | float]"]

_Values: TypeAlias = dict[str, list["str | float"]]


class Normaliser:
    """Normalises events.

    Parameters
    ----------
    aliases : sequence of Alias, optional
        None: those of the package's table (`logsources.default_logsources`).
    fields : collection of str, optional
        The fields that the rules read: aliases of other fields are not added. None adds them all.
    """

    def __init__(self, aliases: Iterable[Alias] | None = None, fields: Collection[str] | None = None) -> None:
        found = default_logsources().aliases if aliases is None else aliases
        self.aliases = tuple(alias for alias in found if fields is None or alias.name in fields)

    def normalise(self, event: Mapping[str, Any]) -> NormalEvent:
        """Return the normalised form of one event.

        Parameters
        ----------
        event : dict
            As a JSON decoder gives it.

        Raises
        ------
        EventError
            Two entries have one name once they are flattened, a key is no text, the nesting is too deep, or a
            value is of a type that JSON does not have.
        """
        values: _Values = {}
        for name, value in event.items():
            if type(value) is str:
                _add(values, name, [value])
            elif value is not None:
                _flatten(values, name, value)
        given = {
            alias.name: values[alias.source]
            for alias in reversed(self.aliases)
            if alias.source in values and alias.name not in values and _meets(values, alias.where)
        }
        values.update(given)
        return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def normalise(event: Mapping[str, Any]) -> NormalEvent:
    """Return an event normalised by the package's own table; see `Normaliser`."""
    return Normaliser().normalise(event)


def value_texts(value: Any) -> list[str | float]:
    """Return what a normalised event has for one scalar: its text, and a float beside it.

    Raises
    ------
    EventError
        Not a JSON scalar, or NaN.
    """
    kind = type(value)
    if kind is str:
        return [value]
    if kind is bool:
        return ["true" if value else "false"]
    if kind is int:
        return [str(value)]
    if kind is float and value == value:
        return [value, str(value)]
    raise EventError(
        "a value is none that JSON has", seen=repr(value), limit="null, texts, numbers, booleans"
    )


def _flatten(values: _Values, name: str, value: Any) -> None:
    """Add an entry of the event that is no text, nested or not."""
    found: _Values = {}
    paths: dict[str, tuple[str, ...]] = {}
    pending: list[tuple[tuple[str, ...], Any, int]] = [((name,), value, 0)]
    while pending:
        path, node, depth = pending.pop()
        if node is None:
            continue
        if isinstance(node, dict):
            inner = [((*path, key), child, depth + 1) for key, child in node.items()]
        elif isinstance(node, list | tuple):
            inner = [(path, child, depth + 1) for child in node]
        else:
            joined = _joined(path)
            if paths.setdefault(joined, path) != path:
                _refuse_name(joined)
            found.setdefault(joined, []).extend(value_texts(node))
            continue
        if depth >= DEFAULT_LIMITS.nesting_depth_max:
            raise EventError("the event is nested too deeply", limit=DEFAULT_LIMITS.nesting_depth_max)
        pending.extend(reversed(inner))
    for joined, texts in found.items():
        _add(values, joined, texts)


def _joined(path: tuple[Any, ...]) -> str:
    if not all(isinstance(name, str) for name in path):
        raise EventError("a name in the event is no text", seen=repr(path))
    return ".".join(path)


def _add(values: _Values, name: str, texts: list[str | float]) -> None:
    if name in values:
        _refuse_name(name)
    values[name] = texts


def _refuse_name(name: str) -> None:
    raise EventError(
        f"two entries of the event have the name {name!r} once they are flattened",
        remedy="Rename one of them.",
        attribute=name,
    )


def _meets(values: _Values, where: Where) -> bool:
    """Whether an event's values meet a table's condition, as `logsources.where_tests` says it."""
    for name, wanted in where.items():
        texts = {fold(value) for value in values.get(name, ()) if isinstance(value, str)}
        numbers = {value for value in values.get(name, ()) if isinstance(value, float)}
        if not any(
            fold(each) in texts if isinstance(each, str) else str(each) in texts or each in numbers
            for each in wanted
        ):
            return False
    return True
