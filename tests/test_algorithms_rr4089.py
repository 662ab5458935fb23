"""Matchers of RR-4089: cores beside brute force, kernels beside references, what clustering keeps."""

from __future__ import annotations

from typing import Any

import pytest
from core_cases import catalogues, check_core, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.rr4089.cost import Costs
from pubsub_cluster.algorithms.rr4089.counting import Counting
from pubsub_cluster.algorithms.rr4089.dynamic import Dynamic, Thresholds
from pubsub_cluster.algorithms.rr4089.propagation import Propagation
from pubsub_cluster.algorithms.rr4089.static import Static

CHEAP = Costs(retrieving=0.0, hashing=0.01, per_attribute=0.001)
EAGER = Thresholds(margin_max=0.05, benefit_min=1.0, power_min=1.0)
CORES = {
    "counting": Counting,
    "propagation": Propagation,
    "propagation-prefetch": lambda: Propagation(3),
    "static": lambda: Static(CHEAP),
    "dynamic": lambda: Dynamic(EAGER),
}


@pytest.mark.parametrize("name", CORES)
@settings(max_examples=100)
@given(catalogue=catalogues(), values=rows(), data=st.data())
def test_cores(name: str, catalogue: Any, values: Any, data: st.DataObject) -> None:
    check_core(CORES[name], catalogue, values, data)
