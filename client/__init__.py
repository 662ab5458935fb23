"""The client: what a program needs to talk to a running cluster, without numba and without shared memory."""

from pubsub_cluster.client.changes import KEEP, Subscription
from pubsub_cluster.client.client import Client
from pubsub_cluster.client.durable import DurableListener
from pubsub_cluster.client.listener import Listener
from pubsub_cluster.client.matches import Matches
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.pending import Pending

__all__ = [
    "KEEP",
    "Client",
    "DurableListener",
    "Listener",
    "Matches",
    "Notification",
    "Pending",
    "Subscription",
]
