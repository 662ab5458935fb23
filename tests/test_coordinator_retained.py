"""Retained events within their bounds, and the coordinator's side: who waits for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from pubsub_cluster.coordinator import retained as desk_module
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.forms import Form
from pubsub_cluster.coordinator.intake import Publication
from pubsub_cluster.coordinator.retained import RetainedDesk
from pubsub_cluster.language.batch import payload_from_dicts
from pubsub_cluster.language.errors import BusyError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.predicate import NormalForm, Predicate, PredicateKind
from pubsub_cluster.language.protocol import Answer
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change
from pubsub_cluster.workers import retained as store_module
from pubsub_cluster.workers import retained_messages as wire
from pubsub_cluster.workers.retained import Batch, RetainedEvents, told_as_json
from pubsub_cluster.workers.retainer import Answering, Question

EVERY = NormalForm((), ((),))
HAS_X = NormalForm((Predicate(PredicateKind.EXISTS, "x"),), ((0,),))


class Store:
    """Retained events whose only attribute is their number."""

    def __init__(self, events_max: int = 1_000, size_bytes_max: int = 1 << 20, age_us: int = 1_000) -> None:
        self.events = RetainedEvents(EMPTY_SCHEMA, DEFAULT_LIMITS, events_max, size_bytes_max, age_us)

    def add(self, numbers: list[Any], at: int, until: int, version: int = 0) -> None:
        payload = payload_from_dicts([{"n": number} for number in numbers])
        buffers = [bytes(buffer) for buffer in payload.buffers]
        self.events.add(Batch("p", f"b{at}", version, at, until, payload.header, buffers), at)

    def told(self, now: int, form: NormalForm = EVERY, version: int = 1, most: int = 1_000) -> list[Any]:
        count, told = self.events.matching(form, version, now, most)
        numbers = [msgspec.json.decode(text)["event"]["n"] for text in told_as_json(told)]
        assert len(numbers) == min(count, most)
        return numbers


@pytest.mark.parametrize("waiting", [1, 4_096])
def test_the_oldest_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    monkeypatch.setattr(store_module, "WAITING_EVENTS_MAX", waiting)
    store = Store(events_max=5, age_us=60)
    for first in range(0, 10, 2):
        store.add([first, first + 1], at=first, until=100)
    assert store.told(50) == [6, 7, 8, 9]
    assert store.told(50, most=3) == [7, 8, 9]
    assert store.events.counts == wire.Counts(4, store.events.counts.size_bytes, 10, 0, 6)
    store.add([10, float("nan"), 11], at=20, until=30)  # a refused event has no place
    assert store.told(29) == [8, 9, 10, 11] and store.told(30) == [8, 9]
    store.events.tick(30)
    assert (store.events.counts.events, store.events.counts.expired) == (2, 2)
    store.events.tick(68)  # the age of the one that is left
    assert store.told(60) == [] and store.events.counts.dropped == 10


def test_bytes_are_bounded_and_given_back() -> None:
    store = Store(size_bytes_max=20_000)
    for at in range(200):
        store.add(["text" * 50], at, until=10_000 + at)
        assert store.events.counts.size_bytes <= 20_000
    held = store.events.counts.events
    assert 0 < held < 50 and len(store.told(199)) == held
    store.events.tick(5_000)
    assert store.events.counts.size_bytes == 0 and not store.events._parts


@pytest.mark.parametrize("waiting", [1, 4_096])
def test_parts_are_joined_thinned_out_and_stay_right(monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    monkeypatch.setattr(store_module, "WAITING_EVENTS_MAX", waiting)
    monkeypatch.setattr(store_module, "PART_EVENTS_MAX", 16)
    store, expected = Store(age_us=10**6), {}
    for at in range(100):
        until = at + (7 * at) % 60 + 1
        store.add([at], at, until, version=at)
        expected[at] = until
        if at % 10 == 9:
            store.events.tick(at)
        for version in (at + 1, at // 2):
            valid = [n for n, end in expected.items() if end > at and n < version]
            assert store.told(at, version=version) == valid
    assert len(store.events._parts) < 12
    assert store.told(99, HAS_X) == []


# -- the coordinator's side ---------------------------------------------------------------------------------


class FakeBackend:
    """Keeps what was sent; a process that is killed has died."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.spawned = 0

    def attach(self, child: int, desk: RetainedDesk) -> None:
        self.desk = desk

    def spawn(self, child: int, at_s: float) -> None:
        self.spawned += 1

    def send(self, child: int, body: bytes) -> None:
        self.sent.append(wire.decode_to_retainer(body))

    def pid(self, child: int) -> int | None:
        return None

    def kill(self, child: int) -> None:
        self.desk.died()

    def says(self, message: wire.FromRetainer) -> None:
        self.desk.heard(wire.encode(message))


def a_desk() -> tuple[RetainedDesk, FakeBackend]:
    backend = FakeBackend()
    return RetainedDesk(ClusterConfig(Path("unused")), backend, lambda: 50), backend  # type: ignore[arg-type]


def publication(valid_until: int | None = 100) -> Publication:
    payload = payload_from_dicts([{"n": 1}])
    form = Form(payload.header)
    key = ("batch", "p", "b")
    return Publication(key, Answer.NONE, False, None, form, payload.buffers, 32, valid_until=valid_until)


def ask(desk: RetainedDesk, answered: list[str], name: str = "s", version: int = 7) -> dict[str, Any]:
    result: dict[str, Any] = {"ok": True}
    change = Change(version, SUBSCRIBE, 1, name, "o", b'"x = 1"', None, None)
    desk.ask([(0, change)], [result], 10, lambda: answered.append(name))
    return result


def test_a_subscription_waits_for_the_batches_before_it_and_for_no_others() -> None:
    desk, backend = a_desk()
    answered: list[str] = []
    assert "retained" not in ask(desk, answered, "early") and answered == ["early"]
    desk.admit()
    backend.says(wire.RetainerHello(1))
    desk.placed(1, [publication(), publication(None)])
    desk.placed(2, [publication(None)])  # nothing of it is retained
    desk.placed(3, [publication()])
    result = ask(desk, answered, "late")
    desk.placed(4, [publication()])
    desk.done(1, (3, 20), [publication(), publication(None), publication(valid_until=50)])
    assert [type(one) for one in backend.sent] == [wire.RetainerSetup, wire.Retain] and not desk.idle
    desk.closed(3)
    *_, retain, asked = backend.sent
    assert (retain.version, retain.accepted_us, retain.valid_until) == (3, 20, 100)
    assert (asked.now_us, asked.told_max, asked.items[0].version) == (50, 10, 7)
    backend.says(wire.Retained(wire.Counts(1, 10, 1)))
    backend.says(wire.Found(asked.number, [b'{"count":1}']))
    assert orjson.loads(orjson.dumps(result))["retained"] == {"count": 1}
    assert answered == ["early", "late"] and desk.idle and desk.status()["untaken_batches"] == 0


def test_batches_are_handed_over_as_they_were_accepted() -> None:
    desk, backend = a_desk()
    answered: list[str] = []
    desk.admit()
    backend.says(wire.RetainerHello(1))
    for batch_no in range(1, 5):
        desk.placed(batch_no, [publication()])
    ask(desk, answered)
    for batch_no in (3, 2):  # a small one overtakes a large one
        desk.done(batch_no, (1, batch_no), [publication()])
    assert desk.status()["untaken_batches"] == 2, "they count as soon as they are held"
    desk.tick(1e12)  # a death meanwhile costs nothing of what was not sent
    assert answered and desk.status() | {"lost": 0, "untaken_batches": 2} == desk.status()
    backend.says(wire.RetainerHello(2))
    desk.done(1, (1, 1), [publication()])
    desk.closed(4)
    retained = [one.accepted_us for one in backend.sent if isinstance(one, wire.Retain)]
    assert retained == [1, 2, 3]


def test_a_death_answers_everybody_and_is_counted() -> None:
    desk, backend = a_desk()
    answered: list[str] = []
    desk.admit()
    desk.placed(1, [publication()])
    behind = ask(desk, answered, "behind")
    backend.says(wire.RetainerHello(1))
    desk.placed(2, [publication()])
    desk.done(2, (1, 1), [publication()])
    desk.closed(1)
    sent = ask(desk, answered, "sent")
    backend.says(wire.Retained(wire.Counts(5, 10, 6, 1, 0)))
    desk.placed(3, [publication()])
    waiting = ask(desk, answered, "waiting")
    desk.tick(1e12)  # it hangs
    assert sorted(answered) == ["behind", "sent", "waiting"] and desk.idle
    for result in (behind, sent, waiting):
        assert result["retained"]["error"]["code"] == "cluster_error"
    assert desk.status() | {"lost": 5, "restarts": 1, "retained": 6, "expired": 1} == desk.status()
    assert backend.spawned == 2
    desk.done(3, (1, 1), [publication()])  # the next one takes it in
    backend.says(wire.RetainerHello(2))
    assert isinstance(backend.sent[-1], wire.Retain)


def test_a_publisher_that_is_too_fast_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "UNTAKEN_SIZE_BYTES_MAX", 64)
    monkeypatch.setattr(desk_module, "QUESTIONS_MAX", 2)
    desk, backend = a_desk()
    for batch_no in range(2):
        desk.admit()
        desk.placed(batch_no, [publication()])
        desk.done(batch_no, (1, 1), [publication()])
    with pytest.raises(BusyError):
        desk.admit()
    backend.says(wire.RetainerHello(1))
    backend.says(wire.Retained(wire.Counts()))
    desk.admit()
    answered: list[str] = []
    results = [ask(desk, answered, str(number)) for number in range(3)]
    assert answered == ["2"] and "error" in results[2]["retained"]


def test_a_question_is_answered_in_slices_and_in_time() -> None:
    store = Store()
    store.add([1, 2], 0, 100)
    answering = Answering(EMPTY_SCHEMA, DEFAULT_LIMITS, store.events)
    items = [wire.Wanted(1, b'"n = 1"'), wire.Wanted(1, b'{"attr": "n", "op": ">", "value": 5}')]
    question = Question(wire.Ask(0, 50, 10, [*items, wire.Wanted(1, b'"n >"')]), until_s=1e12)
    for done in range(3):
        assert len(question.answers) == done and not question.is_done
        answering.work(question, until_s=0.0)
    found, none, defect = question.answers
    told = orjson.loads(found)
    assert (told["count"], told["events"][0]["event"], none) == (1, {"n": 1}, b"")
    assert "could not be looked at" in orjson.loads(defect)["error"]["condition"]
    question = Question(wire.Ask(0, 50, 10, items), until_s=0.0)
    answering.work(question, until_s=1e12)
    assert question.is_done and all("error" in orjson.loads(answer) for answer in question.answers)
    question = Question(wire.Ask(0, 50, 10, items[:1]), until_s=1e12, room_bytes=1)
    answering.work(question, until_s=1e12)
    assert orjson.loads(question.answers[0]) == {"count": 1, "events": []}
