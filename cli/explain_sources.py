"""Where ``explain`` finds what it explains: rules in files, or the catalogue of a running cluster."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pubsub_cluster.cli.progress import Progress

if TYPE_CHECKING:
    from pubsub_cluster.client import Client
    from pubsub_cluster.language.expression import Expression
    from pubsub_cluster.language.schema import Schema
    from pubsub_cluster.logs.detector import EventForm
    from pubsub_cluster.logs.rules import RuleBook

SUGGESTIONS_MAX = 5
OWN_DETAILS = ("owner", "valid_from", "valid_until")
PROGRESS_STEP = 1_000


class Subject(NamedTuple):
    """What is shown of a rule or a subscription beside its expression.

    Attributes
    ----------
    id, title : str
        The title is the id where it has none.
    level : str
        May be empty.
    details : dict
        Anything else, by name.
    is_valid : bool
        Its window of validity has begun and not ended; outside it nothing matches, whatever holds.
    """

    id: str
    title: str
    level: str
    details: dict[str, Any]
    is_valid: bool = True

    def __str__(self) -> str:
        """Return it on one line."""
        validity = "" if self.is_valid else "not valid now"
        more = [part for part in (self.level, self.id if self.id != self.title else "", validity) if part]
        return f"{self.title}  ({', '.join(more)})" if more else self.title


def sigma_form(
    renamed: dict[str, str], logsources_file: Path | None, schema: Schema | None = None
) -> EventForm:
    """Return the form of log events that Sigma rules in a cluster of some schema are written for."""
    from pubsub_cluster.language.schema import EMPTY_SCHEMA
    from pubsub_cluster.logs.detector import EventForm
    from pubsub_cluster.sigma_rules.events import Normaliser
    from pubsub_cluster.sigma_rules.logsources import default_logsources

    table = default_logsources()
    if logsources_file is not None:
        table = table.extended(logsources_file)
    return EventForm(Normaliser(table.aliases), renamed, schema=schema or EMPTY_SCHEMA)


class Source(Protocol):
    """Rules or subscriptions, by keys of the source's own."""

    schema: Schema

    def form(self, renamed: dict[str, str], logsources_file: Path | None) -> EventForm:
        """Return the form of events that they are written for."""
        ...

    def find(self, name: str) -> tuple[Subject, Expression]:
        """Return one by its id, or title; raises `UnknownIdError`."""
        ...

    def all(self) -> Iterator[tuple[Any, Expression]]:
        """Yield all, one at a time."""
        ...

    def subjects(self, keys: Iterable[Any]) -> list[Subject]:
        """Return what to show of some that `all` has yielded."""
        ...


class RuleSource:
    """The rules of some files.

    Parameters
    ----------
    book : RuleBook
    table : LogSources
    """

    def __init__(self, book: RuleBook, table: Any) -> None:
        from pubsub_cluster.language.schema import EMPTY_SCHEMA

        self.schema = EMPTY_SCHEMA
        self._book, self._table = book, table

    def form(self, renamed: dict[str, str], logsources_file: Path | None) -> EventForm:
        """Return the form of events that the rules are written for; the table has the file's entries."""
        return self._book.form(renamed, self._table)

    def find(self, name: str) -> tuple[Subject, Expression]:
        """Return the rule with an id or a title; the title without regard to case.

        Raises
        ------
        UnknownIdError
            There is none.
        """
        from pubsub_cluster.language.errors import UnknownIdError
        from pubsub_cluster.language.values import fold

        rules, wanted = self._book.rules, fold(name)
        for names in ([rule.id for rule in rules], [rule.title for rule in rules]):
            found = [position for position, each in enumerate(names) if fold(each) == wanted]
            if found:
                return self.subjects(found[:1])[0], self._book.expressions[found[0]]
        titles = [rule.title for rule in rules]
        near = [title for title in titles if wanted in fold(title)][:SUGGESTIONS_MAX]
        near = near or difflib.get_close_matches(name, titles, SUGGESTIONS_MAX)
        raise UnknownIdError(
            "no rule has this id or title",
            seen=name,
            remedy=f"There are: {'; '.join(near)}." if near else "`match --json` prints ids and titles.",
        )

    def all(self) -> Iterator[tuple[Any, Expression]]:
        """Yield position and expression of every rule."""
        yield from enumerate(self._book.expressions)

    def subjects(self, keys: Iterable[Any]) -> list[Subject]:
        """Return what to show of the rules at some positions."""
        rules = [self._book.rules[position] for position in keys]
        now_us = time.time_ns() // 1_000
        return [
            Subject(rule.id, rule.title, rule.level, _windows(*rule.window), rule.is_valid_at(now_us))
            for rule in rules
        ]


class ClusterSource:
    """The subscriptions of a running cluster.

    Parameters
    ----------
    client : Client
    is_sigma : bool
        Events are log lines, to be normalised as Sigma rules want them.
    """

    def __init__(self, client: Client, is_sigma: bool) -> None:
        from pubsub_cluster.language.schema import Schema

        self.schema = Schema.from_json(client.hello()["schema"])
        self._client, self._is_sigma = client, is_sigma

    def form(self, renamed: dict[str, str], logsources_file: Path | None) -> EventForm:
        """Return the form of events as the cluster would take them."""
        from pubsub_cluster.logs.detector import EventForm

        if not self._is_sigma:
            return EventForm(None, renamed, schema=self.schema)
        return sigma_form(renamed, logsources_file, self.schema)

    def find(self, name: str) -> tuple[Subject, Expression]:
        """Return the subscription with an id.

        Raises
        ------
        UnknownIdError
            There is none.
        """
        from pubsub_cluster.language.errors import PubSubError, UnknownIdError

        found = self._client.describe_many([name], expressions=True)[0]
        if isinstance(found, UnknownIdError):
            found.remedy = "Ids are told by `subscribe`, `load` and `publish`; or subscribe it first."
        if isinstance(found, PubSubError):
            raise found
        return _subject(found), self._expression(found["expr"])

    def all(self) -> Iterator[tuple[Any, Expression]]:
        """Yield id and expression of every subscription, with a progress line."""
        total = self._client.status().get("subscriptions")
        with Progress("Looking", total if isinstance(total, int) else None, "subscriptions") as bar:
            for number, listed in enumerate(self._client.subscriptions(), start=1):
                yield listed.id, self._expression(listed.expression)
                if number % PROGRESS_STEP == 0:
                    bar.advance(PROGRESS_STEP)

    def subjects(self, keys: Iterable[Any]) -> list[Subject]:
        """Return what to show of subscriptions by their ids."""
        ids = list(keys)
        return [
            # Removed since it was looked at: its id is all that is left to say.
            _subject(told) if isinstance(told, dict) else Subject(name, name, "", {})
            for name, told in zip(ids, self._client.describe_many(ids), strict=True)
        ]

    def _expression(self, written: Any) -> Expression:
        from pubsub_cluster.language.json_form import expression_from_json
        from pubsub_cluster.language.limits import Limits
        from pubsub_cluster.language.text_form import parse_text

        limits = Limits(**self._client.hello()["limits"])
        if isinstance(written, str):
            return parse_text(written, self.schema, limits)
        return expression_from_json(written, limits)


def _subject(told: dict[str, Any]) -> Subject:
    """Return what to show of a subscription, from what the cluster tells of it."""
    from pubsub_cluster.logs.rules import is_valid_at

    metadata = dict(told["metadata"] or {})
    title, level = metadata.pop("title", None), metadata.pop("level", None)
    window = told["valid_from"], told["valid_until"]
    details = {"owner": told["owner"], **_windows(*window)}
    for name, value in metadata.items():  # what the cluster knows is not for metadata to say
        details[f"metadata {name}" if name in OWN_DETAILS else name] = value
    return Subject(
        told["id"],
        title if isinstance(title, str) and title else told["id"],
        level if isinstance(level, str) else "",
        details,
        is_valid_at(window, time.time_ns() // 1_000),
    )


def _windows(valid_from: int | None, valid_until: int | None) -> dict[str, Any]:
    from pubsub_cluster.cli.instants import instant_text

    window = {"valid_from": valid_from, "valid_until": valid_until}
    return {name: instant_text(instant) for name, instant in window.items() if instant is not None}
