"""Taking removed rows out of the keyed half of the delta: the others are copied, and their lists made anew.

Rows have been numbered, tested and given their keys when they were added; a copy costs a fraction of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf
from pubsub_cluster.workers.kernels.keyed_rows import move_entry
from pubsub_cluster.workers.kernels.keyed_tables import (
    CLAUSES,
    COUNT_BITS,
    COUNT_MASK,
    ENTRIES,
    KEY_WIDTH,
    KEYS,
    LIST_ROOM_FIRST,
    LITERALS,
    LONGEST,
    PRUNED,
    SEVERAL_CLAUSES,
    find_key,
)


@leaf
def keep_clauses(old: Any, new: Any, moment: Any, number: Any) -> None:
    """Copy the clauses of rows that are not removed; write their new numbers, -1 for the others."""
    removed_version, version = moment
    kept, literals, pruned = np.int64(0), np.int64(0), np.int64(old.used[PRUNED])
    for clause in range(old.used[CLAUSES]):
        row = old.clause_row[clause]
        removed = removed_version[row]
        number[clause] = -1
        if 0 < removed <= version:
            pruned = max(pruned, removed)
            continue
        number[clause] = kept
        first = old.clause_first[clause]
        new.clause_row[kept] = row
        new.clause_first[kept] = number[first] if first >= 0 else -1
        new.used[SEVERAL_CLAUSES] += 1 if first >= 0 else 0
        new.clause_start[kept] = literals
        for at in range(old.clause_start[clause], old.clause_start[clause + 1]):
            new.literal[literals] = old.literal[at]
            literals += 1
        kept += 1
    new.clause_start[kept] = literals
    new.used[CLAUSES], new.used[LITERALS], new.used[PRUNED] = kept, literals, pruned


@leaf
def keep_list(place: Any, old: Any, new: Any, number: Any) -> None:
    """Copy what is left of the list of the key at `place`, if anything, and the key with it."""
    first, count = old.key[place + 1] >> COUNT_BITS, old.key[place + 1] & COUNT_MASK
    begin = np.int64(new.used[ENTRIES])
    kept = np.int64(0)
    for entry in range(first, first + count):
        clause = number[old.entry_clause[entry]]
        if clause >= 0:
            move_entry(entry, old, begin + kept, new)
            new.entry_clause[begin + kept] = clause
            kept += 1
    if kept == 0:
        return
    room = np.int64(LIST_ROOM_FIRST)
    while room < kept:  # a list is full when it has as many as a power of two (`keyed_rows.enter_clause`)
        room *= 2
    key = find_key(old.key[place], new.key)
    new.key[key], new.key[key + 1] = old.key[place], (begin << COUNT_BITS) + kept
    new.used[KEYS] += 1
    new.used[ENTRIES] = begin + room
    new.used[LONGEST] = max(new.used[LONGEST], room)


@kernel
def keep_live(old: Any, new: Any, removed_version: Any, version: Any, number: Any) -> None:
    """Copy what is not removed at `version`.

    ===============  =========================================================================  ======
    old              KeyedTables                                                                in
    new              KeyedTables of the same sizes: `used` and predicates as in `old`, keys     out
                     -1, stamps 0, no clauses, literals, keys and entries in use
    removed_version  int64[]: by catalogue row                                                  in
    version          int                                                                        in
    number           int32[clauses]                                                             out
    ===============  =========================================================================  ======
    """
    keep_clauses(old, new, (removed_version, version), number)
    for place in range(0, old.key.shape[0], KEY_WIDTH):
        if old.key[place + 1] >= 0:
            keep_list(place, old, new, number)
