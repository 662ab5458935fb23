"""The engine in one process, without sockets: for scripts, one-shot commands and tests.

The same catalogue, layouts and kernels as in the cluster, called directly: what a worker process and
the tuner do, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pubsub_cluster.client.matches import Matches
from pubsub_cluster.client.publishing import payload_of
from pubsub_cluster.coordinator.clock import Clock
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.batch import check_payload
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.python_form import to_expression
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.visible import Visibility

PRIVATE_ROWS_MAX = 1 << 20
SAMPLED_BATCHES = 16
"""Once the sample is full it takes events of one batch in so many."""


class Engine:
    """Subscriptions and matching in this process.

    Parameters
    ----------
    schema : Schema
    limits : Limits
    rows_max : int
        Subscriptions ever made, removed and replaced ones included.
    injected_clock : bool
        Judge validity by the ``at`` of each `publish` instead of the system's clock.
    sampling : bool
        Keep a sample of the events for the next `rebuild`.
    """

    def __init__(
        self,
        schema: Schema = EMPTY_SCHEMA,
        limits: Limits = DEFAULT_LIMITS,
        rows_max: int = PRIVATE_ROWS_MAX,
        injected_clock: bool = False,
        sampling: bool = True,
    ) -> None:
        self._schema = schema
        self._limits = limits
        self._catalogue = CatalogueWriter.in_memory(rows_max)
        self._reader = CatalogueReader.of(self._catalogue)
        self._registry = Registry(self._catalogue, schema, limits)
        self._matcher = MatchEngine(self._reader, schema, limits)
        self._visibility = Visibility(self._reader)
        self._sample = EventSample()
        self._is_sampling = sampling
        self._clock = Clock(injected_clock)
        self._published = 0
        self.generation = 0

    def subscribe(
        self,
        expression: Any,
        *,
        id: str | None = None,
        owner: str | None = None,
        valid_from: int | None = None,
        valid_until: int | None = None,
    ) -> dict[str, Any]:
        """Make a subscription; return its id, handle, number of clauses and whether it can never match.

        Raises
        ------
        CallerError
            The expression is not well formed, or the id exists; nothing is changed.
        """
        item = {"id": id, "expr": _wire(expression), "valid_from": valid_from, "valid_until": valid_until}
        if owner is not None:
            item["owner"] = owner
        _, answer = self._registry.stage_subscribe(item)
        self._registry.apply(1)
        return answer

    def update(self, id: str, expression: Any, **window: int | None) -> dict[str, Any]:
        """Replace the expression (and window, where given) of a live subscription."""
        _, answer = self._registry.stage_update({"id": id, "expr": _wire(expression), **window})
        self._registry.apply(1)
        return answer

    def unsubscribe(self, id: str) -> None:
        """Remove a live subscription."""
        self._registry.stage_unsubscribe(id)
        self._registry.apply(1)

    def rebuild(self, partition_count: int = 1) -> int:
        """Build a layout of everything, with the statistics seen so far; return its generation."""
        counts = self._catalogue.counts()
        arrays = build_layout(
            self._reader,
            counts,
            self._registry.version,
            self._sample,
            self.generation + 1,
            partition_count=partition_count,
        )
        self.generation += 1
        mine = np.ones(partition_count, np.uint8)
        self._matcher.attach_layout(self.generation, arrays, counts, mine)
        if self.generation > 1:
            self._matcher.drop_layout(self.generation - 1)
        return self.generation

    def publish(self, batch: Any, *, at: int | None = None, ids: bool = False) -> Matches:
        """Match a batch: dictionaries, a mapping of columns, or JSON bytes.

        Parameters
        ----------
        batch : list of dict, mapping of str to array, or bytes
        at : int, optional
            Time of acceptance; only with an injected clock.
        ids : bool
            Return text ids too.

        Returns
        -------
        Matches
        """
        payload = payload_of(batch)
        check_payload(payload.header, payload.buffers, self._limits)
        events = self._matcher.read(payload.header, payload.buffers)
        now_us = self._clock.at(at)
        counts = self._catalogue.counts()
        result = self._matcher.match_batch(events, self.generation, counts)
        result = self._visibility.keep(result, counts, self._registry.version, now_us, events.refused)
        offsets, rows = result.event_offsets, result.rows
        self._published += 1
        if self._is_sampling and (not self._sample.is_full or self._published % SAMPLED_BATCHES == 0):
            self._sample.add(events.raw)
        refused: dict[int, PubSubError] = {**events.refused, **payload.refused}
        return Matches(
            events.event_count,
            len(rows),
            offsets,
            self._reader.columns.handle[rows],
            np.diff(offsets),
            refused,
            self.generation,
            self._registry.version,
            [self._reader.subscription_id(row) for row in rows.tolist()] if ids else None,
        )


def _wire(expression: Any) -> Any:
    if isinstance(expression, str | Mapping):
        return expression
    return expression_to_json(to_expression(expression))
