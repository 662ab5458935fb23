"""The naive matcher gives the answers that are written in the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from vectors import NaiveAdapter, load_vectors, run_vector


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector["id"])
def test_vector(vector: dict[str, Any]) -> None:
    run_vector(vector, NaiveAdapter())


def test_the_runner_notices_wrong_answers() -> None:
    class Silent(NaiveAdapter):
        def publish(self, events: Any, at: int | None) -> Any:
            return [[] for _ in events]

    class Repeating(NaiveAdapter):
        def publish(self, events: Any, at: int | None) -> Any:
            return [found * 2 if isinstance(found, list) else found for found in super().publish(events, at)]

    class Lax(NaiveAdapter):
        def unsubscribe(self, subscription_id: str) -> None:
            pass

    by_id = {vector["id"]: vector for vector in load_vectors()}
    for matcher, vector_id in (
        (Silent(), "p01-missing-negation"),
        (Repeating(), "p01-missing-negation"),
        (Lax(), "p50-unknown-id"),
    ):
        with pytest.raises(AssertionError, match=vector_id):
            run_vector(by_id[vector_id], matcher)
