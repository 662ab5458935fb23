"""The client: what a program needs to talk to a running cluster; of shared memory it reads the ring alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubsub_cluster.client.changes import KEEP, Subscription
from pubsub_cluster.client.client import Client
from pubsub_cluster.client.durable import AsyncDurableListener, DurableListener
from pubsub_cluster.client.listener import AsyncListener, Listener
from pubsub_cluster.client.matches import Matches
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.pending import AsyncPending, Pending

if TYPE_CHECKING:
    from pubsub_cluster.client.aio import AsyncClient

__all__ = [
    "KEEP",
    "AsyncClient",
    "AsyncDurableListener",
    "AsyncListener",
    "AsyncPending",
    "Client",
    "DurableListener",
    "Listener",
    "Matches",
    "Notification",
    "Pending",
    "Subscription",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncClient":  # asyncio takes as long to import as all the rest
        from pubsub_cluster.client.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
