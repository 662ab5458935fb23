"""Text predicates of one attribute (or of any), and the bits of the texts seen before.

A text is evaluated once; then a kernel finds its bits by hash and full comparison, without a Python object.
The cache is bounded by count and by bytes; when it is full it starts anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from pubsub_cluster.language.raw_batch import TextEntries
from pubsub_cluster.shm.code_space import I8
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import bits as kernels
from pubsub_cluster.workers.kernels._jit import OK, Settled
from pubsub_cluster.workers.kernels.names import HEAP_USED, NAME_COUNT
from pubsub_cluster.workers.names import empty_arrays

_find_bits = Settled(kernels.find_bits)
CACHE_TEXTS_MAX = 65_536
CACHE_SIZE_BYTES_MAX = 8 << 20
_TEXTS_MIN = 256
_HEAP_BYTES_MIN = 8_192
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))


class TextCache:
    """The text predicates of one attribute, or of any, with the cache of their results."""

    def __init__(self) -> None:
        self.tests: list[tuple[int, Callable[[str], bool]]] = []
        self._table = empty_arrays(_TEXTS_MIN, _HEAP_BYTES_MIN)
        self._bit_start = np.zeros(1, np.int64)
        self._bit = np.zeros(0, np.int32)

    def keys_of(self, texts: TextEntries, width: int) -> I8:
        """Return ``event * width + bit`` for every bit that a text sets; repeats are possible."""
        rows = (
            kernel_input(texts.event, np.int32),
            kernel_input(texts.start, np.int64),
            kernel_input(texts.end, np.int64),
            kernel_input(texts.data, np.uint8),
        )
        key = np.empty(len(texts.event) + 64, np.int64)
        miss = np.empty(len(texts.event), np.int32)
        row, key_count, miss_count = 0, 0, 0
        while True:
            scalars = (row, key_count, miss_count, width, _SEED)
            bits = (frozen(self._bit_start), frozen(self._bit))
            status, row, key_count, miss_count = _find_bits(rows, self._table, bits, scalars, key, miss)
            if status == OK:
                break
            # An event may set all bits of the group, so the longest list of one text must fit.
            key = np.concatenate((key, np.empty(len(key) + len(self.tests), np.int64)))
        if miss_count == 0:
            return key[:key_count]
        return np.concatenate((key[:key_count], self._evaluate(texts, miss[:miss_count].tolist(), width)))

    def _evaluate(self, texts: TextEntries, rows: list[int], width: int) -> I8:
        """Evaluate the texts of `rows`, each distinct one once, and remember them."""
        data = texts.data.data
        found: dict[bytes, list[int]] = {}
        keys: list[int] = []
        for row in rows:
            text = bytes(data[texts.start[row] : texts.end[row]])
            bits = found.get(text)
            if bits is None:
                value = text.decode()
                bits = found[text] = [bit for bit, test in self.tests if test(value)]
            base = int(texts.event[row]) * width
            keys += [base + bit for bit in bits]
        self._remember(found)
        return np.array(keys, np.int64)

    def _remember(self, found: dict[bytes, list[int]]) -> None:
        size_bytes = int(self._table.state[HEAP_USED]) + 4 * len(self._bit)
        if len(self._bit_start) + len(found) > CACHE_TEXTS_MAX or size_bytes > CACHE_SIZE_BYTES_MAX:
            self._clear()
        for text, bits in found.items():
            size_bytes += len(text) + 4 * len(bits)
        if len(found) > CACHE_TEXTS_MAX or size_bytes > 2 * CACHE_SIZE_BYTES_MAX:
            return  # more than a cache should hold: the next batch will not repeat it all
        texts = list(found)
        while not self._has_room(len(texts), sum(map(len, texts))):
            self._grow()
        self._enter(texts)
        stops = np.cumsum([len(bits) for bits in found.values()], dtype=np.int64)
        self._bit_start = np.concatenate((self._bit_start, self._bit_start[-1] + stops))
        new = [bit for bits in found.values() for bit in bits]
        self._bit = np.concatenate((self._bit, np.array(new, np.int32)))

    def _enter(self, texts: list[bytes]) -> None:
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        data = frozen(np.frombuffer(b"".join(texts), np.uint8))
        status = kernels.enter_texts(self._table, data, frozen(offsets), _SEED)
        assert status == OK, "room was made before"

    def _has_room(self, count: int, size_bytes: int) -> bool:
        table = self._table
        return int(table.state[NAME_COUNT]) + count <= len(table.word) and int(
            table.state[HEAP_USED]
        ) + size_bytes <= len(table.heap)

    def _grow(self) -> None:
        old = self._table
        count = int(old.state[NAME_COUNT])
        offsets = np.concatenate((np.zeros(1, np.int64), old.stop[:count]))
        self._table = empty_arrays(2 * len(old.word), 2 * len(old.heap))
        kernels.enter_texts(self._table, frozen(old.heap), frozen(offsets), _SEED)

    def _clear(self) -> None:
        self._table = empty_arrays(_TEXTS_MIN, _HEAP_BYTES_MIN)
        self._bit_start = np.zeros(1, np.int64)
        self._bit = np.zeros(0, np.int32)
