"""The reference of retained events: `docs/semantics.md`, "Retained events", and nothing else.

`NaiveRetained` wraps a `NaiveMatcher`: batches that have an end of validity are remembered, and a new
subscription is tried against every one of their events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, INT64_MIN, Limits
from pubsub_cluster.language.naive import NaiveMatcher, Values, compile_expression
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class _Retained(NamedTuple):
    event: Any
    values: Values
    valid_until: int


class NaiveRetained:
    """A naive matcher that retains events.

    Parameters
    ----------
    schema : Schema
    limits : Limits

    Attributes
    ----------
    matcher : NaiveMatcher
        Its subscriptions; `update` and `unsubscribe` are its own.
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, limits: Limits = DEFAULT_LIMITS) -> None:
        self.matcher = NaiveMatcher(schema, limits)
        self._retained: list[_Retained] = []
        self._now = INT64_MIN

    def subscribe(
        self,
        subscription_id: str,
        expression: Expression,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> list[Any]:
        """Add a subscription; return the retained events that it matches, in the order of acceptance.

        Raises
        ------
        PubSubError
            As `NaiveMatcher.subscribe`; nothing has changed.
        """
        self.matcher.subscribe(subscription_id, expression, valid_from, valid_until)
        if valid_from is not None and self._now < valid_from:
            return []
        if valid_until is not None and self._now >= valid_until:
            return []
        test = compile_expression(expression, self.matcher.schema)
        return [each.event for each in self._retained if self._now < each.valid_until and test(each.values)]

    def publish(
        self, events: Sequence[Any], at: int, valid_until: int | None = None
    ) -> list[list[str] | Exception]:
        """Match a batch that is accepted `at`; its good events are retained while `valid_until` is ahead.

        Returns
        -------
        list of (list of str, or EventError)
            Per event the ids, or why it is refused.
        """
        self._now = max(self._now, at)
        results: list[list[str] | Exception] = []
        for event in events:
            try:
                values = flatten_event(event, self.matcher.schema, self.matcher.limits)
            except EventError as refused:
                results.append(refused)
                continue
            results.append(self.matcher.match_canonical(values, at))
            if valid_until is not None:
                self._retained.append(_Retained(event, values, valid_until))
        return results
