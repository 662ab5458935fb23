"""The batch slab: payloads of accepted batches, one per chunk, read in place by the workers.

The coordinator alone places and releases; it keeps the free list in its own memory, so nothing here is
locked. A worker reads a chunk between the message that names it and its answer; the coordinator releases the
chunk only after all answers. No free chunk is an answer (`None`), not a wait.

A chunk has room for the largest batch, but its pages are reserved only as far as batches have reached,
and the chunk released last is used first: small batches keep the slab small.

    | header size | buffer count | (start, size) of each buffer | header JSON | buffer | buffer | ...

Behind the last buffer stand `SPARE_BYTES` that mean nothing and may be read.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.language.errors import LimitError, SegmentError
from pubsub_cluster.shm.family import FamilySegment
from pubsub_cluster.shm.segment import Owner

FAMILY = "batch_chunk"
CHUNK_EXTRA_BYTES = 1 << 20  # for the header, the directory of buffers and their alignment
RESERVE_STEP_BYTES = 256 << 10
SPARE_BYTES = 8
HEADS_KEPT_SIZE_BYTES_MAX = 256 << 10
_ENTRY_BYTES = 16  # start and size of a buffer


class ChunkHead(NamedTuple):
    """What stands in a chunk before the buffers, made once for payloads that differ in their buffers alone.

    Attributes
    ----------
    text : bytes
        Directory and header.
    header_size, buffer_count : int
    start_bytes, stop_bytes : int
        Where the buffers stand.
    """

    text: bytes
    header_size: int
    buffer_count: int
    start_bytes: int
    stop_bytes: int


def chunk_head(header_json: bytes, sizes: Sequence[int]) -> ChunkHead:
    """Return the head of a chunk with buffers of these sizes."""
    start_bytes = at = _aligned(len(sizes) * _ENTRY_BYTES + len(header_json))
    directory: list[int] = []
    for size_bytes in sizes:
        directory += (at, size_bytes)
        at += (size_bytes + 7) & ~7
    text = struct.pack(f"<{len(directory)}q", *directory) + header_json
    return ChunkHead(text, len(header_json), len(sizes), start_bytes, at)


class ChunkBuffers(Sequence[memoryview]):
    """The buffers of a payload, and where in their chunk they lie.

    Parameters
    ----------
    content : uint8[]
        The chunk, read-only.
    starts, sizes : tuple of int
        Bytes; the same objects for payloads that lie alike.

    Attributes
    ----------
    content, starts, sizes
        The parameters.
    """

    def __init__(
        self, content: npt.NDArray[np.uint8], starts: tuple[int, ...], sizes: tuple[int, ...]
    ) -> None:
        self.content = content
        self.starts = starts
        self.sizes = sizes

    def __len__(self) -> int:
        """Return the number of buffers."""
        return len(self.sizes)

    @overload
    def __getitem__(self, at: int) -> memoryview: ...

    @overload
    def __getitem__(self, at: slice) -> list[memoryview]: ...

    def __getitem__(self, at: int | slice) -> memoryview | list[memoryview]:
        """Return a buffer as a read-only view."""
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        start = self.starts[at]
        return self.content.data[start : start + self.sizes[at]]


class _Head(NamedTuple):
    header: dict[str, Any]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]


def _read_head(text: bytes, first_bytes: int, content_size: int, chunk_idx: int) -> _Head:
    numbers = memoryview(text[:first_bytes]).cast("q").tolist()
    starts, sizes = tuple(numbers[::2]), tuple(numbers[1::2])
    for start, size in zip(starts, sizes, strict=True):
        if start < 0 or size < 0 or size > content_size - start:
            raise SegmentError("a buffer lies outside its chunk of the batch slab", seen=chunk_idx)
    return _Head(orjson.loads(text[first_bytes:]), starts, sizes)


class _Chunk(NamedTuple):
    """A chunk's columns as the coordinator writes them: stores without arrays."""

    content: memoryview
    header_size: memoryview
    buffer_count: memoryview


class SlabReader:
    """Read payloads in place.

    Parameters
    ----------
    family : FamilySegment
        Of the family ``batch_chunk``.
    """

    def __init__(self, family: FamilySegment) -> None:
        self._family = family
        self._heads: dict[tuple[int, bytes], _Head] = {}
        self._heads_size_bytes = 0
        self._contents: dict[int, npt.NDArray[np.uint8]] = {}

    @classmethod
    def attach(cls, name: str) -> SlabReader:
        """Attach a slab by its segment's name; raises `SegmentError`."""
        return cls(FamilySegment.attach(FAMILY, name))

    @property
    def name(self) -> str:
        """Name of the segment, for `attach`."""
        return self._family.name

    @property
    def chunk_count(self) -> int:
        """Number of chunks."""
        return self._family.lengths["chunks"]

    def read(self, chunk_idx: int) -> tuple[dict[str, Any], ChunkBuffers]:
        """Return header and buffers of the payload in a chunk.

        The header is not to be changed, and is the same object for payloads that lie alike. The buffers are
        read-only views, valid until the coordinator releases the chunk (their memory stays mapped longer,
        with other contents).

        Raises
        ------
        SegmentError
            The chunk does not exist or holds no payload.
        """
        if not 0 <= chunk_idx < self.chunk_count:
            raise SegmentError("no such chunk of the batch slab", seen=chunk_idx, limit=self.chunk_count)
        header_size = int(self._family.column("header_size", chunk_idx)[0])
        buffer_count = int(self._family.column("buffer_count", chunk_idx)[0])
        content = self._content(chunk_idx)
        first_bytes = buffer_count * _ENTRY_BYTES
        if header_size <= 0 or buffer_count < 0 or first_bytes + header_size > len(content):
            raise SegmentError("a chunk of the batch slab holds no payload", seen=[header_size, buffer_count])
        text = bytes(content.data[: first_bytes + header_size])
        head = self._heads.get((buffer_count, text))  # a publisher's batches are mostly alike
        if head is None:
            head = _read_head(text, first_bytes, len(content), chunk_idx)
            self._heads_size_bytes += len(text)
            if self._heads_size_bytes > HEADS_KEPT_SIZE_BYTES_MAX:
                self._heads.clear()
                self._heads_size_bytes = len(text)
            self._heads[buffer_count, text] = head
        return head.header, ChunkBuffers(content, head.starts, head.sizes)

    def _content(self, chunk_idx: int) -> npt.NDArray[np.uint8]:
        content = self._contents.get(chunk_idx)
        if content is None:
            content = self._family.column("content", chunk_idx).view()
            content.flags.writeable = False
            self._contents[chunk_idx] = content
        return content

    def close(self) -> None:
        """Let go of the segment; buffers stay mapped."""
        self._contents.clear()
        self._family.close()


class BatchSlab(SlabReader):
    """The coordinator's side: place and release."""

    def __init__(self, family: FamilySegment, reserved: bool) -> None:
        super().__init__(family)
        self._content_bytes = family.lengths["content_bytes"]
        self._free = list(range(self.chunk_count - 1, -1, -1))
        self._reserved_bytes = [self._content_bytes if reserved else 0] * self.chunk_count
        self._chunks = [
            _Chunk(*[family.column(name, chunk_idx).data for name in _Chunk._fields])
            for chunk_idx in range(self.chunk_count)
        ]

    @classmethod
    def create(
        cls,
        owner: Owner,
        chunk_count: int,
        batch_size_bytes_max: int,
        generation: int = 1,
        reserve: bool = False,
    ) -> BatchSlab:
        """Create a slab.

        Parameters
        ----------
        chunk_count : int
            Batches that may be in the cluster at once.
        batch_size_bytes_max : int
            Most bytes of all buffers of a batch (`Limits.batch_size_bytes_max`).
        reserve : bool
            True takes all memory now, so that `place` can never run out of it.

        Raises
        ------
        SegmentError
            No room.
        """
        lengths = {"chunks": chunk_count, "content_bytes": batch_size_bytes_max + CHUNK_EXTRA_BYTES}
        return cls(FamilySegment.create(FAMILY, lengths, generation, owner, reserve), reserve)

    @property
    def free_count(self) -> int:
        """Chunks that are free now."""
        return len(self._free)

    def place(self, header_json: bytes, buffers: Sequence[Any]) -> int | None:
        """Copy a payload into a free chunk; return the chunk, or None when none is free.

        Parameters
        ----------
        header_json : bytes
            A JSON object, not empty.
        buffers : sequence of bytes-like
            C-contiguous.

        Raises
        ------
        LimitError
            The payload is larger than a chunk.
        SegmentError
            No shared memory left to reserve; nothing has changed.
        """
        views = [_flat(buffer) for buffer in buffers]
        head = chunk_head(header_json, [len(view) for view in views])
        content = self._open_chunk(head)
        if content is None:
            return None
        at = head.start_bytes
        for view in views:
            size_bytes = len(view)
            content[at : at + size_bytes] = view
            at += (size_bytes + 7) & ~7
        return self._free.pop()

    def place_blocks(self, head: ChunkHead, blocks: Sequence[Any], size_bytes: int) -> int | None:
        """Copy payloads of dense columns into a free chunk as one, column by column; as `place`.

        Parameters
        ----------
        head : ChunkHead
            Of the whole; all its buffers have one size.
        blocks : sequence of bytes-like
            Each has a like part of every column, one behind the other, each filled up to a multiple of eight
            bytes.
        size_bytes : int
            Of such a part, without what fills it up.
        """
        content = self._open_chunk(head)
        if content is None:
            return None
        if len(blocks) == 1:
            content[head.start_bytes : head.stop_bytes] = blocks[0]
            return self._free.pop()
        place = np.frombuffer(content[head.start_bytes : head.stop_bytes], np.uint8)
        place = place.reshape(head.buffer_count, -1)
        for number, block in enumerate(blocks):
            part = np.frombuffer(block, np.uint8).reshape(head.buffer_count, -1)[:, :size_bytes]
            place[:, number * size_bytes : (number + 1) * size_bytes] = part
        return self._free.pop()

    def _open_chunk(self, head: ChunkHead) -> memoryview | None:
        """Write the head into the chunk that is used next; return its content, or None when none is free."""
        end_bytes = head.stop_bytes + SPARE_BYTES
        if end_bytes > self._content_bytes:
            raise LimitError(
                "the batch is larger than a chunk of the batch slab",
                seen=end_bytes,
                limit=self._content_bytes,
                remedy="Publish it in smaller batches",
                limit_name="batch_size_bytes_max",
            )
        if not self._free:
            return None
        chunk_idx = self._free[-1]
        self._make_room(chunk_idx, end_bytes)
        content, header_size, buffer_count = self._chunks[chunk_idx]
        content[: len(head.text)] = head.text
        header_size[0], buffer_count[0] = head.header_size, head.buffer_count
        return content

    def release(self, chunk_idx: int) -> None:
        """Give a chunk back; no reader looks at it any more."""
        if chunk_idx in self._free or not 0 <= chunk_idx < self.chunk_count:
            raise ValueError(f"chunk {chunk_idx} of {self.chunk_count} is not in use")
        self._free.append(chunk_idx)

    def unlink(self) -> None:
        """Remove the segment's name."""
        self._family.unlink()

    def _make_room(self, chunk_idx: int, size_bytes: int) -> None:
        reserved_bytes = self._reserved_bytes[chunk_idx]
        if size_bytes <= reserved_bytes:
            return
        end_bytes = min(-(-size_bytes // RESERVE_STEP_BYTES) * RESERVE_STEP_BYTES, self._content_bytes)
        if not reserved_bytes:
            for name in ("header_size", "buffer_count"):
                self._family.reserve_column(name, 0, 1, chunk_idx)
        self._family.reserve_column("content", reserved_bytes, end_bytes, chunk_idx)
        self._reserved_bytes[chunk_idx] = end_bytes


def _flat(buffer: Any) -> bytes | memoryview:
    if type(buffer) is bytes:
        return buffer
    view = memoryview(buffer)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _aligned(size_bytes: int) -> int:
    return (size_bytes + 7) & ~7
