"""Clusters: entries that share a slot and a residual count, packed as columnar blobs (`shm.layout`).

Entries of a cluster are sorted by their residuals, column after column, so that the kernel tests a literal
once per run. Clusters are cut to a bounded size, in order of their slots, and dealt to partitions of about
equal expected cost; partitions are what shards get.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import F8, I4, I8

CLUSTER_HEADER = 3
"""Words before the runs: residual count, entry count, run count."""

CLUSTER_ENTRIES_MAX = 2_048
SORTED_COLUMNS_MAX = 4
CLUSTER_NS, ENTRY_NS = 25.0, 1.2
"""Expected cost of reaching a cluster and of checking one of its entries, nanoseconds."""

HEAVY_SHARE = 50
"""A cluster with more than 1/50 of a partition's fair share of the cost is dealt on its own."""


class Entries(NamedTuple):
    """What is to be found through slots.

    Attributes
    ----------
    slot : int64[e]
    target : int32[e]
        Layout row, or ``~program``.
    residual_start : int64[e]
    residual_count : int64[e]
        Slice of `residual` of each entry; entries may share one.
    residual : int32[]
    """

    slot: I8
    target: I4
    residual_start: I8
    residual_count: I8
    residual: I4


class Clusters(NamedTuple):
    """Packed clusters, in order of their slots; columns as in `shm.layout.LayoutView`."""

    slot: I8
    start: I8
    entry_count: I4
    blob: I4


class _Group(NamedTuple):
    """Sorted entries with one residual count, cut into clusters; positions count within the group.

    `begin` is the first entry of each cluster, `run_entry` the first entry of each run of equal first
    residuals.
    """

    residual_count: int
    entry: I8
    slot: I8
    begin: I8
    entry_count: I8
    run_entry: I8
    run_count: I8


def pack_clusters(entries: Entries) -> Clusters:
    """Group, sort and pack entries."""
    order = np.argsort(entries.residual_count, kind="stable")
    counts, first = np.unique(entries.residual_count[order], return_index=True)
    stops = [*first[1:].tolist(), len(order)][: len(first)]
    groups = [
        _sorted_group(entries, order[lo:hi], int(count))
        for count, lo, hi in zip(counts.tolist(), first.tolist(), stops, strict=True)
    ]
    slot = np.concatenate([np.zeros(0, np.int64), *(group.slot for group in groups)])
    entry_count = np.concatenate([np.zeros(0, np.int64), *(group.entry_count for group in groups)])
    size = np.concatenate([np.zeros(0, np.int64), *(_blob_sizes(group) for group in groups)])
    by_slot = np.argsort(slot, kind="stable")
    start = np.zeros(len(slot) + 1, np.int64)
    np.cumsum(size[by_slot], out=start[1:])
    start_of = np.empty(len(slot), np.int64)
    start_of[by_slot] = start[:-1]
    blob = np.empty(int(start[-1]), np.int32)
    offset = 0
    for group in groups:
        _write_group(blob, start_of[offset : offset + len(group.slot)], group, entries)
        offset += len(group.slot)
    return Clusters(slot[by_slot], start, entry_count[by_slot].astype(np.int32), blob)


def _sorted_group(entries: Entries, chosen: I8, residual_count: int) -> _Group:
    """Sort entries by slot and residuals; cut them into clusters and runs."""
    first = entries.residual_start[chosen]
    columns = [entries.residual[first + column] for column in range(min(residual_count, SORTED_COLUMNS_MAX))]
    slot = entries.slot[chosen]
    keys: list[npt.NDArray[Any]] = [*reversed(columns), slot]
    order = np.lexsort(keys)
    slot = slot[order]
    position = np.arange(len(slot))
    new_slot = np.ones(len(slot), bool)
    new_slot[1:] = slot[1:] != slot[:-1]
    in_slot = position - np.maximum.accumulate(np.where(new_slot, position, 0))
    new = in_slot % CLUSTER_ENTRIES_MAX == 0
    begin = np.flatnonzero(new)
    size = np.diff(np.append(begin, len(slot)))
    run_entry = run_count = np.zeros(0, np.int64)
    if residual_count:
        literal = columns[0][order]
        new_run = new.copy()
        new_run[1:] |= literal[1:] != literal[:-1]
        run_entry = np.flatnonzero(new_run)
        run_count = np.add.reduceat(new_run.astype(np.int64), begin)
    return _Group(residual_count, chosen[order], slot[begin], begin, size, run_entry, run_count)


def _blob_sizes(group: _Group) -> I8:
    """Return the words of each cluster's blob."""
    if group.residual_count == 0:
        return CLUSTER_HEADER + group.entry_count
    return CLUSTER_HEADER + 2 * group.run_count + group.entry_count * group.residual_count


def _write_group(blob: I4, start: I8, group: _Group, entries: Entries) -> None:
    """Write the blobs of a group's clusters, which begin at `start`."""
    blob[start] = group.residual_count
    blob[start + 1] = group.entry_count
    blob[start + 2] = 0
    cluster = np.repeat(np.arange(len(start)), group.entry_count)
    within = np.arange(len(group.entry)) - group.begin[cluster]
    first_residual = entries.residual_start[group.entry]
    at = start[cluster] + CLUSTER_HEADER + within
    if group.residual_count:
        blob[start + 2] = group.run_count
        run_cluster = np.repeat(np.arange(len(start)), group.run_count)
        run_within = np.arange(len(run_cluster)) - (np.cumsum(group.run_count) - group.run_count)[run_cluster]
        run_at = start[run_cluster] + CLUSTER_HEADER + run_within
        blob[run_at] = entries.residual[first_residual[group.run_entry]]
        run_stop = np.append(group.run_entry[1:], len(group.entry)) - group.begin[run_cluster]
        blob[run_at + group.run_count[run_cluster]] = run_stop
        at += 2 * group.run_count[cluster]
    for column in range(1, group.residual_count):
        blob[at] = entries.residual[first_residual + column]
        at += group.entry_count[cluster]
    blob[at] = entries.target[group.entry]


def deal_clusters(clusters: Clusters, slot_probability: F8, partition_count: int) -> tuple[I4, F8]:
    """Deal clusters to partitions of about equal expected cost.

    Heavy clusters go one by one to the lightest partition (longest processing time first), the many light
    ones in turn, by falling cost.

    Returns
    -------
    partition : int32[C]
    cost : float64[P]
        Expected nanoseconds per event.
    """
    expected = slot_probability[clusters.slot] * (CLUSTER_NS + ENTRY_NS * clusters.entry_count)
    order = np.argsort(-expected, kind="stable")
    fair_share = float(expected.sum()) / partition_count
    heavy = int(np.count_nonzero(expected > fair_share / HEAVY_SHARE))
    partition = np.empty(len(expected), np.int32)
    cost = np.zeros(partition_count)
    lightest = [(0.0, number) for number in range(partition_count)]
    for cluster in order[:heavy].tolist():
        load, number = heapq.heappop(lightest)
        partition[cluster] = number
        heapq.heappush(lightest, (load + float(expected[cluster]), number))
    light = order[heavy:]
    by_load = np.array([number for _, number in sorted(lightest)], np.int32)
    partition[light] = by_load[np.arange(len(light)) % partition_count]
    cost += np.bincount(partition, expected, minlength=partition_count)
    return partition, cost
