"""Texts to the bits that they set, by a table of the texts seen before.

The table is that of `workers.kernels.names`; bits of text i are ``bit[bit_start[i]:bit_start[i + 1]]``. Texts
are compared in full: the hash only says where to look. What is not found is listed for the slow way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW, kernel
from pubsub_cluster.workers.kernels.names import TABLE_FULL, enter, find_place
from pubsub_cluster.workers.kernels.text import word_of


@kernel
def enter_texts(table: Any, data: Any, offsets: Any, seed: Any) -> Any:
    """Enter texts that are not in the table; return OVERFLOW if there is no room, with some entered."""
    for at in range(offsets.shape[0] - 1):
        start, stop = offsets[at], offsets[at + 1]
        word = word_of(data, start, stop)
        place = find_place(table, data, start, stop, word, seed)
        if table.slot[place] < 0 and enter(table, data, start, stop, word, place) == TABLE_FULL:
            return OVERFLOW
    return OK


@kernel
def find_bits(texts: Any, table: Any, bits: Any, scalars: Any, key: Any, miss: Any) -> Any:
    """Look up the texts from a row on.

    =======  ===================================================================  ===
    texts    (event int32[k], start int64[k], end int64[k], data uint8[])         in
    table    `names.NameArrays`                                                   in
    bits     (bit_start int64[], bit int32[])                                     in
    scalars  (first row, keys written, misses written, width, seed uint64)        in
    key      int64[], ``event * width + bit`` of every bit that is set            out
    miss     int32[k], rows that the table does not have                          out
    =======  ===================================================================  ===

    Returns
    -------
    tuple of (int, int, int, int)
        Status, row to go on with, keys and misses written.
    """
    event, start, end, data = texts
    bit_start, bit = bits
    first, key_count, miss_count, width, seed = scalars
    row = np.int64(first)
    key_count = np.int64(key_count)
    miss_count = np.int64(miss_count)
    while row < event.shape[0]:
        word = word_of(data, start[row], end[row])
        number = table.slot[find_place(table, data, start[row], end[row], word, seed)]
        if number < 0:
            miss[miss_count] = row
            miss_count += 1
        else:
            if key_count + bit_start[number + 1] - bit_start[number] > key.shape[0]:
                return OVERFLOW, row, key_count, miss_count
            for at in range(bit_start[number], bit_start[number + 1]):
                key[key_count] = np.int64(event[row]) * width + bit[at]
                key_count += 1
        row += 1
    return OK, row, key_count, miss_count
