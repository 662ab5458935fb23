"""Matchers that others use: DuckDB (SQL), rule-engine and mokaccino (PyPI).

- DuckDB: the events joined with the disjoint intervals of the distinct predicates, those with the postings,
  and ``GROUP BY event, subscription HAVING count(*) = size``: what the papers call matching in a DBMS.
- rule-engine: the Python rule library with the most users that takes a rule per subscription; it has no
  index and tries rule after rule.
- mokaccino: a percolator in Rust, few users, but the one Python package that indexes queries.

Each is optional; `Unfit` says what is missing.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.engines.predicates import Unfit
from pubsub_cluster.benchmarks.workloads.rules import MISSING, Events, Rules


def optional(module: str) -> Any:
    """Import a module, or raise `Unfit`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unfit(f"{module} is not installed") from error


def disjoint_intervals(rules: Rules) -> tuple[Any, Any, Any]:
    """Return (predicate, lo, hi) of disjoint intervals that make up each predicate."""
    plain = np.flatnonzero(np.diff(rules.member_start) == 0)
    predicate, lo, hi = [plain], [rules.lo[plain]], [rules.hi[plain]]
    for number in np.flatnonzero(np.diff(rules.member_start)).tolist():
        member = rules.member[rules.member_start[number] : rules.member_start[number + 1]]
        los, his = member, member
        if rules.except_[number]:
            los = np.concatenate(([rules.lo[number]], member + 1))
            his = np.concatenate((member - 1, [rules.hi[number]]))
        keep = los <= his
        predicate.append(np.full(int(keep.sum()), number))
        lo.append(los[keep])
        hi.append(his[keep])
    return np.concatenate(predicate), np.concatenate(lo), np.concatenate(hi)


class DuckDb:
    """See the module; one thread, like everything else.

    Parameters
    ----------
    rules : Rules
    """

    name = "duckdb"

    def __init__(self, rules: Rules) -> None:
        duckdb = optional("duckdb")
        arrow = optional("pyarrow")
        self._arrow = arrow
        self._connection = duckdb.connect(config={"threads": 1})
        predicate, lo, hi = disjoint_intervals(rules)
        interval = arrow.table({"p": predicate, "a": rules.attribute[predicate], "lo": lo, "hi": hi})
        sizes = np.diff(rules.start)
        posting = arrow.table(
            {"p": rules.literal, "s": np.repeat(np.arange(rules.size, dtype=np.int32), sizes)}
        )
        size = arrow.table({"s": np.arange(rules.size, dtype=np.int32), "n": sizes})
        for name, table in (("interval", interval), ("posting", posting), ("size", size)):
            self._connection.register(f"{name}_arrow", table)
            order = " ORDER BY p" if name == "posting" else ""
            self._connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM {name}_arrow{order}')
        self._connection.execute("CREATE INDEX posting_p ON posting (p)")

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        event, attribute = np.nonzero(events.value != MISSING)
        table = self._arrow.table({"e": event, "a": attribute, "v": events.value[event, attribute]})
        self._connection.register("event", table)
        found = self._connection.execute(
            """
            WITH holding AS (
                SELECT e, p FROM event JOIN "interval" i ON event.a = i.a AND v BETWEEN lo AND hi
            ), hits AS (
                SELECT e, s, count(*) AS hit FROM holding JOIN posting USING (p) GROUP BY e, s
            )
            SELECT e, count(*) AS matches FROM hits JOIN size USING (s) WHERE hit = n GROUP BY e
            """
        ).fetchnumpy()
        counts = np.zeros(events.size, np.int64)
        counts[found["e"]] = found["matches"]
        return counts


class RuleEngine:
    """See the module.

    Parameters
    ----------
    rules : Rules
    """

    name = "rule-engine"

    def __init__(self, rules: Rules) -> None:
        library = optional("rule_engine")
        context = library.Context(default_value=None)
        text = [_rule_text(rules, predicate) for predicate in range(len(rules.attribute))]
        self._rules = [
            library.Rule(" and ".join(text[number] for number in literals), context=context)
            for literals in _literals(rules)
        ]

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        counts = [
            sum(rule.matches(event) for rule in self._rules) for event in events.dictionaries()
        ]  # no index: every rule, every event
        return np.array(counts, np.int64)


def _literals(rules: Rules) -> list[list[int]]:
    numbers, start = rules.literal.tolist(), rules.start.tolist()
    return [numbers[start[row] : start[row + 1]] for row in range(rules.size)]


def _rule_text(rules: Rules, predicate: int) -> str:
    domain = rules.domains[int(rules.attribute[predicate])]
    member = rules.member[rules.member_start[predicate] : rules.member_start[predicate + 1]].tolist()

    def constant(value: int) -> str:
        found = domain.value(value)
        return f'"{found}"' if isinstance(found, str) else repr(found)

    lo, hi = int(rules.lo[predicate]), int(rules.hi[predicate])
    if member:
        if rules.except_[predicate]:
            apart = " and ".join(f"{domain.name} != {constant(value)}" for value in member)
            return f"({domain.name} != null and {apart})"
        return "(" + " or ".join(f"{domain.name} == {constant(value)}" for value in member) + ")"
    if lo == hi:
        return f"{domain.name} == {constant(lo)}"
    return f"({domain.name} != null and {domain.name} >= {constant(lo)} and {domain.name} <= {constant(hi)})"


class Mokaccino:
    """See the module; events with every attribute only, since its NOT also holds for a missing one.

    Parameters
    ----------
    rules : Rules
    """

    name = "mokaccino"

    def __init__(self, rules: Rules) -> None:
        library = optional("mokaccino")
        if any(domain.scale for domain in rules.domains):
            raise Unfit("mokaccino compares integers and texts, not floats")
        self._library = library
        query = [self._query(rules, predicate) for predicate in range(len(rules.attribute))]
        self._percolator = library.Percolator()
        for literals in _literals(rules):
            self._percolator.add_query(library.Query.from_and([query[number] for number in literals]))

    def _query(self, rules: Rules, predicate: int) -> Any:
        query = self._library.Query
        domain = rules.domains[int(rules.attribute[predicate])]
        member = rules.member[rules.member_start[predicate] : rules.member_start[predicate + 1]].tolist()
        lo, hi = int(rules.lo[predicate]), int(rules.hi[predicate])
        if member:
            points = [query.from_kv(domain.name, str(domain.value(value))) for value in member]
            either = points[0] if len(points) == 1 else query.from_or(points)
            return query.from_not(either) if rules.except_[predicate] else either
        if lo == hi:
            return query.from_kv(domain.name, str(domain.value(lo)))
        return query.from_and([query.from_kge(domain.name, lo), query.from_kle(domain.name, hi)])

    def match(self, events: Events) -> Any:
        """Return the matches of each event."""
        if (events.value == MISSING).any():
            raise Unfit("mokaccino's NOT holds for a missing attribute")
        counts = []
        for event in events.dictionaries():
            document = self._library.Document()
            for name, value in event.items():
                document = document.with_value(name, str(value))
            counts.append(len(self._percolator.percolate_list(document)))
        return np.array(counts, np.int64)
