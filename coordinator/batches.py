"""Batches of events, from the publisher's frames to its reply.

Intake checks every buffer and limit, places the batch into a chunk of the slab and binds it to this
moment; the scheduler has it matched; pages come back, are merged when every shard has answered, and
become the publisher's reply and the owners' notifications. A batch that cannot be taken now is answered
"busy, retry after"; one that was answered before gets the same reply again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from pubsub_cluster.coordinator.answers import Reply, defect
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.listeners import Listeners
from pubsub_cluster.coordinator.merge import Merged, ShardPage, match_counts, merge_pages, visible_page
from pubsub_cluster.language.batch import check_payload, events_as_json
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError, PubSubError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.protocol import Answer, Buffer, Message
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.slab import BatchSlab

BUSY_RETRY_AFTER_S = 0.005
log = logging.getLogger("pubsub_cluster.coordinator")


@dataclass(slots=True)
class OpenBatch:
    """What is kept of a batch until it is answered."""

    publisher: str
    batch_id: str
    answer: Answer
    ids: bool
    event_count: int
    generation: int
    version: int
    counts: CatalogueCounts
    now_us: int
    chunk_idx: int
    accepted_s: float
    pages: dict[int, list[ShardPage]] = field(default_factory=dict)
    refused: dict[int, dict[str, Any]] = field(default_factory=dict)
    row_count: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """The key of its reply."""
        return ("batch", self.publisher, self.batch_id)


class Clock:
    """Microseconds since the epoch that never run backwards; taken from the batch where that is allowed."""

    def __init__(self, injected: bool) -> None:
        self._injected = injected
        self._last_us = INT64_MIN if injected else 0

    def at(self, given: Any) -> int:
        """Return the time of acceptance of a batch whose `at` field is `given`."""
        now_us = self._last_us if self._injected else time.time_ns() // 1_000
        if given is not None:
            if not self._injected:
                raise ProtocolError(
                    "this cluster judges validity by its own clock",
                    seen=given,
                    remedy="Leave out `at`, or start the cluster with an injected clock.",
                )
            if not isinstance(given, int) or isinstance(given, bool) or not INT64_MIN <= given < INT64_MAX:
                raise ProtocolError("`at` is a 64-bit integer", seen=given)
            now_us = given
        self._last_us = max(self._last_us, now_us)
        return self._last_us


class BatchDesk:
    """Takes batches in and answers them.

    Parameters
    ----------
    config : ClusterConfig
    slab : BatchSlab
    catalogue : CatalogueReader
    listeners : Listeners
    """

    def __init__(
        self, config: ClusterConfig, slab: BatchSlab, catalogue: CatalogueReader, listeners: Listeners
    ) -> None:
        self._config = config
        self._slab = slab
        self._catalogue = catalogue
        self._listeners = listeners
        self._clock = Clock(config.injected_clock)
        self.open: dict[int, OpenBatch] = {}
        self.notified = 0
        self.dropped = 0

    def check(self, message: Message) -> tuple[str, ...]:
        """Check the header of a publish request; return the key of its reply."""
        header, limits = message.header, self._config.limits
        publisher = check_name(header["publisher"], what="publisher", limits=limits, error=ProtocolError)
        batch_id = check_name(header["batch_id"], what="batch id", limits=limits, error=ProtocolError)
        return ("batch", publisher, batch_id)

    def accept(
        self,
        message: Message,
        version: int,
        counts: CatalogueCounts,
        bind: Callable[[int], tuple[int, int]],
    ) -> OpenBatch:
        """Place a batch and bind it.

        Parameters
        ----------
        message : Message
        version : int
            Of the catalogue, now.
        counts : CatalogueCounts
        bind : callable
            ``bind(chunk_idx) -> (batch_no, generation)`` hands it to the scheduler.

        Raises
        ------
        ProtocolError, LimitError
            A header field or a buffer is wrong; nothing is kept.
        BusyError
            No chunk is free.
        """
        header = message.header
        batch, answer = header["batch"], header.get("answer", Answer.HANDLES)
        if not isinstance(answer, str) or answer not in set(Answer):
            raise ProtocolError("no such answer", seen=answer, limit=list(Answer))
        check_payload(batch, message.buffers, self._config.limits)
        now_us = self._clock.at(header.get("at"))
        chunk_idx = self._slab.place(orjson.dumps(batch), message.buffers)
        if chunk_idx is None:
            raise BusyError(
                "every chunk of the batch slab is in use",
                seen=self._config.slab_chunks,
                limit=self._config.slab_chunks,
                remedy="Send again after `retry_after_s`.",
                retry_after_s=BUSY_RETRY_AFTER_S,
            )
        batch_no, generation = bind(chunk_idx)
        opened = OpenBatch(
            header["publisher"],
            header["batch_id"],
            Answer(answer),
            bool(header.get("ids", False)),
            int(batch["event_count"]),
            generation,
            version,
            counts,
            now_us,
            chunk_idx,
            time.monotonic(),
        )
        self.open[batch_no] = opened
        return opened

    def add_page(
        self, batch_no: int, shard_idx: int, page: ShardPage, refused: dict[int, dict[str, Any]]
    ) -> None:
        """Keep a page of a shard.

        Raises
        ------
        LimitError
            The batch gives more matches than a batch may.
        """
        batch = self.open[batch_no]
        page = visible_page(page, self._catalogue, batch.counts, batch.version, batch.now_us)
        limit = self._config.limits.matches_per_batch_max
        batch.row_count += len(page.rows)
        if batch.row_count > limit:
            batch.pages.clear()
            raise LimitError(
                "the batch gives too many matches",
                seen=batch.row_count,
                limit=limit,
                remedy="Publish fewer events at a time.",
                limit_name="matches_per_batch_max",
            )
        batch.pages.setdefault(shard_idx, []).append(page)
        batch.refused.update(refused)

    def discard_pages(self, batch_no: int, shard_idx: int) -> None:
        """Forget what a dead worker had answered."""
        batch = self.open[batch_no]
        batch.row_count -= sum(len(page.rows) for page in batch.pages.pop(shard_idx, []))

    def done(self, batch_no: int) -> tuple[OpenBatch, Reply]:
        """Merge a batch, tell its owners; return it with its reply, a refusal when that fails.

        A defect of ours here costs this batch its answer, and nobody else anything.
        """
        batch = self.open[batch_no]
        try:
            reply = self._answered(batch)
        except Exception as error:
            log.exception("batch %s of %s could not be merged", batch.batch_id, batch.publisher)
            reply = defect("the batch could not be merged", error)
        del self.open[batch_no]
        return batch, reply

    def _answered(self, batch: OpenBatch) -> Reply:
        pages = [page for shard_pages in batch.pages.values() for page in shard_pages]
        as_of = (batch.counts, batch.version, batch.now_us)
        merged = merge_pages(pages, batch.event_count, self._catalogue, *as_of, batch.refused)
        fields = {
            "event_count": batch.event_count,
            "generation": batch.generation,
            "version": batch.version,
            "match_count": len(merged.handles),
            "refused": {str(idx): batch.refused[idx] for idx in sorted(batch.refused)},
        }
        buffers = self._buffers(batch, merged)
        try:
            self._notify(batch, merged)
        except Exception:
            log.exception("owners were not told of batch %s of %s", batch.batch_id, batch.publisher)
            self.dropped += 1
        return Reply(fields, buffers)

    def refuse(self, batch_no: int, error: PubSubError) -> tuple[OpenBatch, Reply]:
        """Close a batch that cannot be answered; return it with its refusal."""
        return self.open.pop(batch_no), Reply({}, error=error)

    def payload(self, batch: OpenBatch) -> tuple[dict[str, Any], list[Any]]:
        """Return the header and buffers of an open batch, as placed."""
        return self._slab.read(batch.chunk_idx)

    def _buffers(self, batch: OpenBatch, merged: Merged) -> list[Buffer]:
        if batch.answer is Answer.NONE:
            return []
        if batch.answer is Answer.COUNTS:
            return [_bytes(match_counts(merged))]
        found = [_bytes(merged.offsets), _bytes(merged.handles)]
        if batch.ids:
            offsets, text = self._catalogue.subscription_ids(merged.rows)
            found += [_bytes(offsets), text]
        return found

    def _notify(self, batch: OpenBatch, merged: Merged) -> None:
        if not self._listeners.count:
            return
        header, buffers = self.payload(batch)
        sent, dropped = self._listeners.notify(
            merged,
            self._catalogue,
            batch.counts.owners,
            batch.publisher,
            batch.batch_id,
            lambda event_idxs: events_as_json(header, buffers, event_idxs),
        )
        self.notified += sent
        self.dropped += dropped


def _bytes(array: np.ndarray[Any, Any]) -> Buffer:
    return array.view(np.uint8).data if array.size else b""
