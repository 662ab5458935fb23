"""The builder: from the catalogue as of one moment to a complete layout. Pure: same input, same bytes.

Everything runs on whole columns; Python touches only distinct text constants, distinct small sets and
Boolean programs. Steps: live rows by handle -> their clauses and literals -> code spaces and label tests of
the predicates in use -> an access literal per clause -> entries (slot, residuals, target) -> packed
clusters -> partitions.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import (
    F8,
    I4,
    I8,
    TEST_WIDTH,
    U1,
    LabelTests,
    build_code_spaces,
    expand_slices,
    gather_predicates,
)
from pubsub_cluster.shm.layout import LayoutArrays, freeze_layout, layout_info
from pubsub_cluster.tuner.access import Ways, choose_access, find_ways, program_access
from pubsub_cluster.tuner.clusters import Entries, deal_clusters, pack_clusters
from pubsub_cluster.tuner.statistics import EventSample

PARTITION_COUNT = 64


class _Source(NamedTuple):
    """Live rows, their clauses and programs; literals are numbered by `predicate_id`.

    `clause_row` and `program_row` are layout rows; `program_literal` marks the codes that are literals.
    """

    row_catalogue: I4
    clause_row: I8
    clause_start: I8
    literal: I4
    program_row: I8
    program_start: I8
    program_code: I4
    predicate_id: I4


def build_layout(
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    sample: EventSample | None,
    generation: int,
    partition_count: int = PARTITION_COUNT,
) -> LayoutArrays:
    """Build a layout of all rows below ``counts.rows`` that are not removed at `version`.

    Parameters
    ----------
    catalogue : CatalogueReader
    counts : CatalogueCounts
        As of the moment the layout is for.
    version : int
        Rows removed at this version or before are left out.
    sample : EventSample, optional
        For estimates; without one all constants of an attribute are taken as equally likely.
    generation : int
    partition_count : int

    Returns
    -------
    LayoutArrays
        Read-only arrays in private memory.
    """
    source = _collect(catalogue, counts, version)
    predicates = gather_predicates(catalogue.columns, source.predicate_id)
    spaces, tests = build_code_spaces(predicates)
    source, tests = _renumber_predicates(source, tests)
    names = [catalogue.attribute_name(int(attribute)) for attribute in predicates.attribute_id]
    statistics = (sample or EventSample()).statistics(spaces, names)
    ways = find_ways(spaces, tests, statistics)

    clause_entries, row_many = _clause_entries(source, ways)
    entries = _with_programs(clause_entries, source, ways)
    clusters = pack_clusters(entries)
    partition, partition_cost = deal_clusters(clusters, ways.slot_probability, partition_count)
    access_start = np.zeros(len(ways.slot_probability) + 1, np.int32)
    np.cumsum(np.bincount(clusters.slot, minlength=len(ways.slot_probability)), out=access_start[1:])

    info = layout_info(
        generation,
        version,
        counts,
        int(clusters.entry_count.max(initial=0)),
        int(np.diff(source.program_start).max(initial=0)),
    )
    return freeze_layout(
        LayoutArrays(
            info=info,
            attribute_catalogue=predicates.attribute_id,
            **spaces._asdict(),
            row_catalogue=source.row_catalogue,
            row_many=row_many,
            predicate_test=tests.test,
            set_start=tests.set_start,
            set_label=tests.set_label,
            bit_catalogue=source.predicate_id[tests.bit_predicate],
            access_start=access_start,
            access_cluster=np.arange(len(partition), dtype=np.int32),
            cluster_start=clusters.start,
            cluster_partition=partition,
            cluster_attribute=ways.slot_attribute[clusters.slot],
            cluster_blob=clusters.blob,
            partition_cost=partition_cost,
            program_start=source.program_start.astype(np.int32),
            program_code=source.program_code,
            program_row=source.program_row.astype(np.int32),
        )
    )


def _collect(catalogue: CatalogueReader, counts: CatalogueCounts, version: int) -> _Source:
    """Gather live rows by handle, with their literals renumbered to the predicates in use."""
    columns = catalogue.columns
    removed = columns.removed_version[: counts.rows]
    live = np.flatnonzero((removed == 0) | (removed > version))
    rows = live[np.argsort(columns.handle[live], kind="stable")]

    program_size = columns.program_size[rows].astype(np.int64)
    clause_count = np.where(program_size > 0, 0, columns.clause_count[rows])
    clause = expand_slices(columns.clause_start[rows], clause_count)
    literal_count = columns.clause_literal_count[clause]
    literal = columns.literal[expand_slices(columns.clause_literal_start[clause], literal_count)]
    clause_start = np.zeros(len(clause) + 1, np.int64)
    np.cumsum(literal_count, out=clause_start[1:])

    program_row = np.flatnonzero(program_size > 0)
    size = program_size[program_row]
    code = columns.program[expand_slices(columns.program_start[rows[program_row]], size)]
    program_start = np.zeros(len(program_row) + 1, np.int64)
    np.cumsum(size, out=program_start[1:])

    used = np.zeros(counts.predicates, bool)
    used[literal >> 1] = True
    used[code[code >= 0] >> 1] = True
    number = (np.cumsum(used) - 1).astype(np.int32)
    if len(number):
        literal = 2 * number[literal >> 1] + (literal & 1)
        code = np.where(code >= 0, 2 * number[np.maximum(code, 0) >> 1] + (code & 1), code)
    return _Source(
        rows.astype(np.int32),
        np.repeat(np.arange(len(rows)), clause_count),
        clause_start,
        literal.astype(np.int32),
        program_row,
        program_start,
        code.astype(np.int32),
        np.flatnonzero(used).astype(np.int32),
    )


def _renumber_predicates(source: _Source, tests: LabelTests) -> tuple[_Source, LabelTests]:
    """Number predicates by attribute and label, so that runs of a cluster read their tests in a row."""
    test = tests.test.reshape(-1, TEST_WIDTH)
    order = np.lexsort((test[:, 2], test[:, 1], test[:, 0]))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    code = source.program_code
    if len(number):
        code = np.where(code >= 0, 2 * number[np.maximum(code, 0) >> 1] + (code & 1), code)
    renumbered = source._replace(
        literal=(2 * number[source.literal >> 1] + (source.literal & 1)).astype(np.int32),
        program_code=code.astype(np.int32),
        predicate_id=source.predicate_id[order],
    )
    bits = number[tests.bit_predicate]
    return renumbered, tests._replace(test=test[order].reshape(-1), bit_predicate=bits)


def _clause_entries(source: _Source, ways: Ways) -> tuple[Entries, U1]:
    """Return the entries of all clauses that can hold, and which rows can be reached more than once."""
    count = np.diff(source.clause_start)
    clause_of = np.repeat(np.arange(len(count)), count)
    impossible = ways.is_impossible[source.literal >> 1] & ((source.literal & 1) == 0)
    never = np.bincount(clause_of[impossible], minlength=len(count)) > 0
    filled = np.flatnonzero((count > 0) & ~never)
    literal_at = expand_slices(source.clause_start[filled], count[filled])
    literal = source.literal[literal_at]
    filled_start = np.concatenate((np.zeros(1, np.int64), np.cumsum(count[filled])))
    access = choose_access(filled_start, literal, ways)
    always = np.flatnonzero((count == 0) & ~never)

    has_access = access >= 0
    predicate = literal[access[has_access]] >> 1
    is_residual = np.ones(len(literal), bool)
    is_residual[access[has_access]] = ~ways.is_implied[predicate]
    residual, residual_start, residual_count = _order_residuals(
        literal, np.repeat(np.arange(len(filled)), count[filled]), is_residual, len(filled), ways
    )

    slot_count = np.ones(len(filled), np.int64)
    slot_count[has_access] = np.diff(ways.slot_start)[predicate]
    slot = np.full(int(slot_count.sum()), ways.always_slot, np.int64)
    slot[np.repeat(has_access, slot_count)] = ways.slot[
        expand_slices(ways.slot_start[predicate], slot_count[has_access])
    ]
    row = source.clause_row[filled]
    entries = Entries(
        np.concatenate((slot, np.full(len(always), ways.always_slot, np.int64))),
        np.concatenate((np.repeat(row, slot_count), source.clause_row[always])).astype(np.int32),
        np.concatenate((np.repeat(residual_start, slot_count), np.zeros(len(always), np.int64))),
        np.concatenate((np.repeat(residual_count, slot_count), np.zeros(len(always), np.int64))),
        residual,
    )
    times = np.bincount(entries.target, minlength=len(source.row_catalogue))
    return entries, (times > 1).astype(np.uint8)


def _order_residuals(
    literal: I4, clause_of: I8, is_residual: np.ndarray, clause_count: int, ways: Ways
) -> tuple[I4, I8, I8]:
    """Return residual literals, most selective first within each clause, with starts and counts."""
    passes: F8 = np.empty(2 * len(ways.probability))
    passes[0::2], passes[1::2] = ways.probability, 1.0 - ways.probability
    rank = np.empty(len(passes), np.int64)
    rank[np.argsort(passes, kind="stable")] = np.arange(len(passes))
    owner = clause_of[is_residual]
    mine = literal[is_residual]
    order = np.argsort(owner * max(len(passes), 1) + rank[mine], kind="stable")
    residual_count = np.bincount(owner, minlength=clause_count)
    residual_start = np.cumsum(residual_count) - residual_count
    return mine[order], residual_start, residual_count


def _with_programs(entries: Entries, source: _Source, ways: Ways) -> Entries:
    """Add an entry without residuals for every slot of every program's access set."""
    slots: list[int] = []
    targets: list[int] = []
    codes = source.program_code.tolist()
    starts = source.program_start.tolist()
    for program, (first, stop) in enumerate(itertools.pairwise(starts)):
        access = program_access(codes[first:stop], ways)
        mine = {ways.always_slot}
        if access is not None:
            found = [ways.slot[ways.slot_start[p] : ways.slot_start[p + 1]].tolist() for p in access]
            mine = {slot for predicate_slots in found for slot in predicate_slots}
        slots += sorted(mine)
        targets += [~program] * len(mine)
    none = np.zeros(len(slots), np.int64)
    return Entries(
        np.concatenate((entries.slot, np.array(slots, np.int64))),
        np.concatenate((entries.target, np.array(targets, np.int32))),
        np.concatenate((entries.residual_start, none)),
        np.concatenate((entries.residual_count, none)),
        entries.residual,
    )
