"""Three accounts of the same subscriptions, compared: the change table, the catalogue, the layout's answers.

All live subscriptions by handle, all rows of the layout against the rows that it should cover; then, for a
sample, everything that is told of a subscription, and what the matching engine answers for events that are
made from the sample's constants, against a plain evaluation of the expressions as they were given.

A process of its own, like the keeper (`coordinator.keeper`): ``python -m pubsub_cluster.verification``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import orjson

from pubsub_cluster.client.publishing import payload_of
from pubsub_cluster.coordinator.compaction import groups, live_changes
from pubsub_cluster.coordinator.keeper import KeeperTask, main, table
from pubsub_cluster.language.batch import check_payload
from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.catalogue_rows import is_removed, window_of
from pubsub_cluster.shm.change_groups import Change
from pubsub_cluster.shm.layout import LAYOUT_INFO, attach_layout
from pubsub_cluster.shm.lifeline import leave
from pubsub_cluster.workers.engine import EMPTY_GENERATION, MatchEngine

EVENTS = 64
EXAMPLES = 8
BESIDE = {Operator.LT: -1, Operator.GT: 1}  # a number that fulfils the comparison, unlike its constant


class _Verification:
    """Counts, and the first few differences in words."""

    def __init__(self, connection: sqlite3.Connection, task: KeeperTask) -> None:
        # First what the coordinator may exchange: reading the table takes long.
        self._reader = CatalogueReader.attach(task.catalogue)
        self._layout = attach_layout(task.layout) if task.layout else None
        self._connection = connection
        self._task = task
        self._found = found = live_changes(connection, task.store_path, task.version)
        self._schema = Schema.from_json(orjson.loads(task.schema))
        # Types say which events are valid, not what matches: those that are made here need none.
        self._untyped = replace(self._schema, types=None)
        self._limits = Limits(**task.limits)
        self._compiler = Compiler(self._schema, self._limits)
        self._counts = CatalogueCounts(*task.counts)
        columns = self._reader.columns
        rows = np.flatnonzero(~is_removed(columns, slice(0, self._counts.rows), task.version))
        self._row_of = dict(zip(columns.handle[rows].tolist(), rows.tolist(), strict=True))
        self.differences = 0
        self.examples: list[str] = []
        self.facts: dict[str, Any] = {
            "version": task.version,
            "generation": task.generation,
            "in_store": len(found.live),
            "in_catalogue": len(rows),
            "in_layout": 0 if self._layout is None else len(self._layout.row_catalogue),
        }

    def differ(self, text: str, count: int = 1) -> None:
        """Enter differences of one sort."""
        self.differences += count
        if count and len(self.examples) < EXAMPLES:
            self.examples.append(text)

    def compare_handles(self) -> None:
        """The table against the catalogue."""
        stored = set(self._found.handles.tolist())
        for title, handles in (
            ("only in the change table", stored - self._row_of.keys()),
            ("only in the catalogue", self._row_of.keys() - stored),
        ):
            if handles:
                self.differ(f"{title}: handle {min(handles)} and {len(handles) - 1} more", len(handles))

    def compare_layout(self) -> None:
        """The catalogue against the rows that the layout says it covers."""
        if self._layout is None:
            return
        base_rows, version = self._task.base_counts[0], int(self._layout.info[LAYOUT_INFO.index("version")])
        removed = is_removed(self._reader.columns, slice(0, base_rows), version)
        covered = np.zeros(base_rows, np.bool_)
        covered[self._layout.row_catalogue] = True
        for title, rows in (
            ("not in the layout", np.flatnonzero(~removed & ~covered)),
            ("dead, and in the layout", np.flatnonzero(removed & covered)),
        ):
            if len(rows):
                self.differ(f"{title}: row {rows[0]} and {len(rows) - 1} more", len(rows))

    def sample(self) -> list[Change]:
        """Draw live subscriptions."""
        live = self._found.live
        size = min(self._task.sample, len(live))
        drawn = set(np.random.default_rng().choice(live, size, replace=False).tolist())
        return [
            change
            for _, changes in groups(self._connection, self._task.store_path, self._task.version)
            for change in changes
            if change.version in drawn
        ]

    def compare_one(self, change: Change) -> None:
        """A stored subscription against its row."""
        row = self._row_of.get(change.handle)
        if row is None:
            return  # it is counted already
        reader, columns = self._reader, self._reader.columns
        given = (change.valid_from, change.valid_until)
        window = None
        if given != (None, None):
            window = INT64_MIN if given[0] is None else given[0], INT64_MAX if given[1] is None else given[1]
        if window is not None and window[1] <= self._task.clock_us:
            return  # it is over for good: an epoch keeps nothing but its name
        owner = int(columns.owner[row])
        form = self._normalised(msgspec.json.decode(change.expression or b""))
        for what, stored, held in (
            ("id", change.subscription_id, reader.subscription_id(row)),
            ("owner", change.owner, reader.owner_name(owner) if owner >= 0 else None),
            ("window", window, window_of(columns, self._counts.windows, row)),
            ("expression", _meaning(form), _meaning(reader.normal_form(row))),
        ):
            if stored != held:
                self.differ(f"{change.subscription_id}: the {what} in the catalogue is not the stored one")

    def compare_answers(self, changes: list[Change]) -> None:
        """What the engine answers for events made from the sample, against a plain evaluation."""
        naive = NaiveMatcher(self._untyped, self._limits)
        asked: list[dict[str, Any]] = []
        clock_us = self._task.clock_us
        changes = [c for c in changes if c.valid_until is None or c.valid_until > clock_us]
        for change in changes:
            expression = self._expression(change)
            naive.subscribe(change.subscription_id, expression)
            if len(asked) < EVENTS:
                asked.append(dict(_values(expression)))
        events, expected = [], []
        for event in asked:
            try:
                expected.append(set(naive.match(event)))
                events.append(event)
            except PubSubError:
                continue  # values that cannot stand in one event
        rows = [self._row_of[change.handle] for change in changes if change.handle in self._row_of]
        answers = self._answers(events, np.array(sorted(rows), np.int64))
        self.facts["events"] = len(events)
        self.facts["matches"] = sum(map(len, expected))
        for event, ours, theirs in zip(events, answers, expected, strict=True):
            if ours != theirs:
                name = min(ours ^ theirs)
                verb = "does not match" if name in theirs else "matches"
                self.differ(f"{name} {verb} {event} in the layout", len(ours ^ theirs))

    def _answers(self, events: list[dict[str, Any]], rows: Any) -> list[set[str]]:
        if not events:
            return []
        engine = MatchEngine(self._reader, self._untyped, self._limits)
        generation = EMPTY_GENERATION
        if self._layout is not None:
            generation = self._task.generation
            mine = np.ones(len(self._layout.partition_cost), np.uint8)
            engine.attach_layout(generation, self._layout, CatalogueCounts(*self._task.base_counts), mine)
        payload = payload_of(events)
        check_payload(payload.header, payload.buffers, self._limits)
        batch = engine.read(payload.header, payload.buffers)
        result = engine.match_batch(batch, generation, self._counts, version=self._task.version)
        found = []
        for first, stop in zip(result.event_offsets[:-1], result.event_offsets[1:], strict=True):
            mine = np.intersect1d(result.rows[first:stop], rows)
            found.append({self._reader.subscription_id(row) for row in mine.tolist()})
        return found

    def _normalised(self, given: Any) -> NormalForm:
        if isinstance(given, str):
            return normalise(parse_text(given, self._schema, self._limits), self._schema, self._limits)
        return self._compiler.normal_form(given)

    def _expression(self, change: Change) -> Expression:
        given = msgspec.json.decode(change.expression or b"")
        if isinstance(given, str):
            return parse_text(given, self._schema, self._limits)
        return expression_from_json(given, self._limits)


def verify(task: KeeperTask) -> dict[str, Any]:
    """Compare; return the counts, and the first differences in words.

    Raises
    ------
    StoreError
        The change table is damaged.
    SegmentError
        The layout was exchanged just now.
    """
    with table(task.store_path) as connection:
        return _verified(_Verification(connection, task))


def _verified(at_work: _Verification) -> dict[str, Any]:
    at_work.compare_handles()
    at_work.compare_layout()
    changes = at_work.sample()
    for change in changes:
        at_work.compare_one(change)
    at_work.facts["compared"] = len(changes)
    at_work.compare_answers(changes)
    return {**at_work.facts, "differences": at_work.differences, "examples": at_work.examples}


def _meaning(form: NormalForm) -> Any:
    """Return a form without the numbers that its predicates happen to have."""

    def literal(code: int) -> Any:
        return (form.predicates[code >> 1], code & 1)

    if form.clauses is None:
        return [code if code < 0 else literal(code) for code in form.program]
    return {frozenset(map(literal, clause)) for clause in form.clauses}


def _values(expression: Expression) -> Iterator[tuple[str, Any]]:
    """Yield values for attributes that some atoms of an expression ask for."""
    match expression:
        case And(children) | Or(children):
            for child in children:
                yield from _values(child)
        case Not(child):
            yield from _values(child)
        case Atom(attribute=name, operator=operator, value=value, lo=lo) if name is not None:
            if isinstance(value, tuple):
                value = next(iter(value), None)
            elif value is None:
                value = lo
            if isinstance(value, int | float) and not isinstance(value, bool):
                value += BESIDE.get(operator, 0)
            if value is not None:
                yield name, value


if __name__ == "__main__":
    leave(main(verify))
