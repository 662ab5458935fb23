"""Lines and powers through measured points, for claims about shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Points = Sequence[float] | Any
"""Numbers, or an array of them."""


def log_slope(x: Points, y: Points) -> float:
    """Return b of y ~ x ** b, by least squares over logarithms; NaN of fewer than two points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0]) if len(x) > 1 else math.nan


def straight_line(x: Points, y: Points) -> tuple[float, float, float]:
    """Return slope, value at zero and R^2 of a straight line through points."""
    slope, at_zero = np.polyfit(x, y, 1)
    left = np.asarray(y) - (slope * np.asarray(x) + at_zero)
    spread = float(((np.asarray(y) - np.mean(y)) ** 2).sum())
    return float(slope), float(at_zero), 1.0 - float((left**2).sum()) / max(spread, 1e-300)
