"""Keys: the numbers of all combinations of what an event has for the parts of a table (`probe`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import TABLE_DIRECT, TABLE_INEXACT
from pubsub_cluster.workers.kernels._jit import leaf, routine
from pubsub_cluster.workers.kernels.scatter import has_option, option_count_of, option_of
from pubsub_cluster.workers.kernels.tables import Index

COMBINATIONS_MAX = 1 << 40


@leaf
def combination_count(table: Any, parts: Any, digits: Any) -> Any:
    """Return how many keys of a table an event has, at most `COMBINATIONS_MAX`."""
    total: Any = np.int64(1)
    for part in range(parts.table_part[table], parts.table_part[table + 1]):
        total = min(total * option_count_of(parts.part_code[part], digits), COMBINATIONS_MAX)
    return total


@leaf
def expand_keys(table: Any, parts: Any, digits: Any, key: Any) -> None:
    """Write the keys of all combinations into `key`; the options of the first part change fastest."""
    first = Index(parts.table_part[Index(table)])
    stop = Index(parts.table_part[Index(table + 1)])
    base = -parts.table_offset[Index(table)]
    for part in range(first, stop):
        base += option_of(Index(parts.part_code[part]), np.int64(0), digits) * parts.part_multiplier[part]
    key[0] = base
    count = np.int64(1)
    for part in range(first, stop):
        code = Index(parts.part_code[part])
        if digits.digit_of[code] >= 0:
            continue
        multiplier = parts.part_multiplier[part]
        options = np.int64(digits.option_count[code])
        at = np.int64(digits.option_start[code])
        least = digits.option_digit[Index(at)]
        for option in range(1, options):
            step = (digits.option_digit[Index(at + option)] - least) * multiplier
            for number in range(count):
                key[Index(option * count + number)] = key[Index(number)] + step
        count *= options


@leaf
def key_of_combination(table: Any, combination: Any, parts: Any, digits: Any) -> Any:
    """Return the key of one combination, numbered as in `expand_keys`."""
    key = -parts.table_offset[table]
    rest = np.int64(combination)
    for part in range(parts.table_part[table], parts.table_part[table + 1]):
        code = parts.part_code[part]
        options = option_count_of(code, digits)
        key += option_of(code, rest % options, digits) * parts.part_multiplier[part]
        rest //= options
    return key


@leaf
def key_is_open(table: Any, key: Any, parts: Any, attribute_point: Any, digits: Any) -> Any:
    """Say whether an exact key is one of the event's combinations."""
    rest = np.int64(key)
    for part in range(parts.table_part[table + 1] - 1, parts.table_part[table] - 1, -1):
        multiplier = parts.part_multiplier[part]
        code = parts.part_code[part]
        first = np.int64(0 if code & 1 else attribute_point[code >> 1])
        if not has_option(code, first + rest // multiplier, digits):
            return False
        rest %= multiplier
    return True


@routine
def list_keys(
    table: Any, span: Any, parts: Any, areas: Any, attribute_point: Any, digits: Any, key: Any
) -> Any:
    """List keys of a table with more combinations than pending probes: one by one, or those that it has.

    Parameters
    ----------
    table : int
    span : tuple of (int, int, int)
        How many combinations there are, where to go on, and how many keys there is room for.

    Returns
    -------
    tuple of (int, int, int)
        How many keys are in `key`, the number of the first combination (-1: places were gone through), and
        where to go on; 0 when all have been listed.
    """
    total, done, room = span
    by_place = total > areas.table_places[table]
    stop = areas.table_places[table] if by_place else total
    last = min(done + room, stop)
    found = np.int64(0)
    for at in range(done, last):
        if not by_place:
            key[found] = key_of_combination(table, at, parts, digits)
            found += 1
            continue
        mode = areas.table_mode[table]
        mine = np.int64(at)
        if (mode & TABLE_DIRECT) == 0:
            entry = 2 * (areas.table_area[table] + at)
            if areas.table_hash[entry + 1] < 0:
                continue
            mine = areas.table_hash[entry]
        if (mode & TABLE_INEXACT) == 0 and not key_is_open(table, mine, parts, attribute_point, digits):
            continue
        key[found] = mine
        found += 1
    return found, np.int64(-1) if by_place else done, np.int64(0) if last == stop else last
