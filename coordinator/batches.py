"""Batches of events, from the publisher's frames to its reply.

Every buffer and limit is checked, the events are placed into a chunk of the slab and bound to this moment;
the scheduler has them matched; pages come back, are merged when every shard has answered, and become the
publisher's reply and the owners' notifications. A batch here is one publication or a group of small ones
(`coordinator.intake`), which part again when it is answered.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec

from pubsub_cluster.coordinator.answers import Reply, defect
from pubsub_cluster.coordinator.clock import Clock, check_instant
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk
from pubsub_cluster.coordinator.delivery.groups import GroupDesk
from pubsub_cluster.coordinator.delivery.match_counters import MatchCounters
from pubsub_cluster.coordinator.forms import Forms
from pubsub_cluster.coordinator.intake import BUSY_RETRY_AFTER_S, Publication, joined
from pubsub_cluster.coordinator.merge import Merged, Parts, ShardPage, as_bytes, match_counts, merge_pages
from pubsub_cluster.language.batch import events_as_json
from pubsub_cluster.language.errors import BusyError, LimitError, ProtocolError, PubSubError
from pubsub_cluster.language.protocol import Answer, Buffer, PublishRequest
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.slab import BatchSlab

ANSWERS: dict[Any, Answer] = {answer.value: answer for answer in Answer}
log = logging.getLogger("pubsub_cluster.coordinator")


class OpenBatch(msgspec.Struct):
    """What is kept of a batch until it is answered: one publication, or a group of small ones.

    Attributes
    ----------
    group : list of Publication
        Their events follow one another in the batch.
    event_count : int
        Events of all of them.
    pages : dict of int to list of ShardPage
        By shard.
    refused : dict of int to dict
        Errors of refused events.
    catalogue : CatalogueReader
        Of the batch's epoch: what the rows in its pages mean.
    match_count : int
        Rows in the pages; once merged, matches.
    merged : Merged or None
        The answer, once every shard has given its part.
    """

    group: list[Publication]
    event_count: int
    generation: int
    version: int
    counts: CatalogueCounts
    now_us: int
    chunk_idx: int
    catalogue: CatalogueReader
    pages: dict[int, list[ShardPage]] = {}
    refused: dict[int, dict[str, Any]] = {}
    match_count: int = 0
    merged: Merged | None = None


Answered: TypeAlias = list[tuple[Publication, Reply]]


class BatchDesk:
    """Takes batches in and answers them.

    Parameters
    ----------
    config : ClusterConfig
    slab : BatchSlab
    delivery : DeliveryDesk
    groups : GroupDesk
    matched : MatchCounters
    clock : Clock
    """

    def __init__(
        self,
        config: ClusterConfig,
        slab: BatchSlab,
        delivery: DeliveryDesk,
        groups: GroupDesk,
        matched: MatchCounters,
        clock: Clock,
    ) -> None:
        self._config = config
        self._slab = slab
        self._delivery = delivery
        self._groups = groups
        self._matched = matched
        self._clock = clock
        self._forms = Forms(config.limits)
        self.open: dict[int, OpenBatch] = {}

    def key(self, request: PublishRequest) -> tuple[str, str, str]:
        """Check who publishes what; return the key of the reply."""
        header, limits = request.header, self._config.limits
        publisher = check_name(header.publisher, what="publisher", limits=limits, error=ProtocolError)
        batch_id = check_name(header.batch_id, what="batch id", limits=limits, error=ProtocolError)
        return ("batch", publisher, batch_id)

    def read(self, key: tuple[str, ...], request: PublishRequest) -> Publication:
        """Check everything of a publish request that does not depend on the moment.

        Raises
        ------
        ProtocolError, LimitError
            A header field or a buffer is wrong.
        """
        header = request.header
        answer = ANSWERS.get(header.answer) if isinstance(header.answer, str) else None
        if answer is None:
            raise ProtocolError("no such answer", seen=header.answer, limit=list(Answer))
        if header.at is not None:
            self._clock.check(header.at)
        form = self._forms.of(header.batch, header.sizes)
        size_bytes = form.check(request.buffers, self._config.limits)
        if header.valid_until is not None:
            check_instant("valid_until", header.valid_until)
        told = (answer, bool(header.ids), header.at)
        return Publication(key, *told, form, request.buffers, size_bytes, valid_until=header.valid_until)

    @property
    def clock_us(self) -> int:
        """The time of the last batch, microseconds since the epoch: none is accepted at an earlier one."""
        return self._clock.last_us

    @property
    def has_chunk(self) -> bool:
        """True while a batch can be placed."""
        return self._slab.free_count > 0

    def check_turn(self, publisher: str) -> None:
        """Leave the last chunk to others when a publisher's own batches are on their way.

        Raises
        ------
        BusyError
            They are.
        """
        if self._slab.free_count == 1 and any(
            [batch.group[0].key[1] == publisher for batch in self.open.values()]
        ):
            raise self._busy(
                "every chunk of the batch slab but one, which is for other publishers, is in use"
            )

    @fault_point("slab.write")
    def place(self, group: list[Publication]) -> int:
        """Place publications, one or several of the intake, into a chunk and return that.

        Raises
        ------
        BusyError
            No chunk is free.
        """
        form = group[0].form
        if not form.is_dense:
            chunk_idx = self._slab.place(*joined(group))
        else:
            blocks = [publication.frames[0] for publication in group]
            chunk_idx = self._slab.place_blocks(form.head(len(group)), blocks, form.part_bytes)
        if chunk_idx is None:
            raise self._busy("every chunk of the batch slab is in use")
        return chunk_idx

    def _busy(self, condition: str) -> BusyError:
        return BusyError(
            condition,
            seen=self._config.slab_chunks,
            limit=self._config.slab_chunks,
            remedy="Send again after `retry_after_s`.",
            retry_after_s=BUSY_RETRY_AFTER_S,
        )

    def time_of(self, group: list[Publication]) -> int:
        """Return the time of acceptance of publications that are placed now, microseconds since the epoch."""
        return self._clock.at(group[0].at)

    def now_us(self) -> int:
        """Return the time, microseconds since the epoch; it never runs backwards."""
        return self._clock.at(None)

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
        limit = self._config.limits.matches_per_batch_max
        batch.match_count += len(page.rows)
        if batch.match_count > limit:
            batch.pages.clear()
            raise LimitError(
                "the batch gives too many matches",
                seen=batch.match_count,
                limit=limit,
                remedy="Publish fewer events at a time.",
                limit_name="matches_per_batch_max",
            )
        batch.pages.setdefault(shard_idx, []).append(page)
        if refused:
            batch.refused.update(refused)

    def discard_pages(self, batch_no: int, shard_idx: int) -> None:
        """Forget what a dead worker had answered."""
        batch = self.open[batch_no]
        batch.match_count -= sum(len(page.rows) for page in batch.pages.pop(shard_idx, []))

    def done(self, batch_no: int) -> tuple[OpenBatch, Answered]:
        """Merge a batch, tell its owners; return it with the replies, refusals when that fails.

        A defect of ours here costs this batch its answer, and nobody else anything.
        """
        batch = self.open.pop(batch_no)
        try:
            return batch, self._answered(batch)
        except Exception as error:
            log.exception("batch %s could not be merged", batch.group[0].key)
            reply = defect("the batch could not be merged", error)
            return batch, [(publication, reply) for publication in batch.group]

    def _answered(self, batch: OpenBatch) -> Answered:
        pages = [page for shard_pages in batch.pages.values() for page in shard_pages]
        batch.merged = merged = merge_pages(pages, batch.event_count, batch.catalogue)
        batch.match_count = len(merged.handles)
        if batch.match_count:
            self._matched.add(merged.handles, batch.now_us)
        first = [0, *itertools.accumulate([publication.form.event_count for publication in batch.group])]
        parts = Parts(merged, first)
        return [
            (publication, self._reply(batch, publication, parts, number))
            for number, publication in enumerate(batch.group)
        ]

    def _reply(self, batch: OpenBatch, publication: Publication, parts: Parts, number: int) -> Reply:
        first = parts.first[number]
        refused = _refused_of(batch.refused, first, parts.first[number + 1]) if batch.refused else {}
        fields = {
            "event_count": publication.form.event_count,
            "generation": batch.generation,
            "version": batch.version,
            "match_count": parts.low[number + 1] - parts.low[number],
            "refused": refused,
        }
        if publication.answer is Answer.HANDLES and not publication.ids:
            buffers = parts.csr(number)
        else:
            buffers = self._buffers(publication, parts.part(number), batch.catalogue)
        if self._delivery.unmatched.count:
            self._tell_unmatched(publication, parts.part(number), [int(event) for event in refused])
        if not self._delivery.active:
            return Reply(fields, buffers)
        return self._notify(batch, publication, parts.part(number), Reply(fields, buffers))

    def close(self, batch_no: int) -> OpenBatch:
        """Forget a batch without an answer; return it."""
        return self.open.pop(batch_no)

    def payload(self, batch: OpenBatch) -> tuple[dict[str, Any], Sequence[Buffer]]:
        """Return the header and buffers of an open batch, as placed."""
        return self._slab.read(batch.chunk_idx)

    @staticmethod
    def _buffers(publication: Publication, merged: Merged, catalogue: CatalogueReader) -> list[Buffer]:
        if publication.answer is Answer.NONE:
            return []
        if publication.answer is Answer.COUNTS:
            return [as_bytes(match_counts(merged))]
        offsets, text = catalogue.subscription_ids(merged.rows)
        return [as_bytes(merged.offsets), as_bytes(merged.handles), as_bytes(offsets), text]

    def _tell_unmatched(self, publication: Publication, merged: Merged, refused: list[int]) -> None:
        _, publisher, batch_id = publication.key
        json_of = partial(events_as_json, publication.form.batch, publication.buffers)
        now_s = time.monotonic()
        try:
            self._delivery.unmatched.tell(merged.offsets, refused, publisher, batch_id, json_of, now_s)
        except Exception:
            log.exception("nobody was told of the unmatched events of batch %s of %s", batch_id, publisher)

    def _notify(self, batch: OpenBatch, publication: Publication, merged: Merged, reply: Reply) -> Reply:
        """Tell owners; return the reply, or a refusal where durable receivers would not learn of it."""
        _, publisher, batch_id = publication.key
        try:
            record = self._delivery.notify(
                merged,
                batch.catalogue,
                batch.counts.owners,
                publisher,
                batch_id,
                lambda event_idxs: events_as_json(publication.form.batch, publication.buffers, event_idxs),
                lambda event_idxs: self._groups.of_events(
                    publication.form.batch, publication.buffers, event_idxs
                ),
            )
        except PubSubError as error:
            return Reply({}, error=error)
        except Exception as error:
            log.exception("owners were not told of batch %s of %s", batch_id, publisher)
            self._delivery.dropped += 1
            return defect("owners could not be told", error) if self._delivery.keeps else reply
        return msgspec.structs.replace(reply, waits_for=record) if record else reply


def _refused_of(refused: dict[int, dict[str, Any]], first: int, stop: int) -> dict[str, dict[str, Any]]:
    """Return the errors of a publication's events, by their own index."""
    return {
        str(event - first): {**refused[event], "event_index": event - first}
        for event in sorted(refused)
        if first <= event < stop
    }
