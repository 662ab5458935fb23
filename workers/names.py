"""The names of one worker: a table that the scanners read and extend, and its numbers for everyone else.

Numbers are stable until `epoch` changes, which happens between batches only, when publishers have made the
table large: then it starts anew and whoever holds numbers asks again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import DomainKind, Schema
from pubsub_cluster.language.values import encode_texts
from pubsub_cluster.shm.code_space import I4
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.kernels import names as kernels

LEARNED_NAMES_MAX = 65_536
_NAMES_MIN = 1_024
_HEAP_BYTES_MIN = 1 << 15
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))

_ACCEPTS = {
    DomainKind.INTEGER: kernels.ACCEPTS_INTEGER | kernels.ACCEPTS_WHOLE_FLOAT,
    DomainKind.FLOAT: kernels.ACCEPTS_INTEGER | kernels.ACCEPTS_FLOAT,
    DomainKind.STRING: kernels.ACCEPTS_TEXT,
    DomainKind.BOOLEAN: kernels.ACCEPTS_BOOLEAN,
    DomainKind.TIMESTAMP: kernels.ACCEPTS_INTEGER,  # its texts are read the long way
}
_ACCEPTS_ALL = (
    kernels.ACCEPTS_BOOLEAN | kernels.ACCEPTS_INTEGER | kernels.ACCEPTS_FLOAT | kernels.ACCEPTS_TEXT
)


class NameTable:
    """Numbers of attribute names, and what values each name takes without a closer look.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    """

    def __init__(self, schema: Schema, limits: Limits) -> None:
        self.epoch = 0
        self.rules = kernels.ScanRules(
            np.int64(limits.name_size_bytes_max),
            np.int64(limits.string_size_bytes_max),
            np.int64(limits.attributes_per_event_max),
            np.uint8(0 if schema.closed else _ACCEPTS_ALL),
            _SEED,
        )
        self._schema = schema
        self.arrays = self._empty()

    @property
    def count(self) -> int:
        """Names known so far."""
        return int(self.arrays.state[kernels.NAME_COUNT])

    def numbers_of(self, names: Sequence[str]) -> I4:
        """Return the numbers of names, int32, learned if they are new."""
        offsets, data = encode_texts(names)
        number = np.empty(len(names), np.int32)
        while self._is_tight(len(names), len(data)):
            self.grow()
        kernels.number_names(self.arrays, np.frombuffer(data, np.uint8), frozen(offsets), self.rules, number)
        return number

    def names(self) -> list[str]:
        """Return all names, by number."""
        count, used = self.count, int(self.arrays.state[kernels.HEAP_USED])
        data = self.arrays.heap[:used].tobytes()
        stops = self.arrays.stop[:count].tolist()
        return [data[first:stop].decode() for first, stop in zip([0, *stops], stops, strict=False)]

    def begin_batch(self) -> None:
        """Forget all names when there are too many; the one place where numbers change."""
        if self.count > LEARNED_NAMES_MAX:
            self.arrays = self._empty()
            self.epoch += 1

    def grow(self) -> None:
        """Double the table; numbers stay."""
        old, count = self.arrays, self.count
        self.arrays = empty_arrays(2 * len(old.word), 2 * len(old.heap))
        stamp, accepts = old.stamp.copy(), old.accepts.copy()
        offsets = np.concatenate((np.zeros(1, np.int64), old.stop[:count]))
        heap = old.heap[: offsets[-1]].copy()
        kernels.number_names(
            self.arrays, frozen(heap), frozen(offsets), self.rules, np.empty(count, np.int32)
        )
        self.arrays.state[kernels.STAMP] = old.state[kernels.STAMP]
        self.arrays.stamp[:count], self.arrays.accepts[:count] = stamp[:count], accepts[:count]

    def _is_tight(self, count: int, size_bytes: int) -> bool:
        used = int(self.arrays.state[kernels.HEAP_USED])
        return self.count + count > len(self.arrays.word) or used + size_bytes > len(self.arrays.heap)

    def _empty(self) -> kernels.NameArrays:
        self.arrays = empty_arrays(_NAMES_MIN, _HEAP_BYTES_MIN)
        declared = self._schema.attributes
        numbers = self.numbers_of([attribute.name for attribute in declared])
        for number, attribute in zip(numbers.tolist(), declared, strict=True):
            self.arrays.accepts[number] = _ACCEPTS.get(attribute.domain, 0)
        return self.arrays


def empty_arrays(name_count: int, heap_size: int) -> kernels.NameArrays:
    """Return a table with room for so many names and bytes."""
    return kernels.NameArrays(
        slot=np.full(4 * name_count, -1, np.int32),
        word=np.empty(name_count, np.uint64),
        start=np.empty(name_count, np.int64),
        stop=np.empty(name_count, np.int64),
        heap=np.empty(heap_size, np.uint8),
        accepts=np.empty(name_count, np.uint8),
        stamp=np.empty(name_count, np.int64),
        state=np.zeros(3, np.int64),
    )
