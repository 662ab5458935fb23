"""Kernels that are only timed: the steps of matching one by one, on arrays too large for the caches.

Each mirrors a stage of `probe` and `check`, so that the cost model's constants (`workers.measure`) are this
machine's. They return what they found, so that no step is optimised away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import LINE_WORDS
from pubsub_cluster.workers.kernels._jit import kernel
from pubsub_cluster.workers.kernels.check import check_section
from pubsub_cluster.workers.kernels.prefetch import prefetch
from pubsub_cluster.workers.kernels.scatter import slice_of
from pubsub_cluster.workers.kernels.tables import CURSOR_TREE, Index
from pubsub_cluster.workers.kernels.tree import collect_leaves


@kernel
def skip_tables(digit: Any, way_count: Any, table_part: Any, part_code: Any) -> Any:
    """Look at every table of every event and find that its second attribute is missing.

    Parameters
    ----------
    digit : int32[events * way_count]
        -1: missing.
    table_part : int32[tables + 1]
    part_code : int32[]
    """
    found = 0
    for event in range(digit.shape[0] // way_count):
        for table in range(table_part.shape[0] - 1):
            for part in range(table_part[table], table_part[table + 1]):
                if digit[event * way_count + part_code[part]] < 0:
                    break
                found += 1
    return found


@kernel
def probe_tables(
    digit: Any, way_count: Any, table_part: Any, part_code: Any, multiplier: Any, area: Any, pending: Any
) -> Any:
    """Compute the key of every table, ask for its place, then read all places; none is taken.

    Parameters
    ----------
    digit : int32[events * way_count]
    table_part : int32[tables + 1]
    part_code, multiplier : int32[], int64[]
    area : int32[]
        A power of two of places for each table, of which there is a power of two.
    pending : int64[tables]
    """
    table_count = table_part.shape[0] - 1
    size = area.shape[0] // table_count
    found = 0
    for event in range(digit.shape[0] // way_count):
        for table in range(table_count):
            key = 0
            for part in range(table_part[table], table_part[table + 1]):
                key += digit[event * way_count + part_code[part]] * multiplier[part]
            pending[table] = table * size + (key & (size - 1))
            prefetch(area, pending[table])
        for table in range(table_count):
            if area[pending[table]] >= 0:
                found += 1
    return found


@kernel
def probe_cells(digit: Any, part_count: Any, multiplier: Any, area: Any, key: Any) -> Any:
    """Compute the keys of all combinations of two neighbouring cells per part, ask for them, read them.

    Parameters
    ----------
    digit : int32[tables * part_count]
        The upper one of the two cells; at least 1.
    part_count : int
    multiplier : int64[part_count]
    area : int32[]
        A power of two of places.
    key : int64[2 ** part_count]
    """
    found = 0
    mask = area.shape[0] - 1
    for first in range(0, digit.shape[0] - part_count + 1, part_count):
        count = 1
        key[0] = first
        for part in range(part_count):
            upper = digit[first + part]
            for option in range(1, -1, -1):
                step = (upper - option) * multiplier[part]
                for at in range(count):
                    key[option * count + at] = key[at] + step
            count *= 2
        for at in range(count):
            prefetch(area, key[at] & mask)
        for at in range(count):
            if area[key[at] & mask] >= 0:
                found += 1
    return found


@kernel
def visit_clusters(start: Any, blob: Any, flag: Any, group: Any) -> Any:
    """Ask for `group` clusters, then read the header and the only literal of each.

    Parameters
    ----------
    start : int64[n]
    blob : int32[]
    flag : uint8[]
    """
    found = 0
    for first in range(0, start.shape[0] - group + 1, group):
        for at in range(first, first + group):
            prefetch(blob, start[at])
        for at in range(first, first + group):
            entry_count = blob[start[at]]
            if entry_count > 0 and flag[blob[start[at] + 1]] != 0:
                found += 1
    return found


@kernel
def check_columns(column_count: Any, blob: Any, flag: Any, survivor: Any) -> Any:
    """Reduce all entries of one cluster by its columns, as `check.columns_hold` does.

    Parameters
    ----------
    blob : int32[]
        Column after column of literals.
    flag : uint8[]
    survivor : int32[entries]
    """
    entry_count = survivor.shape[0]
    count = 0
    for entry in range(entry_count):
        survivor[count] = entry
        count += 1 if flag[blob[entry]] != 0 else 0
    for column in range(1, column_count):
        kept = 0
        for number in range(count):
            entry = survivor[number]
            survivor[kept] = entry
            kept += 1 if flag[blob[column * entry_count + entry]] != 0 else 0
        count = kept
    return count


@kernel
def check_sections(start: Any, group: Any, blobs: Any, given: Any, kept: Any) -> Any:
    """Ask for `group` sections, then check each of them; return how many entries hold.

    Parameters
    ----------
    start : int64[n]
        Words of their heads.
    group : int
    blobs, given, kept
        As in `check.check_section`.
    """
    found = 0
    for first in range(0, start.shape[0] - group + 1, group):
        for at in range(first, first + group):
            prefetch(blobs.word, start[at])
            prefetch(blobs.word, start[at] + LINE_WORDS)
        for at in range(first, first + group):
            found += check_section(start[at], blobs, given, kept)[0]
    return found


@kernel
def open_leaves(entries: Any, tree: Any, leading: Any, walk: Any, cursor: Any, places: Any) -> Any:
    """Go down a tree with every event; return how many leaf nodes are opened.

    Parameters
    ----------
    entries, tree, leading, walk, cursor, places
        As in `tree.collect_leaves`.
    """
    never = np.bool_(False)
    found = 0
    for event in range(entries[0].shape[0] - 1):
        cursor[Index(CURSOR_TREE)] = 0
        found += collect_leaves(
            event,
            np.int64(0),
            tree,
            entries,
            leading,
            walk,
            cursor,
            places,
            ((never, never), not never),
        )[0]
    return found


@kernel
def find_slices(labels: Any, slices: Any) -> Any:
    """Find the slice of every label, of one attribute; return their sum.

    Parameters
    ----------
    labels : int32[n]
    slices : Slices
    """
    found = np.int64(0)
    for at in range(labels.shape[0]):
        found += slice_of(np.int64(0), labels[Index(at)], slices)
    return found
