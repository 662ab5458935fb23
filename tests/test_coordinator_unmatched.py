"""Events that matched nobody: which they are, how many are told, and how losses are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.coordinator.delivery import unmatched as module
from pubsub_cluster.coordinator.delivery.unmatched import (
    UNMATCHED_LISTENERS_MAX,
    UNMATCHED_PER_S_MAX,
    UNMATCHED_SIZE_BYTES_MAX,
    Unmatched,
)
from pubsub_cluster.language.errors import LimitError


class Wire:
    """Takes pushes while there is room; a connection may be gone."""

    def __init__(self) -> None:
        self.room = True
        self.gone: set[bytes] = set()
        self.pushes: list[tuple[bytes, dict[str, Any]]] = []

    def send(self, identity: bytes, frames: list[Any]) -> bool:
        if identity in self.gone:
            raise ConnectionError
        if self.room:
            self.pushes.append((identity, orjson.loads(frames[1])))
        return self.room


def tell(
    desk: Unmatched, counts: list[int], now_s: float = 0.0, refused: tuple[int, ...] = (), size: int = 1
) -> None:
    """Publish events with so many matches each."""
    offsets = np.cumsum([0, *counts]).astype(np.int64)

    def json_of(idxs: list[int]) -> list[bytes]:
        return [orjson.dumps(str(idx).ljust(size)) for idx in idxs]

    desk.tell(offsets, refused, "p", "b", json_of, now_s)


@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), max_size=8),
            st.booleans(),
            st.floats(0.0, 2.0),
            st.sets(st.integers(0, 7)),
        ),
        max_size=12,
    ),
    per_s=st.sampled_from([1, 3, 1_000]),
)
def test_each_unmatched_event_is_told_or_counted_as_lost(
    batches: list[tuple[list[int], bool, float, set[int]]], per_s: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "UNMATCHED_PER_S_MAX", per_s)
        wire = Wire()
        desk = Unmatched(wire.send)
        desk.listen(b"c")
        expected: list[int] = []  # indices of unmatched events, by sequence
        now_s = 0.0
        for counts, wire.room, pause_s, refused in batches:
            now_s += pause_s
            left = tuple(idx for idx in refused if idx < len(counts))
            expected += [idx for idx, count in enumerate(counts) if count == 0 and idx not in left]
            tell(desk, counts, now_s, left)
        following = 0
        for _, push in wire.pushes:
            assert push["owner"] == "" and push["events"]
            following += push["dropped"]
            for event in push["events"]:
                assert event["sequence"] == following
                assert event["event_index"] == expected[following] == int(event["event"])
                assert event["handles"] == event["ids"] == []
                following += 1
        assert desk.listen(b"late")["sequence"] == len(expected)
        assert len(expected) == desk.sent + desk.dropped
        assert desk.sent <= per_s * (now_s + 1)


def test_what_is_told_is_bounded_by_time_and_bytes() -> None:
    wire = Wire()
    desk = Unmatched(wire.send)
    desk.listen(b"c")
    tell(desk, [0] * (UNMATCHED_PER_S_MAX + 5))
    tell(desk, [0])
    tell(desk, [0] * 3, now_s=1.5 / UNMATCHED_PER_S_MAX)
    told = [(push["dropped"], len(push["events"])) for _, push in wire.pushes]
    assert told == [(0, UNMATCHED_PER_S_MAX), (6, 1)]
    tell(desk, [0] * 3, now_s=10.0, size=UNMATCHED_SIZE_BYTES_MAX // 2)
    tell(desk, [0], now_s=10.0, size=2 * UNMATCHED_SIZE_BYTES_MAX)
    assert [(push["dropped"], len(push["events"])) for _, push in wire.pushes[2:]] == [(2, 1), (2, 1)]


def test_connections_come_and_go() -> None:
    wire = Wire()
    desk = Unmatched(wire.send)
    for number in range(UNMATCHED_LISTENERS_MAX):
        assert (
            desk.listen(b"%d" % number)
            == desk.listen(b"%d" % number)
            == {"owner": "", "number": 0, "sequence": 0}
        )
    with pytest.raises(LimitError):
        desk.listen(b"one more")
    wire.gone = {b"0", b"1"}
    desk.listen(b"one more")
    desk.unlisten(b"one more")
    desk.unlisten(b"one more")
    assert desk.count == UNMATCHED_LISTENERS_MAX - 2
    wire.pushes.clear()
    wire.gone = {b"2"}
    tell(desk, [0, 1, 0])
    assert desk.count == len(wire.pushes) == UNMATCHED_LISTENERS_MAX - 3
    tell(desk, [1, 1])
    assert desk.count == len(wire.pushes)
