"""Load on a cluster that is being killed: threads that publish, change subscriptions and listen.

None of them knows of the kills. What a thread cannot explain by the promises of `docs/protocol.md` (sending
again) is a breach; what it is told goes to the model, whose `judge` compares it with the naive matcher.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from catalogue_model import Answer, CatalogueModel, OwnerRows, owner_of, rows_of_owner
from killer import COORDINATOR, KEEPER, RETAINER, SHAPES, WORKER
from retained_model import RetainedModel

from pubsub_cluster.client import Client
from pubsub_cluster.client.blocking import run
from pubsub_cluster.client.changes import results_of
from pubsub_cluster.client.matches import Matches
from pubsub_cluster.client.notifications import Notification
from pubsub_cluster.client.pending import Pending
from pubsub_cluster.language.errors import (
    ClusterError,
    DuplicateIdError,
    PoisonBatchError,
    PubSubError,
    ReplyTimeoutError,
    UnknownIdError,
)
from pubsub_cluster.language.protocol import Op

PATIENCE_S = float(os.environ.get("FAULT_PATIENCE_S", "120"))
"""Longer than a series of restarts takes where nothing else runs: what is answered later counts as lost."""
LISTENED_OWNER = "owner0"
IDS_PER_CHURNER = 150
CHANGES_PER_REQUEST_MAX = 40
IN_FLIGHT = 4
KILL_SEEN_S = 10.0
ANSWERS_REMEMBERED = 20_000
ANSWERS_WAITING_MAX = 200
RESIZE_PAUSE_S_MAX = 12.0
RETAINED_SHARE = 0.3
RETAINED_S = 8.0
BACKUP_PAUSE_S_MAX = 6.0


class _Sent(NamedTuple):
    """A batch on its way; `life` is one that the coordinator had when it was sent, or an earlier one."""

    pending: Pending
    batch_id: str
    events: npt.NDArray[np.int64]
    kills_before: int
    life: str
    valid_until: int | None


@dataclass
class Load:
    """What the threads share.

    Attributes
    ----------
    data_dir : Path
    model : CatalogueModel
    expressions : list of str
    events : list of dict
    pause_s : float
        Of a publisher between batches, of a churner between requests: a machine has other work too.
    counts : Counter
    kills : dict of str to int
        By kind, so far: a batch may be refused as poison only when two workers were killed meanwhile, and
        retained events go with the retainer or the coordinator only.
    """

    data_dir: Path
    model: CatalogueModel
    expressions: list[str]
    events: list[dict[str, Any]]
    kills: Mapping[str, int]
    pause_s: float = 0.03
    counts: Counter[str] = field(default_factory=Counter)
    stopping: threading.Event = field(default_factory=threading.Event)
    retained: RetainedModel = field(init=False)
    _answers: deque[Answer] = field(default_factory=deque)
    _told: deque[tuple[float, Notification]] = field(default_factory=deque)
    _owner_rows: dict[tuple[str, str], OwnerRows] = field(default_factory=dict)
    _heard: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.retained = RetainedModel(self.model, self.count, self._lives)

    def _lives(self) -> int:
        """Count the deaths that cost retained events."""
        return self.kills[COORDINATOR] + self.kills[RETAINER]

    def start(self, publishers: int, churners: int, seed: int, with_resizes: bool) -> None:
        """Start the threads."""
        jobs: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (self._listen, ()),
            (self._listen_durably, ()),
        ]
        jobs += [(self._publish, (idx, random.Random(f"p{idx}-{seed}"))) for idx in range(publishers)]
        jobs += [(self._churn, (idx, random.Random(f"c{idx}-{seed}"))) for idx in range(churners)]
        if with_resizes:
            jobs.append((self._resize, (random.Random(f"r-{seed}"),)))
        jobs.append((self._back_up, (random.Random(f"b-{seed}"),)))
        for job, arguments in jobs:
            thread = threading.Thread(target=self._guarded, args=(job, arguments), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the load: what is under way is answered first."""
        self.stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE_S + 10.0)
            if thread.is_alive():
                self.model.breach("a client hangs beyond its time limit")

    def judge(self) -> None:
        """Judge the answers about which nothing more will be learnt."""
        settled = self.model.settled_version()
        for _ in range(len(self._answers)):
            answer = self._answers.popleft()
            if answer.version > settled:
                self._answers.append(answer)
                continue
            self.model.judge(answer)
            self.counts["answers judged"] += 1
            self.counts["events judged"] += len(answer.events)
        self._judge_notifications()
        self.retained.settle()

    @property
    def waiting(self) -> int:
        """Answers that could not be judged yet."""
        return len(self._answers)

    def _guarded(self, job: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            job(*arguments)
        except Exception as error:
            self.model.breach(f"{job.__name__.strip('_')} ended: {type(error).__name__}: {error}")

    def count(self, what: str, number: int = 1) -> None:
        """Count under the lock: several threads count the same things."""
        with self._lock:
            self.counts[what] += number

    # ---- publishers ----------------------------------------------------------------------------

    def _publish(self, number: int, draw: random.Random) -> None:
        publisher = f"publisher{number}"
        sent = 0
        with Client(self.data_dir, timeout_s=PATIENCE_S, publisher=publisher) as client:
            _wait_for_cluster(client)
            under_way: deque[_Sent] = deque()
            while not self.stopping.is_set():
                size = draw.choice((1, 3, 10, 40, 120))
                events = np.array([draw.randrange(len(self.events)) for _ in range(size)], np.int64)
                batch_id = f"{number}-{sent}"
                sent += 1
                retained = draw.random() < RETAINED_SHARE
                valid_until = int((time.time() + RETAINED_S) * 1e6) if retained else None
                told = self.retained.about_to_publish(publisher, batch_id, events, valid_until)
                kills = self.kills[
                    WORKER
                ]  # before it goes out: this thread may have to wait for long after it
                pending = client.publish_soon(
                    [self.events[idx] for idx in events.tolist()],
                    ids=True,
                    batch_id=batch_id,
                    valid_until=told,
                )
                life = client.hello()["life"]
                sent_now = _Sent(pending, batch_id, events, kills, life, valid_until)
                under_way.append(sent_now)
                if len(under_way) >= IN_FLIGHT:
                    self._take(client, under_way.popleft(), draw.random() < 0.05)
                client.receive(self.pause_s * draw.random() * 2)
                while len(self._answers) > ANSWERS_WAITING_MAX and not self.stopping.is_set():
                    client.receive(self.pause_s)  # the judge comes first: the machine may be slow
            while under_way:
                self._take(client, under_way.popleft(), False)

    def _judge_poison(self, batch_id: str, kills_before: int, error: PoisonBatchError) -> None:
        """Two workers died since; the answer may be here before the killer has counted the second."""
        deadline_s = time.monotonic() + KILL_SEEN_S
        while self.kills[WORKER] - kills_before < 2 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        if self.kills[WORKER] - kills_before < 2:
            self.model.breach(f"batch {batch_id} is poison although no two workers died meanwhile: {error}")
        self.count("batches refused after two deaths")

    def _take(self, client: Client, sent: _Sent, again: bool) -> None:
        try:
            matches = sent.pending.result()
        except PoisonBatchError as error:
            self._judge_poison(sent.batch_id, sent.kills_before, error)
            return
        except PubSubError as error:
            self.model.breach(f"batch {sent.batch_id} of {client.publisher} was not answered: {error}")
            return
        if sent.valid_until is not None:
            self.retained.answered(client.publisher, sent.batch_id)
        answer = self._answered(client, sent, matches, sent.pending._request.crossed_lives or again)
        self.count("batches sent to two lives", sent.pending._request.crossed_lives)
        with self._lock:
            self._owner_rows[client.publisher, sent.batch_id] = rows_of_owner(answer, LISTENED_OWNER)
            if len(self._owner_rows) > ANSWERS_REMEMBERED:
                del self._owner_rows[next(iter(self._owner_rows))]
        if again:
            self._publish_again(client, sent, answer)

    def _answered(self, client: Client, sent: _Sent, matches: Matches, crossed_lives: bool) -> Answer:
        if matches.refused:
            self.model.breach(f"batch {sent.batch_id}: events refused: {matches.refused}")
        self.model.saw(matches.version)
        assert matches.offsets is not None and matches.handles is not None and matches.ids is not None
        answer = Answer(
            client.publisher,
            sent.batch_id,
            sent.events,
            matches.version,
            matches.offsets,
            matches.handles,
            matches.ids,
            crossed_lives,
        )
        self._answers.append(answer)
        self.count("batches answered")
        return answer

    def _publish_again(self, client: Client, sent: _Sent, answer: Answer) -> None:
        """Within one life the same batch id gives the same answer; after a restart it is matched afresh."""
        events = [self.events[idx] for idx in sent.events.tolist()]
        kills = self.kills[WORKER]
        try:
            matches = client.publish(events, ids=True, batch_id=sent.batch_id, valid_until=sent.valid_until)
        except PoisonBatchError as error:
            self._judge_poison(sent.batch_id, kills, error)
            return
        self.count("batches published again")
        second = self._answered(client, sent, matches, True)
        if second.version == answer.version and np.array_equal(second.handles, answer.handles):
            return
        with Client(self.data_dir, timeout_s=PATIENCE_S) as fresh:
            _wait_for_cluster(fresh)
            if fresh.hello()["life"] == sent.life:
                self.model.breach(f"batch {sent.batch_id} was published again and answered differently")

    # ---- churners ------------------------------------------------------------------------------

    def _churn(self, number: int, draw: random.Random) -> None:
        live: dict[str, int] = {}
        ids = [f"s{number}.{idx}" for idx in range(IDS_PER_CHURNER)]
        with Client(self.data_dir, timeout_s=PATIENCE_S) as client:
            _wait_for_cluster(client)
            self._change(client, Op.SUBSCRIBE, draw.sample(ids, IDS_PER_CHURNER // 2), live, draw)
            while not self.stopping.is_set():
                dead = [name for name in ids if name not in live]
                op = draw.choice((Op.SUBSCRIBE, Op.UPDATE, Op.UNSUBSCRIBE))
                among = dead if op is Op.SUBSCRIBE else sorted(live)
                size = min(len(among), draw.choice((1, 1, 5, CHANGES_PER_REQUEST_MAX)))
                if size:
                    self._change(client, op, draw.sample(among, size), live, draw)
                if draw.random() < 0.05:
                    client.tune_now()  # so that generations are built and swapped all the time
                client.receive(self.pause_s * draw.random() * 2)

    def _change(
        self, client: Client, op: Op, names: list[str], live: dict[str, int], draw: random.Random
    ) -> None:
        new = [None if op is Op.UNSUBSCRIBE else draw.randrange(len(self.expressions)) for _ in names]
        changes = [self.model.begin(name, one) for name, one in zip(names, new, strict=True)]
        body: dict[str, Any] = {"ids": names}
        if op is not Op.UNSUBSCRIBE:
            items = [
                {"id": name, "expr": self.expressions[one]}
                for name, one in zip(names, new, strict=True)
                if one is not None
            ]
            if op is Op.SUBSCRIBE:
                items = [{**item, "owner": owner_of(str(item["id"]))} for item in items]
            body = {"items": items}
        session = client._session
        asked = self.retained.moment()
        try:
            request = run(session.send(op, body))
            reply = run(session.wait(request))
        except ReplyTimeoutError as error:
            self.model.breach(f"{len(names)} changes had no answer in {PATIENCE_S} s: {error}")
            raise
        version = int(reply.header["version"])
        self.count("changes sent to two lives", len(names) * request.crossed_lives)
        for name, one, change, result in zip(names, new, changes, results_of(reply, len(names)), strict=True):
            if isinstance(result, PubSubError) and not _done_before(op, result, request.crossed_lives):
                self.model.breach(f"{op} of {name} was refused: {result}")
                self.model.refused(name, change)
                continue
            self.model.acknowledged(change, version)
            self.count("changes acknowledged")
            if one is None:
                live.pop(name)
                continue
            live[name] = one
            if op is Op.SUBSCRIBE and not isinstance(result, PubSubError):
                self.retained.judge(one, result.get("retained"), asked)
            if op is Op.SUBSCRIBE and not isinstance(result, PubSubError):
                self.model.handle_given(name, int(result["handle"]))

    # ---- the operator --------------------------------------------------------------------------

    def _resize(self, draw: random.Random) -> None:
        """Change the number of workers now and then; a resize that a death has ended is not repeated."""
        with Client(self.data_dir, timeout_s=PATIENCE_S) as client:
            _wait_for_cluster(client)
            while not self.stopping.wait(draw.random() * RESIZE_PAUSE_S_MAX):
                try:
                    client.resize(*draw.choice(SHAPES), wait=False)
                    self.count("resizes")
                except ClusterError:
                    self.count("resizes refused")  # the last one is not over

    def _back_up(self, draw: random.Random) -> None:
        """Back up now and then; it fails only when a coordinator, or several keepers, died meanwhile."""
        path = self.data_dir.parent / "under_load.backup"
        with Client(self.data_dir, timeout_s=PATIENCE_S) as client:
            _wait_for_cluster(client)
            while not self.stopping.wait(draw.random() * BACKUP_PAUSE_S_MAX):
                before = self.kills[COORDINATOR], self.kills[KEEPER]
                try:
                    client.backup(path, timeout_s=PATIENCE_S)
                    self.count("backups")
                except PubSubError as error:
                    self.count("backups failed")
                    self.stopping.wait(KILL_SEEN_S)  # until the killer has counted
                    if self.kills[COORDINATOR] == before[0] and self.kills[KEEPER] < before[1] + 2:
                        self.model.breach(f"a backup failed although nobody died: {error}")

    # ---- the listener --------------------------------------------------------------------------

    def _listen(self) -> None:
        with Client(self.data_dir, timeout_s=PATIENCE_S) as client:
            _wait_for_cluster(client)
            while not self.stopping.is_set():
                for told in client.listen(LISTENED_OWNER, timeout_s=1.0):
                    self._told.append((time.monotonic(), told))
                    self.count("notifications")
                    if self.stopping.is_set():
                        break

    def _listen_durably(self) -> None:
        """Be a durable receiver, so that there is one; what it is told is judged in `durable.py`."""
        with Client(self.data_dir, timeout_s=PATIENCE_S) as client:
            _wait_for_cluster(client)
            while not self.stopping.is_set():
                with client.listen(LISTENED_OWNER, durable="faults", timeout_s=1.0) as told:
                    for notification in told:
                        self.count("durable notifications")
                        if notification.dropped:
                            self.model.breach(f"a durable receiver lost something: {notification}")
                        if self.stopping.is_set():
                            break

    def _judge_notifications(self) -> None:
        """A notification says what the answer says; only what two lives have matched is repeated."""
        for _ in range(len(self._told)):
            at_s, told = self._told.popleft()
            with self._lock:
                known = self._owner_rows.get((told.publisher, told.batch_id))
            if known is not None:
                self._judge_notification(told, known)
            elif time.monotonic() - at_s < PATIENCE_S:
                self._told.append((at_s, told))  # its batch is not answered yet

    def _judge_notification(self, told: Notification, known: OwnerRows) -> None:
        self.counts["notifications judged"] += 1
        for name in told.ids:
            key = (sys.intern(told.publisher), told.batch_id, told.event_index, sys.intern(name))
            self._heard[key] += 1
            is_repeat = self._heard[key] > 1
            self.counts["notifications repeated"] += is_repeat
            in_answer = name in known.ids.get(told.event_index, ())
            if known.crossed_lives:
                if not in_answer and not self.model.may_match(name, int(known.events[told.event_index])):
                    self.model.breach(f"notification {key} can never have been right")
            elif is_repeat or not in_answer:
                self.model.breach(f"notification {key} is {'a repeat' if is_repeat else 'wrong'}")


def _done_before(op: Op, error: PubSubError, crossed_lives: bool) -> bool:
    """Say whether a refusal only tells that the first of two sendings was carried out (docs/protocol.md)."""
    told = {Op.SUBSCRIBE: DuplicateIdError, Op.UNSUBSCRIBE: UnknownIdError}.get(op)
    return crossed_lives and told is not None and isinstance(error, told)


def _wait_for_cluster(client: Client) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.hello()
            return
        except ReplyTimeoutError:  # no socket file yet, or again: a coordinator is being started
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
