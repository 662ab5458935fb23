"""Replies kept for a while, so that a request that is sent again gets the answer it had.

Keys are the request id of a change and the (publisher, batch id) of a batch. The window is bounded by
count and by bytes; the oldest replies leave first.
"""

from __future__ import annotations

import enum
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson

from pubsub_cluster.language.errors import ClusterError, PubSubError
from pubsub_cluster.language.protocol import Buffer, error_frames, reply_frames

Key: TypeAlias = tuple[str, ...]
REPLIES_MAX = 4_096
REPLIES_SIZE_BYTES_MAX = 16 << 20
REPLY_KEPT_SIZE_BYTES_MAX = REPLIES_SIZE_BYTES_MAX // 4
HEADER_SIZE_BYTES_GUESS = 512
PACKED_FROM_SIZE_BYTES = 1_024


class Reply(msgspec.Struct, frozen=True):
    """An answer without the id of the request that it answers.

    Attributes
    ----------
    fields : mapping
        Header fields of a good reply; unused when `error` is set.
    buffers : sequence of bytes-like
    error : PubSubError or None
    encoded : mapping of str to bytes, optional
        Further header fields, long ones: as JSON they take a fraction of the memory of dictionaries.
    is_packed : bool
        `encoded` is compressed.
    waits_for : int
        Record for durable receivers that must be durable first; 0: none.
    """

    fields: Mapping[str, Any]
    buffers: Sequence[Buffer] = ()
    error: PubSubError | None = None
    encoded: Mapping[str, bytes] | None = None
    is_packed: bool = False
    waits_for: int = 0

    def frames(self, request: str) -> list[Buffer]:
        """Return the frames that answer `request`."""
        if self.error is not None:
            return error_frames(request, self.error)
        if self.encoded is None:
            return reply_frames(request, self.fields, self.buffers)
        unpack = zlib.decompress if self.is_packed else bytes
        encoded = {name: orjson.Fragment(unpack(value)) for name, value in self.encoded.items()}
        return reply_frames(request, {**self.fields, **encoded}, self.buffers)

    def packed(self) -> Reply:
        """Return the same reply, smaller where it is long: the items' answers are alike."""
        if self.encoded is None or sum(map(len, self.encoded.values())) < PACKED_FROM_SIZE_BYTES:
            return self
        encoded = {name: zlib.compress(value, 1) for name, value in self.encoded.items()}
        return msgspec.structs.replace(self, encoded=encoded, is_packed=True)

    def error_body(self) -> dict[str, Any]:
        """Return the error as a dictionary; empty for a good reply."""
        return self.error.to_dict() if self.error is not None else {}

    @property
    def size_bytes(self) -> int:
        """Memory that keeping it takes, roughly for `fields` and exactly for the rest."""
        size_bytes = HEADER_SIZE_BYTES_GUESS + sum(map(len, self.buffers))
        for value in self.fields.values():
            if type(value) is list or type(value) is dict:
                size_bytes += HEADER_SIZE_BYTES_GUESS * len(value)
        if self.encoded is not None:
            size_bytes += sum(map(len, self.encoded.values()))
        return size_bytes


def defect(condition: str, error: Exception) -> Reply:
    """Return the refusal for a fault of ours: the one who asked learns of it, the cluster goes on."""
    remedy = "This is a defect: report it with the coordinator's messages."
    return Reply({}, error=ClusterError(condition, seen=repr(error), remedy=remedy))


def change_reply(results: list[dict[str, Any]], version: int) -> Reply:
    """Return the answer to a request that changes the catalogue."""
    return Reply({"version": version}, encoded={"results": orjson.dumps(results)})


class Waiting(enum.Enum):
    """The same request is being worked on already."""

    IN_PROGRESS = enum.auto()


class ReplyWindow:
    """Recent replies by key.

    Parameters
    ----------
    count_max : int
    size_bytes_max : int
    """

    def __init__(self, count_max: int = REPLIES_MAX, size_bytes_max: int = REPLIES_SIZE_BYTES_MAX) -> None:
        self._count_max = count_max
        self._size_bytes_max = size_bytes_max
        self._replies: OrderedDict[Key, Reply] = OrderedDict()
        self._waiting: dict[Key, tuple[bytes, str]] = {}
        self.size_bytes = 0

    def begin(self, key: Key, identity: bytes, request: str) -> Reply | Waiting | None:
        """Register a request.

        Returns
        -------
        Reply, Waiting or None
            The stored reply; `Waiting.IN_PROGRESS` when the same request is being worked on (its reply will
            go to the last connection that asked); None when the request is new.
        """
        stored = self._replies.get(key)
        if stored is not None:
            return stored
        known = key in self._waiting
        self._waiting[key] = (identity, request)
        return Waiting.IN_PROGRESS if known else None

    def finish(self, key: Key, reply: Reply, keep: bool = True) -> tuple[bytes, str]:
        """Store the reply (unless it says "try again"); return the connection and request that wait."""
        asker = self._waiting.pop(key)
        if keep:
            reply = reply.packed()
        size_bytes = reply.size_bytes
        if keep and size_bytes <= REPLY_KEPT_SIZE_BYTES_MAX:
            self._replies[key] = reply
            self.size_bytes += size_bytes
            while len(self._replies) > self._count_max or self.size_bytes > self._size_bytes_max:
                _, left = self._replies.popitem(last=False)
                self.size_bytes -= left.size_bytes
        return asker
