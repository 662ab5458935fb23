"""A client's side of the wire protocol as a state machine: events in, instructions out, no sockets, no clock.

The idea is the Lazy Pirate pattern, made careful about large batches. A request that stays unanswered
is not sent again blindly: a small ``hello`` goes out first.

- It is answered by the same *life* of the coordinator: the cluster is there and works on it. The request
  is sent again only after a second silence, and at most `RESENDS_MAX` times.
- It is answered by another life: the coordinator was restarted. Every pending request is sent again at
  once, with the ids that it had, and every listener is registered again.
- It is not answered: the connection is given up, a new one greets the cluster, and everything pending
  follows the answer. This goes on until the requests' own deadlines, which nothing extends.

A refusal ``busy`` is no answer either: the request is sent again after the pause that the cluster asked
for, unless its deadline comes first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pubsub_cluster.client.greeting import hello_frames, life_of
from pubsub_cluster.client.notifications import ListenKey, listen_key
from pubsub_cluster.language.errors import (
    BusyError,
    ProtocolError,
    PubSubError,
    ReplyTimeoutError,
    error_from_dict,
)
from pubsub_cluster.language.protocol import (
    ERROR,
    INVITE,
    NOTIFY,
    REPLY,
    Buffer,
    Message,
    Op,
    parse_message,
    request_frames,
)
from pubsub_cluster.language.together import REPLIES, taken_apart

SILENCE_S = 2.0
SILENCE_S_MAX = 30.0
RESENDS_MAX = 3
NO_REPLY_REMEDY = (
    "Is the cluster running? `pubsub-cluster status` shows it, with the same --data; "
    "if it is slow rather than gone, give the client a longer timeout_s (a command: --timeout)."
)


@dataclass(eq=False, slots=True)
class Request:
    """One request on its way; finished when `reply` or `error` is set.

    Attributes
    ----------
    request_id : str
    op : Op
    frames : list of bytes-like
        As sent; sent again unchanged.
    deadline_s : float
        On the caller's clock.
    crossed_lives : bool
        It was sent to more than one life of the coordinator, so an earlier send may have been carried out.
    finished_at_s : float or None
    on_finish : callable or None
        Whom to tell; the state machine only puts the request into `Connection.finished`.
    """

    request_id: str
    op: Op
    frames: list[Buffer]
    deadline_s: float
    check_at_s: float
    silence_s: float
    silent_checks: int = 0
    resend_count: int = 0
    resend_at_s: float | None = None
    crossed_lives: bool = False
    reply: Message | None = None
    error: PubSubError | None = None
    finished_at_s: float | None = None
    on_finish: Callable[[], object] | None = None

    @property
    def finished(self) -> bool:
        """True once there is an answer of either kind."""
        return self.reply is not None or self.error is not None


@dataclass(slots=True)
class Instructions:
    """What has to be done now, in this order: reconnect, send, begin to listen, join, take notifications."""

    reconnect: bool = False
    send: list[list[Buffer]] = field(default_factory=list)
    notifications: list[dict[str, Any]] = field(default_factory=list)
    listening: list[dict[str, Any]] = field(default_factory=list)
    invitations: list[dict[str, Any]] = field(default_factory=list)


NOTHING = Instructions()
"""What most answers ask for; not to be changed."""


class Connection:
    """Pending requests, registered listeners and what is known of the cluster.

    Parameters
    ----------
    client_id : str
        Unique among all clients of all time; request ids start with it.
    endpoint : str
        For error texts only.
    silence_s : float
        First time after which an unanswered request makes the client ask whether the cluster is there;
        doubles for each request up to `SILENCE_S_MAX`.
    """

    def __init__(self, client_id: str, endpoint: str, silence_s: float = SILENCE_S) -> None:
        self._client_id = client_id
        self._endpoint = endpoint
        self._silence_s = silence_s
        self._request_count = 0
        self._pending: dict[str, Request] = {}
        self._listening: dict[ListenKey, Mapping[str, Any]] = {}
        self._relistens: dict[str, ListenKey] = {}
        self._probe_id: str | None = None
        self._probe_due_s = 0.0
        self._greeting_new_socket = False
        self._due_s = math.inf  # nothing is due earlier; looking at every request each time would cost more
        self.finished: deque[Request] = deque()
        self.hello: dict[str, Any] | None = None
        self.hello_error: PubSubError | None = None
        self.listen_errors: dict[ListenKey, PubSubError] = {}
        self.heard_at_s: float | None = None
        self.greeted_at_s = -math.inf  # only a greeting tells of another life of the coordinator
        self.reconnect_count = 0
        self.stray_count = 0

    @property
    def pending_count(self) -> int:
        """Requests without an answer."""
        return len(self._pending)

    def submit(
        self, op: Op, fields: Mapping[str, Any], buffers: Sequence[Buffer], now_s: float, timeout_s: float
    ) -> tuple[Request, Instructions]:
        """Register a request and return it with the instruction to send it."""
        request_id = self._next_id()
        request = Request(
            request_id,
            op,
            request_frames(op, request_id, fields, buffers),
            deadline_s=now_s + timeout_s,
            check_at_s=now_s + self._silence_s,
            silence_s=self._silence_s,
        )
        self._pending[request_id] = request
        self._due(min(request.deadline_s, request.check_at_s))
        if self._greeting_new_socket:
            return request, NOTHING
        return request, Instructions(send=[request.frames])

    def forget(self, request: Request) -> None:
        """Stop waiting for a request; a later answer to it is a stray."""
        self._pending.pop(request.request_id, None)

    def set_listening(self, fields: Mapping[str, Any], on: bool) -> None:
        """Keep (or no longer keep) a listener registered over reconnects and restarts: what it asks for."""
        if on:
            self._listening[listen_key(fields)] = fields
        else:
            self._listening.pop(listen_key(fields), None)

    def probe(self, now_s: float) -> Instructions:
        """Ask now whether the cluster is there, unless that question is already out."""
        if self._probe_id is not None:
            return NOTHING
        return Instructions(send=[self._new_probe(now_s)])

    def receive(self, frames: Sequence[Buffer], now_s: float) -> Instructions:
        """Take one message from the cluster.

        Answers to nothing that is pending are counted in `stray_count` and dropped.

        Raises
        ------
        ProtocolError
            The message is not of this protocol: something else answers at the endpoint.
        """
        message = parse_message(frames)
        self.heard_at_s = now_s
        if message.op == REPLIES:
            return _joined([self._receive_one(answer, now_s) for answer in taken_apart(message)])
        return self._receive_one(message, now_s)

    def _receive_one(self, message: Message, now_s: float) -> Instructions:
        if message.op == NOTIFY:
            return Instructions(notifications=[message.header])
        if message.op == INVITE:
            return Instructions(invitations=[message.header])
        if message.op not in (REPLY, ERROR):
            raise ProtocolError("the cluster sent an op that only clients send", seen=message.op)
        if message.request == self._probe_id:
            return self._on_probe_answer(message, now_s)
        request = self._pending.get(message.request)
        if request is None:
            return self._on_stray(message)
        self._on_answer(request, message, now_s)
        return _begun(message) if request.op is Op.LISTEN else NOTHING

    def tick(self, now_s: float) -> Instructions:
        """Let time pass: expire, probe, reconnect and send again whatever is due."""
        if now_s < self._due_s:
            return NOTHING
        instructions = Instructions()
        self._expire(now_s)
        if self._probe_id is not None and now_s >= self._probe_due_s:
            self._reconnect(instructions, now_s)
        silent = False
        for request in self._pending.values():
            if request.resend_at_s is not None:
                if now_s >= request.resend_at_s and not self._greeting_new_socket:
                    request.resend_at_s = None
                    self._await_answer(request, now_s)
                    instructions.send.append(request.frames)
            elif now_s >= request.check_at_s:
                silent = True
                request.silent_checks += 1
                request.silence_s = min(2 * request.silence_s, SILENCE_S_MAX)
                request.check_at_s = now_s + request.silence_s
        if silent and self._probe_id is None:
            instructions.send.append(self._new_probe(now_s))
        self._due_s = self._earliest_s()
        return instructions

    def wake_at_s(self) -> float | None:
        """Return when to call `tick` next, or None while nothing is pending."""
        return self._due_s if self._pending or self._probe_id is not None else None

    def close(self, error: PubSubError, now_s: float) -> None:
        """Let every unanswered request end with an error."""
        for request in list(self._pending.values()):
            self._finish(request, now_s, error=error)

    def _due(self, at_s: float) -> None:
        self._due_s = min(self._due_s, at_s)

    def _earliest_s(self) -> float:
        times = [request.deadline_s for request in self._pending.values()]
        for request in self._pending.values():
            if request.resend_at_s is None:
                times.append(request.check_at_s)
            elif not self._greeting_new_socket:  # else the answer to the greeting sends it
                times.append(request.resend_at_s)
        if self._probe_id is not None:
            times.append(self._probe_due_s)
        return min(times, default=math.inf)

    def _next_id(self) -> str:
        self._request_count += 1
        return f"{self._client_id}-{self._request_count}"

    def _new_probe(self, now_s: float) -> list[Buffer]:
        self._probe_id = self._next_id()
        self._probe_due_s = now_s + self._silence_s
        self._due(self._probe_due_s)
        return hello_frames(self._client_id, self._probe_id)

    def _reconnect(self, instructions: Instructions, now_s: float) -> None:
        self.reconnect_count += 1
        self._greeting_new_socket = True
        instructions.reconnect = True
        instructions.send.append(self._new_probe(now_s))

    def _on_answer(self, request: Request, message: Message, now_s: float) -> None:
        if message.op == REPLY:
            self._finish(request, now_s, reply=message)
            return
        error = _error_of(message)
        if not (isinstance(error, BusyError) and self._retry_later(request, error, now_s)):
            self._finish(request, now_s, error=error)

    def _finish(
        self, request: Request, now_s: float, reply: Message | None = None, error: PubSubError | None = None
    ) -> None:
        request.reply, request.error, request.finished_at_s = reply, error, now_s
        del self._pending[request.request_id]
        if request.on_finish is not None:
            self.finished.append(request)

    def _retry_later(self, request: Request, error: BusyError, now_s: float) -> bool:
        pause_s = error.fields.get("retry_after_s", 0.0)
        pause_s = float(pause_s) if isinstance(pause_s, int | float) else 0.0
        resend_at_s = now_s + max(pause_s, 0.001)
        if resend_at_s >= request.deadline_s:
            return False
        request.resend_at_s = resend_at_s
        self._due(resend_at_s)
        return True

    def _on_probe_answer(self, message: Message, now_s: float) -> Instructions:
        self._probe_id = None
        if message.op == ERROR:
            self.hello_error = _error_of(message)
            self.close(self.hello_error, now_s)
            return NOTHING
        previous, self.hello = self.hello, message.header
        self.greeted_at_s = now_s
        new_life = previous is not None and life_of(previous) != life_of(message.header)
        new_place = new_life or self._greeting_new_socket
        self._greeting_new_socket = False
        instructions = Instructions()
        if new_place:
            self._listen_again(instructions)
        for request in self._pending.values():
            request.crossed_lives |= new_life
            waits_on_purpose = request.resend_at_s is not None and not new_place
            again = request.silent_checks >= 2 and request.resend_count < RESENDS_MAX
            if not waits_on_purpose and (new_place or again):
                request.resend_count += not new_place
                request.resend_at_s = None
                self._await_answer(request, now_s)
                instructions.send.append(request.frames)
        return instructions

    def _listen_again(self, instructions: Instructions) -> None:
        self._relistens.clear()
        for key, fields in self._listening.items():
            request_id = self._next_id()
            self._relistens[request_id] = key
            instructions.send.append(request_frames(Op.LISTEN, request_id, fields))

    def _on_stray(self, message: Message) -> Instructions:
        key = self._relistens.pop(message.request, None)
        if key is None:
            self.stray_count += 1
            return NOTHING
        if message.op == ERROR:
            self.listen_errors[key] = _error_of(message)
        return _begun(message)

    def _await_answer(self, request: Request, now_s: float) -> None:
        request.silent_checks = 0
        request.check_at_s = now_s + request.silence_s
        self._due(request.check_at_s)

    def _expire(self, now_s: float) -> None:
        for request in [r for r in self._pending.values() if now_s >= r.deadline_s]:
            self._finish(request, now_s, error=self.no_reply(f"no answer to `{request.op}` came in time"))

    def no_reply(self, condition: str, remedy: str = NO_REPLY_REMEDY) -> ReplyTimeoutError:
        """Return the error of a request that nobody answered."""
        return ReplyTimeoutError(
            condition,
            seen=self._endpoint,
            remedy=remedy,
            endpoint=self._endpoint,
            reconnect_count=self.reconnect_count,
            cluster_answered_before=self.hello is not None,
        )


def _begun(message: Message) -> Instructions:
    """Return what the answer to a `listen` asks for: notifications follow it on the same connection."""
    return Instructions(listening=[message.header]) if message.op == REPLY else NOTHING


def _joined(instructions: Sequence[Instructions]) -> Instructions:
    """Return what several answers ask for; mostly nothing."""
    found = [one for one in instructions if one is not NOTHING]
    if not found:
        return NOTHING
    return Instructions(
        send=[frames for one in found for frames in one.send],
        listening=[header for one in found for header in one.listening],
    )


def _error_of(message: Message) -> PubSubError:
    body = message.header.get("error")
    if not isinstance(body, dict):
        return ProtocolError("an error reply without an error", seen=body)
    return error_from_dict(body)
