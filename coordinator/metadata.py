"""What subscriptions say of themselves: a JSON object each, kept and told, and never looked at by matching.

A detection rule's title, level and tags, for instance. It is durable with the change that carries it, and
held here as the bytes that it came as, for those subscriptions only that have any.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.limits import Limits, check_limit


def encode_metadata(value: Any, limits: Limits) -> bytes | None:
    """Return a request's metadata as bytes of JSON; None for null.

    Raises
    ------
    ExpressionError
        Not an object.
    LimitError
        Larger than `limits.metadata_size_bytes_max`.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ExpressionError("metadata is a JSON object", seen=type(value).__name__)
    data = msgspec.json.encode(value)
    check_limit(
        "metadata_size_bytes_max",
        len(data),
        limits.metadata_size_bytes_max,
        "UTF-8 bytes of a subscription's metadata",
        "Keep long texts elsewhere, under the subscription's id.",
    )
    return data


class MetadataTable:
    """The metadata in force, by subscription id."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def get(self, subscription_id: str) -> bytes | None:
        """Return a subscription's metadata, if it has any."""
        return self._data.get(subscription_id)

    def forget(self, subscription_ids: list[str]) -> None:
        """Forget what removed subscriptions said of themselves."""
        if self._data:
            for name in subscription_ids:
                self._data.pop(name, None)

    def put(self, subscription_id: str, data: bytes | None) -> None:
        """Let the table follow a change; None: there is none any more."""
        if data is not None:
            self._data[subscription_id] = data
        elif self._data:
            self._data.pop(subscription_id, None)
