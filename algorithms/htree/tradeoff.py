"""HTREE section 3.5: how many cells, by the tradeoff of time and space, and what filtering leaves.

(6) as printed has "3/l" where the least filtration is 3/L. (8) then reduces to
sqrt(L R) (alpha/beta)^(1/(2l)), so that at equal weights the number of indexed attributes does not matter.
"""

from __future__ import annotations

import math

from pubsub_cluster.language.errors import CallerError

CELLS_LEAST = 4
"""Three cells filter nothing by (5)."""
CELLS_MAX = 64


def filtration(cells: float, levels: int) -> float:
    """Return f of (5): the share of subscriptions left when an event has three cells on each attribute."""
    return (3.0 / cells) ** levels


def expected_share(popularity: float, cells: int, copies: float = 1.0) -> float:
    """Return what one indexed attribute leaves of the subscriptions, on average over uniform events.

    Those without a range there are always left; a range lies in one cell (a wide one in `copies`, side by
    side), which the event is in with probability (copies + 1) / c.
    """
    return 1.0 - popularity + popularity * min(1.0, (copies + 1.0) / cells)


def cost(cells: float, levels: int, least: float, greatest: float, time_weight: float) -> float:
    """Return (6): weighted time and space, each from 0 to 1 over [L, R]."""
    time = (filtration(cells, levels) - filtration(greatest, levels)) / (
        filtration(least, levels) - filtration(greatest, levels)
    )
    space = (cells**levels - least**levels) / (greatest**levels - least**levels)
    return time_weight * time + (1.0 - time_weight) * space


def best_cells(levels: int, least: float, greatest: float, time_weight: float = 0.5) -> float:
    """Return (8): the number of cells, not rounded, at which (6) is least.

    Parameters
    ----------
    levels : int
        l, at least 1.
    least, greatest : float
        L and R.
    time_weight : float
        alpha, in (0, 1); beta is 1 - alpha.
    """
    if levels < 1 or not 0.0 < least < greatest or not 0.0 < time_weight < 1.0:
        raise CallerError(
            "there is no best number of cells",
            seen=f"l = {levels}, L = {least}, R = {greatest}, alpha = {time_weight}",
            limit="l >= 1, 0 < L < R, 0 < alpha < 1",
        )
    space = time_weight * (greatest**levels - least**levels)
    time = (1.0 - time_weight) * (filtration(least, levels) - filtration(greatest, levels))
    return math.pow(3.0**levels * space / time, 1.0 / (2 * levels))
