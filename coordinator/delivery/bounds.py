"""How much may be kept for durable receivers."""

from __future__ import annotations

from typing import NamedTuple

from pubsub_cluster.coordinator.config import ClusterConfig


class Bounds(NamedTuple):
    """What the outbox may hold.

    Attributes
    ----------
    receivers_max : int
    notifications_max, size_bytes_max : int
        Of one receiver; the oldest are dropped beyond it. One publication is kept whatever its size.
    shares_max, all_size_bytes_max : int
        Of all together; the oldest record is dropped beyond it.
    """

    receivers_max: int = 1_000
    notifications_max: int = 100_000
    size_bytes_max: int = 256 << 20
    shares_max: int = 1_000_000
    all_size_bytes_max: int = 4 << 30

    @classmethod
    def of(cls, config: ClusterConfig) -> Bounds:
        """Return the bounds that an operator has set."""
        return cls(
            config.durable_receivers_max,
            config.durable_notifications_max,
            config.durable_bytes_max,
            all_size_bytes_max=config.durable_all_bytes_max,
        )
