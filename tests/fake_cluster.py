"""A cluster that is only its client socket: a ROUTER in a thread, answering as a test tells it to.

By default it behaves: it greets, keeps subscriptions in a dictionary, answers every batch with no match, and
gives a request that it has seen the stored reply. A test puts a function in `script` to misbehave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from pubsub_cluster.language.errors import DuplicateIdError, PubSubError, UnknownIdError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import (
    Buffer,
    Message,
    Op,
    check_request,
    notify_frames,
    parse_message,
    reply_frames,
)
from pubsub_cluster.language.together import REQUESTS_MAX, parse_requests

Frames = list[Buffer]
SILENT: Frames = []
Script = Callable[["FakeCluster", Message], "Frames | None"]


class FakeCluster:
    """One life of a fake coordinator; use it as a context manager.

    Attributes
    ----------
    script : callable
        Called with each request; returns the frames to send, `SILENT` for no answer, None for good behaviour.
    seen : list of Message
        Every request, in order of arrival.
    messages : list of int
        The number of requests in each message that has come.
    requests_max : int
        What it says in its greeting that it takes in one message.
    """

    def __init__(self, data_dir: Path, life: str = "first", script: Script | None = None) -> None:
        self.endpoint = f"ipc://{data_dir}/client.sock"
        self.life = life
        self.script = script
        self.seen: list[Message] = []
        self.messages: list[int] = []
        self.requests_max = REQUESTS_MAX
        self.subscriptions: dict[str, Any] = {}
        self.limits = {name: getattr(DEFAULT_LIMITS, name) for name in DEFAULT_LIMITS.__dataclass_fields__}
        self._replies: dict[str, Frames] = {}
        self._outbox: list[Callable[[zmq.Socket[bytes]], None]] = []
        self._identities: dict[str, bytes] = {}
        self._last_identity = b""
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeCluster:
        self._thread.start()
        assert self._ready.wait(60.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(60.0)
        assert not self._thread.is_alive()

    def ops(self) -> list[str]:
        """Ops of the requests seen, greetings left out."""
        return [message.op for message in self.seen if message.op != Op.HELLO]

    def push(self, owner: str, **fields: Any) -> None:
        """Send a notification to whoever registered last for the owner."""
        frames = notify_frames({"owner": owner, **fields})
        self._outbox.append(lambda socket: socket.send_multipart([self._identities[owner], *frames]))

    def later(self, frames: Frames) -> None:
        """Send a message to the connection of the last request, after the answer to it."""
        identity = self._last_identity
        self._outbox.append(lambda socket: socket.send_multipart([identity, *frames]))

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(self.endpoint)
        self._ready.set()
        while not self._stopping.is_set():
            while self._outbox:
                self._outbox.pop(0)(socket)
            if socket.poll(5):
                identity, *frames = socket.recv_multipart()
                several = parse_requests(frames) or [frames]
                self.messages.append(len(several))
                for one in several:
                    answer = self._answer(identity, one)
                    if answer:
                        socket.send_multipart([identity, *answer])
        socket.close()
        context.term()

    def _answer(self, identity: bytes, frames: Frames) -> Frames:
        message = parse_message(frames)
        op = check_request(message)
        self.seen.append(message)
        self._last_identity = identity
        if op is Op.LISTEN:
            self._identities[message.header["owner"]] = identity
        scripted = self.script(self, message) if self.script is not None else None
        if scripted is not None:
            return scripted
        if message.request in self._replies:
            return self._replies[message.request]
        self._replies[message.request] = self.behave(op, message)
        return self._replies[message.request]

    def behave(self, op: Op, message: Message) -> Frames:
        """Return the answer of a cluster that works."""
        header = message.header
        fields: dict[str, Any] = {}
        if op is Op.HELLO:
            fields = {
                "cluster_id": "c1",
                "life": self.life,
                "version": 1,
                "requests": self.requests_max,
                "limits": self.limits,
                "schema": {},
            }
        elif op in (Op.SUBSCRIBE, Op.UPDATE):
            fields = {"results": [self._change(op, item) for item in header["items"]], "version": 1}
        elif op is Op.UNSUBSCRIBE:
            fields = {"results": [self._remove(id) for id in header["ids"]], "version": 1}
        elif op is Op.PUBLISH:
            return self.no_matches(message)
        elif op is Op.LISTEN:
            fields = {"owner": header["owner"], "number": 0, "sequence": 0}
        elif op is Op.TUNE:
            fields = {"action": header["action"]}
        return reply_frames(message.request, fields)

    def no_matches(self, message: Message) -> Frames:
        """Answer a batch with no match at all, in the form that it asks for."""
        count = message.header["batch"]["event_count"]
        fields = {"event_count": count, "generation": 1, "version": 1, "match_count": 0, "refused": {}}
        zeros = np.zeros(count + 1, np.int64)
        buffers = {"handles": [zeros.tobytes(), b""], "counts": [zeros[1:].tobytes()], "none": []}
        return reply_frames(message.request, fields, buffers[message.header.get("answer", "handles")])

    def _change(self, op: Op, item: dict[str, Any]) -> dict[str, Any]:
        id = item["id"]
        exists = id in self.subscriptions
        if op is Op.SUBSCRIBE and exists:
            return _failed(DuplicateIdError("a subscription with this id exists", seen=id))
        if op is Op.UPDATE and not exists:
            return _failed(UnknownIdError("no live subscription has this id", seen=id))
        handle = self.subscriptions[id]["handle"] if exists else len(self.subscriptions) + 1
        self.subscriptions[id] = {**item, "handle": handle}
        return {"ok": True, "id": id, "handle": handle, "clauses": 1, "never": False}

    def _remove(self, id: str) -> dict[str, Any]:
        if self.subscriptions.pop(id, None) is None:
            return _failed(UnknownIdError("no live subscription has this id", seen=id))
        return {"ok": True}


def _failed(error: PubSubError) -> dict[str, Any]:
    return {"ok": False, "error": error.to_dict()}


def matches_frames(message: Message, handles: list[list[int]], **extra: Any) -> Frames:
    """The answer to a batch with these handles for each of its events."""
    offsets = np.cumsum([0] + [len(part) for part in handles]).astype(np.int64)
    flat = np.array([h for part in handles for h in part], np.uint64)
    fields = {
        "event_count": len(handles),
        "generation": 3,
        "version": 7,
        "match_count": len(flat),
        "refused": {},
    }
    return reply_frames(message.request, {**fields, **extra}, [offsets.tobytes(), flat.tobytes()])
