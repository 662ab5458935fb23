"""What a publication tells the owners that are listened to, against a plain reference; the desk's pushes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.coordinator.delivery import listeners as listeners_module
from pubsub_cluster.coordinator.delivery.desk import NOTIFIED_SIZE_BYTES_MAX, DeliveryDesk
from pubsub_cluster.coordinator.delivery.listeners import NOBODY, Listeners
from pubsub_cluster.coordinator.delivery.multicast import record_columns
from pubsub_cluster.coordinator.delivery.told import Told, tell
from pubsub_cluster.coordinator.merge import Merged
from pubsub_cluster.language.errors import BusyError

OWNERS = 6


class Columns:
    """The one column that is looked at."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner


class Rows:
    """A catalogue in which row i belongs to owner ``owner[i]``, which is called ``o<number>``."""

    def __init__(self, owner_of_row: list[int]) -> None:
        self.columns = Columns(np.array(owner_of_row, np.int32))
        self.asked: list[int] = []

    def owner_name(self, owner_idx: int) -> str:
        self.asked.append(owner_idx)
        return f"o{owner_idx}"

    def subscription_id(self, row: int) -> str:
        return f"s{row}"

    def subscription_ids(self, rows: Any) -> tuple[Any, bytes]:
        ids = [f"s{row}".encode() for row in rows.tolist()]
        return np.cumsum([0, *map(len, ids)]), b"".join(ids)


def merged_of(events: list[list[int]]) -> Merged:
    """Return matches: row numbers of each event; a handle is ten times its row."""
    rows = np.array([row for event in events for row in sorted(event)], np.int32)
    offsets = np.cumsum([0, *map(len, events)]).astype(np.int64)
    return Merged(offsets, rows.astype(np.uint64) * np.uint64(10), rows)


def plainly_told(
    events: list[list[int]], catalogue: Rows, numbers: dict[str, int], sequences: dict[int, int]
) -> list[tuple[int, int, int, list[int]]]:
    """The reference: (event, number, sequence, rows) of each notification."""
    told = []
    for event_idx, rows in enumerate(events):
        by_number: dict[int, list[int]] = defaultdict(list)
        for row in sorted(rows):
            number = numbers.get(f"o{catalogue.columns.owner[row]}")
            if number is not None:
                by_number[number].append(row)
        for number in sorted(by_number):
            told.append((event_idx, number, sequences[number], by_number[number]))
            sequences[number] += 1
    return told


@given(
    owner_of_row=st.lists(st.integers(0, OWNERS - 1), min_size=1, max_size=12),
    publications=st.lists(
        st.tuples(st.lists(st.sets(st.integers(0, 11)), max_size=5), st.sets(st.integers(0, OWNERS - 1))),
        min_size=1,
        max_size=6,
    ),
)
def test_what_is_told_is_what_the_reference_says(
    owner_of_row: list[int], publications: list[tuple[list[set[int]], set[int]]]
) -> None:
    catalogue: Any = Rows(owner_of_row)
    listeners = Listeners()
    listening: set[int] = set()
    sequences: dict[int, int] = defaultdict(int)
    for events, wanted in publications:
        for owner in sorted(listening - wanted):
            listeners.remove(b"c", f"o{owner}")
        numbers = {f"o{owner}": listeners.add(b"c", f"o{owner}").number for owner in sorted(wanted)}
        listening = wanted
        rows = [[row for row in event if row < len(owner_of_row)] for event in events]
        expected = plainly_told(rows, catalogue, numbers, sequences)
        told = tell(merged_of(rows), listeners, catalogue, OWNERS)
        if told is None:
            assert expected == []
            continue
        rows_told = [told.rows[low:high].tolist() for low, high in itertools.pairwise(told.offsets.tolist())]
        columns = (told.event, told.number, told.sequence)
        got = list(zip(*(column.tolist() for column in columns), rows_told, strict=True))
        assert got == expected
        assert told.handles.tolist() == [10 * row for *_, rows in expected for row in rows]


@given(
    event=st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=8),
    data=st.data(),
)
def test_a_record_has_the_columns_of_the_entries_that_are_chosen(
    event: list[set[int]], data: st.DataObject
) -> None:
    """Those of the second of three events, whose entries match the rows in ``event``."""
    rows = [row for entry in [{99}, *event, {98}] for row in sorted(entry)]
    count = len(event) + 2
    told = Told(
        np.array([0, *[1] * len(event), 2]),
        np.arange(count, dtype=np.int32),
        np.arange(count, dtype=np.uint64) + np.uint64(100),
        np.cumsum([0, 1, *map(len, event), 1]).astype(np.int64),
        np.array(rows, np.uint64) * np.uint64(10),
        np.array(rows, np.int32),
    )
    chosen = sorted(data.draw(st.sets(st.integers(1, len(event)), min_size=1)))
    catalogue: Any = Rows([])
    found = record_columns(told, np.array(chosen, np.int64), catalogue)
    ids = [f"s{row}".encode() for entry in chosen for row in sorted(event[entry - 1])]
    assert found.number.tolist() == chosen and found.sequence.tolist() == [100 + entry for entry in chosen]
    assert found.offsets.tolist() == np.cumsum([0, *[len(event[entry - 1]) for entry in chosen]]).tolist()
    assert found.handles.tolist() == [10 * row for entry in chosen for row in sorted(event[entry - 1])]
    assert found.ids == b"".join(ids) and np.diff(found.id_offsets).tolist() == [len(one) for one in ids]


def test_a_number_is_not_given_again_while_a_record_may_be_heard_by_who_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listeners_module, "NUMBERS_LEAST", 3)
    listeners, given = Listeners(), []
    for _ in range(5):
        given.append(listeners.add(b"c", "o0").number)
        listeners.remove(b"c", "o0")
    assert given == [0, 1, 2, 0, 1]


def test_a_number_that_is_given_again_goes_on_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners_module, "NUMBERS_LEAST", 1)
    catalogue: Any = Rows([0, 1])
    listeners = Listeners()
    first = listeners.add(b"c", "o0").number
    assert tell(merged_of([[0]]), listeners, catalogue, 2) is not None
    listeners.remove(b"c", "o0")
    assert listeners.add(b"c", "o1").number == first
    told = tell(merged_of([[0, 1]]), listeners, catalogue, 2)
    assert told is not None and told.sequence.tolist() == [1] and told.rows.tolist() == [1]


def test_names_are_looked_up_once_per_catalogue_and_change_of_listeners() -> None:
    catalogue: Any = Rows([0, 1])
    listeners = Listeners()
    listeners.add(b"c", "o0")
    owners = np.array([0, 1, 0], np.int32)
    for _ in range(3):
        assert listeners.numbers(owners, catalogue, 2).tolist() == [0, NOBODY, 0]
    assert catalogue.asked == [0, 1]
    other: Any = Rows([1, 0])
    other.owner_name = lambda idx: f"o{1 - idx}"
    assert listeners.numbers(owners, other, 2).tolist() == [NOBODY, 0, NOBODY]


def test_a_publication_that_is_refused_is_not_counted() -> None:
    class Refusing:
        active = True

        def keep(self, *_: Any) -> int:
            raise BusyError("the disk is behind")

    desk: Any = DeliveryDesk(lambda *_: True)
    catalogue: Any = Rows([0, 1])
    desk.listen(b"c", "o0")
    desk.listeners.keep("o1", True)
    desk.durable = Refusing()
    with pytest.raises(BusyError):
        desk.notify(merged_of([[0, 1], [0]]), catalogue, 2, "p", "b", lambda idxs: [b"1" for _ in idxs])
    assert desk.listeners.sequences[:2].tolist() == [0, 0], "a listener would take it for a loss"


def test_what_finds_no_room_is_counted_and_told_with_the_next() -> None:
    room, pushes = [True], []

    def send(_identity: bytes, frames: list[Any]) -> bool:
        if room[0]:
            pushes.append(orjson.loads(frames[1]))
        return room[0]

    def notify(size_bytes: int = 4) -> None:
        event = b'"' + b"x" * size_bytes + b'"'
        desk.notify(merged_of([[0], [0]]), catalogue, 1, "p", "b", lambda idxs: [event for _ in idxs])

    desk = DeliveryDesk(send)
    catalogue: Any = Rows([0])
    assert desk.listen(b"c", "o0") == {"owner": "o0", "number": 0, "sequence": 0, "records": None}
    notify()
    room[0] = False
    notify()
    room[0] = True
    notify(NOTIFIED_SIZE_BYTES_MAX // 2)
    notify()
    assert desk.listen(b"d", "o0")["sequence"] == 8
    assert [(push["dropped"], [one["sequence"] for one in push["events"]]) for push in pushes] == [
        (0, [0, 1]),
        (4, [6, 7]),
    ]
    assert (desk.sent, desk.dropped) == (4, 4)
