"""Which rivals a workload is measured against, each with a pass of its own size.

A rival that needs long for an event gets few of them, one that needs long to build gets a part of the
subscriptions; then the product is loaded a second time with that part, so that a ratio never compares
different work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pubsub_cluster.benchmarks.engines.counting import Counting
from pubsub_cluster.benchmarks.engines.libraries import DuckDb, Mokaccino, RuleEngine
from pubsub_cluster.benchmarks.engines.predicates import Unfit
from pubsub_cluster.benchmarks.engines.propagation import Propagation
from pubsub_cluster.benchmarks.engines.scan import Scan
from pubsub_cluster.benchmarks.workloads.rules import Events, Rules

PASS_SECONDS = 0.5
PASS_EVENTS_MAX = 1_000


class Rival(NamedTuple):
    """How to make one.

    Attributes
    ----------
    make : callable
        ``make(rules, sample)``.
    subscriptions_max : int
        Beyond, it gets so many.
    """

    make: Callable[[Rules, Events], Any]
    subscriptions_max: int


ALL = 1 << 31
RIVALS: dict[str, Rival] = {
    "scan": Rival(lambda rules, _: Scan(rules), ALL),
    "counting": Rival(lambda rules, _: Counting(rules), ALL),
    "propagation": Rival(lambda rules, sample: Propagation(rules, sample, False), ALL),
    "propagation+prefetch": Rival(lambda rules, sample: Propagation(rules, sample, True), ALL),
    "duckdb": Rival(lambda rules, _: DuckDb(rules), 1_000_000),
    "mokaccino": Rival(lambda rules, _: Mokaccino(rules), 100_000),
    "rule-engine": Rival(lambda rules, _: RuleEngine(rules), 1_000),
}


class RivalRun:
    """A rival with the events of one pass.

    Parameters
    ----------
    engine : object with ``match(events)``
    events : Events
        The first of the workload; the pass takes as many as fit into `PASS_SECONDS`, at least one.
    """

    def __init__(self, engine: Any, events: Events) -> None:
        self._engine = engine
        probe = events.slice(0, min(4, events.size))
        engine.match(probe)
        begin = time.perf_counter()
        engine.match(probe)
        each_s = (time.perf_counter() - begin) / probe.size
        self.event_count = max(1, min(PASS_EVENTS_MAX, events.size, int(PASS_SECONDS / max(each_s, 1e-7))))
        self._events = events.slice(0, self.event_count)

    def run(self) -> Any:
        """Match; return the matches of each event."""
        return self._engine.match(self._events)


def make_rival(name: str, rules: Rules, sample: Events, events: Events) -> RivalRun:
    """Make a rival with its pass.

    Raises
    ------
    Unfit
        It cannot take the workload, or is not installed.
    """
    if rules.clauses_each > 1:
        raise Unfit("conjunctions only")
    return RivalRun(RIVALS[name].make(rules, sample), events)
