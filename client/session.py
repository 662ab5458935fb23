"""A conversation with one cluster: pumps messages between the socket and the state machine.

`Session` knows requests, deadlines and listeners, not what the requests mean; `pubsub_cluster.client.client`
does. One thread uses it. Every wait ends: with an answer, with the request's deadline, or with the error of
a cluster that has fallen silent.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pubsub_cluster.client.connection import (
    NOTHING,
    SILENCE_S,
    Connection,
    Instructions,
    Request,
    life_of,
)
from pubsub_cluster.client.listener import Listener
from pubsub_cluster.client.notifications import notifications_from_push
from pubsub_cluster.client.transport import Transport
from pubsub_cluster.language.errors import ProtocolError, PubSubError
from pubsub_cluster.language.protocol import PROTOCOL_VERSION, Buffer, Message, Op

# Longest sleep in one wait: a listener greets the cluster this often to notice that it was restarted.
HEARTBEAT_S = 2.0
# A cluster that has no socket file is not about to answer, but may be about to start.
ABSENT_S = 1.0
# Silence after which a listener's owner is told; the cluster answers a greeting at once.
SILENCE_TOLD_S = 2 * HEARTBEAT_S
# Saying goodbye is a courtesy: the cluster forgets listeners whose connection is gone.
UNLISTEN_S = 1.0
# More answers than a client can have unanswered: what has arrived is read before anything is given up.
MESSAGES_PER_ROUND_MAX = 1_024


class Session:
    """Requests and listeners of one client.

    Parameters
    ----------
    endpoint : str
    timeout_s : float
        How long each request may take, all its repeats included.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self.client_id = os.urandom(8).hex()
        self.connection = Connection(self.client_id, endpoint, SILENCE_S)
        self._transport = Transport(endpoint)
        self._listeners: dict[str, Listener] = {}
        self._on_silence: dict[str, Callable[[], None]] = {}
        self._told_count = 0
        self._checked_hello: dict[str, Any] | None = None
        self.closed = False

    def close(self) -> None:
        """Close the socket; the cluster forgets listeners whose connection is gone."""
        if not self.closed:
            self.closed = True
            for listener in self._listeners.values():
                listener.closed = True
            self._transport.close()
            self.connection.close(_closed(), time.monotonic())
            self._tell()

    def hello(self) -> dict[str, Any]:
        """Return what the cluster says of itself, asking it on first use.

        Raises
        ------
        ReplyTimeoutError
            Nobody answered within the time limit, or there is not even a socket file.
        ProtocolError
            The cluster speaks another version of the protocol.
        """
        self._check_open()
        if self.connection.hello is None:
            start_s = time.monotonic()
            self.connection.hello_error = None
            self._do(self.connection.probe(start_s))
            self._pump(lambda: self._greeted(start_s), start_s + self.timeout_s)
            if self.connection.hello_error is not None:
                raise self.connection.hello_error
        if self.connection.hello is None:
            raise self.connection.no_reply("no cluster answered at the endpoint")
        if self.connection.hello is not self._checked_hello:
            _check_version(self.connection.hello)
            self._checked_hello = self.connection.hello
        return self.connection.hello

    def send(self, op: Op, fields: Mapping[str, Any], buffers: Sequence[Buffer] = ()) -> Request:
        """Send a request without waiting for its answer."""
        self.hello()
        request, instructions = self.connection.submit(op, fields, buffers, time.monotonic(), self.timeout_s)
        self._do(instructions)
        return request

    def wait(self, request: Request) -> Message:
        """Wait for the answer to a request; raise its error if it is one."""
        try:
            self._pump(lambda: request.finished, request.deadline_s + 1.0)
        finally:
            self.connection.forget(request)
        if request.error is not None:
            raise request.error
        assert request.reply is not None
        return request.reply

    def ask(self, op: Op, fields: Mapping[str, Any], buffers: Sequence[Buffer] = ()) -> Message:
        """Send a request and wait for its answer."""
        return self.wait(self.send(op, fields, buffers))

    def ask_in_order(self, requests: Iterable[Callable[[], Request]], in_flight: int) -> Iterator[Request]:
        """Send requests with at most `in_flight` unanswered and yield them, finished, in order."""
        waiting: deque[Request] = deque()
        try:
            for send in requests:
                waiting.append(send())
                if len(waiting) >= in_flight:
                    yield self._finish(waiting.popleft())
            while waiting:
                yield self._finish(waiting.popleft())
        finally:
            for request in waiting:
                self.connection.forget(request)

    def receive(self, timeout_s: float) -> int:
        """Take in what has arrived; wait at most `timeout_s` for an answer that somebody is told of.

        Returns how many of those came.
        """
        self._check_open()
        told_before = self._told_count
        self._pump(lambda: bool(self.connection.finished), time.monotonic() + timeout_s)
        return self._told_count - told_before

    def wait_for_room(self, pending_max: int) -> None:
        """Wait until fewer than `pending_max` requests are unanswered; deadlines bound it."""
        connection = self.connection
        if connection.pending_count >= pending_max:
            self._pump(lambda: connection.pending_count < pending_max, math.inf)

    def listen(
        self, owner: str, timeout_s: float | None, on_silence: Callable[[], None] | None = None
    ) -> Listener:
        """Register a listener for an owner; a second one for the same owner takes the first one's place."""
        listener = Listener(owner, timeout_s, self._wait_for_notification, self._stop_listening)
        previous = self._listeners.get(owner)
        self._listeners[owner] = listener  # before the answer, which notifications may follow at once
        try:
            self.ask(Op.LISTEN, {"owner": owner})
        except BaseException:
            self._listeners.pop(owner)
            if previous is not None:
                self._listeners[owner] = previous
            raise
        if previous is not None:
            previous.closed = True
        self._on_silence.pop(owner, None)
        if on_silence is not None:
            self._on_silence[owner] = on_silence
        self.connection.set_listening(owner, True)
        return listener

    def _finish(self, request: Request) -> Request:
        self._pump(lambda: request.finished, request.deadline_s + 1.0)
        return request

    def _stop_listening(self, listener: Listener) -> None:
        if self._listeners.get(listener.owner) is listener:
            del self._listeners[listener.owner]
            self.connection.set_listening(listener.owner, False)
            self._on_silence.pop(listener.owner, None)
            if not self.closed and self.connection.hello is not None:
                self._say_goodbye(listener.owner)

    def _say_goodbye(self, owner: str) -> None:
        request = self.send(Op.UNLISTEN, {"owner": owner})
        try:
            self._pump(lambda: request.finished, time.monotonic() + min(UNLISTEN_S, self.timeout_s))
        finally:
            self.connection.forget(request)

    def _wait_for_notification(self, listener: Listener) -> None:
        """Wait until the listener has a notification or its time is up.

        Raises
        ------
        ReplyTimeoutError
            The cluster has not answered a greeting for the client's time limit, and nobody wants to be told
            of the silence instead.
        """
        self._check_open()
        on_silence = self._on_silence.get(listener.owner)
        told = False
        start_s = time.monotonic()
        end_s = None if listener.timeout_s is None else start_s + listener.timeout_s
        heard_s = start_s
        while not listener.queued_count and not listener.closed:
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                return
            error = self.connection.listen_errors.pop(listener.owner, None)
            if error is not None:
                raise error
            heard_s = max(heard_s, self.connection.heard_at_s or 0.0)
            if on_silence is not None:
                silent = now_s - heard_s >= SILENCE_TOLD_S
                if silent and not told:
                    on_silence()
                told = silent
            elif now_s - heard_s >= self.timeout_s:
                raise self.connection.no_reply(f"nothing was heard while listening for `{listener.owner}`")
            if now_s - heard_s >= HEARTBEAT_S:
                self._do(self.connection.probe(now_s))
            next_s = now_s + HEARTBEAT_S if end_s is None else min(now_s + HEARTBEAT_S, end_s)
            gap_ends_s = listener.ordering.wake_at_s
            self._pump(lambda: bool(listener.queued_count), min(next_s, gap_ends_s or next_s))
            listener.tick(time.monotonic())

    def _greeted(self, start_s: float) -> bool:
        if self.connection.hello is not None or self.connection.hello_error is not None:
            return True
        absent = (
            self.endpoint.startswith("ipc://") and not Path(self.endpoint.removeprefix("ipc://")).exists()
        )
        return absent and time.monotonic() - start_s >= min(ABSENT_S, self.timeout_s)

    def _pump(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Let messages and time pass until `done` or the deadline; then tell who wants to be told."""
        while not done():
            # First what has arrived, then what is overdue: a caller may have been away for long.
            self._receive()
            now_s = time.monotonic()
            self._do(self.connection.tick(now_s))
            if now_s >= deadline_s or done():
                break
            wake_s = self.connection.wake_at_s()
            self._transport.wait(
                min(deadline_s if wake_s is None else min(wake_s, deadline_s), now_s + HEARTBEAT_S) - now_s
            )
        self._tell()

    def _receive(self) -> None:
        for _ in range(MESSAGES_PER_ROUND_MAX):
            frames = self._transport.receive()
            if frames is None:
                return
            self._do(self.connection.receive(frames, time.monotonic()))

    def _tell(self) -> None:
        """Tell of finished requests, with the state in order: whoever is told may use the client."""
        finished = self.connection.finished
        while finished:
            request = finished.popleft()
            told, request.on_finish = request.on_finish, None
            self._told_count += 1
            if told is not None:
                told()

    def _do(self, instructions: Instructions) -> None:
        if instructions is NOTHING:
            return
        if instructions.reconnect:
            self._transport.reopen()
        for frames in instructions.send:
            self._transport.send(frames)
        for header in instructions.listening:
            listener = self._listeners.get(header.get("owner", ""))
            if listener is not None:
                self._begin(listener, header)
        for header in instructions.notifications:
            listener = self._listeners.get(header.get("owner", ""))
            if listener is not None:
                now_s = time.monotonic()
                for notification in notifications_from_push(header):
                    listener.hear(notification, now_s)

    def _begin(self, listener: Listener, header: Mapping[str, Any]) -> None:
        """Take the answer to a `listen`: from which notification on, and whether it is who told before."""
        assert self.connection.hello is not None
        source = (*life_of(self.connection.hello), header.get("number"))
        sequence = header.get("sequence")
        if not isinstance(sequence, int):
            raise ProtocolError("the answer to `listen` lacks a sequence", seen=dict(header))
        listener.begin(source, sequence)

    def _check_open(self) -> None:
        if self.closed:
            raise _closed()


def _closed() -> PubSubError:
    return PubSubError("the client is closed", remedy="Make a new one.")


def _check_version(hello: Mapping[str, Any]) -> None:
    if hello.get("version") != PROTOCOL_VERSION:
        raise ProtocolError(
            "the cluster speaks another version of the protocol",
            seen=hello.get("version"),
            limit=PROTOCOL_VERSION,
            remedy="Use the same version of pubsub-cluster on both sides.",
        )
