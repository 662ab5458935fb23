"""The engine of this process as the matcher of a run over log files.

All rules are subscribed, and one layout is built before the first event: rules are told apart by their gates,
which are equalities, so a second layout from a sample of events would gain less than it costs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.logs.detector import Answer, Event
from pubsub_cluster.logs.rules import RuleBook


class EngineLike(Protocol):
    """What is needed of `pubsub_cluster.Engine`."""

    def subscribe(self, expression: Any, *, id: str | None = None) -> dict[str, Any]:
        """Make a subscription."""

    def rebuild(self) -> int:
        """Build a layout."""

    def publish(self, batch: Any) -> Any:
        """Match a batch."""


class EngineMatcher:
    """Matches events of a run; see `pubsub_cluster.logs.detector.Matcher`.

    Parameters
    ----------
    engine : EngineLike
        New, without subscriptions.
    book : RuleBook
        A rule that the engine refuses is moved to its refused ones.
    """

    def __init__(self, engine: EngineLike, book: RuleBook) -> None:
        self._engine = engine
        self._position: dict[int, int] = {}
        position = 0
        while position < len(book.rules):
            try:
                made = engine.subscribe(
                    expression_to_json(book.expressions[position]), id=book.rules[position].id
                )
            except PubSubError as error:
                book.without(position, error)
                continue
            self._position[int(made["handle"])] = position
            position += 1
        engine.rebuild()

    def __call__(self, events: list[Event]) -> Answer:
        """Return the matches of each event."""
        found = self._engine.publish(events)
        offsets, positions = found.offsets.tolist(), self._position
        handles = found.handles.tolist()
        matches = [[positions[handle] for handle in handles[first:stop]] for first, stop in pairwise(offsets)]
        return Answer(matches, found.refused)
