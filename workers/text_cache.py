"""The texts seen before and their bits: a bounded table for the kernels, which starts anew when full."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import bits as kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled

TEXTS_MAX = 1 << 17
SIZE_BYTES_MAX = 12 << 20
"""Texts kept, and bytes of them and of their bits: all attributes together."""

_TEXTS_MIN = 1_024
_HEAP_BYTES_MIN = 1 << 15
_BITS_MIN = 1 << 12
_keep_texts = Settled(kernels.keep_texts)

SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))


class TextCache:
    """A `kernels.TextTable` that grows up to its bounds.

    Attributes
    ----------
    table : kernels.TextTable
        Valid until the next `make_room` or `keep`.
    """

    def __init__(self) -> None:
        self.table = _empty(_TEXTS_MIN, _HEAP_BYTES_MIN, _BITS_MIN, 0)

    def keep(self, found: Mapping[tuple[int, bytes], list[int]]) -> None:
        """Enter the bits of texts by group and text; more than fits is left out."""
        texts = [text for _, text in found]
        heap = sum(map(len, texts))
        bit_count = sum(map(len, found.values()))
        if len(texts) > TEXTS_MAX or heap + 4 * bit_count > SIZE_BYTES_MAX:
            return  # the next batch will not repeat it all
        self.make_room(len(texts), heap, bit_count)
        offset = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offset[1:])
        bit_offset = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(bits) for bits in found.values()], out=bit_offset[1:])
        group = np.array([group for group, _ in found], np.int32)
        bit = np.array([bit for bits in found.values() for bit in bits], np.int32)
        data = np.frombuffer(b"".join(texts), np.uint8)
        status = _keep_texts(
            self.table,
            (kernel_input(data, np.uint8), frozen(offset), frozen(group)),
            (bit, frozen(bit_offset)),
            SEED,
        )
        assert status == OK, "room was made before"

    def make_room(self, count: int, heap_bytes: int, bit_count: int) -> None:
        """Make sure that so many more texts, bytes and bits fit; forget everything when that is too much."""
        table = self.table
        texts_used, heap_used, stamp = table.state.tolist()
        bits_used = int(table.bit_start[texts_used])
        size_bytes = heap_used + heap_bytes + 4 * (bits_used + bit_count)
        if texts_used + count > TEXTS_MAX or size_bytes > SIZE_BYTES_MAX:
            # The room stays: to grow into it again would copy everything several times.
            texts_used = heap_used = bits_used = 0
            table.state[:2] = 0
            table.slot.fill(-1)
        sizes = (
            _grown(len(table.word), texts_used + count),
            _grown(len(table.heap), heap_used + heap_bytes),
            _grown(len(table.bit), bits_used + bit_count),
        )
        if sizes == (len(table.word), len(table.heap), len(table.bit)):
            return
        new = _empty(*sizes, stamp)
        offset = np.concatenate((np.zeros(1, np.int64), table.stop[:texts_used]))
        status = _keep_texts(
            new,
            (frozen(table.heap[:heap_used]), frozen(offset), frozen(table.group[:texts_used])),
            (table.bit[:bits_used], frozen(table.bit_start[: texts_used + 1])),
            SEED,
        )
        assert status == OK, "a larger table has room"
        self.table = new


def _grown(size: int, wanted: int) -> int:
    while size < wanted:
        size *= 2
    return size


def _empty(count: int, heap_bytes: int, bit_count: int, stamp: int) -> kernels.TextTable:
    """Return a table with room for so many texts, bytes and bits."""
    slots = 1 << (2 * count - 1).bit_length()
    return kernels.TextTable(
        slot=np.full(slots, -1, np.int32),
        group=np.empty(count, np.int32),
        word=np.empty(count, np.uint64),
        start=np.empty(count, np.int64),
        stop=np.empty(count, np.int64),
        heap=np.empty(heap_bytes, np.uint8),
        bit_start=np.zeros(count + 1, np.int64),
        bit=np.empty(bit_count, np.int32),
        state=np.array([0, 0, stamp], np.int64),
    )
