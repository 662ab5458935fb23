"""Lines and powers through points."""

from __future__ import annotations

import math

import pytest

from pubsub_cluster.benchmarks.reproductions.fits import log_slope, straight_line


def test_lines_and_slopes() -> None:
    assert log_slope([1, 10, 100], [3, 300, 30_000]) == pytest.approx(2)
    assert math.isnan(log_slope([1], [3]))
    assert straight_line([1, 2, 3], [5, 7, 9]) == pytest.approx((2, 3, 1))
    assert straight_line([1, 2, 3, 4], [1, -1, -1, 1])[2] == pytest.approx(0)
