"""Several requests in one message, or several answers for clients that take them so (``hello`` says it).

A message costs both sides far more than the bytes in it. What leaves at the same moment for the same
connection shares one: the headers in a list, the buffers in one frame. Each is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import orjson

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import ERROR, FRAME_COUNT_MAX, MAGIC, REPLY, Buffer, Message

REPLIES, REQUESTS = "replies", "requests"
TOGETHER_SIZE_BYTES_MAX = 96 << 10
"""Buffers of answers that share a message; a client that keeps one of the answers keeps them all."""
REQUESTS_SIZE_BYTES_MAX = 512 << 10
"""Bytes of requests that a client sends in one message; a larger one goes alone."""
REQUESTS_MAX = 256
"""Requests that the cluster takes in one message."""


class _Requests(msgspec.Struct, forbid_unknown_fields=True):
    op: Literal["requests"]
    sizes: list[list[int]]
    requests: list[msgspec.Raw]


_requests = msgspec.json.Decoder(_Requests).decode


def together(op: str, messages: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """Return the frames of one message that carries all of them, each given as its own frames.

    Parameters
    ----------
    op : str
        `REPLIES` or `REQUESTS`.
    messages : sequence of frames
        Their buffers are bytes, or views of them.
    """
    headers = b",".join([message[1] for message in messages])
    sizes = [[len(buffer) for buffer in message[2:]] for message in messages]
    parts: list[Buffer] = []
    for message in messages:
        for buffer in message[2:]:
            parts.append(buffer)
            if len(buffer) & 7:
                parts.append(bytes(-len(buffer) & 7))
    name = op.encode()
    header = b'{"op":"%b","sizes":%b,"%b":[%b]}' % (name, orjson.dumps(sizes), name, headers)
    return [MAGIC, header, b"".join(parts)]


def parse_requests(frames: Sequence[Buffer]) -> list[list[Buffer]] | None:
    """Return the frames of each request that a message carries; None when it is no such message.

    Raises
    ------
    ProtocolError
        It does not carry what its header says.
    """
    if len(frames) < 2 or frames[0] != MAGIC:
        return None
    try:
        header = _requests(frames[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(header.sizes) != len(header.requests) or len(header.requests) > REQUESTS_MAX:
        raise ProtocolError(
            "a message of several requests has too many, or not the sizes of each",
            seen=[len(header.requests), len(header.sizes)],
            limit=REQUESTS_MAX,
        )
    buffer_count = sum(map(len, header.sizes))
    if buffer_count > FRAME_COUNT_MAX:  # a few bytes of text each, and a hundred times as many as views
        raise ProtocolError(
            "requests have too many buffers together", seen=buffer_count, limit=FRAME_COUNT_MAX
        )
    buffers = _buffers_of(frames[2:], header.sizes)
    return [[MAGIC, bytes(request), *mine] for request, mine in zip(header.requests, buffers, strict=True)]


def taken_apart(message: Message) -> Iterator[Message]:
    """Yield the answers that a message carries.

    Raises
    ------
    ProtocolError
        It does not carry what its header says.
    """
    replies, sizes = message.header.get("replies"), message.header.get("sizes")
    if not isinstance(replies, list) or not isinstance(sizes, list) or len(replies) != len(sizes):
        raise ProtocolError("a message of several answers lacks them or their sizes")
    for header, buffers in zip(replies, _buffers_of(message.buffers, map(_sizes, sizes)), strict=True):
        yield _answer(header, buffers)


def _buffers_of(frames: Sequence[Buffer], sizes: Iterable[list[int]]) -> Iterator[list[Buffer]]:
    """Yield the buffers of each message that shares a frame with others."""
    if len(frames) != 1:
        raise ProtocolError("messages that travel together have one frame", seen=len(frames), limit=1)
    view, at = memoryview(frames[0]), 0
    for buffer_sizes in sizes:
        buffers: list[Buffer] = []
        for size_bytes in buffer_sizes:
            if not 0 <= size_bytes <= view.nbytes - at:
                raise ProtocolError(
                    "a buffer does not fit into the frame", seen=size_bytes, limit=view.nbytes - at
                )
            buffers.append(view[at : at + size_bytes])
            at += size_bytes + (-size_bytes & 7)
        yield buffers
    if at != view.nbytes:
        raise ProtocolError("the sizes do not fill the frame", seen=at, limit=view.nbytes)


def _sizes(sizes: Any) -> list[int]:
    if not isinstance(sizes, list) or any(type(size_bytes) is not int for size_bytes in sizes):
        raise ProtocolError("the sizes of an answer are not a list of sizes", seen=sizes)
    return sizes


def _answer(header: Any, buffers: list[Buffer]) -> Message:
    if isinstance(header, dict):
        op, request = header.get("op"), header.get("request")
        if op in (REPLY, ERROR) and isinstance(request, str):
            return Message(op, request, header, buffers)
    raise ProtocolError("what came with other answers is no answer", seen=header)
