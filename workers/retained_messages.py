"""Messages between the coordinator and the process that retains events: MessagePack on the socket."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class RetainerHello(msgspec.Struct, tag="retainer_hello", frozen=True):
    """Retainer: I am up and want my setup."""

    pid: int


class RetainerSetup(msgspec.Struct, tag="retainer_setup", frozen=True):
    """Coordinator: how events and expressions are read, and how much is retained."""

    schema: dict[str, Any]
    limits: dict[str, int]
    events_max: int
    size_bytes_max: int
    age_us: int


class SchemaExtended(msgspec.Struct, tag="schema", frozen=True):
    """Coordinator: the schema, extended; batches and questions after this message are read by it."""

    schema: dict[str, Any]


class Retain(msgspec.Struct, tag="retain", frozen=True):
    """Coordinator: retain the good events of this batch until `valid_until`.

    `version` and `accepted_us` are its moment, `now_us` is now; `header` and `buffers` are its payload.
    """

    publisher: str
    batch_id: str
    version: int
    accepted_us: int
    valid_until: int
    now_us: int
    header: dict[str, Any]
    buffers: list[Any]


class Wanted(msgspec.Struct, frozen=True):
    """A new subscription: the version that made it, its expression as JSON."""

    version: int
    expression: bytes


class Ask(msgspec.Struct, tag="ask", frozen=True):
    """Coordinator: which retained events do these match at `now_us`? Tell at most `told_max` of each."""

    number: int
    now_us: int
    told_max: int
    items: list[Wanted]


class Now(msgspec.Struct, tag="now", frozen=True):
    """Coordinator: it is `now_us`; let go of what is not valid any more."""

    now_us: int


class RetainerShutdown(msgspec.Struct, tag="retainer_shutdown", frozen=True):
    """Coordinator: leave."""


class Counts(msgspec.Struct, frozen=True):
    """What is retained, and what became of the rest.

    Attributes
    ----------
    events, size_bytes : int
        Retained now.
    retained, expired, dropped : int
        Events that were ever retained; whose validity ended; that a bound on count, bytes or age pushed out.
    """

    events: int = 0
    size_bytes: int = 0
    retained: int = 0
    expired: int = 0
    dropped: int = 0


class Retained(msgspec.Struct, tag="retained", frozen=True):
    """Retainer: done with the oldest `Retain` that was not told of yet."""

    counts: Counts


class Found(msgspec.Struct, tag="found", frozen=True):
    """Retainer: for each item of `Ask`, in order, the JSON of what its sender is told; empty: nothing."""

    number: int
    answers: list[bytes]


class RetainerHeartbeat(msgspec.Struct, tag="retainer_heartbeat", frozen=True):
    """Retainer: alive."""

    counts: Counts


ToRetainer: TypeAlias = RetainerSetup | SchemaExtended | Retain | Ask | Now | RetainerShutdown
FromRetainer: TypeAlias = RetainerHello | Retained | Found | RetainerHeartbeat

encode = msgspec.msgpack.encode
decode_to_retainer = msgspec.msgpack.Decoder(ToRetainer).decode
decode_from_retainer = msgspec.msgpack.Decoder(FromRetainer).decode
