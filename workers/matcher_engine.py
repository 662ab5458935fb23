"""A matcher of the papers in the place of the engine.

It follows the catalogue: before a batch it takes in the rows that are new to it, as expressions over
canonical values (`language/denormalise.py`), and gives up those that are removed. There are no generations;
what a batch must not see is dropped as for the engine (`workers.visible`). It is for catalogues of a few ten
thousand: rows are Python objects on the way in, and every matcher costs what its paper says.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.language.batch import payload_from_dicts
from pubsub_cluster.language.denormalise import expression_of
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import I8
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.engine import MatchEngine, MatchResult
from pubsub_cluster.workers.kernels._jit import compile_together
from pubsub_cluster.workers.pairs import too_many_matches
from pubsub_cluster.workers.warm_up import one_event_payloads

BUILD_ROWS_MIN = 1_000
"""New rows, at least as many as are held, for which the matcher is built anew: some insert slowly."""

SAMPLE = (
    "a BETWEEN 0 AND 2",
    "a = 1",
    "a = 1 AND b = 2 AND c != 3",
    "a < 2 AND b > 0 AND c <= 3 AND d >= 1",
    f't = "x" OR a IN ({", ".join(map(str, range(40)))})',  # enough for tables to grow
    "a < b",
    "TRUE",
)
"""Subscriptions that between them take every path of a matcher; some are outside a matcher's language."""
SAMPLE_EVENTS: tuple[dict[str, Any], ...] = ({"a": 1, "b": 2, "c": 2.5, "d": 1, "t": "x"}, {"b": 1}, {})


class MatcherEngine(MatchEngine):
    """A `MatchEngine` whose one generation, the empty one, is matched by a matcher of `algorithms.registry`.

    Parameters
    ----------
    catalogue, schema, limits
        As for `MatchEngine`.
    name : str
        Of the matcher.

    Raises
    ------
    CallerError
        There is no such matcher.
    """

    def __init__(
        self,
        catalogue: CatalogueReader,
        schema: Schema = EMPTY_SCHEMA,
        limits: Limits = DEFAULT_LIMITS,
        name: str = "naive",
    ) -> None:
        super().__init__(catalogue, schema, limits)
        self._name, self._matcher = name, make_matcher(name)
        self._held: I8 = np.zeros(0, np.int64)
        self._stop = 0  # rows below were taken in
        self._version = 0  # of the latest batch: what was removed by then is not held
        self._shard = (0, 1)

    def match_batch(
        self,
        batch: EventBatch,
        generation: int,
        counts: CatalogueCounts,
        shard_idx: int = 0,
        shard_count: int = 1,
        version: int = 0,
    ) -> MatchResult:
        """Match a batch; see `MatchEngine.match_batch`.

        Raises
        ------
        CallerError
            The matcher cannot hold the catalogue: it is too large for it.
        LimitError
            More matches than ``limits.matches_per_batch_max``.
        """
        self._follow(counts.rows, (shard_idx, shard_count), version)
        found = self._matcher.match(batch.raw)
        limit = self._limits.matches_per_batch_max
        if len(found.handles) > limit:
            raise too_many_matches(len(found.handles), limit)
        return MatchResult(found.offsets.astype(np.int64), found.handles.astype(np.int32))

    def warm_up(self) -> None:
        """Compile or load every kernel that `match_batch` will call, by a few subscriptions and events."""

        def read() -> None:
            for payload in one_event_payloads():
                assert self.read(payload.header, payload.buffers).raw.attributes

        compile_together({f"matcher-{self._name}": self._match_sample, "read": read})

    def _match_sample(self) -> None:
        matcher = self._matcher
        sample = [one for one in map(parse_text, SAMPLE) if matcher.supports(one) is None]
        for built in (len(sample), 0):  # the others are inserted
            matcher.build(list(enumerate(sample[:built])))
            for handle, expression in enumerate(sample[built:], built):
                matcher.insert(handle, expression)
            for events in (SAMPLE_EVENTS, SAMPLE_EVENTS[:1]):
                payload = payload_from_dicts(events)
                matcher.match(self.read(payload.header, payload.buffers).raw)
            for handle in range(len(sample)):
                matcher.delete(handle)
        matcher.build([])

    def _follow(self, row_stop: int, shard: tuple[int, int], version: int) -> None:
        """Hold what a batch may see: this shard's rows below `row_stop` that are live at `version`."""
        if shard != self._shard or version < self._version:  # a task of a dead worker may be an older one
            self._matcher.build([])
            self._held, self._stop, self._shard = np.zeros(0, np.int64), 0, shard
        removed = self._catalogue.columns.removed_version
        gone = removed[self._held]
        is_gone = (gone != 0) & (gone <= version)
        for row in self._held[is_gone].tolist():
            self._matcher.delete(row)
        self._held, self._version = self._held[~is_gone], version
        if row_stop > self._stop:
            rows = np.arange(self._stop, row_stop, dtype=np.int64)
            lives = (removed[rows] == 0) | (removed[rows] > version)
            new = rows[lives & (rows % shard[1] == shard[0])]
            self._take(np.setdiff1d(new, self._held))  # some are held where it failed half way the last time
            self._stop = row_stop

    def _take(self, rows: I8) -> None:
        if len(rows) >= max(BUILD_ROWS_MIN, len(self._held)):
            everything = chain(self._held.tolist(), rows.tolist())
            self._matcher.build([(row, self._expression(row)) for row in everything])
            self._held = np.concatenate((self._held, rows))
            return
        for row in rows.tolist():
            self._matcher.insert(row, self._expression(row))
            self._held = np.append(self._held, row)

    def _expression(self, row: int) -> Expression:
        return expression_of(self._catalogue.normal_form(row))
