"""What matching costs under a clustering, and its bytes (RR-4089 section 3.1: D-04, D-05)."""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """The constants of the cost model, in checks of a subscription.

    The paper gives no values. These are ours, by the lines of memory that each step reads; what the steps
    cost here is measured by ``rr4089-kernels``.

    Attributes
    ----------
    retrieving : float
        K_r: per table.
    hashing, per_attribute : float
        C_h and K_h: per look-up in a table, and per attribute of its schema.
    predicate : float
        Per predicate that is left to check. Nearly all checks end at the first.
    table_bytes, access_bytes, reference_bytes : float
        init_space, hash_space and K_space.
    """

    retrieving: float = 2.0
    hashing: float = 30.0
    per_attribute: float = 3.0
    predicate: float = 0.02
    table_bytes: float = 64.0
    access_bytes: float = 72.0
    reference_bytes: float = 4.0

    def table(self, width: int, presence: float = 1.0) -> float:
        """Return what one more table costs: K_r + mu * (C_h + K_h * attributes)."""
        return self.retrieving + presence * (self.hashing + self.per_attribute * width)


COSTS = Costs()
