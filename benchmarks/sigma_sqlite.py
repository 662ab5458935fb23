"""One SQL query per rule over SQLite: what offline tools do today, as a rival and as a second opinion.

Each file of events becomes a table in memory with one text column per field, and each rule one query over
it, made by pySigma's SQLite backend; its log source is put in front, since the backend leaves that to a
pipeline. The table has the same normalised events as our rules, aliases included, so that differences are
those of SQL: names of columns ignore case, NOT of a missing field is unknown, LIKE folds ASCII letters
only.
"""

from __future__ import annotations

import importlib
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from pubsub_cluster.benchmarks.sigma_naive import Answers, NumberedEvent
from pubsub_cluster.sigma_rules.documents import read_documents
from pubsub_cluster.sigma_rules.logsources import Where, default_logsources
from pubsub_cluster.sigma_rules.rules import Rule

BACKEND = "sigma.backends.sqlite.sqlite"  # of pysigma-backend-sqlite, which nothing else here needs
FULL_TEXT = "every_value"
GATE = ("Channel", "EventID", "EventType")
_WHERE = re.compile(r"^SELECT \* FROM \S+ WHERE ", re.DOTALL)


class Queries(NamedTuple):
    """The rules as SQL.

    Attributes
    ----------
    by_rule : dict of str to str
        Condition by rule id.
    columns : set of str
        Fields that conditions name.
    refused : dict of str to str
        Why a rule has no query.
    convert_s : float
    """

    by_rule: dict[str, str]
    columns: set[str]
    refused: dict[str, str]
    convert_s: float


def queries_of(path: Path, rules: Sequence[Rule]) -> Queries:
    """Convert the rules of an archive that `rules` has.

    Parameters
    ----------
    path : Path
        Where the rules were loaded from.
    rules : sequence of Rule
    """
    from sigma.collection import SigmaCollection
    from sigma.rule import SigmaRule

    backend: Any = importlib.import_module(BACKEND).sqliteBackend(fulltext_field=FULL_TEXT)
    wanted = {rule.where: rule for rule in rules}
    begin = time.perf_counter()
    by_rule: dict[str, str] = {}
    columns = set(GATE)
    refused: dict[str, str] = {}
    for document in read_documents([path]):
        rule = wanted.get(document.where)
        if rule is None:
            continue
        try:
            parsed = SigmaRule.from_dict(document.body)
            found = [_WHERE.sub("", text) for text in backend.convert(SigmaCollection([parsed]))]
        except Exception as error:  # whatever the rival does not take is its answer
            refused[rule.id] = f"{type(error).__name__}: {error}"
            continue
        where = _gate(rule)
        condition = " OR ".join(f"({text})" for text in found)
        by_rule[rule.id] = f"({where}) AND ({condition})" if where else condition
        columns.update(_names(rule))
    return Queries(by_rule, columns, refused, time.perf_counter() - begin)


def _gate(rule: Rule) -> str:
    table = default_logsources()
    source = rule.logsource
    parts = (
        [table.where[source]]
        if source in table.where
        else [
            table.where[half]
            for half in (
                type(source)(source.product, source.category, None),
                type(source)(source.product, None, source.service),
            )
        ]
    )
    return " AND ".join(test for part in parts for test in _tests(part))


def _tests(where: Where) -> Iterator[str]:
    for name, values in where.items():
        listed = ", ".join(_quoted(str(value)) for value in values)
        yield f'"{name}" IN ({listed})'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _names(rule: Rule) -> set[str]:
    from pubsub_cluster.logs.projection import attributes_of

    return {name for name in attributes_of(rule.expression) if name is not None}


class SqliteRun:
    """Answers by SQL, file by file.

    Parameters
    ----------
    queries : Queries
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self.failed: dict[str, str] = {}

    def answers(self, events: Iterable[NumberedEvent]) -> Answers:
        """Return what matches what; rules whose query fails are in `failed`."""
        found: Answers = {}
        for file, group in groupby(events, key=lambda event: event.file):
            connection = sqlite3.connect(":memory:")
            connection.create_function("regexp", 2, _regexp, deterministic=True)
            fill(connection, list(group), self._queries.columns)
            for rule_id, condition in self._queries.by_rule.items():
                try:
                    rows = connection.execute(f"SELECT line FROM logs WHERE {condition}").fetchall()
                except sqlite3.Error as error:
                    self.failed[rule_id] = str(error)
                    continue
                if rows:
                    found[rule_id, file] = [line for (line,) in rows]
            connection.close()
        return found


def fill(connection: sqlite3.Connection, events: Sequence[NumberedEvent], columns: set[str]) -> None:
    """Make the table of one file: a column per field of its events and per field that rules name."""
    # SQLite knows one column for all spellings of a name, and finds the first columns of a row soonest.
    names = {name.lower(): name for name in GATE}
    for event in events:
        for name in event.values:
            names.setdefault(name.lower(), name)
    for name in columns:
        names.setdefault(name.lower(), name)
    declared = ", ".join(f"{_identifier(name)} TEXT COLLATE NOCASE" for name in names.values())
    connection.execute(f"CREATE TABLE logs (line INTEGER, {declared}, {FULL_TEXT} TEXT COLLATE NOCASE)")
    marks = ", ".join("?" * (len(names) + 2))
    place = {name: i for i, name in enumerate(names)}
    connection.executemany(f"INSERT INTO logs VALUES ({marks})", (_row(event, place) for event in events))
    connection.execute(f"CREATE INDEX source ON logs ({', '.join(GATE[:2])})")


def _row(event: NumberedEvent, place: Mapping[str, int]) -> list[Any]:
    row: list[Any] = [None] * len(place)
    for name, values in event.values.items():
        text = [value for value in values if isinstance(value, str)]
        position = place[name.lower()]
        if row[position] is None:
            row[position] = text[0] if len(text) == 1 else "\n".join(text)
    every = "\n".join(value for values in event.values.values() for value in values if isinstance(value, str))
    return [event.line, *row, every]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@lru_cache(maxsize=4_096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _regexp(pattern: str, text: Any) -> bool:
    return text is not None and _compiled(pattern).search(str(text)) is not None
