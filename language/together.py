"""Several answers in one message, for clients that say in ``hello`` that they take them so.

A message costs both sides far more than the bytes in it. Answers that leave at the same moment for the same
connection share one: their headers in a list, their buffers in one frame. Each is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import ERROR, MAGIC, REPLY, Buffer, Message

REPLIES = "replies"
TOGETHER_SIZE_BYTES_MAX = 96 << 10
"""Buffers of answers that share a message; a client that keeps one of the answers keeps them all."""


def together(answers: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """Return the frames of one message that carries all answers, each given as its own frames."""
    headers = b",".join([answer[1] for answer in answers])
    sizes = [[len(buffer) for buffer in answer[2:]] for answer in answers]  # of bytes, all of them
    parts: list[Buffer] = []
    for answer in answers:
        for buffer in answer[2:]:
            parts.append(buffer)
            if len(buffer) & 7:
                parts.append(bytes(-len(buffer) & 7))
    header = b'{"op":"replies","sizes":%b,"replies":[%b]}' % (orjson.dumps(sizes), headers)
    return [MAGIC, header, b"".join(parts)]


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
    if len(message.buffers) != 1:
        raise ProtocolError("several answers have one frame", seen=len(message.buffers), limit=1)
    view, at = memoryview(message.buffers[0]), 0
    for header, buffer_sizes in zip(replies, sizes, strict=True):
        buffers: list[Buffer] = []
        for size_bytes in _sizes(buffer_sizes):
            if not 0 <= size_bytes <= view.nbytes - at:
                raise ProtocolError(
                    "an answer does not fit into its frame", seen=size_bytes, limit=view.nbytes - at
                )
            buffers.append(view[at : at + size_bytes])
            at += size_bytes + (-size_bytes & 7)
        yield _answer(header, buffers)


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
