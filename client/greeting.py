"""How a client and a cluster greet each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import PROTOCOL_VERSION, Buffer, Op, request_frames


def hello_frames(client_id: str, request_id: str) -> list[Buffer]:
    """Return the frames of a greeting."""
    return request_frames(
        Op.HELLO, request_id, {"client": client_id, "version": PROTOCOL_VERSION, "replies": True}
    )


def life_of(hello: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what identifies one run of one cluster's coordinator."""
    return hello.get("cluster_id"), hello.get("life")


def check_version(hello: Mapping[str, Any]) -> None:
    """Check that a cluster speaks our version of the protocol; raise `ProtocolError` if not."""
    if hello.get("version") != PROTOCOL_VERSION:
        raise ProtocolError(
            "the cluster speaks another version of the protocol",
            seen=hello.get("version"),
            limit=PROTOCOL_VERSION,
            remedy="Use the same version of pubsub-cluster on both sides.",
        )
