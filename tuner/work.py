"""The work of a builder: live clauses, and what they are made of, numbered and estimated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I4, I8, CodeSpaces, LabelTests, build_code_spaces, gather_predicates
from pubsub_cluster.tuner.access import Ways, find_ways
from pubsub_cluster.tuner.bits import bit_probabilities
from pubsub_cluster.tuner.predicates import Predicates, number_predicates
from pubsub_cluster.tuner.source import Clauses, Source, collect_source, gather, literal_uses, renumbered
from pubsub_cluster.tuner.statistics import EventSample, EventStatistics, LabelStatistics


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
