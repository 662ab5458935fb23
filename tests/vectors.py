"""The test vectors and their one runner; every way to match goes through it.

`run_vector` drives any matcher that has the four methods of `Matcher`: the naive one, an engine in this
process, a live cluster. The format is `tests/vectors/FORMAT.md`; tagged values of events are decoded to
Python values here, expressions are passed on as they are, because every reader of the JSON form
understands the tags.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.naive import NaiveMatcher

VECTOR_FILE = Path(__file__).parent / "vectors" / "public.json"

Vector = dict[str, Any]
Result = list[str] | PubSubError


class Matcher(Protocol):
    """What a vector is run against; refused changes raise a `PubSubError`."""

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None: ...

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None: ...

    def unsubscribe(self, subscription_id: str) -> None: ...

    def publish(self, events: Sequence[Any], at: int | None) -> list[Result]:
        """Match one batch; per event the ids, in any order, or the error that refused it."""
        ...


class NaiveAdapter:
    """The naive matcher as a `Matcher`."""

    def __init__(self) -> None:
        self._matcher = NaiveMatcher()

    def subscribe(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._matcher.subscribe(subscription_id, expression_from_json(expr), valid_from, valid_until)

    def update(
        self, subscription_id: str, expr: Any, valid_from: int | None, valid_until: int | None
    ) -> None:
        self._matcher.update(subscription_id, expression_from_json(expr), valid_from, valid_until)

    def unsubscribe(self, subscription_id: str) -> None:
        self._matcher.unsubscribe(subscription_id)

    def publish(self, events: Sequence[Any], at: int | None) -> list[Result]:
        results: list[Result] = []
        for event in events:
            try:
                results.append(self._matcher.match(event, at))
            except PubSubError as refused:
                results.append(refused)
        return results


def load_vectors(path: Path = VECTOR_FILE) -> list[Vector]:
    """Return all vectors of a file; integers stay exact."""
    with path.open(encoding="ascii") as file:
        found: list[Vector] = json.load(file)
    return found


def decoded(value: Any) -> Any:
    """Return a value of a vector with its tagged forms as Python values."""
    if isinstance(value, list):
        return [decoded(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, body),) = value.items()
        if tag == "$int":
            return int(body)
        if tag == "$float":
            return float(body)
        if tag == "$str":
            return "".join(piece * count for piece, count in body)
        if tag == "$seq":
            return [body["from"] + body["step"] * at for at in range(body["count"])]
    return {name: decoded(inner) for name, inner in value.items()}


def run_vector(vector: Vector, matcher: Matcher) -> None:
    """Run all steps of a vector against an empty matcher; `AssertionError` names the step that disagrees."""
    for step_idx, step in enumerate(vector["steps"]):
        where = f"{vector['id']}, step {step_idx}: {_short(step)}"
        if step["op"] == "publish":
            _publish(step, matcher, where)
            continue
        try:
            _change(step, matcher)
        except PubSubError as refused:
            assert step.get("expect") == "error", f"{where}: refused: {refused}"
        else:
            assert step.get("expect") != "error", f"{where}: not refused"


def _change(step: dict[str, Any], matcher: Matcher) -> None:
    if step["op"] == "unsubscribe":
        matcher.unsubscribe(step["id"])
        return
    change = {"subscribe": matcher.subscribe, "update": matcher.update}[step["op"]]
    change(step["id"], step["expr"], step.get("valid_from"), step.get("valid_until"))


def _publish(step: dict[str, Any], matcher: Matcher, where: str) -> None:
    is_batch = "events" in step
    events = step["events"] if is_batch else [step["event"]]
    expected = step["expect"] if is_batch else [step["expect"]]
    results = matcher.publish([decoded(event) for event in events], step.get("at"))
    assert len(results) == len(expected), f"{where}: {len(results)} results for {len(events)} events"
    for result, ids in zip(results, expected, strict=True):
        if isinstance(result, Exception):
            assert ids == "error", f"{where}: refused: {result}"
        else:
            assert ids != "error", f"{where}: not refused"
            assert sorted(result) == sorted(ids), where


def _short(step: dict[str, Any]) -> str:
    text = json.dumps(step)
    return text if len(text) <= 300 else f"{text[:300]}..."
