"""Retained events as the coordinator sees them: the process that keeps them, and who waits for it.

The process (`workers.retainer`) is started when the first batch with an end of validity comes. A batch is
handed over when it and all such batches that were accepted before it are answered: the process takes what
comes later for newer. A new subscription is asked about when it is durable, behind every batch that was
accepted before it, and its sender's answer waits for that, nobody else's. When the process dies, what it
retained is gone and counted, and everybody who waits is answered so.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from pubsub_cluster.coordinator.backend import RETAINER, Backend
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.intake import BUSY_RETRY_AFTER_S, Publication
from pubsub_cluster.language.errors import BusyError, ClusterError
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.change_groups import Change
from pubsub_cluster.workers import retained_messages as wire

UNTAKEN_SIZE_BYTES_MAX = 64 << 20
UNTAKEN_BATCHES_MAX = 8_192
IN_FLIGHT_MAX = 256  # messages that the process has not answered: well below what its socket holds
QUESTIONS_MAX = 1_024
SILENCE_S_MAX = 60.0
RESPAWN_DELAY_S = 0.5


@dataclass(slots=True)
class Question:
    """A request that waits for the retained events.

    Attributes
    ----------
    message : Ask
    results : list of dict
        Of its items that are asked about; each gets its ``retained``.
    behind : set of int
        Batches accepted before, not handed over yet.
    answer : callable
        Sends the reply.
    """

    message: wire.Ask
    results: list[dict[str, Any]]
    behind: set[int]
    answer: Callable[[], None]


@dataclass(slots=True)
class _Handed:
    """A batch on its way to the process; without its message once that is sent."""

    message: wire.Retain | None
    event_count: int
    size_bytes: int


@dataclass(slots=True)
class RetainedDesk:
    """Hands batches over to the process that retains them, and asks it.

    Parameters
    ----------
    config : ClusterConfig
    backend : Backend
    now_us : callable
        The time by the coordinator's clock.
    """

    config: ClusterConfig
    backend: Backend
    now_us: Callable[[], int]
    active: bool = False  # the process was started: something may be retained
    lost: int = 0
    restarts: int = 0
    _ready: bool = False
    _counts: wire.Counts = field(default_factory=wire.Counts)
    # Batches with such publications, in turn of acceptance, and what is to be retained; None: not answered.
    _open: dict[int, list[_Handed] | None] = field(default_factory=dict)
    _waiting: list[Question] = field(default_factory=list)  # behind some of these
    _queue: deque[_Handed | Question] = field(default_factory=deque)
    _handed: deque[_Handed] = field(default_factory=deque)  # sent
    _asked: dict[int, Question] = field(default_factory=dict)  # sent
    _untaken_size_bytes: int = 0
    _untaken: int = 0
    _questions: int = 0
    _number: Iterator[int] = field(default_factory=itertools.count)
    _heard_at_s: float = 0.0
    _past: dict[str, int] = field(default_factory=lambda: {"retained": 0, "expired": 0, "dropped": 0})

    # -- batches -------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Make sure that a batch with an end of validity can be handed over.

        Raises
        ------
        BusyError
            The process has too much to take in.
        """
        if self._untaken_size_bytes >= UNTAKEN_SIZE_BYTES_MAX or self._untaken >= UNTAKEN_BATCHES_MAX:
            raise BusyError(
                "too many events wait to be retained",
                seen=self._untaken_size_bytes,
                limit=UNTAKEN_SIZE_BYTES_MAX,
                remedy="Send again after `retry_after_s`, or publish without `valid_until`.",
                retry_after_s=10 * BUSY_RETRY_AFTER_S,
            )
        self._start()

    def placed(self, batch_no: int, group: list[Publication]) -> None:
        """Batches were accepted: new subscriptions wait for those that are retained."""
        if any(publication.valid_until is not None for publication in group):
            self._open[batch_no] = None

    def done(self, batch_no: int, moment: tuple[int, int], answered: list[Publication]) -> None:
        """A batch accepted at the `moment` (version, time) is answered, these publications not as refused."""
        if batch_no not in self._open:
            return
        now_us = self.now_us()
        self._open[batch_no] = [
            self._taken(publication, moment, now_us)
            for publication in answered
            if publication.valid_until is not None and publication.valid_until > now_us
        ]
        self._hand_over()

    def closed(self, batch_no: int) -> None:
        """Nothing comes of a batch: who waits for it goes on."""
        if batch_no in self._open:
            self._open[batch_no] = []
            self._hand_over()

    def _hand_over(self) -> None:
        """Queue what is answered, as far as everything before it is, and the questions behind that."""
        while self._open:
            batch_no, handed = next(iter(self._open.items()))
            if handed is None:
                break
            del self._open[batch_no]
            self._queue.extend(handed)
            waiting, self._waiting = self._waiting, []
            for question in waiting:
                question.behind.discard(batch_no)
                (self._waiting if question.behind else self._queue).append(question)
        self._send()

    def _taken(self, publication: Publication, moment: tuple[int, int], now_us: int) -> _Handed:
        _, publisher, batch_id = publication.key
        assert publication.valid_until is not None
        ends = (*moment, publication.valid_until, now_us)
        buffers = list(publication.buffers)
        message = wire.Retain(publisher, batch_id, *ends, publication.form.batch, buffers)
        handed = _Handed(message, publication.form.event_count, publication.size_bytes)
        self._untaken += 1
        self._untaken_size_bytes += handed.size_bytes
        self._start()
        return handed

    # -- subscriptions -------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nobody waits for the process."""
        return not self._questions

    def ask(
        self,
        made: list[tuple[int, Change]],
        results: list[dict[str, Any]],
        told_max: int,
        answer: Callable[[], None],
    ) -> None:
        """Add to the results of new subscriptions what is retained for them, then call `answer`.

        Parameters
        ----------
        made : list of (int, Change)
            Index of the result, and the change.
        results : list of dict
        told_max : int
            Events that each is told at most.
        answer : callable
        """
        now_us = self.now_us()
        wanted = [
            (results[idx], wire.Wanted(change.version, change.expression or b""))
            for idx, change in made
            if results[idx]["ok"]
            and (change.valid_from is None or change.valid_from <= now_us)
            and (change.valid_until is None or now_us < change.valid_until)
        ]
        if not wanted or not self.active:
            answer()
            return
        items = [item for _, item in wanted]
        message = wire.Ask(next(self._number), now_us, told_max, items)
        question = Question(message, [result for result, _ in wanted], set(self._open), answer)
        self._questions += 1
        if self._questions > QUESTIONS_MAX:
            self._refuse(question, f"{QUESTIONS_MAX} requests wait for them")
            return
        (self._waiting if question.behind else self._queue).append(question)
        self._send()

    def _refuse(self, question: Question, seen: str) -> None:
        error = ClusterError(
            "the retained events could not be looked at; the subscription is made",
            seen=seen,
            remedy="Publishers that repeat their events reach it; the status says what was lost.",
        )
        for result in question.results:
            result["retained"] = {"error": error.to_dict()}
        self._answered(question)

    def _answered(self, question: Question) -> None:
        self._questions -= 1
        question.answer()

    # -- the process ---------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self.active:
            self.active = True
            self.backend.attach(RETAINER, self)
            self.backend.spawn(RETAINER, 0.0)

    def _send(self) -> None:
        while self._ready and self._queue and len(self._handed) + len(self._asked) < IN_FLIGHT_MAX:
            entry = self._queue.popleft()
            self.backend.send(RETAINER, wire.encode(entry.message))
            if isinstance(entry, Question):
                self._asked[entry.message.number] = entry
            else:
                entry.message = None
                self._handed.append(entry)

    def take_schema(self, schema: Schema) -> None:
        """Go on with an extended schema."""
        self.config = replace(self.config, schema=schema)
        if self._ready:
            self.backend.send(RETAINER, wire.encode(wire.SchemaExtended(schema.to_json())))

    def heard(self, body: bytes) -> None:
        """Take a message of the process."""
        self._heard_at_s = time.monotonic()
        match wire.decode_from_retainer(body):
            case wire.RetainerHello():
                config = self.config
                bounds = (config.retained_events_max, config.retained_bytes_max)
                age_us = int(config.retained_age_s * 1_000_000)
                setup = wire.RetainerSetup(config.schema.to_json(), asdict(config.limits), *bounds, age_us)
                self.backend.send(RETAINER, wire.encode(setup))
                self._ready = True
            case wire.Retained(counts):
                self._counts = counts
                handed = self._handed.popleft()
                self._untaken -= 1
                self._untaken_size_bytes -= handed.size_bytes
            case wire.Found(number, answers):
                question = self._asked.pop(number)
                for result, answer in zip(question.results, answers, strict=True):
                    if answer:
                        result["retained"] = orjson.Fragment(answer)
                self._answered(question)
            case wire.RetainerHeartbeat(counts):
                self._counts = counts
                self.backend.send(RETAINER, wire.encode(wire.Now(self.now_us())))
        self._send()

    def tick(self, now_s: float) -> None:
        """See to it that nobody waits for a process that hangs."""
        if self._ready and now_s - self._heard_at_s > SILENCE_S_MAX:
            self.backend.kill(RETAINER)

    def died(self) -> None:
        """The process is gone, and what it retained with it: count that, answer who waits, start another."""
        sent = [*self._handed, *(entry for entry in self._queue if isinstance(entry, _Handed))]
        self.lost += self._counts.events + sum(handed.event_count for handed in sent)
        for name in self._past:
            self._past[name] += getattr(self._counts, name)
        questions = [*self._asked.values(), *(one for one in self._queue if isinstance(one, Question))]
        questions += self._waiting
        self._waiting, self._counts, self._ready = [], wire.Counts(), False
        for kept in (self._handed, self._queue, self._asked):
            kept.clear()
        held = [handed for several in self._open.values() for handed in several or ()]
        self._untaken, self._untaken_size_bytes = len(held), sum(handed.size_bytes for handed in held)
        self.restarts += 1
        self.backend.spawn(RETAINER, time.monotonic() + RESPAWN_DELAY_S)
        for question in questions:
            self._refuse(question, "the process that retains them has died")

    def status(self) -> dict[str, Any]:
        """Return what ``status`` tells of it."""
        past = {name: count + getattr(self._counts, name) for name, count in self._past.items()}
        return {
            "pid": self.backend.pid(RETAINER),
            "events": self._counts.events,
            "size_bytes": self._counts.size_bytes,
            **past,
            "lost": self.lost,
            "untaken_batches": self._untaken,
            "restarts": self.restarts,
        }
