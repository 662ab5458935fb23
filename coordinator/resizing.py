"""Another number of workers while the cluster works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.config import WORKERS_MAX
from pubsub_cluster.language.errors import LimitError, ProtocolError, PubSubError

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator


def resize(coordinator: Coordinator, header: dict[str, Any]) -> None:
    """Begin a resize; see `coordinator.team` for how it goes on.

    Raises
    ------
    ProtocolError, LimitError
        A number is not one, or there would be too many workers.
    BusyError
        Workers of the last resize have not left yet.
    SegmentError
        Shared memory is too small; nothing is changed.
    """
    shards, replicas = (_number(header, name) for name in ("shards", "replicas"))
    if shards * replicas > WORKERS_MAX:
        raise LimitError(
            "shards times replicas are too many workers",
            seen=shards * replicas,
            limit=WORKERS_MAX,
            limit_name="WORKERS_MAX",
        )
    resources, scheduler = coordinator.resources, coordinator.scheduler
    seats = resources.take_seats(scheduler.crew.missing(shards, replicas))
    try:
        coordinator.carry_out(scheduler.resize(shards, replicas, seats))
    except PubSubError:
        for worker_idx in seats:
            resources.give_seat(worker_idx)
        raise


def _number(header: dict[str, Any], name: str) -> int:
    found = header[name]
    if type(found) is not int or found < 1:
        raise ProtocolError(f"`{name}` is not an integer above 0", seen=found)
    return found
