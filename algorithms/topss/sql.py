"""Matching by a database: sequential search and predicate grouping (TOPSS section 4; D-16).

Idea: subscriptions are relations, and a query that is generated for each event gives the matching ones.
*Sequential search* has a row per predicate of each subscription, ``subs (sid, attr, op, val)``: the rows that
hold are counted by subscription and compared with all its rows. *Predicate grouping* keeps each distinct
predicate once: ``subs (sid, cnt)``, ``preds (pid, attr, op, val)``, ``subs_preds (sid, pid)``.

Cost: sequential, a scan of all rows and all their comparisons; grouping, a comparison per distinct predicate,
and a scan of `subs_preds`, which is as long. Limits: none of the language.

The paper's queries have the four operators ``= <> < >``, and say ``sub`` once for ``subs``; here are six, and
an operator is its number (`conjunctions.Comparison`), since that is what both databases compare fastest. A
conjunction has no predicate twice, so none is counted twice. One without predicates has no row to be found
by, and is kept beside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions
from pubsub_cluster.algorithms.dimensions import F8
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.topss.recycled import SubscriptionIds
from pubsub_cluster.algorithms.topss.sql_databases import Database

# The operator compares the event with the constant: `<` is val > event.
_TESTS = {
    Comparison.LT: ">",
    Comparison.LE: ">=",
    Comparison.EQ: "=",
    Comparison.NE: "<>",
    Comparison.GE: "<=",
    Comparison.GT: "<",
}


class Sql(ABC):
    """A core (`conjunctions.Core`).

    Parameters
    ----------
    make_database : callable
    """

    def __init__(self, make_database: Callable[[], Database]) -> None:
        self._make_database = make_database
        self._attributes = 0
        self._clear()

    @property
    def bytes(self) -> int:
        """Bytes of the database."""
        return self.database.bytes

    def build(self, catalogue: Conjunctions) -> None:
        """See `Core`."""
        self._clear()
        self.ids.build(catalogue.owner)
        self._add(catalogue, np.arange(len(catalogue.owner)))

    def insert(self, more: Conjunctions) -> None:
        """See `Core`."""
        if len(more.owner):
            self._add(more, self.ids.add(int(more.owner[0]), len(more.owner)))

    def delete(self, owner: int) -> None:
        """See `Core`."""
        for sid in self.ids.remove(owner):
            if sid in self._empty:
                self._empty.remove(sid)
            else:
                self._remove(sid)

    def match(self, values: F8) -> tuple[I8, I8]:
        """See `Core`; a query per event."""
        empty = np.array(sorted(self._empty), np.int64)
        found = []
        for row in values:
            query, parameters = self.query(row)
            if query:
                found.append(np.append(self.database.numbers(query, parameters), empty))
            else:
                found.append(empty)
        sids = np.concatenate([np.zeros(0, np.int64), *found])
        return np.repeat(np.arange(len(values)), [len(one) for one in found]), self.ids.owner[sids]

    def query(self, row: F8) -> tuple[str, list[float]]:
        """Return the query for an event and its parameters; an empty one if no predicate can hold.

        Parameters
        ----------
        row : float64[attributes]
            NaN: no value.
        """
        attributes = np.flatnonzero(~np.isnan(row[: self._attributes])).tolist()
        tests = []
        for number, attribute in enumerate(attributes, 1):
            value = f"{self.database.parameter}{number}"
            holds = " OR ".join(f"(op = {int(op)} AND val {test} {value})" for op, test in _TESTS.items())
            tests.append(f"(attr = {attribute} AND ({holds}))")
        return self._query(" OR ".join(tests)) if tests else "", row[attributes].tolist()

    def _clear(self) -> None:
        self.database = self._make_database()
        self.ids = SubscriptionIds()
        self._empty: set[int] = set()
        self._define()

    def _add(self, more: Conjunctions, sids: I8) -> None:
        sizes = np.diff(more.stops)
        self._empty |= set(sids[sizes == 0].tolist())
        self._attributes = max(self._attributes, int(more.attribute.max(initial=-1)) + 1)
        self.database.load(
            "rows",
            {
                "sid": np.repeat(sids, sizes),
                "attr": more.attribute,
                "op": more.comparison.astype(np.int32),
                "val": more.constant,
            },
        )
        self._take_in()

    @abstractmethod
    def _define(self) -> None:
        """Make the tables."""

    @abstractmethod
    def _take_in(self) -> None:
        """Do what is to be done with the new lines of `rows`."""

    @abstractmethod
    def _remove(self, sid: int) -> None:
        """Remove a conjunction."""

    @abstractmethod
    def _query(self, holds: str) -> str:
        """Return the query, given the condition under which a predicate holds."""


_PREDICATE = "attr INTEGER NOT NULL, op INTEGER NOT NULL, val DOUBLE NOT NULL"


class Sequential(Sql):
    """Sequential search (TOPSS section 4.1); the paper's table `subs` is called `rows`."""

    def _define(self) -> None:
        self.database.execute(f"CREATE TABLE rows (sid INTEGER NOT NULL, {_PREDICATE})")
        self.database.index("rows", "sid")

    def _take_in(self) -> None:
        pass

    def _remove(self, sid: int) -> None:
        self.database.execute(f"DELETE FROM rows WHERE sid = {sid}")

    def _query(self, holds: str) -> str:
        return f"""
            SELECT t1.sid FROM (SELECT sid, count(*) AS x FROM rows WHERE {holds} GROUP BY sid) t1
            JOIN (SELECT sid, count(*) AS x FROM rows GROUP BY sid) t2 ON t1.sid = t2.sid AND t1.x = t2.x"""


class Grouping(Sql):
    """Predicate grouping (TOPSS section 4.2); `rows` has what is being added, and is else empty."""

    _ARE_EQUAL = "p.attr = r.attr AND p.op = r.op AND p.val = r.val"

    def _define(self) -> None:
        database = self.database
        database.execute(f"CREATE TABLE rows (sid INTEGER NOT NULL, {_PREDICATE})")
        database.execute(f"CREATE TABLE subs (sid {database.key}, cnt INTEGER NOT NULL)")
        database.execute(f"CREATE TABLE preds (pid {database.key}, {_PREDICATE})")
        database.execute("CREATE TABLE subs_preds (sid INTEGER NOT NULL, pid INTEGER NOT NULL)")
        database.index("subs_preds", "sid")

    def _take_in(self) -> None:
        database = self.database
        database.execute("INSERT INTO subs SELECT sid, count(*) FROM rows GROUP BY sid")
        database.execute(
            f"""
            INSERT INTO preds
            SELECT (SELECT coalesce(max(pid), -1) FROM preds) + row_number() OVER (), attr, op, val
            FROM (SELECT DISTINCT attr, op, val FROM rows r
                  WHERE NOT EXISTS (SELECT 1 FROM preds p WHERE {self._ARE_EQUAL}))"""
        )
        database.execute(
            f"INSERT INTO subs_preds SELECT sid, pid FROM rows r JOIN preds p ON {self._ARE_EQUAL}"
        )
        database.execute("DELETE FROM rows")

    def _remove(self, sid: int) -> None:
        pids = self.database.numbers(f"SELECT pid FROM subs_preds WHERE sid = {sid}").tolist()
        self.database.execute(f"DELETE FROM subs_preds WHERE sid = {sid}")
        self.database.execute(f"DELETE FROM subs WHERE sid = {sid}")
        mine = ", ".join(map(str, pids))
        self.database.execute(
            f"""
            DELETE FROM preds WHERE pid IN ({mine})
            AND NOT EXISTS (SELECT 1 FROM subs_preds s WHERE s.pid = preds.pid)"""
        )

    def _query(self, holds: str) -> str:
        return f"""
            SELECT s.sid FROM subs s JOIN (
                SELECT sid, count(*) AS x FROM subs_preds
                WHERE pid IN (SELECT pid FROM preds WHERE {holds}) GROUP BY sid
            ) t ON s.sid = t.sid AND s.cnt = t.x"""
