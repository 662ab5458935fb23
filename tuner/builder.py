"""The builder: from the catalogue as of one moment to a complete layout. Pure: same input, same bytes.

Everything runs on whole columns; Python touches only distinct text constants, tables and Boolean programs.
Steps: live rows by handle -> code spaces and label tests of the predicates in use -> a table or a slot for
each clause -> entries (key or slot, residuals, target) -> packed sections -> partitions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.blob import MANY_CLAUSES, MANY_KEYS
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import (
    I4,
    I8,
    U1,
    CodeSpaces,
    LabelTests,
    build_code_spaces,
    gather_predicates,
)
from pubsub_cluster.shm.layout import LayoutArrays, freeze_layout, layout_info
from pubsub_cluster.shm.memory import give_back_memory
from pubsub_cluster.tuner.access import Ways, find_ways, program_access
from pubsub_cluster.tuner.bits import bit_probabilities
from pubsub_cluster.tuner.choice import choose_tables
from pubsub_cluster.tuner.clusters import BlobWriter, deal_clusters, pack_entries
from pubsub_cluster.tuner.configuration import EMPTY_CONFIGURATION, Configuration, check_configuration
from pubsub_cluster.tuner.constants import CostConstants
from pubsub_cluster.tuner.dealing import deal_clauses, price_literals
from pubsub_cluster.tuner.packing import TablePacker, residual_order, slot_entries
from pubsub_cluster.tuner.predicates import Predicates, number_predicates
from pubsub_cluster.tuner.programs import step_programs
from pubsub_cluster.tuner.source import (
    Clauses,
    Source,
    collect_source,
    gather,
    literal_uses,
    renumbered,
    without,
)
from pubsub_cluster.tuner.statistics import EventSample, EventStatistics, LabelStatistics
from pubsub_cluster.tuner.tables import (
    find_lookup,
    map_cells,
    part_codes,
    radices,
)
from pubsub_cluster.tuner.trees import TreeChoice, TreePlan, pack_tree

PARTITION_COUNT = 64


class Work(NamedTuple):
    """What is known once predicates are numbered; `literal` is by literal of the catalogue."""

    attribute_id: I4
    attribute_names: list[str]
    tests: LabelTests
    source: Source
    spaces: CodeSpaces
    predicates: Predicates
    literal: I4
    statistics: LabelStatistics
    ways: Ways
    program_code: I4

    def clauses(self, picked: slice | I4 | I8) -> Clauses:
        """Return picked clauses with their literals numbered by the layout."""
        found = gather(self.source, picked)
        return found._replace(literal=self.literal[found.literal])


Chooser = Callable[[Work, CostConstants | None, int | None], Configuration]


class _Indexed(NamedTuple):
    """The columns of tables, slots and blob, and which rows can be reached more than once."""

    columns: dict[str, np.ndarray]
    row_many: U1
    entry_count_max: int
    has_fronts: bool


def prepare(
    catalogue: CatalogueReader, counts: CatalogueCounts, version: int, sample: EventStatistics | None
) -> Work:
    """Gather what a layout is of, number its predicates and estimate them; as `build_layout`."""
    source = collect_source(catalogue.columns, counts, version)
    use_count = literal_uses(source, counts.predicates)
    used = np.flatnonzero(use_count).astype(np.int32)
    gathered = gather_predicates(catalogue.columns, used)
    spaces, tests = build_code_spaces(gathered)
    names = [catalogue.attribute_name(int(attribute)) for attribute in gathered.attribute_id]
    events = EventSample() if sample is None else sample
    statistics = events.statistics(spaces, names)
    predicates, own_number = number_predicates(
        spaces, tests, used, use_count[used], source.clause_count, statistics.label
    )
    number = np.zeros(counts.predicates, np.int32)
    number[used] = own_number
    literal = np.repeat(2 * number, 2)
    literal[1::2] += 1
    bits = predicates.catalogue[predicates.point_count : predicates.slotted_count].tolist()
    likely = bit_probabilities([catalogue.predicate(bit) for bit in bits], events)
    ways = find_ways(spaces, predicates, statistics, likely)
    return Work(
        gathered.attribute_id,
        names,
        tests,
        source,
        spaces,
        predicates,
        literal,
        statistics,
        ways,
        renumbered(source.program_code, number),
    )


def build_layout(
    catalogue: CatalogueReader,
    counts: CatalogueCounts,
    version: int,
    sample: EventStatistics | None,
    generation: int,
    partition_count: int = PARTITION_COUNT,
    configuration: Configuration | Chooser | None = None,
    constants: CostConstants | None = None,
    max_bytes: int | None = None,
    trees: TreeChoice | None = None,
) -> LayoutArrays:
    """Build a layout of all rows below ``counts.rows`` that are not removed at `version`.

    Parameters
    ----------
    catalogue : CatalogueReader
    counts : CatalogueCounts
        As of the moment the layout is for.
    version : int
        Rows removed at this version or before are left out.
    sample : EventStatistics, optional
        For estimates: a sample of events, or `tuner.frequencies`. Without one all constants of an attribute
        are taken as equally likely.
    generation : int
    partition_count : int
    configuration : Configuration or callable, optional
        Which tables there are, or who is asked with (work, constants, max_bytes) (`tuner.live`); by default
        the greedy's choice.
    constants : CostConstants, optional
        Of the cost model, as measured on this machine.
    max_bytes : int, optional
        Bound of the tables and clusters that the greedy may choose.
    trees : TreeChoice, optional
        Who decides whether a tree takes the place of tables; by default the cost model. Where tables are
        given, there is none unless it is forced.

    Returns
    -------
    LayoutArrays
        Read-only arrays in private memory.
    """
    work = prepare(catalogue, counts, version, sample)
    source, spaces, tests, predicates = work.source, work.spaces, work.tests, work.predicates
    chosen, tree = _choose(work, configuration, constants, max_bytes, trees or TreeChoice())
    indexed = _index(work, chosen, tree, partition_count)
    bits = predicates.catalogue[predicates.point_count : predicates.slotted_count]
    program_start, program_code = step_programs(
        work.program_code, source.program_start, work.ways.probability
    )
    return freeze_layout(
        LayoutArrays(
            info=layout_info(
                generation,
                version,
                counts,
                indexed.entry_count_max,
                predicates.flag_count,
                indexed.has_fronts,
            ),
            attribute_catalogue=work.attribute_id,
            **spaces._asdict(),
            row_catalogue=source.row_catalogue,
            row_many=indexed.row_many,
            predicate_test=predicates.test.reshape(-1),
            set_start=tests.set_start,
            set_label=tests.set_label,
            bit_catalogue=bits,
            attribute_point=predicates.attribute_point,
            point_base=predicates.point_base,
            label_point=predicates.label_point,
            flag_base=predicates.flag_lists.base,
            flag_start=predicates.flag_lists.start,
            flag_test=predicates.flag_lists.test,
            program_start=program_start,
            program_code=program_code,
            program_row=source.program_row.astype(np.int32),
            **indexed.columns,
        )
    )


def _choose(
    work: Work,
    given: Configuration | Chooser | None,
    constants: CostConstants | None,
    max_bytes: int | None,
    trees: TreeChoice,
) -> tuple[Configuration, TreePlan | None]:
    """Choose the tables and the tree; `given` as in `build_layout`."""
    tree = trees.forced(work, constants)
    left = _without_boxes(work, tree)
    if isinstance(given, Configuration):
        chosen = given
    elif given is not None:
        chosen = given(left, constants, max_bytes)
    else:
        known = (work.spaces, work.predicates, work.ways, work.statistics)
        chosen = choose_tables(left.source.clause_count, left.clauses, *known, constants, max_bytes)
    check_configuration(chosen, np.diff(work.spaces.label_start))
    if not isinstance(given, Configuration) and tree is None:
        tree = trees.cheaper(work, chosen, constants)
        chosen = chosen if tree is None else EMPTY_CONFIGURATION
    return chosen, tree


def _without_boxes(work: Work, tree: TreePlan | None) -> Work:
    """Return what is left for tables and slots."""
    return work if tree is None else work._replace(source=without(work.source, tree.boxes.clause))


def _index(
    boxed: Work, configuration: Configuration, tree: TreePlan | None, partition_count: int
) -> _Indexed:
    """Deal all clauses to the tree, tables and slots, and pack them."""
    work = _without_boxes(boxed, tree)
    predicates, ways = work.predicates, work.ways
    cells = map_cells(work.spaces, predicates, configuration, work.statistics.label)
    lookup = find_lookup(predicates, ways, cells)
    schemas = list(configuration.tables)
    anchor = [min(schema.attributes, key=lambda a: (work.statistics.present[a], a)) for schema in schemas]
    by_anchor = sorted(range(len(schemas)), key=lambda t: (anchor[t], part_codes(schemas[t])))
    codes = [part_codes(schemas[table]) for table in by_anchor]
    prices = price_literals(codes, predicates, lookup, ways)
    by_table = deal_clauses(work.clauses, work.source.clause_count, prices)

    order = residual_order(predicates, ways)
    blob = BlobWriter(4 * work.source.clause_count + 1024)
    row_count = len(work.source.row_catalogue)
    row_once = _rows_of_one_clause(boxed.source)
    packer = TablePacker(predicates, ways, lookup, cells, order, partition_count, blob, row_once)
    times = np.zeros(row_count, np.uint8)
    give_back_memory()  # Without this what the steps leave behind adds up to more than the result.
    for number, table in enumerate(by_anchor):
        mine = by_table.pop()
        radix = radices(schemas[table], predicates, configuration)
        _count_rows(times, packer.add(work.clauses(mine), work.source.rows_of(mine), codes[number], radix))
        give_back_memory()
    mine = by_table.pop()
    entries = slot_entries(
        work.clauses(mine), work.source.rows_of(mine), ways, order, _program_slots(work), row_once
    )
    _count_rows(times, entries.target[entries.target >= 0])
    clusters = pack_entries(entries, predicates, False, blob)
    partition, cost = deal_clusters(clusters, ways.slot_probability, packer.partition_cost)
    packed = pack_tree(tree, boxed, order, row_once, len(partition), cost, blob)
    _count_rows(times, packed.target)
    access_start = np.zeros(len(ways.slot_probability) + 1, np.int32)
    np.cumsum(np.bincount(clusters.key, minlength=len(ways.slot_probability)), out=access_start[1:])

    slices = [configuration.slices(a) for a in range(work.spaces.attribute_count)]
    hanging = np.bincount(
        np.array([anchor[table] for table in by_anchor], np.int64), minlength=work.spaces.attribute_count
    )
    columns = {
        **packer.finish()._asdict(),
        "slice_start": _starts([len(first) for first in slices]),
        "slice_label": np.concatenate([np.zeros(0, np.int64), *slices]).astype(np.int32),
        "attribute_table": _starts(hanging.tolist()),
        "table_part": _starts([len(mine) for mine in codes]),
        "part_code": np.array([code for mine in codes for code in mine], np.int32),
        "part_multiplier": packer.multipliers(),
        "access_start": access_start,
        "cluster_start": np.append(clusters.start, packed.cluster_start),
        "cluster_partition": np.append(partition, packed.cluster_partition),
        "cluster_attribute": np.append(ways.slot_attribute[clusters.key], packed.cluster_attribute),
        **packed.columns,
        "cluster_blob": blob.words,
        "partition_cost": packed.partition_cost,
    }
    row_many = np.where(row_once, np.uint8(MANY_KEYS), np.uint8(MANY_CLAUSES))
    row_many *= times > 1
    entry_count_max = max(packer.entry_count_max(clusters), packed.entry_count_max)
    return _Indexed(columns, row_many, entry_count_max, blob.has_fronts)


def _rows_of_one_clause(source: Source) -> npt.NDArray[np.bool_]:
    """Say which rows have one clause; clauses are in the order of rows."""
    if source.clause_row is None:
        return np.broadcast_to(np.True_, len(source.row_catalogue))
    row = source.clause_row
    single = np.ones(len(row), bool)
    again = row[1:] == row[:-1]
    single[1:] &= ~again
    single[:-1] &= ~again
    found = np.zeros(len(source.row_catalogue), bool)
    found[row[single]] = True
    return found


def _starts(counts: list[int]) -> I4:
    return np.cumsum([0, *counts]).astype(np.int32)


def _count_rows(times: U1, row: I4) -> None:
    """Count rows up to two."""
    if not len(row):
        return
    row = np.sort(row)
    again = row[1:][row[1:] == row[:-1]]
    new = np.ones(len(row), bool)
    new[1:] = row[1:] != row[:-1]
    once = row[new]
    times[once] = np.minimum(times[once] + 1, 2)
    times[again] = 2


def _program_slots(work: Work) -> list[tuple[list[int], int]]:
    """Return the slots of every program's access set."""
    found = []
    codes, ways = work.program_code.tolist(), work.ways
    starts = work.source.program_start.tolist()
    for program, (first, stop) in enumerate(itertools.pairwise(starts)):
        access = program_access(codes[first:stop], ways)
        mine = {ways.always_slot}
        if access is not None:
            slots = [ways.slot[ways.slot_start[p] : ways.slot_start[p + 1]].tolist() for p in access]
            mine = {slot for predicate_slots in slots for slot in predicate_slots}
        found.append((sorted(mine), program))
    return found
