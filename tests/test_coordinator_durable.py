"""Durable receivers with a disk and without sockets: what waits, what is sent, what comes back."""

from __future__ import annotations

import select
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

from pubsub_cluster.coordinator.delivery import durable, outbox_store, pusher
from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk
from pubsub_cluster.coordinator.delivery.durable import DurableDesk
from pubsub_cluster.coordinator.delivery.outbox_records import Body, Entry
from pubsub_cluster.coordinator.delivery.outbox_store import OUTBOX_FILE, OutboxStore
from pubsub_cluster.coordinator.publishing import PublishDesk
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError, StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.batches import BatchDesk

WAIT_S_MAX = 60.0
BIG = b"x" * 3_000


class Bench:
    """A desk over a directory, and all that it says."""

    def __init__(self, data_dir: Path, bounds: Bounds = Bounds()) -> None:  # noqa: B008
        self.pushes: dict[bytes, list[dict[str, Any]]] = defaultdict(list)
        self.replies: list[tuple[bytes, dict[str, Any]]] = []
        self.kept: list[tuple[int, StoreError | None]] = []
        self.room: dict[bytes, bool | None] = {}  # None: the connection is gone
        self.now_s = 100.0
        self.store = OutboxStore(data_dir, "full")
        self.delivery = DeliveryDesk(self._send)
        self.desk = DurableDesk(
            self.store,
            bounds,
            self.delivery,
            self._send,
            lambda identity, frames: self.replies.append((identity, orjson.loads(frames[1]))),
            lambda record, error: self.kept.append((record, error)),
        )

    def start(self) -> Bench:
        self.desk.start()
        return self

    def _send(self, identity: bytes, frames: list[Any]) -> bool:
        room = self.room.get(identity, True)
        if room is None:
            raise ConnectionError
        if room:
            self.pushes[identity].append(orjson.loads(frames[1]))
        return room

    def until(self, condition: Callable[[], bool]) -> None:
        """Let the disk and time go on until something is so."""
        for _ in range(1_000):
            self.now_s += 0.06
            self.desk.tick(self.now_s)
            while self.desk.busy:
                self.desk.work()
            if condition():
                return
            readable, _, _ = select.select([self.desk.wake_fd], [], [], WAIT_S_MAX / 1_000)
            if readable:
                self.desk.poll()
        raise AssertionError("not in time")

    def listen(self, identity: bytes, owner: str = "ann", name: str = "a", window: int = 10) -> int:
        """Listen, wait for the answer, return the receiver's number."""
        said = self.desk.listen(identity, "r", owner, name, window)
        if said is None:
            count = len(self.replies)
            self.until(lambda: len(self.replies) > count)
            said = self.replies[-1][1]
        return int(said["number"])

    def publish(self, batch_id: str, *prices: int, owners: tuple[str, ...] = ("ann",)) -> int:
        events = [(idx, b'{"price":%d}' % price) for idx, price in enumerate(prices)]
        entries = [Entry(place, [7], ["s7"]) for place in range(len(prices))]
        return self.desk.keep("p", batch_id, Body(events, dict.fromkeys(owners, entries)))

    def heard(self, identity: bytes) -> list[tuple[int, int]]:
        """Return (sequence, price) of everything that a connection was sent."""
        events = [event for push in self.pushes[identity] for event in push["events"]]
        return [(event["sequence"], event["event"]["price"]) for event in events]

    def on_disk(self) -> int:
        with closing(sqlite3.connect(self.store.path)) as connection:
            return int(connection.execute("SELECT count(*) FROM records").fetchone()[0])


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path).start()
    yield made
    made.desk.close()


def test_what_is_told_is_durable_first_and_leaves_when_it_is_acknowledged(bench: Bench) -> None:
    number = bench.listen(b"c", window=2)
    record = bench.publish("b1", 10, 11, 12)
    assert record > 0
    bench.desk.work()
    assert not bench.kept and not bench.pushes[b"c"], "nothing before the disk has it"
    bench.until(lambda: bool(bench.kept))
    assert bench.kept == [(record, None)] and bench.on_disk() == 1
    bench.until(lambda: len(bench.heard(b"c")) == 2)
    assert bench.heard(b"c") == [(1, 10), (2, 11)], "no more than the window"
    (push,) = bench.pushes[b"c"]
    assert (push["owner"], push["durable"], push["publisher"], push["batch_id"]) == ("ann", "a", "p", "b1")
    assert push["events"][0]["ids"] == ["s7"] and push["events"][0]["handles"] == [7]
    bench.desk.acknowledge(number, 1)
    bench.until(lambda: len(bench.heard(b"c")) == 3)
    bench.desk.acknowledge(number, 3)
    bench.until(lambda: bench.on_disk() == 0)
    sent = bench.delivery.counters.of("ann")
    assert (sent.notifications, sent.dropped) == (3, 0) and sent.bytes_sent > 300
    with pytest.raises(ProtocolError):
        bench.desk.acknowledge(number, "3")


def test_owners_without_receivers_keep_nothing(bench: Bench) -> None:
    assert bench.publish("b1", 10) == 0
    bench.listen(b"c", owner="bob")
    assert bench.publish("b2", 10) == 0
    assert not bench.kept


def test_everything_is_there_again_after_a_death(tmp_path: Path) -> None:
    before = Bench(tmp_path).start()
    number = before.listen(b"c")
    before.listen(b"d", owner="bob", name="b")
    before.publish("b1", 10, 11, owners=("ann", "bob"))
    before.publish("b2", 12)
    before.until(lambda: len(before.kept) == 2)
    before.desk.acknowledge(number, 1)
    before.until(lambda: before.desk.outbox.settled() is None)
    before.store.close()  # and nothing else: as if it were killed
    after = Bench(tmp_path).start()
    number_of_ann = after.delivery.listeners.number_of("ann")
    assert after.delivery.listeners.is_kept[number_of_ann] and after.delivery.listeners.count == 0
    assert after.publish("b1", 10, 11, owners=("ann", "bob")) == 0, "published again: it is kept already"
    assert after.desk.listen(b"e", "r", "ann", "a", 10) == {
        "owner": "ann",
        "durable": "a",
        "number": number,
        "sequence": 2,
    }
    after.until(lambda: len(after.heard(b"e")) == 2)
    assert after.heard(b"e") == [(2, 11), (3, 12)]
    after.listen(b"f", owner="bob", name="b")
    after.until(lambda: len(after.heard(b"f")) == 2)
    after.publish("b3", 13)
    after.until(lambda: len(after.heard(b"e")) == 3)
    assert after.heard(b"e")[-1] == (4, 13)
    after.desk.close()


def test_one_that_is_away_is_served_from_the_disk(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "OPEN_SIZE_BYTES_MAX", 200)
    monkeypatch.setattr(pusher, "READ_RECORDS_MAX", 3)
    number = bench.listen(b"c")
    bench.desk.unlisten(b"c", "ann", "a")
    for batch in range(20):
        bench.publish(f"b{batch}", batch)
    bench.until(lambda: len(bench.kept) == 20)
    assert not bench.pushes[b"c"]
    bench.listen(b"d", window=5)
    for told in range(5, 25, 5):
        bench.until(lambda told=told: len(bench.heard(b"d")) == told)
        bench.desk.acknowledge(number, told)
    assert bench.heard(b"d") == [(price + 1, price) for price in range(20)]


def test_a_slow_receiver_waits_and_loses_nothing_and_one_that_is_gone_is_forgotten(bench: Bench) -> None:
    bench.listen(b"c")
    bench.room[b"c"] = False
    bench.publish("b1", 1)
    bench.until(lambda: bool(bench.kept))
    bench.until(lambda: bench.desk.outbox.receivers.connected()[0].is_blocked)
    bench.room[b"c"] = True
    bench.until(lambda: bench.heard(b"c") == [(1, 1)])
    bench.room[b"c"] = None
    bench.publish("b2", 2)
    bench.until(lambda: not bench.desk.outbox.receivers.connected())
    bench.listen(b"d")
    bench.until(lambda: bench.heard(b"d") == [(1, 1), (2, 2)])


def test_the_later_of_two_takes_over_and_the_earlier_is_told(bench: Bench) -> None:
    number = bench.listen(b"c")
    bench.publish("b1", 1, 2)
    bench.until(lambda: len(bench.heard(b"c")) == 2)
    assert bench.listen(b"d") == number
    assert bench.pushes[b"c"][-1]["ended"] == "taken_over"
    bench.until(lambda: bench.heard(b"d") == [(1, 1), (2, 2)])
    bench.desk.unlisten(b"c", "ann", "a")
    bench.publish("b2", 3)
    bench.until(lambda: bench.heard(b"d")[-1] == (3, 3))
    assert len(bench.heard(b"c")) == 2


def test_a_forgotten_receiver_leaves_nothing_behind(bench: Bench) -> None:
    number = bench.listen(b"c")
    bench.publish("b1", 1)
    bench.until(lambda: bool(bench.kept))
    assert bench.desk.forget(b"o", "r2", "ann", "a") is None
    bench.until(lambda: bench.replies[-1][1].get("forgotten") is True)
    assert bench.pushes[b"c"][-1]["ended"] == "forgotten"
    bench.until(lambda: bench.on_disk() == 0)
    assert bench.desk.forget(b"o", "r3", "ann", "a") == {"forgotten": False}
    bench.desk.acknowledge(number, 1)  # on its way meanwhile
    assert bench.publish("b2", 1) == 0, "the owner has no receiver any more"
    assert bench.listen(b"c") == number + 1


def pages(store: OutboxStore, name: str = "page_count") -> int:
    with closing(sqlite3.connect(store.path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def test_what_is_acknowledged_leaves_the_disk_bit_by_bit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_store, "FREE_PAGES_KEPT", 8)
    monkeypatch.setattr(outbox_store, "PAGES_PER_SHRINK", 16)
    number, empty = bench.listen(b"c"), pages(bench.store)
    event = b'{"x":"%s"}' % (BIG * 100)
    bench.desk.keep("p", "b1", Body([(0, event)], {"ann": [Entry(0, [7], ["s"])]}))
    bench.until(lambda: len(bench.pushes[b"c"]) == 1)
    assert pages(bench.store) > empty + 70
    sizes: list[int] = []

    def is_small() -> bool:
        sizes.append(pages(bench.store))
        return bench.store.free_pages == 0 and bench.on_disk() == 0 and sizes[-1] < empty + 20

    bench.desk.acknowledge(number, 1)
    bench.until(is_small)
    assert pages(bench.store, "freelist_count") <= 8 and 3 < len(set(sizes)) < 12
    bench.publish("b2", 5)
    bench.until(lambda: len(bench.pushes[b"c"]) == 2)


def test_a_file_that_cannot_shrink_can_when_it_is_opened_with_nothing_in_it(tmp_path: Path) -> None:
    with closing(OutboxStore(tmp_path, "full")) as store, closing(sqlite3.connect(store.path)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
        connection.execute("INSERT INTO records VALUES (1, 'p', 'b', 0, x'', x'')")
        connection.commit()
        assert pages(store, "auto_vacuum") == 0
    OutboxStore(tmp_path, "full").close()
    assert pages(store, "auto_vacuum") == 0, "records are kept in it"
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("DELETE FROM records")
        connection.commit()
    OutboxStore(tmp_path, "full").close()
    assert pages(store, "auto_vacuum") == 2


def small_disk(bench: Bench, more_pages: int) -> Callable[[], None]:
    """Let the file grow by so many pages; return what gives the disk back."""
    connect = bench.store._connect
    with closing(connect()) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
    limit = [pages + more_pages]

    def connect_to_small_disk() -> sqlite3.Connection:
        connection = connect()
        connection.execute(f"PRAGMA max_page_count = {limit[0]}")
        return connection

    def give_back() -> None:
        limit[0] = 1 << 30
        bench.store._connection = None

    bench.store._connection = None
    store: Any = bench.store
    store._connect = connect_to_small_disk
    return give_back


def test_a_full_disk_refuses_publishers_and_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    give_back = small_disk(bench, 40)
    bench.start()
    number = bench.listen(b"c", window=1)
    sent = 0
    while not any(error for _, error in bench.kept):
        sent += 1
        event = b'{"price":%d,"x":"%s"}' % (sent, BIG)
        bench.desk.keep("p", f"b{sent}", Body([(0, event)], {"ann": [Entry(0, [7], ["s"])]}))
        bench.until(lambda: len(bench.kept) == sent)  # noqa: B023
    good = sum(error is None for _, error in bench.kept)
    (refused,) = [error for _, error in bench.kept if error is not None]
    assert good > 3 and "full" in str(refused)
    bench.desk.acknowledge(number, 1)
    give_back()
    again = bench.publish("again", 77)
    bench.until(lambda: bench.kept[-1] == (again, None))
    for told in range(2, good + 2):
        bench.until(lambda: bench.heard(b"c")[-1][0] == told)  # noqa: B023
        bench.desk.acknowledge(number, told)
    assert bench.heard(b"c") == [(idx, idx) for idx in range(1, good + 1)] + [(good + 1, 77)]
    bench.desk.close()


def test_what_is_behind_a_refused_record_is_refused_too_and_sequences_have_no_gap(bench: Bench) -> None:
    bench.listen(b"c")
    bench.publish("good", 1)
    bench.until(lambda: len(bench.kept) == 1)
    bench.store._file._inode = -2  # as if the file had been exchanged
    bad = [bench.publish(f"bad{idx}", 2) for idx in range(3)]
    bench.until(lambda: len(bench.kept) == 4)
    assert [record for record, error in bench.kept[1:] if error is not None] == bad
    bench.store._file.opened()
    bench.publish("good again", 3)
    bench.until(lambda: len(bench.heard(b"c")) == 2)
    assert bench.heard(b"c") == [(1, 1), (2, 3)]


def test_a_damaged_record_is_lost_and_the_next_one_comes(tmp_path: Path) -> None:
    before = Bench(tmp_path).start()
    before.listen(b"c")
    for batch in range(3):
        before.publish(f"b{batch}", batch)
    before.until(lambda: len(before.kept) == 3)
    before.desk.close()
    with closing(sqlite3.connect(tmp_path / OUTBOX_FILE)) as connection, connection:
        connection.execute("UPDATE records SET body = x'00' WHERE record = 2")
    after = Bench(tmp_path).start()
    after.listen(b"c")
    after.until(lambda: len(after.heard(b"c")) == 2)
    assert after.heard(b"c") == [(1, 0), (3, 2)]
    assert after.desk.status()["dropped"] == 1
    after.desk.close()


def test_a_disk_that_is_behind_makes_publishers_wait(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.listen(b"c")
    monkeypatch.setattr(durable, "OUTSTANDING_MAX", 2)
    bench.publish("b1", 1)
    bench.publish("b2", 1)
    with pytest.raises(BusyError):
        bench.publish("b3", 1)
    bench.until(lambda: len(bench.kept) == 2)
    bench.publish("b3", 1)
    monkeypatch.setattr(durable, "RECORD_SIZE_BYTES_MAX", 10)
    with pytest.raises(LimitError):
        bench.publish("b4", 1)


def test_a_receiver_that_cannot_be_made_durable_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Bounds(receivers_max=1))
    bench.store._file._inode = -2
    bench.start()
    assert bench.desk.listen(b"c", "r", "ann", "a", None) is None
    bench.until(lambda: bool(bench.replies))
    assert bench.replies[0][1]["error"]["code"] == "store_failed"
    bench.store._file.opened()
    bench.listen(b"c")
    with pytest.raises(LimitError):
        bench.desk.listen(b"c", "r", "ann", "b", None)
    with pytest.raises(ProtocolError):
        bench.desk.listen(b"c", "r", "ann", "a", 0)
    bench.desk.close()


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    OutboxStore(tmp_path, "full").close()
    with closing(sqlite3.connect(tmp_path / OUTBOX_FILE)) as connection, connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    with pytest.raises(StoreError, match="another format"):
        OutboxStore(tmp_path, "full")
    (tmp_path / OUTBOX_FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match="could not be opened"):
        OutboxStore(tmp_path, "full")


def test_a_record_of_a_batch_that_was_refused_after_it_was_kept_keeps_nobody_waiting() -> None:
    """Live listeners are told after the record went to the disk; what goes wrong there answers the batch."""
    coordinator: Any = SimpleNamespace(config=SimpleNamespace(limits=DEFAULT_LIMITS))
    desk = PublishDesk(coordinator, cast("BatchDesk", None), lambda _: None)
    desk.kept(7, None)
    desk.kept(8, StoreError("no room"))
    assert not desk._held
