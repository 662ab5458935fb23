"""The matchers' cores of TOPSS's experiments on subscriptions, by the names of the command."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

from pubsub_cluster.algorithms.topss.association import Association
from pubsub_cluster.algorithms.topss.bit_matrix import BitMatrix
from pubsub_cluster.algorithms.topss.byte_matrix import ByteMatrix
from pubsub_cluster.algorithms.topss.counting import Counting
from pubsub_cluster.algorithms.topss.growable_lists import GrowableLists
from pubsub_cluster.algorithms.topss.ordered_lists import OrderedLists
from pubsub_cluster.algorithms.topss.predicate_table import PredicateTable
from pubsub_cluster.algorithms.topss.sql import Grouping, Sequential, Sql
from pubsub_cluster.algorithms.topss.sql_databases import DuckDb, Sqlite
from pubsub_cluster.benchmarks.workloads.topss import T4

HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None
WITHOUT_DUCKDB = "DuckDB is not installed: pip install 'pubsub-cluster[sql]'"
STEP = 16
"""By how many ids lists of table 2 are re-allocated: a cache line. (The paper: "a constant amount".)"""

ASSOCIATIONS: dict[str, Callable[[], Association]] = {
    "byte-matrix": ByteMatrix,
    "bit-matrix": BitMatrix,
    "list": GrowableLists,
}
DATABASES: dict[str, Callable[[], Sql]] = {
    "sql-sequential-sqlite": partial(Sequential, Sqlite),
    "sql-grouping-sqlite": partial(Grouping, Sqlite),
}
COLUMN_STORE: dict[str, Callable[[], Sql]] = {
    "sql-sequential-duckdb": partial(Sequential, DuckDb),
    "sql-grouping-duckdb": partial(Grouping, DuckDb),
}
if HAS_DUCKDB:
    DATABASES |= COLUMN_STORE


def counting(association: Callable[[], Association]) -> Counting:
    """Return a core with tables for T4's domains."""
    return Counting(PredicateTable(T4.bounds), association())


def counting_by_lists(association: Callable[[], Association]) -> Counting:
    """Return a core with ordered lists of predicates."""
    return Counting(OrderedLists(), association())
