"""What is known of the catalogue from outside, and the judgement of every answer by the naive matcher.

A change is known by two versions: it was sent when `after` was the highest version that anybody had seen, and
its acknowledgement told `upto`. So its own version is in (after, upto]; while it is unacknowledged, `upto` is
infinite. A batch tells the version that it saw. An id whose last change is certain at that version must match
exactly as its expression does; within the doubt it must match as before the change or as after it, and what
it did narrows the doubt for every later answer.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.text_form import parse_text

NEVER = 1 << 62
EXPRESSIONS = 200
EVENTS = 300
WORDS = ("tea", "tin", "teapot", "coffee", "cup", "Cup", "kettle", "")


def random_expressions(draw: random.Random, count: int) -> list[str]:
    """Return expressions in the text form: equalities, ranges, sets, texts, and Boolean algebra."""

    def atom() -> str:
        return draw.choice(
            (
                f"x = {draw.randrange(30)}",
                f"x >= {draw.randrange(30)}",
                f"x BETWEEN {draw.randrange(10)} AND {10 + draw.randrange(20)}",
                f"x IN ({draw.randrange(30)}, {draw.randrange(30)}, {draw.randrange(30)})",
                f"y < {draw.randrange(100) / 4}",
                f"y != {draw.randrange(100) / 4}",
                f'item = "{draw.choice(WORDS)}"',
                f'item CONTAINS "{draw.choice(("e", "ea", "t"))}"',
                f'tags = "{draw.choice(WORDS)}"',
                "EXISTS tags",
            )
        )

    def tree(depth: int) -> str:
        if depth == 0 or draw.random() < 0.3:
            return atom() if draw.random() < 0.85 else f"NOT ({atom()})"
        return f"({tree(depth - 1)} {draw.choice(('AND', 'AND', 'OR'))} {tree(depth - 1)})"

    return [tree(2) for _ in range(count)]


def random_events(draw: random.Random, count: int) -> list[dict[str, Any]]:
    """Return events with missing, single and multiple values."""
    events: list[dict[str, Any]] = []
    for _ in range(count):
        event: dict[str, Any] = {"x": draw.randrange(30), "y": draw.randrange(100) / 4}
        if draw.random() < 0.8:
            event["item"] = draw.choice(WORDS)
        if draw.random() < 0.5:
            event["tags"] = draw.sample(WORDS, draw.randrange(3))
        events.append(event)
    return events


def truth_of(expressions: Sequence[str], events: Sequence[dict[str, Any]]) -> npt.NDArray[np.bool_]:
    """Return bool[expression, event], as the naive matcher has it."""
    naive = NaiveMatcher()
    for idx, text in enumerate(expressions):
        naive.subscribe(str(idx), parse_text(text, naive.schema, naive.limits))
    truth = np.zeros((len(expressions), len(events)), np.bool_)
    for event_idx, event in enumerate(events):
        truth[[int(name) for name in naive.match(event)], event_idx] = True
    return truth


@dataclass(slots=True)
class Change:
    """One change of one id; `expression` is None for a removal."""

    after: int
    upto: int
    expression: int | None


@dataclass(slots=True)
class Answer:
    """The answer to a batch of events of the pool."""

    publisher: str
    batch_id: str
    events: npt.NDArray[np.int64]
    version: int
    offsets: npt.NDArray[np.int64]
    handles: npt.NDArray[np.uint64]
    ids: list[str]
    crossed_lives: bool


@dataclass
class CatalogueModel:
    """Ids, their changes, and the breaches found.

    Attributes
    ----------
    truth : bool[expression, event]
    breaches : list of str
    in_doubt : int
        Answers about an id that were judged against both states of a change under way.
    """

    truth: npt.NDArray[np.bool_]
    breaches: list[str] = field(default_factory=list)
    in_doubt: int = 0
    seen_version: int = 0
    _changes: dict[str, list[Change]] = field(default_factory=dict)
    _pending: dict[int, Change] = field(default_factory=dict)
    _id_of_handle: dict[int, str] = field(default_factory=dict)
    _made: dict[int, str] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def breach(self, text: str) -> None:
        """Record that a promise was broken."""
        with self._lock:
            self.breaches.append(text)

    def saw(self, version: int) -> None:
        """A version was told by the cluster."""
        with self._lock:
            self.seen_version = max(self.seen_version, version)

    # ---- changes -------------------------------------------------------------------------------

    def begin(self, subscription_id: str, expression: int | None) -> Change:
        """A change is about to be sent."""
        with self._lock:
            change = Change(self.seen_version, NEVER, expression)
            self._changes.setdefault(subscription_id, []).append(change)
            self._pending[id(change)] = change
            return change

    def acknowledged(self, change: Change, version: int) -> None:
        """The change took effect at or before a version."""
        with self._lock:
            self.saw(version)
            if version <= change.after:
                self.breach(f"a change sent after version {change.after} was acknowledged at {version}")
            change.upto = min(change.upto, version)
            del self._pending[id(change)]

    def refused(self, subscription_id: str, change: Change) -> None:
        """The change was refused: nothing may be seen of it."""
        with self._lock:
            self._changes[subscription_id].remove(change)
            del self._pending[id(change)]

    def handle_given(self, subscription_id: str, handle: int) -> None:
        """A new subscription was acknowledged with this handle."""
        with self._lock:
            if handle in self._made:
                self.breach(f"handle {handle} was given to {subscription_id} and {self._made[handle]}")
            self._made[handle] = subscription_id

    @property
    def acknowledged_count(self) -> int:
        """Changes that are known to have taken effect."""
        with self._lock:
            return sum(map(len, self._changes.values())) - len(self._pending)

    def settled_version(self) -> int:
        """Return the version up to which nothing more will be learnt of changes."""
        with self._lock:
            return min((change.after for change in self._pending.values()), default=NEVER)

    def live(self) -> list[str]:
        """Return the ids that exist after all changes."""
        with self._lock:
            return [name for name, found in self._changes.items() if found[-1].expression is not None]

    def gone(self) -> list[str]:
        """Return the ids that were removed."""
        with self._lock:
            return [name for name, found in self._changes.items() if found[-1].expression is None]

    # ---- answers -------------------------------------------------------------------------------

    def judge(self, answer: Answer) -> None:
        """Compare an answer with what the naive matcher says of the catalogue at its version."""
        with self._lock:
            found = self._rows(answer)
            for name, changes in self._changes.items():
                row = found.pop(name, None)
                self._judge_id(name, changes, row, answer)
            for name in found:
                self.breach(f"{_of(answer)} names {name}, which nobody ever made")

    def _rows(self, answer: Answer) -> dict[str, npt.NDArray[np.bool_]]:
        found: dict[str, npt.NDArray[np.bool_]] = {}
        handles = answer.handles.tolist()
        event_of = np.repeat(np.arange(len(answer.events)), np.diff(answer.offsets)).tolist()
        before = (-1, -1)
        for event_idx, handle, name in zip(event_of, handles, answer.ids, strict=True):
            if (event_idx, handle) <= before:
                self.breach(f"{_of(answer)}: handles of event {event_idx} are not ascending")
            before = (event_idx, handle)
            if self._id_of_handle.setdefault(handle, name) != name:
                self.breach(f"{_of(answer)}: handle {handle} is {name} and {self._id_of_handle[handle]}")
            row = found.get(name)
            if row is None:
                row = found[name] = np.zeros(len(answer.events), np.bool_)
            if row[event_idx]:
                self.breach(f"{_of(answer)} names {name} twice for event {event_idx}")
            row[event_idx] = True
        return found

    def _judge_id(
        self, name: str, changes: list[Change], row: npt.NDArray[np.bool_] | None, answer: Answer
    ) -> None:
        version = answer.version
        # Newest first: most answers are about the present.
        for position in range(len(changes) - 1, -1, -1):
            if changes[position].after < version:
                break
        else:
            position = -1
        last = changes[position] if position >= 0 else None
        if last is None or last.upto <= version:
            if not self._fits(None if last is None else last.expression, row, answer):
                self._wrong(name, changes, answer)
            return
        self.in_doubt += 1
        before = changes[position - 1].expression if position else None
        as_before, as_after = self._fits(before, row, answer), self._fits(last.expression, row, answer)
        if not as_before and not as_after:
            self._wrong(name, changes, answer)
        elif not as_before:
            last.upto = min(last.upto, version)
        elif not as_after:
            last.after = max(last.after, version)

    def _fits(self, expression: int | None, row: npt.NDArray[np.bool_] | None, answer: Answer) -> bool:
        expected = None if expression is None else self.truth[expression, answer.events]
        if expected is None or row is None:
            return row is None and (expected is None or not expected.any())
        return bool(np.array_equal(expected, row))

    def _wrong(self, name: str, changes: list[Change], answer: Answer) -> None:
        known = [(change.after, change.upto, change.expression) for change in changes[-3:]]
        self.breach(f"{_of(answer)} at version {answer.version} is wrong about {name}: {known}")

    def may_match(self, name: str, event: int) -> bool:
        """Say whether an id ever had an expression that matches this event."""
        with self._lock:
            had = {change.expression for change in self._changes.get(name, ())}
            return any(self.truth[expression, event] for expression in had if expression is not None)


def _of(answer: Answer) -> str:
    return f"batch {answer.batch_id} of {answer.publisher}"


def owner_of(subscription_id: str) -> str:
    """Return who owns an id: its last digit says."""
    return f"owner{int(subscription_id[-1]) % 4}"


class OwnerRows(NamedTuple):
    """What is remembered of an answer for the notifications of one owner: its ids by event of the batch."""

    events: npt.NDArray[np.int64]
    crossed_lives: bool
    ids: dict[int, set[str]]


def rows_of_owner(answer: Answer, owner: str) -> OwnerRows:
    """Return an owner's part of an answer; it holds on to nothing else of it."""
    found: dict[int, set[str]] = {}
    event_of = np.repeat(np.arange(len(answer.events)), np.diff(answer.offsets)).tolist()
    for event_idx, name in zip(event_of, answer.ids, strict=True):
        if owner_of(name) == owner:
            found.setdefault(event_idx, set()).add(sys.intern(name))
    return OwnerRows(answer.events, answer.crossed_lives, found)
