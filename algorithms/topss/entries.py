"""Matchers of TOPSS, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pubsub_cluster.algorithms.conjunctions import ConjunctionMatcher
from pubsub_cluster.algorithms.interface import Entry
from pubsub_cluster.algorithms.topss.bit_matrix import BitMatrix
from pubsub_cluster.algorithms.topss.byte_matrix import ByteMatrix
from pubsub_cluster.algorithms.topss.counting import counting_matcher
from pubsub_cluster.algorithms.topss.growable_lists import GrowableLists
from pubsub_cluster.algorithms.topss.ordered_lists import OrderedLists
from pubsub_cluster.algorithms.topss.predicate_table import PredicateTable
from pubsub_cluster.algorithms.topss.sql import Grouping, Sequential
from pubsub_cluster.algorithms.topss.sql_databases import Database, DuckDb, Sqlite

ASSOCIATIONS = {"byte-matrix": ByteMatrix, "bit-matrix": BitMatrix, "list": GrowableLists}
PREDICATES = {"": (PredicateTable, "tables"), "-ordered": (OrderedLists, "ordered lists")}

QUERIES = {"sequential": (Sequential, "sequential search"), "grouping": (Grouping, "predicate grouping")}
DATABASES: dict[str, tuple[Callable[[], Database], str]] = {
    "sqlite": (Sqlite, "SQLite"),
    "duckdb": (DuckDb, "DuckDB"),
}

ENTRIES: dict[str, Entry] = {
    **{
        f"{name}{suffix}": Entry(
            partial(counting_matcher, f"{name}{suffix}", predicates, association),
            "TOPSS",
            f"{about} of predicates, counting over a {name}",
        )
        for suffix, (predicates, about) in PREDICATES.items()
        for name, association in ASSOCIATIONS.items()
    },
    **{
        f"sql-{query}-{name}": Entry(
            partial(ConjunctionMatcher, f"sql-{query}-{name}", partial(core, database)),
            "TOPSS",
            f"{about} in SQL, on {title}",
        )
        for query, (core, about) in QUERIES.items()
        for name, (database, title) in DATABASES.items()
    },
}
