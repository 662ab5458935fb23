"""Counters: watched from another process, taken over by the next one, never running backwards."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.counters import CounterReader, CounterSegment, CounterWriter
from pubsub_cluster.shm.segment import current_owner

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("tasks", "events", "busy_µs")


@pytest.fixture
def counters() -> Iterator[CounterSegment]:
    made = CounterSegment.create(current_owner(uuid.uuid4().hex[:8]), NAMES, 2)
    yield made
    made.unlink()


def test_an_outsider_needs_only_the_name(counters: CounterSegment) -> None:
    writer = counters.writer(1)
    writer.add("tasks")
    writer.add("events", 1000)
    writer.add("events", 1)
    writer.set("busy_µs", -5)
    reader = CounterReader.attach(counters.name)
    assert reader.names == NAMES
    expected = {"tasks": 1, "events": 1001, "busy_µs": -5}
    assert [reader.of_slot(idx) for idx in range(2)] == [dict.fromkeys(NAMES, 0), expected]
    assert reader.totals() == expected
    assert reader.pids() == [0, os.getpid()]


def test_a_process_that_takes_over_goes_on(counters: CounterSegment) -> None:
    code = """
import os, signal, sys
from pubsub_cluster.shm.counters import CounterWriter
writer = CounterWriter.attach(sys.argv[1], 0)
for _ in range(1000):
    writer.add("events", 3)
writer.begin(7)
os.kill(os.getpid(), signal.SIGKILL)
"""
    for life in (1, 2):
        subprocess.run([sys.executable, "-c", code, counters.name], cwd=ROOT, timeout=60, check=False)
        assert counters.of_slot(0)["events"] == 3000 * life
        assert counters.task(0) == 7, "what the process was at when it was killed"
    assert counters.pids()[0] not in (0, os.getpid())
    counters.writer(0)
    assert counters.task(0) == 0, "its successor has begun nothing"


def test_every_counter_has_a_cache_line_of_its_own(counters: CounterSegment) -> None:
    writers = [counters.writer(0), counters.writer(1)]
    for slot_idx, writer in enumerate(writers):
        for idx, name in enumerate(NAMES):
            writer.set(name, 10 * slot_idx + idx + 1)
    assert [list(counters.of_slot(idx).values()) for idx in range(2)] == [[1, 2, 3], [11, 12, 13]]
    assert counters._values.strides[1] == 64


@pytest.mark.parametrize("names", [("a", "a"), ("",), ("x" * 65,)])
def test_names_that_cannot_be_told_apart_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(SegmentError):
        CounterSegment.create(current_owner("0123abcd"), names, 1)


def test_a_slot_that_does_not_exist_is_refused(counters: CounterSegment) -> None:
    for slot_idx in (-1, 2):
        with pytest.raises(SegmentError, match="slot"):
            CounterWriter.attach(counters.name, slot_idx)
    with pytest.raises(KeyError):
        counters.writer(0).add("unheard_of")
