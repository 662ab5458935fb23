"""Retained events: blocks against the naive matcher, the store against its bounds, the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import NAMES, events, expressions, schemas
from vectors import decoded, load_vectors

from pubsub_cluster.language.batch import decode_payload, payload_from_dicts
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Atom, Expression, Operator
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.naive_retained import NaiveRetained
from pubsub_cluster.language.normal_truth import form_holds
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.workers.retained_block import events_of
from pubsub_cluster.workers.retained_columns import block_of, joined, selected

VECTORS = load_vectors(Path(__file__).parent / "vectors" / "retained.json")


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_naive_matcher_gives_the_answers_of_the_vectors(vector: dict[str, Any]) -> None:
    naive = NaiveRetained()

    class Naive:
        def publish(self, events: list[Any], at: int, valid_until: int | None) -> list[Any]:
            return naive.publish(events, at, valid_until)

        def subscribe(self, step: dict[str, Any]) -> list[int]:
            window = step.get("valid_from"), step.get("valid_until")
            return [e["n"] for e in naive.subscribe(step["id"], expression_from_json(step["expr"]), *window)]

        def update(self, step: dict[str, Any]) -> None:
            naive.matcher.update(step["id"], expression_from_json(step["expr"]))

        def unsubscribe(self, step: dict[str, Any]) -> None:
            naive.matcher.unsubscribe(step["id"])

    run_retained(vector, Naive())


def run_retained(vector: dict[str, Any], matcher: Any) -> None:
    """Run a vector of retained events; a matcher's methods are those of `Naive` above."""
    for number, step in enumerate(vector["steps"]):
        where = f"{vector['id']}, step {number}"
        if step["op"] == "publish":
            found = matcher.publish(decoded(step["events"]), step["at"], step.get("valid_until"))
            assert ["error" if isinstance(one, Exception) else one for one in found] == step["expect"], where
            continue
        try:
            told = getattr(matcher, step["op"])(step)
        except PubSubError as error:
            assert step.get("expect") == "error", f"{where}: {error}"
        else:
            assert told == step.get("expect"), where


def _matching(form: NormalForm, given: list[Any], parts: int, schema: Schema) -> list[int]:
    """Evaluate over events that came in `parts` batches; those at odd places are thinned out."""
    blocks = []
    for part in range(parts):
        payload = payload_from_dicts(given[part::parts])
        blocks.append(block_of(decode_payload(payload.header, payload.buffers, schema, DEFAULT_LIMITS)))
    order = [number for part in range(parts) for number in range(part, len(given), parts)]
    block = joined(blocks)
    every = [order[event] for event in events_of(block, form)]
    kept = np.array([number % 2 == 0 for number in order], np.bool_)
    thin = [order[np.flatnonzero(kept)[event]] for event in events_of(selected(block, kept), form)]
    assert thin == [number for number in every if number % 2 == 0]
    return sorted(every)


@settings(max_examples=60)
@given(st.data())
def test_a_block_answers_as_the_naive_matcher(data: st.DataObject) -> None:
    schema = data.draw(st.one_of(st.just(EMPTY_SCHEMA), schemas()))
    expression: Expression = data.draw(expressions(schema))
    given_events = data.draw(st.lists(events(schema), min_size=1, max_size=12))
    form = normalise(expression, schema, DEFAULT_LIMITS)
    flat = [flatten_event(event, schema) for event in given_events]
    expected = [number for number, values in enumerate(flat) if holds(expression, values, schema)]
    assert expected == [number for number, values in enumerate(flat) if form_holds(form, values)]
    parts = data.draw(st.integers(1, min(3, len(given_events))))
    assert _matching(form, given_events, parts, schema) == expected


@settings(max_examples=30)
@given(st.lists(events(), min_size=1, max_size=8), st.sampled_from(["=", "!="]))
def test_two_attributes_are_compared_without_case(given_events: list[Any], operator: str) -> None:
    atom = Atom(NAMES[0], Operator(operator), other=NAMES[1], ignore_case=True)
    form = normalise(atom, EMPTY_SCHEMA, DEFAULT_LIMITS)
    flat = [flatten_event(event) for event in given_events]
    expected = [number for number, values in enumerate(flat) if holds(atom, values)]
    assert expected == [number for number, values in enumerate(flat) if form_holds(form, values)]
    assert _matching(form, given_events, 1, EMPTY_SCHEMA) == expected
