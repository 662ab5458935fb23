"""The batch slab: payloads come back as they went in, and a full slab says so."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import LimitError, SegmentError
from pubsub_cluster.language.protocol import packed
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner, current_owner, list_segments, unlink_segment
from pubsub_cluster.shm.slab import (
    CHUNK_EXTRA_BYTES,
    HEADS_KEPT_SIZE_BYTES_MAX,
    BatchSlab,
    SlabReader,
    chunk_head,
)

ROOT = Path(__file__).resolve().parents[1]
BATCH_BYTES = 1 << 20


@pytest.fixture
def owner() -> Iterator[Owner]:
    made = current_owner(uuid.uuid4().hex[:8])
    yield made
    for name in list_segments(made.cluster_id):
        unlink_segment(name)


@pytest.fixture
def slab(owner: Owner) -> BatchSlab:
    return BatchSlab.create(owner, 3, BATCH_BYTES)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(max_size=5), st.integers(-5, 5), max_size=3),
    st.lists(st.binary(max_size=40), max_size=20),
)
def test_payloads_come_back(slab: BatchSlab, header: dict[str, int], buffers: list[bytes]) -> None:
    chunk_idx = slab.place(orjson.dumps(header), buffers)
    assert chunk_idx is not None
    for reader in (slab, SlabReader.attach(slab.name)):
        found_header, found = reader.read(chunk_idx)
        assert found_header == header
        assert [bytes(view) for view in found] == buffers
        assert all(view.readonly for view in found)
    slab.release(chunk_idx)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 19), st.sampled_from(["i1", "i2", "i4", "i8"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_of_columns_become_one_payload(
    slab: BatchSlab, blocks: int, columns: int, events: int, dtype: str
) -> None:
    values = np.arange(blocks * columns * events).reshape(blocks, columns, events).astype(dtype)
    size_bytes = events * values.itemsize
    head = chunk_head(b'{"n": 1}', [blocks * size_bytes] * columns)
    frames = [packed([column.tobytes() for column in block])[1] for block in values]
    chunk_idx = slab.place_blocks(head, frames, size_bytes)
    assert chunk_idx is not None
    header, buffers = slab.read(chunk_idx)
    assert header == {"n": 1} and len(buffers) == columns
    for column, buffer in enumerate(buffers):
        assert np.array_equal(np.frombuffer(buffer, dtype), values[:, column].reshape(-1))
    slab.release(chunk_idx)


def test_payloads_that_lie_alike_share_their_header(slab: BatchSlab) -> None:
    chunks = [slab.place(b'{"n": 1}', [text]) for text in (b"ab", b"cd", b"e")]
    headers = [slab.read(chunk)[0] for chunk in chunks if chunk is not None]
    assert headers[0] is headers[1] and headers[0] is not headers[2]
    for number in range(300):
        slab.release(0)
        assert slab.place(b'{"n": %d, "text": "%s"}' % (number, b"x" * 4_000), [b"?"]) == 0
        assert slab.read(0)[0]["n"] == number
    assert slab._heads_size_bytes <= HEADS_KEPT_SIZE_BYTES_MAX and len(slab._heads) < 100
    assert [bytes(view) for view in slab.read(0)[1][:]] == [bytes(slab.read(0)[1][0])]


def test_buffers_of_any_kind_lie_aligned(slab: BatchSlab) -> None:
    numbers = np.arange(6.0).reshape(2, 3)
    chunk_idx = slab.place(b"{}", [b"x", numbers, np.empty(0), memoryview(b"abc"), bytearray(b"de")])
    assert chunk_idx is not None
    buffers = SlabReader.attach(slab.name).read(chunk_idx)[1]
    assert np.frombuffer(buffers[1]).tolist() == numbers.ravel().tolist()
    assert [bytes(buffer) for buffer in (buffers[0], *buffers[2:])] == [b"x", b"", b"abc", b"de"]
    for buffer in buffers:
        if len(buffer):
            assert np.frombuffer(buffer, np.uint8).ctypes.data % 8 == 0


def test_a_full_slab_says_so_and_a_released_chunk_is_used_next(slab: BatchSlab) -> None:
    chunks = [slab.place(b"{}", [bytes([idx])]) for idx in range(3)]
    assert sorted(chunks) == [0, 1, 2]
    assert slab.free_count == 0
    assert slab.place(b"{}", [b"more"]) is None
    assert [bytes(slab.read(chunk)[1][0]) for chunk in chunks if chunk is not None] == [b"\0", b"\1", b"\2"]
    slab.release(1)
    with pytest.raises(ValueError):
        slab.release(1)
    with pytest.raises(ValueError):
        slab.release(3)
    assert slab.place(b"{}", [b"more"]) == 1
    assert bytes(slab.read(1)[1][0]) == b"more"


def test_the_largest_batch_fits_and_a_larger_one_is_refused(slab: BatchSlab) -> None:
    chunk_idx = slab.place(b"{}", [bytes(BATCH_BYTES)])
    assert chunk_idx is not None
    assert len(slab.read(chunk_idx)[1][0]) == BATCH_BYTES
    with pytest.raises(LimitError) as caught:
        slab.place(b"{}", [bytes(BATCH_BYTES + CHUNK_EXTRA_BYTES)])
    assert caught.value.fields["limit_name"] == "batch_size_bytes_max"
    assert slab.free_count == 2


def test_memory_is_taken_as_batches_need_it(slab: BatchSlab) -> None:
    path = Path("/dev/shm") / slab.name
    slab.place(b"{}", [b"small"])
    assert path.stat().st_blocks * 512 < 3 << 20
    slab.place(b"{}", [bytes(BATCH_BYTES)])
    assert path.stat().st_blocks * 512 >= BATCH_BYTES


def test_no_memory_changes_nothing(slab: BatchSlab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SegmentError("no room")

    monkeypatch.setattr(FamilySegment, "reserve_column", refuse)
    with pytest.raises(SegmentError):
        slab.place(b"{}", [b"x"])
    monkeypatch.undo()
    assert slab.free_count == 3
    assert slab.place(b"{}", [b"x"]) == 0


def test_a_chunk_without_a_payload_is_refused(slab: BatchSlab) -> None:
    reader = SlabReader.attach(slab.name)
    for chunk_idx in (-1, 3):
        with pytest.raises(SegmentError, match="no such chunk"):
            reader.read(chunk_idx)
    with pytest.raises(SegmentError, match="no payload"):
        reader.read(2)
    assert slab.place(b"{}", [b"abc"]) == 0
    content = FamilySegment.attach("batch_chunk", slab.name, writable=True).column("content", 0)
    content[:16].view(np.int64)[:] = [1 << 40, 3]
    with pytest.raises(SegmentError, match="outside"):
        reader.read(0)


def test_another_process_reads_in_place(slab: BatchSlab) -> None:
    chunk_idx = slab.place(b'{"event_count":2}', [np.arange(1000), "äöü".encode()])
    code = """
import sys
import numpy as np
from pubsub_cluster.shm.slab import SlabReader
header, buffers = SlabReader.attach(sys.argv[1]).read(int(sys.argv[2]))
assert header == {"event_count": 2}
assert np.frombuffer(buffers[0], np.int64).sum() == 499500
assert bytes(buffers[1]).decode() == "\\u00e4\\u00f6\\u00fc"
"""
    done = subprocess.run(
        [sys.executable, "-c", code, slab.name, str(chunk_idx)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
