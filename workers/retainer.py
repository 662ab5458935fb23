"""The process that retains events: takes batches in, tells new subscriptions what they match.

Started by module name, when the first batch with an end of validity comes: ``python -m
pubsub_cluster.workers.retainer``. It sees no segment, and nobody's answer waits for it but those of new
subscriptions. Questions are worked on in slices, in turn, between which batches are taken in.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from collections import deque
from dataclasses import dataclass, field

import msgspec
import orjson
import zmq

from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.errors import ClusterError, PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import NormalForm
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.lifeline import SYSTEM_TURN_US, leave, take_turns, tie_to_parent
from pubsub_cluster.workers import retained_messages as wire
from pubsub_cluster.workers.retained import Batch, RetainedEvents, told_as_json

HEARTBEAT_S = 1.0
SLICE_S = 0.02  # of one question, before the next one has its turn
ANSWER_S_MAX = 4.0  # of one question, from its arrival: nobody who makes thousands waits for longer
TOLD_SIZE_BYTES_MAX = 1 << 20
"""Events told in one reply; those of its later subscriptions are only counted when it is full."""
log = logging.getLogger("pubsub_cluster.retainer")


@dataclass(slots=True)
class Question:
    """An `Ask` that is worked on; at `until_s`, monotonic, what is left of it is answered as an error."""

    asked: wire.Ask
    until_s: float
    answers: list[bytes] = field(default_factory=list)
    room_bytes: int = TOLD_SIZE_BYTES_MAX

    @property
    def is_done(self) -> bool:
        """Every item has its answer."""
        return len(self.answers) == len(self.asked.items)


class Answering:
    """Answers questions from the retained events.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    events : RetainedEvents
    """

    def __init__(self, schema: Schema, limits: Limits, events: RetainedEvents) -> None:
        self._schema, self._limits = schema, limits
        self._compiler = Compiler(schema, limits)
        self._events = events

    def work(self, question: Question, until_s: float) -> None:
        """Answer items of a question, at least one, until the time is over."""
        if time.monotonic() >= question.until_s and not question.is_done:
            late = orjson.dumps({"error": unanswered(f"more than {ANSWER_S_MAX:g} s of work").to_dict()})
            question.answers += [late] * (len(question.asked.items) - len(question.answers))
        while not question.is_done:
            item = question.asked.items[len(question.answers)]
            try:
                answer = self._answer(question, item)
            except Exception as error:  # the subscription is made; its answer says what is missing
                log.exception("retained events could not be looked at")
                answer = orjson.dumps({"error": unanswered(repr(error)).to_dict()})
            question.answers.append(answer)
            if time.monotonic() >= until_s:
                return

    def _answer(self, question: Question, item: wire.Wanted) -> bytes:
        asked = question.asked
        form = self._form(msgspec.json.decode(item.expression))
        count, told = self._events.matching(form, item.version, asked.now_us, asked.told_max)
        shown: deque[bytes] = deque()
        for text in reversed(told_as_json(told) if question.room_bytes > 0 else ()):
            question.room_bytes -= len(text)
            if question.room_bytes < 0:
                break
            shown.appendleft(text)
        if not count:
            return b""
        return b'{"count":%d,"events":[%b]}' % (count, b",".join(shown))

    def _form(self, given: object) -> NormalForm:
        if isinstance(given, str):
            return normalise(parse_text(given, self._schema, self._limits), self._schema, self._limits)
        return self._compiler.normal_form(given)


def unanswered(seen: str | None = None) -> ClusterError:
    """Return the error of a subscription that is made, without an answer from the retained events."""
    return ClusterError(
        "the retained events could not be looked at; the subscription is made",
        seen=seen,
        remedy="Publishers that repeat their events reach it; the status says what was lost.",
    )


class RetainerLoop:
    """One retaining process.

    Parameters
    ----------
    endpoint : str
        Where the coordinator listens for its processes.
    """

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IDENTITY, f"r.{os.getpid()}".encode())
        self._socket.connect(endpoint)
        self._questions: deque[Question] = deque()
        self._told_at_s = 0.0

    def run(self) -> int:
        """Serve until told to stop."""
        self._say(wire.RetainerHello(os.getpid()))
        while True:
            is_idle = not self._socket.poll(0 if self._questions else int(HEARTBEAT_S * 1_000))
            if not is_idle and not self._take(wire.decode_to_retainer(self._socket.recv())):
                self._context.destroy(linger=0)
                return 0
            if self._questions:
                self._work()
            if time.monotonic() - self._told_at_s >= HEARTBEAT_S:
                self._beat()

    @fault_point("retainer.message")
    def _take(self, message: wire.ToRetainer) -> bool:
        """Do what a message says, or put it in line; return False when it says to leave."""
        match message:
            case wire.RetainerSetup() as setup:
                self._configure(setup)
            case wire.SchemaExtended(given):
                schema = Schema.from_json(given)
                self._events.schema = schema
                self._answering = Answering(schema, self._limits, self._events)
            case wire.Retain() as batch:
                self._retain(batch)
            case wire.Ask() as asked:
                self._questions.append(Question(asked, time.monotonic() + ANSWER_S_MAX))
            case wire.Now(now_us):
                self._events.tick(now_us)
            case wire.RetainerShutdown():
                return False
        return True

    @fault_point("retainer.configure")
    def _configure(self, setup: wire.RetainerSetup) -> None:
        limits, schema = Limits(**setup.limits), Schema.from_json(setup.schema)
        self._limits = limits
        self._events = RetainedEvents(schema, limits, setup.events_max, setup.size_bytes_max, setup.age_us)
        self._answering = Answering(schema, limits, self._events)

    @fault_point("retainer.retain")
    def _retain(self, given: wire.Retain) -> None:
        moment = (given.version, given.accepted_us, given.valid_until)
        try:
            batch = Batch(given.publisher, given.batch_id, *moment, given.header, given.buffers)
            self._events.add(batch, given.now_us)
        except PubSubError as error:
            log.warning("batch not retained: %s", error)
        self._say(wire.Retained(self._events.counts))

    @fault_point("retainer.work")
    def _work(self) -> None:
        question = self._questions.popleft()
        self._answering.work(question, time.monotonic() + SLICE_S)
        if question.is_done:
            self._say(wire.Found(question.asked.number, question.answers))
        else:
            self._questions.append(question)

    def _beat(self) -> None:
        self._told_at_s = time.monotonic()
        if hasattr(self, "_events"):
            self._say(wire.RetainerHeartbeat(self._events.counts))

    @fault_point("retainer.send")
    def _say(self, message: wire.FromRetainer) -> None:
        self._socket.send(wire.encode(message))


def main(argv: list[str] | None = None) -> int:
    """Run the process until it is told to stop or its coordinator dies."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.workers.retainer")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args(argv)
    tie_to_parent(options.parent)
    take_turns(SYSTEM_TURN_US)  # its parent's are short
    logging.basicConfig(level=logging.INFO, format="%(asctime)s retainer %(message)s")
    return RetainerLoop(options.endpoint).run()


if __name__ == "__main__":
    leave(main())
