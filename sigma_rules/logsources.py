"""The table of log sources: which events a rule looks at, and which field stands in for another.

The table is data: `logsources.toml` beside this module, and files of the same form that a user adds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import And, Atom, Constant, Expression, Operator, Or
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN

Where: TypeAlias = Mapping[str, tuple[str | int, ...]]

_KEYS = {
    "logsource": frozenset({"product", "category", "service", "where"}),
    "alias": frozenset({"field", "from", "where"}),
}


@dataclass(frozen=True, slots=True)
class LogSource:
    """A rule's log source; None is what it does not say."""

    product: str | None = None
    category: str | None = None
    service: str | None = None

    def __str__(self) -> str:
        said = {"product": self.product, "category": self.category, "service": self.service}
        return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Alias:
    """On the events of `where`, a missing field `name` has the value of the field `source`."""

    name: str
    source: str
    where: Where


@dataclass(frozen=True, slots=True)
class LogSources:
    """The table.

    Attributes
    ----------
    where : dict of LogSource to Where
        Which events a log source names.
    aliases : tuple of Alias
        Of several for one field, the first one that the event can give counts.
    """

    where: Mapping[LogSource, Where]
    aliases: tuple[Alias, ...]

    def expression_of(self, source: LogSource) -> Expression | None:
        """Return the test that an event is of a log source; None where the table does not have it."""
        parts = self._entries(source)
        if parts is None:
            return None
        tests = [test for part in parts for test in where_tests(part)]
        return tests[0] if len(tests) == 1 else And(tuple(tests))

    def _entries(self, source: LogSource) -> list[Where] | None:
        whole = self.where.get(source)
        if whole is not None:
            return [whole]
        if source.category is None or source.service is None:
            return None
        halves = [
            self.where.get(LogSource(source.product, category=source.category)),
            self.where.get(LogSource(source.product, service=source.service)),
        ]
        found = [half for half in halves if half is not None]
        return found if len(found) == 2 else None

    def extended(self, path: Path) -> LogSources:
        """Return the table with the entries of a user's file, which come before these.

        Raises
        ------
        ExpressionError
            The file is not of this form.
        OSError
            It cannot be read.
        """
        own = _read(path.read_bytes(), str(path))
        return LogSources({**self.where, **own.where}, own.aliases + self.aliases)


@cache
def default_logsources() -> LogSources:
    """Return the table that the package brings: Windows event logs and Sysmon."""
    name = "logsources.toml"
    return _read(resources.files(__package__).joinpath(name).read_bytes(), name)


def where_tests(where: Where) -> list[Expression]:
    """Return the conjuncts of a table's condition."""
    return [_one_of(name, values) for name, values in where.items()]


def number_atom(name: str, numbers: Iterable[int | float]) -> Atom:
    """Return the test that a field is one of some numbers, or one of their decimal texts."""
    members: dict[tuple[type, Constant], None] = {}
    for number in numbers:
        if isinstance(number, float) or INT64_MIN <= number <= INT64_MAX:
            members[type(number), number] = None
        else:
            members[float, float(number)] = None  # an equal value of an event can only be a float
        members[str, str(number)] = None
    return Atom(name, Operator.IN, tuple(value for _, value in members))


def text_atom(name: str, texts: Iterable[str]) -> Atom:
    """Return the test that a field is one of some texts, without regard to case."""
    members = tuple(dict.fromkeys(texts))
    if len(members) == 1:
        return Atom(name, Operator.EQ, members[0], ignore_case=True)
    return Atom(name, Operator.IN, members, ignore_case=True)


def _one_of(name: str, values: tuple[str | int, ...]) -> Expression:
    numbers = [value for value in values if isinstance(value, int)]
    texts = [value for value in values if isinstance(value, str)]
    if not texts:
        return number_atom(name, numbers)
    if not numbers:
        return text_atom(name, texts)
    return Or((number_atom(name, numbers), text_atom(name, texts)))


# -- the file -----------------------------------------------------------------------------------------------


def _read(document: bytes, where: str) -> LogSources:
    try:
        body = tomllib.loads(document.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExpressionError(f"{where} is not TOML: {error}") from None
    unknown = sorted(body.keys() - _KEYS.keys())
    if unknown:
        raise ExpressionError(f"{where} has unknown tables", seen=unknown, limit=sorted(_KEYS))
    sources = {
        LogSource(entry.get("product"), entry.get("category"), entry.get("service")): _where(entry, where)
        for entry in _entries(body, "logsource", where)
    }
    aliases = tuple(
        Alias(entry["field"], entry["from"], _where(entry, where)) for entry in _entries(body, "alias", where)
    )
    return LogSources(sources, aliases)


def _entries(body: dict[str, Any], kind: str, where: str) -> list[dict[str, Any]]:
    entries = body.get(kind, [])
    if not isinstance(entries, list):
        raise ExpressionError(f"{where}: `{kind}` is not a list of tables", remedy=f"Write [[{kind}]].")
    for entry in entries:
        names = {name: value for name, value in entry.items() if name != "where"}
        required = {"field", "from"} if kind == "alias" else {"where"}
        if (
            entry.keys() - _KEYS[kind]
            or required - entry.keys()
            or not all(isinstance(value, str) and value for value in names.values())
        ):
            raise ExpressionError(f"{where}: a bad [[{kind}]]", seen=entry, limit=sorted(_KEYS[kind]))
    return entries


def _where(entry: dict[str, Any], where: str) -> Where:
    found = entry.get("where", {})
    is_good = isinstance(found, dict) and all(
        isinstance(values, list) and values and all(type(value) in (str, int) for value in values)
        for values in found.values()
    )
    if not is_good:
        raise ExpressionError(
            f"{where}: `where` is not a table of lists of texts and numbers",
            seen=entry,
            remedy='Write it as { Channel = ["Security"], EventID = [4688] }.',
        )
    return {name: tuple(values) for name, values in found.items()}
