"""pubsub-cluster: content-based publish/subscribe matching on one host.

The public names; each is imported when it is first used, so that a client needs no compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pubsub_cluster.client import AsyncClient, Client, Matches, Notification, Pending, Subscription
    from pubsub_cluster.cluster import Cluster
    from pubsub_cluster.embedded import Engine
    from pubsub_cluster.language.errors import PubSubError
    from pubsub_cluster.language.python_form import any_attribute, attr
    from pubsub_cluster.language.schema import Attribute, Schema

__all__ = [
    "AsyncClient",
    "Attribute",
    "Client",
    "Cluster",
    "Engine",
    "Matches",
    "Notification",
    "Pending",
    "PubSubError",
    "Schema",
    "Subscription",
    "any_attribute",
    "attr",
]

_HOMES = {
    "AsyncClient": "client",
    "Attribute": "language.schema",
    "Client": "client",
    "Cluster": "cluster",
    "Engine": "embedded",
    "Matches": "client",
    "Notification": "client",
    "Pending": "client",
    "PubSubError": "language.errors",
    "Schema": "language.schema",
    "Subscription": "client",
    "any_attribute": "language.python_form",
    "attr": "language.python_form",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"pubsub_cluster.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
