"""Batches of events, from the publisher's frames to its reply.

Every buffer and limit is checked, the events are placed into a chunk of the slab and bound to this moment;
the scheduler has them matched; pages come back, are merged when every shard has answered, and become the
publisher's reply and the owners' notifications. A batch here is one publication or a group of small ones
(`coordinator.intake`), which part again when it is answered.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import orjson

from pubsub_cluster.coordinator.answers import Reply, defect
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.forms import Form, Forms, as_came, as_read
from pubsub_cluster.coordinator.intake import BUSY_RETRY_AFTER_S, Publication, joined
from pubsub_cluster.coordinator.listeners import Listeners
from pubsub_cluster.coordinator.merge import (
    Merged,
    ShardPage,
    match_counts,
    merge_pages,
    part_of,
    visible_page,
)
from pubsub_cluster.language.batch import check_payload, events_as_json
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.language.protocol import Answer, Buffer, Message, unpacked
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.slab import BatchSlab

ANSWERS: dict[Any, Answer] = {answer.value: answer for answer in Answer}
_ONE_EVENT = struct.Struct("<2q")  # offsets
log = logging.getLogger("pubsub_cluster.coordinator")


@dataclass(slots=True)
class OpenBatch:
    """What is kept of a batch until it is answered: one publication, or a group of small ones.

    Attributes
    ----------
    group : list of Publication
        Their events follow one another in the batch.
    """

    group: list[Publication]
    generation: int
    version: int
    counts: CatalogueCounts
    now_us: int
    chunk_idx: int
    pages: dict[int, list[ShardPage]] = field(default_factory=dict)
    refused: dict[int, dict[str, Any]] = field(default_factory=dict)
    row_count: int = 0

    @property
    def event_count(self) -> int:
        """Events of all its publications."""
        return sum(publication.event_count for publication in self.group)


Answered: TypeAlias = list[tuple[Publication, Reply]]


class Clock:
    """Microseconds since the epoch that never run backwards; taken from the batch where that is allowed."""

    def __init__(self, injected: bool) -> None:
        self._injected = injected
        self._last_us = INT64_MIN if injected else 0

    def at(self, given: int | None) -> int:
        """Return the time of acceptance of a batch whose checked `at` field is `given`."""
        now_us = self._last_us if self._injected else time.time_ns() // 1_000
        self._last_us = max(self._last_us, now_us if given is None else given)
        return self._last_us

    def check(self, given: Any) -> None:
        """Raise `ProtocolError` unless `given` may stand in a batch's `at` field."""
        if given is not None and not self._injected:
            raise ProtocolError(
                "this cluster judges validity by its own clock",
                seen=given,
                remedy="Leave out `at`, or start the cluster with an injected clock.",
            )
        if given is not None and (type(given) is not int or not INT64_MIN <= given < INT64_MAX):
            raise ProtocolError("`at` is a 64-bit integer", seen=given)


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
        self._forms = Forms()
        self.open: dict[int, OpenBatch] = {}
        self.notified = 0
        self.dropped = 0

    def key(self, message: Message) -> tuple[str, ...]:
        """Check who publishes what; return the key of the reply."""
        header, limits = message.header, self._config.limits
        publisher = check_name(header["publisher"], what="publisher", limits=limits, error=ProtocolError)
        batch_id = check_name(header["batch_id"], what="batch id", limits=limits, error=ProtocolError)
        return ("batch", publisher, batch_id)

    def read(self, message: Message) -> Publication:
        """Check everything of a publish request that does not depend on the moment.

        Raises
        ------
        ProtocolError, LimitError
            A header field or a buffer is wrong.
        """
        header = message.header
        answer = header.get("answer", Answer.HANDLES.value)
        if not isinstance(answer, str) or answer not in ANSWERS:
            raise ProtocolError("no such answer", seen=answer, limit=list(Answer))
        self._clock.check(header.get("at"))
        return Publication(
            header["publisher"],
            header["batch_id"],
            ANSWERS[answer],
            bool(header.get("ids", False)),
            header.get("at"),
            *self._payload(header, message.buffers),
        )

    def _payload(
        self, header: dict[str, Any], frames: list[Buffer]
    ) -> tuple[dict[str, Any], bytes, Sequence[Buffer], int, list[int] | None, Form | None]:
        """Check a payload; return the fields of a `Publication` from `batch` on."""
        key = None
        if len(frames) == 1 and (came := as_came(header["batch"])):
            key = came, as_came(header.get("sizes")), memoryview(frames[0]).nbytes
            form = self._forms.get(key)
            if form is not None:
                return form.batch, form.batch_json, frames, form.size_bytes, form.sizes, form
        batch, sizes = as_read(header["batch"]), as_read(header.get("sizes"))
        buffers = unpacked(frames, sizes) if "sizes" in header else frames
        check_payload(batch, buffers, self._config.limits)
        try:
            batch_json = orjson.dumps(batch)
        except orjson.JSONEncodeError as error:
            raise ProtocolError("the header of a batch has a value too large", seen=str(error)) from None
        size_bytes = sum([memoryview(buffer).nbytes for buffer in buffers])
        form = self._forms.keep(key, batch, batch_json, sizes) if key is not None and sizes else None
        return batch, batch_json, frames, size_bytes, sizes, form

    @property
    def has_chunk(self) -> bool:
        """True while a batch can be placed."""
        return self._slab.free_count > 0

    def place(
        self,
        group: list[Publication],
        version: int,
        counts: CatalogueCounts,
        bind: Callable[[int], tuple[int, int]],
    ) -> None:
        """Place publications into a chunk and bind them to this moment.

        Parameters
        ----------
        group : list of Publication
            One, or several of the intake.
        version : int
            Of the catalogue, now.
        counts : CatalogueCounts
        bind : callable
            ``bind(chunk_idx) -> (batch_no, generation)`` hands it to the scheduler.

        Raises
        ------
        BusyError
            No chunk is free.
        """
        form = group[0].form
        if form is None:
            chunk_idx = self._slab.place(*joined(group))
        else:
            blocks = [publication.frames[0] for publication in group]
            chunk_idx = self._slab.place_blocks(form.head(len(group)), blocks, form.sizes[0])
        if chunk_idx is None:
            raise BusyError(
                "every chunk of the batch slab is in use",
                seen=self._config.slab_chunks,
                limit=self._config.slab_chunks,
                remedy="Send again after `retry_after_s`.",
                retry_after_s=BUSY_RETRY_AFTER_S,
            )
        now_us = self._clock.at(group[0].at)
        batch_no, generation = bind(chunk_idx)
        self.open[batch_no] = OpenBatch(group, generation, version, counts, now_us, chunk_idx)

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

    def done(self, batch_no: int) -> tuple[OpenBatch, Answered]:
        """Merge a batch, tell its owners; return it with the replies, refusals when that fails.

        A defect of ours here costs this batch its answer, and nobody else anything.
        """
        batch = self.open.pop(batch_no)
        try:
            return batch, self._answered(batch)
        except Exception as error:
            log.exception(
                "batch %s of %s could not be merged", batch.group[0].batch_id, batch.group[0].publisher
            )
            reply = defect("the batch could not be merged", error)
            return batch, [(publication, reply) for publication in batch.group]

    def _answered(self, batch: OpenBatch) -> Answered:
        pages = [page for shard_pages in batch.pages.values() for page in shard_pages]
        merged = merge_pages(pages, batch.event_count, self._catalogue, batch.refused)
        if len(batch.group) == 1:
            return [(batch.group[0], self._reply(batch, batch.group[0], merged, batch.refused))]
        found: Answered = []
        first = 0
        ends, handles = merged.offsets.tolist(), merged.handles.tobytes()
        for publication in batch.group:
            stop = first + publication.event_count
            refused = {
                event - first: {**batch.refused[event], "event_index": event - first}
                for event in batch.refused
                if first <= event < stop
            }
            if publication.plain and not self._listeners.count:  # no arrays for the few bytes of one event
                count = ends[stop] - ends[first]
                buffers: list[Buffer] = [_ONE_EVENT.pack(0, count), handles[8 * ends[first] : 8 * ends[stop]]]
                found.append((publication, Reply(_fields(batch, publication, count, refused), buffers)))
                first = stop
                continue
            found.append(
                (publication, self._reply(batch, publication, part_of(merged, first, stop), refused))
            )
            first = stop
        return found

    def _reply(
        self, batch: OpenBatch, publication: Publication, merged: Merged, refused: dict[int, dict[str, Any]]
    ) -> Reply:
        fields = _fields(batch, publication, len(merged.handles), refused)
        buffers = self._buffers(publication, merged)
        try:
            self._notify(batch, publication, merged)
        except Exception:
            log.exception(
                "owners were not told of batch %s of %s", publication.batch_id, publication.publisher
            )
            self.dropped += 1
        return Reply(fields, buffers)

    def close(self, batch_no: int) -> OpenBatch:
        """Forget a batch without an answer; return it."""
        return self.open.pop(batch_no)

    def payload(self, batch: OpenBatch) -> tuple[dict[str, Any], Sequence[Buffer]]:
        """Return the header and buffers of an open batch, as placed."""
        return self._slab.read(batch.chunk_idx)

    def _buffers(self, publication: Publication, merged: Merged) -> list[Buffer]:
        if publication.answer is Answer.NONE:
            return []
        if publication.answer is Answer.COUNTS:
            return [_bytes(match_counts(merged))]
        found = [_bytes(merged.offsets), _bytes(merged.handles)]
        if publication.ids:
            offsets, text = self._catalogue.subscription_ids(merged.rows)
            found += [_bytes(offsets), text]
        return found

    def _notify(self, batch: OpenBatch, publication: Publication, merged: Merged) -> None:
        if not self._listeners.count:
            return
        sent, dropped = self._listeners.notify(
            merged,
            self._catalogue,
            batch.counts.owners,
            publication.publisher,
            publication.batch_id,
            lambda event_idxs: events_as_json(publication.batch, publication.buffers, event_idxs),
        )
        self.notified += sent
        self.dropped += dropped


def _fields(
    batch: OpenBatch, publication: Publication, match_count: int, refused: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "event_count": publication.event_count,
        "generation": batch.generation,
        "version": batch.version,
        "match_count": match_count,
        "refused": {str(idx): refused[idx] for idx in sorted(refused)},
    }


def _bytes(array: np.ndarray[Any, Any]) -> Buffer:
    return array.view(np.uint8).data if array.size else b""
