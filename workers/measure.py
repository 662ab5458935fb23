"""Measurement of the cost model's constants on this machine.

In a process of its own (`workers.measure_process`): the tuner itself runs no kernels. Every step is timed as
the shortest of some repetitions, so that a busy machine disturbs it little; all together take a fraction of a
second once the kernels are compiled.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from pubsub_cluster.shm.blob import (
    COLUMN_FIRST,
    COLUMN_LAST,
    COLUMN_SHIFT,
    COLUMN_WIDE,
    HEAD_NARROW,
    INTERVAL_SHIFT,
    UNIFORM_SHIFT,
)
from pubsub_cluster.shm.code_space import U1
from pubsub_cluster.workers.kernels import constants as kernels
from pubsub_cluster.workers.kernels.tables import Facts, Kept, Slices, Tests, blobs_of
from pubsub_cluster.workers.measure_tree import NARROW, WIDE, measure_nodes

REPETITIONS, SHORT_REPETITIONS = 5, 25
EVENTS, WAYS, TABLES = 2_000, 64, 32
AREA_PLACES = 1 << 23
BLOB_WORDS, CLUSTERS, GROUP = 1 << 24, 1 << 16, 32
ENTRIES, LITERALS, COLUMNS = 2_048, 1_024, 5
PASSES_ONE_IN = 35
CELL_PARTS, CELL_PLACES = 3, 1 << 16
SECTION_WORDS, SECTION_COLUMNS, SECTION_LABELS = 1 << 23, 4, 250
SECTIONS_MAX = 1 << 15
HALVINGS = 6
LEAF_WORDS, LEAF_ENTRIES = 1 << 15, 8
"""A leaf node has between half of 16 clauses and all; sections of these have one shape and fewer."""
FEW, SOME, HUNDRED, MANY = 4, 16, 128, 2_000
"""Entries of sections: the smallest for mixed intervals; for uniform columns from so many on that each begins
in memory of its own, which is what a column costs."""


def measure_steps(scale: float = 1.0) -> dict[str, float]:
    """Return the constants by their names in `tuner.constants.CostConstants`, nanoseconds.

    Parameters
    ----------
    scale : float
        Of the arrays, below 1 only for tests.
    """
    random = np.random.default_rng(1)
    events = max(int(EVENTS * scale), 4)
    table_ns = _skip(random, events)
    probe_ns, probe_attribute_ns = _probe(random, events, AREA_PLACES if scale == 1.0 else 1 << 12)
    entry_ns, residual_ns = _check(random)
    cluster_ns = _visit(random, max(int(CLUSTERS * scale), GROUP), max(int(BLOB_WORDS * scale), 1 << 12))
    return {
        "table_ns": table_ns,
        "probe_ns": probe_ns,
        "probe_attribute_ns": probe_attribute_ns,
        "cell_ns": max(_cells(random, events) - probe_ns - CELL_PARTS * probe_attribute_ns, 0.1),
        "cluster_ns": max(cluster_ns - entry_ns, 0.1),
        "entry_ns": entry_ns,
        "residual_ns": residual_ns,
        **_sections(random, int(SECTION_WORDS * scale), cluster_ns, entry_ns),
        "halving_ns": _halving(random, events),
        **measure_nodes(random, events, partial(_shortest_ns, repetitions=SHORT_REPETITIONS)),
        **_leaves(random),
    }


def _shortest_ns(call: Callable[[], Any], repetitions: int = REPETITIONS) -> float:
    """Run once to compile and warm up, then return the shortest time."""
    call()
    times = []
    for _ in range(repetitions):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return float(max(min(times), 1))


def _parts(random: np.random.Generator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tables of `width` random ways each."""
    code = np.concatenate([random.choice(WAYS, width, replace=False) for _ in range(TABLES)])
    return np.arange(0, width * TABLES + 1, width, dtype=np.int32), code.astype(np.int32)


def _skip(random: np.random.Generator, events: int) -> float:
    table_part, code = _parts(random, 2)
    digit = random.integers(0, 35, (events, WAYS)).astype(np.int32)
    digit[:, code[1::2]] = -1
    digit = digit.reshape(-1)
    ns = _shortest_ns(lambda: kernels.skip_tables(digit, WAYS, table_part, code))
    return ns / (events * TABLES)


def _probe(random: np.random.Generator, events: int, places: int) -> tuple[float, float]:
    """Time keys of two and of six attributes; return what is left without attributes, and one's share."""
    area = np.full(places, -1, np.int32)
    pending = np.zeros(TABLES, np.int64)
    digit = random.integers(0, 35, events * WAYS).astype(np.int32)
    ns = []
    for width in (2, 6):
        table_part, code = _parts(random, width)
        multiplier = random.integers(1, places, len(code))

        def call(part: Any = table_part, code: Any = code, multiplier: Any = multiplier) -> Any:
            return kernels.probe_tables(digit, WAYS, part, code, multiplier, area, pending)

        ns.append(_shortest_ns(call) / (events * TABLES))
    per_attribute = max((ns[1] - ns[0]) / 4.0, 0.05)
    return max(ns[0] - 2.0 * per_attribute, 0.5), per_attribute


def _cells(random: np.random.Generator, events: int) -> float:
    """Time keys of several cells, whose areas are small and mostly in the cache."""
    tables = events * TABLES // 4
    digit = random.integers(1, 9, tables * CELL_PARTS).astype(np.int32)
    multiplier = 9 ** np.arange(CELL_PARTS)
    area, key = np.full(CELL_PLACES, -1, np.int32), np.zeros(1 << CELL_PARTS, np.int64)
    ns = _shortest_ns(lambda: kernels.probe_cells(digit, CELL_PARTS, multiplier, area, key))
    return ns / (tables << CELL_PARTS)


def _visit(random: np.random.Generator, clusters: int, words: int) -> float:
    start = random.integers(0, words // 4, clusters) * 4
    blob = random.integers(1, LITERALS, words).astype(np.int32)
    flag = _flags(random)
    return _shortest_ns(lambda: kernels.visit_clusters(start, blob, flag, GROUP)) / clusters


def _check(random: np.random.Generator) -> tuple[float, float]:
    blob = random.integers(0, LITERALS, COLUMNS * ENTRIES).astype(np.int32)
    survivor = np.zeros(ENTRIES, np.int32)
    few, all_pass = _flags(random), np.ones(LITERALS, np.uint8)
    entry_ns = _shortest_ns(lambda: kernels.check_columns(1, blob, few, survivor)) / ENTRIES
    one = _shortest_ns(lambda: kernels.check_columns(1, blob, all_pass, survivor))
    more = _shortest_ns(lambda: kernels.check_columns(COLUMNS, blob, all_pass, survivor))
    return entry_ns, max((more - one) / (ENTRIES * (COLUMNS - 1)), 0.05)


def _sections(
    random: np.random.Generator, words: int, cluster_ns: float, entry_ns: float
) -> dict[str, float]:
    """Time sections of ranges: of mixed attributes, few and some; in uniform columns, a hundred and many."""
    mixed = [_mixed_sections(random, words, size) for size in (FEW, SOME)]
    per_entry = max((mixed[1] - mixed[0]) / (SOME - FEW), 0.05)
    section_ns = max(mixed[0] - FEW * per_entry, 0.1)
    uniform = [_uniform_sections(random, words, size) for size in (HUNDRED, MANY)]
    uniform_ns = max((uniform[1] - uniform[0]) / ((MANY - HUNDRED) * SECTION_COLUMNS), 0.01)
    column_ns = (uniform[0] - section_ns) / SECTION_COLUMNS - HUNDRED * uniform_ns
    return {
        "interval_ns": max(per_entry - entry_ns, 0.1),
        "section_ns": max(section_ns - cluster_ns, 0.1),
        "column_ns": max(column_ns, 0.1),
        "uniform_ns": uniform_ns,
    }


def _mixed_sections(random: np.random.Generator, words: int, size: int) -> float:
    """Time sections of about `size` entries, whose intervals hold for a tenth of the labels."""
    most = size + size // 2
    count, width = _sections_of(words, 1 + SECTION_COLUMNS * ((3 * most + 1) // 2))
    blob = np.zeros((count, width), np.int32)
    half = blob[:, 1:].reshape(-1).view(np.uint16).reshape(count, -1)
    # Columns follow each other in whole triples, since sections have an even number of entries.
    half[:, 0::3] = 2 * random.integers(0, WAYS, half[:, 0::3].shape)
    lo = random.integers(1, SECTION_LABELS - SECTION_LABELS // 10, half[:, 1::3].shape)
    half[:, 1::3] = lo
    half[:, 2::3] = (lo + SECTION_LABELS // 10)[:, : half[:, 2::3].shape[1]]
    blob[:, 1:] = half.reshape(-1).view(np.int32).reshape(count, -1)
    entries = 2 * random.integers(size // 4, size - size // 4 + 1, count)
    blob[:, 0] = entries | SECTION_COLUMNS << INTERVAL_SHIFT | HEAD_NARROW
    return _section_ns(random, blob)


def _uniform_sections(random: np.random.Generator, words: int, size: int) -> float:
    """Time sections of one-sided ranges that hold for half of the labels."""
    column = 2 + size // 4
    count, width = _sections_of(words, 1 + SECTION_COLUMNS * column)
    blob = random.integers(0, 1 << 31, (count, width)).astype(np.int32)
    blob[:, 0] = size | SECTION_COLUMNS << UNIFORM_SHIFT
    for number in range(SECTION_COLUMNS):
        blob[:, 1 + number * column] = number << COLUMN_SHIFT | COLUMN_LAST
        blob[:, 2 + number * column] = 1
    return _section_ns(random, blob)


def _halving(random: np.random.Generator, events: int) -> float:
    """Time one step of the search for the slice of a label."""
    count = 1 << HALVINGS
    slices = Slices(np.array([0, count], np.int32), np.arange(0, 8 * count, 8, dtype=np.int32))
    labels = random.integers(0, 8 * count, 8 * events).astype(np.int32)
    ns = _shortest_ns(lambda: kernels.find_slices(labels, slices), SHORT_REPETITIONS)
    return ns / (len(labels) * HALVINGS)


def _leaves(random: np.random.Generator) -> dict[str, float]:
    """Time small sections of ranges with two ends, in the caches; return what one costs, and an attribute."""
    ns = []
    for columns in (NARROW, WIDE):
        column = 1 + LEAF_ENTRIES
        count, width = _sections_of(LEAF_WORDS, 1 + columns * column)
        blob = random.integers(0, 1 << 31, (count, width)).astype(np.int32)
        blob[:, 0] = LEAF_ENTRIES | columns << UNIFORM_SHIFT
        for number in range(columns):
            code = number << COLUMN_SHIFT | COLUMN_FIRST | COLUMN_LAST | COLUMN_WIDE
            blob[:, 1 + number * column] = code
        ns.append(_section_ns(random, blob, SHORT_REPETITIONS))
    per_attribute = max((ns[1] - ns[0]) / (WIDE - NARROW), 0.05)
    return {"leaf_ns": max(ns[0] - NARROW * per_attribute, 0.1), "leaf_attribute_ns": per_attribute}


def _sections_of(words: int, width: int) -> tuple[int, int]:
    """Return how many sections of a width take about so many words, and the width."""
    return max(words // width, GROUP), width


def _section_ns(random: np.random.Generator, blob: Any, repetitions: int = REPETITIONS) -> float:
    """Time sections in random order."""
    word = blob.reshape(-1)
    blobs = blobs_of(word)
    none = np.zeros(0, np.int32)
    tests = Tests(none, np.zeros(1, np.int32), none)
    label = random.integers(SECTION_LABELS // 4, SECTION_LABELS // 2, WAYS).astype(np.int32)
    facts = Facts(label, np.zeros(2 * WAYS, np.int64), np.zeros(0, np.uint8))
    mark = np.zeros(MANY + 64, np.int64)
    kept = Kept(np.zeros(MANY + 64, np.int32), mark.view(np.uint8), mark)
    start = random.permutation(len(blob))[:SECTIONS_MAX].astype(np.int64) * blob.shape[1]
    start = start[: len(start) // GROUP * GROUP]
    given = tests, facts, none
    ns = _shortest_ns(lambda: kernels.check_sections(start, GROUP, blobs, given, kept), repetitions)
    return ns / len(start)


def _flags(random: np.random.Generator) -> U1:
    return np.asarray(random.integers(0, PASSES_ONE_IN, LITERALS) == 0, np.uint8)
