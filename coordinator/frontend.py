"""The clients' socket: a ROUTER that never drops silently and never blocks the coordinator.

ROUTER_MANDATORY turns an unreachable or slow peer into an error code, where a plain ROUTER would lose
the message. A reply that does not fit is counted; it mostly stays in the reply window and is sent when
the client asks again (one too large for the window is worked out anew).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence

import zmq

from pubsub_cluster.coordinator.sockets import (
    COPIED_SIZE_BYTES_MAX,
    LAST,
    NOT_LAST,
    bind,
    readable,
    receive,
)
from pubsub_cluster.coordinator.unread import Unread
from pubsub_cluster.language.change_items import parse_change
from pubsub_cluster.language.errors import ProtocolError, PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.protocol import (
    FRAME_SLACK_BYTES,
    Buffer,
    Message,
    Op,
    PublishRequest,
    check_request,
    parse_message,
    parse_publish,
)
from pubsub_cluster.language.together import (
    REPLIES,
    REQUESTS_SIZE_BYTES_MAX,
    TOGETHER_SIZE_BYTES_MAX,
    parse_requests,
    together,
)
from pubsub_cluster.shm.fault_points import fault_point

SEND_QUEUE_MESSAGES_MAX = 1_000
RECEIVE_QUEUE_MESSAGES_MAX = 1_000
MESSAGES_PER_TURN = 256
TURN_S = 0.002  # what piled up in a pause is taken in slices: workers that are done would wait for all of it
TOGETHER_PEERS_MAX = 4_096


class Frontend:
    """Receives requests and sends replies and notifications.

    Parameters
    ----------
    endpoints : sequence of str
        ``ipc://`` inside a private directory, and what the operator opens besides.
    limits : Limits
    """

    def __init__(self, endpoints: Sequence[str], limits: Limits) -> None:
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.LINGER, 0),
            (zmq.SNDHWM, SEND_QUEUE_MESSAGES_MAX),
            (zmq.RCVHWM, RECEIVE_QUEUE_MESSAGES_MAX),
            (
                zmq.MAXMSGSIZE,
                max(limits.batch_size_bytes_max, REQUESTS_SIZE_BYTES_MAX) + FRAME_SLACK_BYTES,
            ),
        ):
            self.socket.setsockopt(option, value)
        bind(self.socket, endpoints)
        self.dropped_replies = 0
        self._together: set[bytes] = set()
        self.unread = Unread()

    def receive(self) -> Iterator[tuple[bytes, Message | PublishRequest | PubSubError]]:
        """Yield what has arrived, at most a turn's worth: a checked request, or why it is none.

        A turn is also over when what the caller does with the messages has taken `TURN_S`. Only to be called
        when something has arrived: the socket is not asked before the first message.
        """
        until_s = time.monotonic() + TURN_S
        for _ in range(MESSAGES_PER_TURN):
            identity, frames = receive(self.socket)
            for request in _requests_of(frames):
                yield identity, request
            if time.monotonic() >= until_s or not readable(self.socket):
                return

    def send(self, identity: bytes, frames: Sequence[Buffer]) -> None:
        """Send a reply; one that the peer cannot take is counted and left to its next request."""
        try:
            if not self.offer(identity, frames):
                self.dropped_replies += 1
        except ConnectionError:
            self.dropped_replies += 1

    def takes_together(self, identity: bytes, on: bool) -> None:
        """Remember that a connection takes several answers in one message; forgetting it does no harm."""
        if len(self._together) >= TOGETHER_PEERS_MAX:
            self._together.clear()
        if on:
            self._together.add(identity)

    def send_all(self, answers: Sequence[tuple[bytes, list[Buffer]]]) -> None:
        """Send replies, those to one connection together where it takes them so and they are small."""
        if len(answers) == 1:
            self.send(*answers[0])
            return
        shared: dict[bytes, list[list[Buffer]]] = {}
        room: dict[bytes, int] = {}
        for identity, frames in answers:
            if identity in self._together:
                size_bytes = sum(map(len, frames))
                if size_bytes <= room.get(identity, TOGETHER_SIZE_BYTES_MAX):
                    room[identity] = room.get(identity, TOGETHER_SIZE_BYTES_MAX) - size_bytes
                    shared.setdefault(identity, []).append(frames)
                    continue
            self.send(identity, frames)
        for identity, several in shared.items():
            self.send(identity, together(REPLIES, several) if len(several) > 1 else several[0])

    @fault_point("client.send")
    def offer(self, identity: bytes, frames: Sequence[Buffer]) -> bool:
        """Send a message if the peer has room; return whether it had.

        Raises
        ------
        ConnectionError
            The peer is gone.
        """
        size_bytes = sum(map(len, frames))  # of bytes, all of them
        unread = self.unread
        if not unread.has_room(identity, size_bytes):
            return False
        send, last, tracker = self.socket.send, frames[-1], None
        try:
            send(identity, NOT_LAST)
            for frame in frames[:-1]:
                send(frame, NOT_LAST, copy=len(frame) < COPIED_SIZE_BYTES_MAX)
            if unread.is_due(identity, size_bytes):  # frames leave in turn: when the last is out, all are
                followed = zmq.Frame(last, track=True, copy=False, copy_threshold=0)
                tracker = send(followed, LAST, copy=False, track=True)
            else:
                send(last, LAST, copy=len(last) < COPIED_SIZE_BYTES_MAX)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                unread.gone(identity)
                raise ConnectionError("the peer is gone") from error
            raise
        unread.sent(identity, size_bytes, tracker)
        return True

    def close(self) -> None:
        """Close the socket; what a peer has not taken within a moment is dropped."""
        self.socket.close(linger=200)
        self._context.term()


def _requests_of(frames: list[Buffer]) -> list[Message | PublishRequest | PubSubError]:
    """Return what a message asks for: mostly one thing, of some clients several."""
    try:
        publish = parse_publish(frames)
        if publish is not None:
            return [publish]
        several = parse_requests(frames)
    except PubSubError as error:
        error.fields.setdefault("request", "")
        return [error]
    return [_checked(frames)] if several is None else [_publication(one) for one in several]


def _publication(frames: list[Buffer]) -> PublishRequest | PubSubError:
    """Return one of several requests: many others in one message would hold everybody up all at once."""
    publish = parse_publish(frames)
    if publish is not None:
        return publish
    found = _checked(frames)
    if isinstance(found, PubSubError):
        return found
    return ProtocolError("only publications travel together", seen=found.op, request=found.request)


def _checked(frames: list[Buffer]) -> Message | PubSubError:
    """Return a request that is no publication, or why it is none."""
    request = ""
    try:
        change = parse_change(frames)
        if change is not None:
            return change
        message = parse_message(frames)
        request = message.request
        if check_request(message) is Op.PUBLISH:  # all that may be wrong with one is told by these two
            raise ProtocolError("the header of a request to publish cannot be read")
    except PubSubError as error:
        error.fields.setdefault("request", request)
        return error
    except Exception as error:  # bytes from outside must never stop the loop
        return ProtocolError("the message cannot be read", seen=repr(error), request=request)
    return message
