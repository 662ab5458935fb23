"""The trees and tables of LESUB: beside brute force, kernels beside references, and what they promise."""

from __future__ import annotations

from typing import Any

import pytest
from core_cases import NUMBERS, catalogues, check_core, rows
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.algorithms.lesub.aguilera import Aguilera
from pubsub_cluster.algorithms.lesub.gough import Gough
from pubsub_cluster.algorithms.lesub.hanson import Hanson
from pubsub_cluster.algorithms.lesub.neon import Neon

CORES = [Gough, Aguilera, Hanson, lambda: Hanson("least selective"), Neon]


@pytest.mark.parametrize("make", CORES)
@settings(max_examples=150)
@given(catalogue=catalogues(constants=NUMBERS), values=rows(), data=st.data())
def test_against_brute_force(make: Any, catalogue: Any, values: Any, data: st.DataObject) -> None:
    check_core(make, catalogue, values, data)
