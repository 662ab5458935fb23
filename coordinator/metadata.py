"""What subscriptions say of themselves: a JSON object each, kept and told, and never looked at by matching.

A detection rule's title, level and tags, for instance. It is durable with the change that carries it, and
held here as the bytes that it came as, for those subscriptions only that have any.
"""

from __future__ import annotations


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
