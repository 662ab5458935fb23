"""The in-process engine gives the answers that are written in the vectors, before and after rebuilds."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import EngineAdapter
from vectors import load_vectors, run_vector

from pubsub_cluster import Engine


@pytest.mark.parametrize("vector", load_vectors(), ids=lambda vector: vector["id"])
def test_vector(vector: dict[str, Any]) -> None:
    run_vector(vector, EngineAdapter(Engine(injected_clock=True, rows_max=4_096)))
