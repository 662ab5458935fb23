"""A stamp that differs in any field is refused, saying what was expected and what was found."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.errors import SegmentError, error_from_dict
from pubsub_cluster.shm.header import HEADER_SIZE_BYTES, Stamp, check_stamp, read_stamp, write_stamp
from pubsub_cluster.shm.segment import Segment, SegmentName, current_owner, unlink_segment

SHM = Path("/dev/shm")
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def segment() -> Iterator[Segment]:
    made = Segment.create("test", 7, 4096, current_owner(uuid.uuid4().hex[:8]))
    yield made
    made.unlink()


@given(st.from_regex(r"[a-z][a-z_]{0,15}", fullmatch=True), st.integers(0, 2**32 - 1), INT64, INT64, INT64)
def test_a_stamp_reads_back(kind: str, layout: int, generation: int, pid: int, start: int) -> None:
    buffer = memoryview(bytearray(200))
    stamp = Stamp(kind, layout, generation, pid, start, 200 - HEADER_SIZE_BYTES)
    write_stamp(buffer, stamp)
    assert read_stamp(buffer, "x") == stamp
    check_stamp(read_stamp(buffer, "x"), stamp, "x")


@pytest.mark.parametrize(
    ("offset_bytes", "said"),
    [
        (0, "magic"),
        (8, "layout version"),
        (12, "byte order"),
        (16, "generation"),
        (24, "owner pid"),
        (32, "owner start ticks"),
        (40, "kind"),
        (56, "payload size"),
    ],
)
def test_each_field_is_checked_at_attach(segment: Segment, offset_bytes: int, said: str) -> None:
    segment.array("u1", offset_bytes, 1)[0] ^= 1
    with pytest.raises(SegmentError, match=said) as caught:
        Segment.attach(segment.name)
    assert "expected" in str(caught.value) and "found" in str(caught.value)
    assert {"expected", "found"} <= caught.value.fields.keys()
    assert str(error_from_dict(caught.value.to_dict())) == str(caught.value)


def test_another_layout_version_is_refused_unless_any_will_do(segment: Segment) -> None:
    with pytest.raises(SegmentError, match="layout version"):
        Segment.attach(segment.name, layout_version=2)
    assert Segment.attach(segment.name, layout_version=None).stamp == segment.stamp


def test_a_renamed_segment_is_refused(segment: Segment) -> None:
    owner = current_owner(segment.name.split("-")[1])
    for other in (SegmentName(owner, "test", 8), SegmentName(owner, "tess", 7)):
        os.link(SHM / segment.name, SHM / str(other))
        try:
            with pytest.raises(SegmentError):
                Segment.attach(str(other))
        finally:
            unlink_segment(str(other))


def test_a_half_written_stamp_is_no_stamp() -> None:
    buffer = memoryview(bytearray(128))
    write_stamp(buffer, Stamp("test", 1, 1, 1, 1, 64))
    buffer[:8] = bytes(8)
    with pytest.raises(SegmentError, match="magic"):
        read_stamp(buffer, "x")
    with pytest.raises(SegmentError, match="too small"):
        read_stamp(buffer[:63], "x")
