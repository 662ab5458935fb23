"""The ring: what is written is read whole, or known to have been missed; records, there and back."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.client.ring_reader import RingReader
from pubsub_cluster.language.errors import LimitError, ProtocolError
from pubsub_cluster.language.records import FRAME, Columns, Record, encode_record
from pubsub_cluster.shm.broadcast_ring import SHARE_MAX, BroadcastRing
from pubsub_cluster.shm.segment import current_owner

RING_SIZE_BYTES = 4_096
ALL = frozenset((generation, group) for generation in range(3) for group in range(5))
TIMEOUT_S = 60.0


@pytest.fixture
def ring() -> Iterator[BroadcastRing]:
    made = BroadcastRing.create(current_owner("0123abcd"), RING_SIZE_BYTES)
    yield made
    made.close()


class Entry(NamedTuple):
    """What a record tells one owner."""

    number: int
    sequence: int
    handles: tuple[int, ...]
    ids: tuple[str, ...]


def columns_of(entries: list[Entry]) -> Columns:
    def ends(sizes: list[int]) -> Any:
        return np.cumsum([0, *sizes]).astype(np.int64)

    ids = [name.encode() for entry in entries for name in entry.ids]
    return Columns(
        np.array([entry.number for entry in entries], np.int32),
        np.array([entry.sequence for entry in entries], np.uint64),
        ends([len(entry.handles) for entry in entries]),
        np.array([handle for entry in entries for handle in entry.handles], np.uint64),
        ends([len(name) for name in ids]),
        b"".join(ids),
    )


ENTRIES = st.dictionaries(
    st.integers(0, 50),
    st.tuples(
        st.integers(0, (1 << 64) - 1),
        st.lists(st.tuples(st.integers(0, (1 << 64) - 1), st.text(max_size=5)), min_size=1, max_size=4),
    ),
    max_size=6,
).map(
    lambda found: [
        Entry(number, sequence, tuple(handle for handle, _ in pairs), tuple(name for _, name in pairs))
        for number, (sequence, pairs) in sorted(found.items())
    ]
)


@given(ENTRIES, st.sets(st.integers(0, 50), max_size=10))
def test_each_owner_finds_its_own_in_a_record(entries: list[Entry], mine: set[int]) -> None:
    head = {"publisher": "p", "batch_id": "b", "event_index": 3, "event": {"ä": [1.5, "x"]}}
    record = Record(b"".join(encode_record(head, columns_of(entries))))
    assert record.head() == head
    found = record.entries(np.array(sorted(mine), np.int32))
    assert [Entry(*one) for one in zip(*found, strict=True)] == [one for one in entries if one.number in mine]


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_other_bytes_are_no_record(cut: int) -> None:
    data = b"".join(encode_record({"event": 1}, columns_of([Entry(1, 2, (3,), ("s",))])))
    with pytest.raises(ProtocolError, match="no record"):
        Record(data[:cut] if cut >= 0 else data + b"\0")


@given(
    st.lists(st.tuples(st.integers(0, RING_SIZE_BYTES // 5), st.integers(0, 4), st.booleans()), max_size=40)
)
def test_a_reader_gets_what_was_written_for_its_groups_or_knows_that_it_was_lapped(
    writes: list[tuple[int, int, bool]],
) -> None:
    ring = BroadcastRing.create(current_owner("0123abcd"), RING_SIZE_BYTES)
    try:
        reader = RingReader(ring.facts)
        wanted = frozenset({(1, 1), (1, 2)})
        unread: list[tuple[int, bytes]] = []
        for number, (size_bytes, group, reads) in enumerate(writes):
            record = bytes([number % 256]) * size_bytes
            end = ring.write([record[:7], record[7:]], 1, group)
            unread += [(end, record)] if (1, group) in wanted else []
            if reads:
                begin, lapped = reader.position, reader.lapped_count
                found = reader.read(end, wanted)
                expected = [record for _, record in unread]
                if end - begin <= RING_SIZE_BYTES:
                    assert found == expected and reader.lapped_count == lapped
                else:
                    assert reader.lapped_count == lapped + 1 and found == []
                assert reader.position == end
                unread = []
        reader.close()
    finally:
        ring.close()


def test_a_record_that_is_too_large_is_refused_and_nothing_is_written(ring: BroadcastRing) -> None:
    with pytest.raises(LimitError, match="too large"):
        ring.write([bytes(RING_SIZE_BYTES // SHARE_MAX)], 1, 0)
    assert ring.position == 0
    assert (
        ring.write([bytes(RING_SIZE_BYTES // SHARE_MAX - FRAME.size)], 1, 0) == RING_SIZE_BYTES // SHARE_MAX
    )


def test_what_was_overwritten_under_the_reader_is_not_taken(ring: BroadcastRing) -> None:
    """The position fits, the bytes do not: as if the writer were in the middle of the next round."""
    reader = RingReader(ring.facts)
    end = ring.write([b"x" * 100], 1, 0)
    ring._data[FRAME.size + 50] ^= 1
    assert reader.read(end, ALL) == [] and reader.lapped_count == 1 and reader.position == end
    end = ring.write([b"y" * 100], 1, 0)
    assert reader.read(end, ALL) == [b"y" * 100]


def test_facts_that_are_none_are_refused(ring: BroadcastRing) -> None:
    for change in ({"segment": "../etc/passwd"}, {"size_bytes": 1 << 40}, {"size_bytes": None}):
        with pytest.raises(ProtocolError):
            RingReader({**ring.facts, **change})
    with pytest.raises(OSError, match="No such file"):
        RingReader({**ring.facts, "segment": "pubsub-none"})


def _read_all(facts: dict[str, Any], pipe: Connection) -> None:
    """Read as fast as one can; report what is wrong, what was read, and how often it was lapped."""
    reader = RingReader(facts)
    wrong = read = 0
    last, told = -1, (False, False)
    pipe.send("ready")
    while (end := pipe.recv()) >= 0:
        while pipe.poll():
            newer = pipe.recv()
            if newer < 0:
                end = -1
                break
            end = newer
        if end < 0:
            break
        for record in reader.read(end, ALL):
            number = int.from_bytes(record[:8], "little")
            wrong += number <= last or record[8:] != bytes([number % 251]) * (len(record) - 8)
            last, read = number, read + 1
        if (state := (reader.lapped_count > 0, read > 0)) != told:
            told = state
            pipe.send(state)
    pipe.send((wrong, read, reader.lapped_count))


def test_a_writer_that_laps_another_process_is_never_mistaken() -> None:
    ring = BroadcastRing.create(current_owner("0123abcd"), RING_SIZE_BYTES)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_read_all, args=(ring.facts, there))
    process.start()
    try:
        assert here.poll(TIMEOUT_S) and here.recv() == "ready"
        for _ in range(2 * SHARE_MAX):  # as much as laps whoever is not told of it: the race alone may not
            end = ring.write([bytes(RING_SIZE_BYTES // SHARE_MAX // 2)], 1, 0)
        here.send(end)
        assert here.poll(TIMEOUT_S) and here.recv() == (True, False)
        here.send(ring.write([bytes(8)], 1, 0))
        assert here.poll(TIMEOUT_S) and here.recv() == (True, True)
        for number in range(1, 20_000):
            record = number.to_bytes(8, "little") + bytes([number % 251]) * (number * 7 % 900)
            here.send(ring.write([record], 1, 0))
            if number % 64 == 0:
                os.sched_yield()
        here.send(-1)
        assert here.poll(TIMEOUT_S)
        wrong, read, lapped_count = here.recv()
        assert wrong == 0 and read > 0 and lapped_count > 0
    finally:
        process.join(TIMEOUT_S)
        assert process.exitcode == 0
        ring.close()
