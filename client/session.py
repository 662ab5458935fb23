"""A conversation with one cluster: pumps messages between the socket and the state machine.

`Session` knows requests, deadlines and listeners, not what the requests mean; `pubsub_cluster.client.calls`
does. One thread uses it. Every wait ends: with an answer, with the request's deadline, or with the error of
a cluster that has fallen silent.

What may wait is a coroutine, and all waiting is done in `_pump` and `pause`. Here these block, so that the
coroutines never are suspended (`pubsub_cluster.client.blocking` runs them as plain calls);
`pubsub_cluster.client.aio` overrides the two, and the same code serves asyncio.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pubsub_cluster.client.connection import (
    NOTHING,
    SILENCE_S,
    Connection,
    Instructions,
    Request,
)
from pubsub_cluster.client.greeting import check_version, life_of
from pubsub_cluster.client.listener import Hearing
from pubsub_cluster.client.news import News
from pubsub_cluster.client.notifications import ListenKey, Notification, listen_key, notifications_from_push
from pubsub_cluster.client.numbered import Numbered
from pubsub_cluster.client.record_reader import WAYS, reached_from
from pubsub_cluster.client.transport import Transport
from pubsub_cluster.client.watch import HEARTBEAT_S, Watch
from pubsub_cluster.language.errors import CallerError, ProtocolError, PubSubError
from pubsub_cluster.language.protocol import Buffer, Message, Op

# A cluster that has no socket file is not about to answer, but may be about to start.
ABSENT_S = 1.0
# Saying goodbye is a courtesy: the cluster forgets listeners whose connection is gone.
UNLISTEN_S = 1.0
# How long a notification waits for one before it, which may come by another way.
GAP_S_MAX = 0.1
# More answers than a client can have unanswered: what has arrived is read before anything is given up.
MESSAGES_PER_ROUND_MAX = 1_024

_Hearing = TypeVar("_Hearing", bound=Hearing)


class Session:
    """Requests and listeners of one client.

    Parameters
    ----------
    endpoint : str
    timeout_s : float
        How long each request may take, all its repeats included.
    way : str
        Of `record_reader.WAYS`.
    """

    def __init__(self, endpoint: str, timeout_s: float, way: str = "auto") -> None:
        if way not in WAYS:
            raise CallerError("there is no such way for notifications", seen=way, limit=list(WAYS))
        self._way = way
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self.client_id = os.urandom(8).hex()
        self.connection = Connection(self.client_id, endpoint, SILENCE_S)
        self._transport = Transport(endpoint)
        self._listeners: dict[ListenKey, Hearing] = {}
        self._numbered = Numbered()
        self._with_gaps: set[Hearing] = set()
        self._news = News()
        self._looked_s = -math.inf
        self._told_count = 0
        self._checked_hello: dict[str, Any] | None = None
        self.closed = False

    def close(self) -> None:
        """Close the socket; the cluster forgets listeners whose connection is gone."""
        if not self.closed:
            self.closed = True
            for listener in self._listeners.values():
                listener.closed = True
            self._close_transport()
            self.connection.close(_closed(), time.monotonic())
            self._tell()

    async def hello(self) -> dict[str, Any]:
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
            await self._pump(lambda: self._greeted(start_s), start_s + self.timeout_s)
            if self.connection.hello_error is not None:
                raise self.connection.hello_error
        if self.connection.hello is None:
            raise self.connection.no_reply("no cluster answered at the endpoint")
        if self.connection.hello is not self._checked_hello:
            check_version(self.connection.hello)
            self._checked_hello = self.connection.hello
        return self.connection.hello

    async def send(
        self, op: Op, fields: Mapping[str, Any], buffers: Sequence[Buffer] = (), hold: bool = False
    ) -> Request:
        """Send a request without waiting for its answer; one to be held goes out with `release`."""
        await self.hello()
        request, instructions = self.connection.submit(op, fields, buffers, time.monotonic(), self.timeout_s)
        if hold:
            for frames in instructions.send:
                self._transport.hold(frames)
        else:
            self._do(instructions)
        return request

    async def wait(self, request: Request) -> Message:
        """Wait for the answer to a request; raise its error if it is one."""
        try:
            await self._pump(lambda: request.finished, request.deadline_s + 1.0)
        finally:
            self.connection.forget(request)
        if request.error is not None:
            raise request.error
        assert request.reply is not None
        return request.reply

    async def ask(self, op: Op, fields: Mapping[str, Any], buffers: Sequence[Buffer] = ()) -> Message:
        """Send a request and wait for its answer."""
        return await self.wait(await self.send(op, fields, buffers))

    async def finish(self, request: Request) -> Request:
        """Wait until a request is finished, well or not."""
        await self._pump(lambda: request.finished, request.deadline_s + 1.0)
        return request

    def release(self) -> None:
        """Send what is held."""
        self._transport.release()

    async def receive(self, timeout_s: float) -> int:
        """Take in what has arrived; wait at most `timeout_s` for something that somebody is told of.

        Returns how many answers and notifications those were.
        """
        self._check_open()
        told_before = self._all_told_count
        end_s = time.monotonic() + timeout_s
        while True:
            next_s = self._look_after_callers()
            await self._pump(lambda: self._has_news(told_before), min(next_s, end_s))
            self._check_open()
            if self._all_told_count != told_before or time.monotonic() >= end_s:
                return self._all_told_count - told_before

    async def wait_for_room(self, pending_max: int) -> None:
        """Wait until fewer than `pending_max` requests are unanswered; deadlines bound it."""
        connection = self.connection
        if connection.pending_count >= pending_max:
            await self._pump(lambda: connection.pending_count < pending_max, math.inf)

    async def listen(
        self,
        kind: Callable[..., _Hearing],
        owner: str,
        timeout_s: float | None,
        on_silence: Callable[[], None] | None = None,
        on_return: Callable[[], None] | None = None,
        on_notification: Callable[[Notification], object] | None = None,
        durable: str | None = None,
    ) -> _Hearing:
        """Register a listener; a second one for the same owner and name takes the first one's place."""
        key = (owner, durable)
        watch = Watch(self.connection, key, self.timeout_s, on_silence, on_return)
        listener = kind(owner, timeout_s, watch, self._wait_for_notification, self._stop_listening)
        listener.on_notification = on_notification
        listener.takes_records = durable is None and self._way != "unicast"
        previous = self._listeners.get(key)
        self._listeners[key] = listener  # before the answer, which notifications may follow at once
        try:
            await self.ask(Op.LISTEN, listener.listen_fields)
        except BaseException:
            self._listeners.pop(key)
            if previous is not None:
                self._listeners[key] = previous
            raise
        if previous is not None:
            previous.closed = True
        self.connection.set_listening(listener.listen_fields, True)
        return listener

    def acknowledge(self, number: int, sequence: int) -> None:
        """Tell the cluster what a durable receiver has dealt with; nobody waits for the answer."""
        if not self.closed:
            fields = {"number": number, "sequence": sequence}
            now_s = time.monotonic()
            _, instructions = self.connection.submit(Op.ACKNOWLEDGE, fields, (), now_s, self.timeout_s)
            self._do(instructions)

    async def pause(self, pause_s: float) -> None:
        """Let time pass."""
        time.sleep(pause_s)

    async def _stop_listening(self, listener: Hearing) -> None:
        if self._drop(listener) and not self.closed and self.connection.hello is not None:
            await self._say_goodbye(listener.listen_fields)

    def _drop(self, listener: Hearing) -> bool:
        """Forget a listener; return whether it was known."""
        fields = listener.listen_fields
        if self._listeners.get(listen_key(fields)) is not listener:
            return False
        del self._listeners[listen_key(fields)]
        self._numbered.renew(self._listeners.values())
        self.connection.set_listening(fields, False)
        return True

    async def _say_goodbye(self, fields: Mapping[str, Any]) -> None:
        said = {name: value for name, value in fields.items() if name not in ("window", "records")}
        request = await self.send(Op.UNLISTEN, said)
        try:
            await self._pump(lambda: request.finished, time.monotonic() + min(UNLISTEN_S, self.timeout_s))
        finally:
            self.connection.forget(request)

    async def _wait_for_notification(self, listener: Hearing) -> None:
        """Wait until the listener has a notification or its time is up.

        Raises
        ------
        ReplyTimeoutError
            The cluster has not answered a greeting for the client's time limit, and nobody wants to be told
            of the silence instead.
        """
        self._check_open()
        end_s = math.inf if listener.timeout_s is None else time.monotonic() + listener.timeout_s
        while not listener.queued_count and not listener.closed and time.monotonic() < end_s:
            next_s = self._look_after([listener])
            await self._pump(lambda: bool(listener.queued_count) or listener.closed, min(next_s, end_s))

    def _look_after(self, listeners: Sequence[Hearing]) -> float:
        """See whether the cluster is there for listeners; return when to do so again."""
        now_s = time.monotonic()
        for listener in listeners:
            self._do(listener.watch.look(now_s))
        return now_s + HEARTBEAT_S if listeners else math.inf

    def _has_news(self, told_before: int) -> bool:
        """True when somebody is to be told of something, or has been."""
        return bool(self.connection.finished or self._news) or self._all_told_count != told_before

    @property
    def _all_told_count(self) -> int:
        return self._told_count + self._news.told_count

    def _look_after_callers(self) -> float:
        """Look after those that call a function, now and then: they may be many."""
        if time.monotonic() >= self._looked_s + HEARTBEAT_S / 2:
            self._looked_s = time.monotonic()
            self._look_after([one for one in self._listeners.values() if one.on_notification])
        return self._looked_s + HEARTBEAT_S / 2

    def _greeted(self, start_s: float) -> bool:
        if self.connection.hello is not None or self.connection.hello_error is not None:
            return True
        absent = (
            self.endpoint.startswith("ipc://") and not Path(self.endpoint.removeprefix("ipc://")).exists()
        )
        return absent and time.monotonic() - start_s >= min(ABSENT_S, self.timeout_s)

    async def _pump(self, done: Callable[[], bool], deadline_s: float) -> None:
        """Let messages and time pass until `done` or the deadline; then tell who wants to be told."""
        while not done():
            self._turn()
            now_s = time.monotonic()
            if now_s >= deadline_s or done():
                break
            wake_s = min(self._wake_at_s(), deadline_s, now_s + HEARTBEAT_S)
            self._transport.wait(wake_s - now_s)
        self._tell()

    def _turn(self) -> None:
        """Take in what has arrived, then do what is overdue: a caller may have been away for long."""
        for _ in range(MESSAGES_PER_ROUND_MAX):
            frames = self._transport.receive()
            if frames is None:
                break
            self._do(self.connection.receive(frames, time.monotonic()))
        self._take_records()
        now_s = time.monotonic()
        self._do(self.connection.tick(now_s))
        for listener in list(self._with_gaps):
            listener.tick(now_s)
            self._note(listener)

    def _wake_at_s(self) -> float:
        """Return when a turn is due, whatever arrives."""
        times = [wake_s for one in self._with_gaps if (wake_s := one.ordering.wake_at_s) is not None]
        wake_s = self.connection.wake_at_s()
        return min(times, default=math.inf) if wake_s is None else min([wake_s, *times])

    def _tell(self) -> None:
        """Tell of what has come, with the state in order: whoever is told may use the client."""
        finished = self.connection.finished
        while finished:
            request = finished.popleft()
            told, request.on_finish = request.on_finish, None
            self._told_count += 1
            if told is not None:
                told()
        self._news.tell()

    def _reopen(self) -> None:
        self._transport.reopen()

    def _close_transport(self) -> None:
        self._transport.close()

    def _do(self, instructions: Instructions) -> None:
        if instructions is NOTHING:
            return
        if instructions.reconnect:
            self._reopen()
        for frames in instructions.send:
            self._transport.send(frames)
        for header in instructions.listening:
            listener = self._listeners.get(listen_key(header))
            if listener is not None:
                self._begin(listener, header)
        for header in instructions.invitations:
            if self._transport.records is not None:
                self._transport.records.join(header)
        for header in instructions.notifications:
            listener = self._listeners.get(listen_key(header))
            if listener is not None and "ended" in header:
                self._drop(listener)
                listener.ended_by_cluster(str(header["ended"]))
            elif listener is not None:
                now_s = time.monotonic()
                for notification in notifications_from_push(header):
                    listener.hear(notification, now_s)
                self._note(listener)

    def _note(self, listener: Hearing) -> None:
        """Remember what is to be done for a listener that has heard something."""
        if listener.ordering.has_gap:
            self._with_gaps.add(listener)
        elif self._with_gaps:
            self._with_gaps.discard(listener)
        self._news.note(listener)

    def _begin(self, listener: Hearing, header: Mapping[str, Any]) -> None:
        """Take the answer to a `listen`: from which notification on, and whether it is who told before."""
        assert self.connection.hello is not None
        source = (*life_of(self.connection.hello), header.get("number"))
        sequence = header.get("sequence")
        if not isinstance(sequence, int):
            raise ProtocolError("the answer to `listen` lacks a sequence", seen=dict(header))
        listener.begin(source, sequence)
        if header.get("records") is not None:
            self._open_records(reached_from(self.endpoint, header["records"]))
            listener.number, listener.ordering.wait_s = header.get("number"), GAP_S_MAX
        self._numbered.renew(self._listeners.values())

    def _open_records(self, facts: Mapping[str, Any]) -> None:
        if self._transport.open_records(facts, self._way):
            for one in self._listeners.values():  # another life may have given their numbers to others
                one.number = None

    def _take_records(self) -> None:
        now_s = time.monotonic()
        for record in self._transport.receive_records():
            for listener in self._numbered.hear(record, now_s):
                self._note(listener)

    def _check_open(self) -> None:
        if self.closed:
            raise _closed()


def _closed() -> PubSubError:
    return PubSubError("the client is closed", remedy="Make a new one.")
