"""From a request to publish to its reply: what the coordinator does with batches between its sockets.

Large batches are placed as they come, or refused with "busy". Small ones wait in the `Intake` until a worker
has room and go out in groups: the busier the workers, the larger the groups, and nobody waits for company.
Reading order: `submit`, `place_waiting`, `done`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from pubsub_cluster.coordinator import instructions as todo
from pubsub_cluster.coordinator import status as status_page
from pubsub_cluster.coordinator.answers import Reply, Waiting, defect
from pubsub_cluster.coordinator.batches import Answered, BatchDesk, OpenBatch
from pubsub_cluster.coordinator.intake import Intake, Publication
from pubsub_cluster.language.errors import BusyError, PoisonBatchError, PubSubError, StoreError
from pubsub_cluster.language.protocol import Buffer, PublishRequest

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

IN_USE_S = 0.01  # after a publication: a hundred a second are use


class PublishDesk:
    """Publish requests, from their arrival to their replies.

    Parameters
    ----------
    coordinator : Coordinator
        Its parts are used: scheduler, slab, reply window, sockets.
    batches : BatchDesk
    carry_out : callable
        Carries out the scheduler's instructions.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        batches: BatchDesk,
        carry_out: Callable[[list[todo.Instruction]], None],
    ) -> None:
        self._coordinator = coordinator
        self._batches = batches
        self._carry_out = carry_out
        self.intake = Intake(coordinator.config.limits.batch_size_bytes_max)
        self._held: dict[int, tuple[Publication, Reply]] = {}
        self._accepted_s = -math.inf

    @property
    def idle(self) -> bool:
        """True when every accepted publication is answered."""
        return not self._batches.open and not len(self.intake) and not self._held

    def is_in_use(self, now_s: float) -> bool:
        """Tell whether there are publications, or were just now: the next is on its way."""
        return bool(self._batches.open) or now_s - self._accepted_s < IN_USE_S

    def submit(self, identity: bytes, request: PublishRequest, now_s: float) -> Reply | None:
        """Take a request; return its reply where that is known already.

        Raises
        ------
        ProtocolError, LimitError, BusyError
            It is refused; nothing is kept.
        """
        window = self._coordinator.window
        key = self._batches.key(request)
        known = window.begin(key, identity, request.request)
        if isinstance(known, Reply):
            return known
        if known is Waiting.IN_PROGRESS:
            return None
        try:
            publication = self._batches.read(key, request)
            if publication.valid_until is not None:
                self._coordinator.retained.admit()
            if publication.small:
                self.intake.add(publication)
            else:
                self._batches.check_turn(key[1])
                self._place([publication], now_s, key[1])
        except Exception:
            window.finish(key, Reply({}), keep=False)  # not in progress any more
            raise
        self._coordinator.resources.count.add("batches_accepted", 1)
        self._accepted_s = now_s
        return None

    def place_waiting(self, now_s: float) -> None:
        """Send out what waits, as far as there is room; a group that cannot be placed is answered so."""
        while len(self.intake) and self._batches.has_chunk and self._coordinator.scheduler.has_room:
            group = self.intake.take()
            try:
                self._place(group, now_s)
            except PubSubError as error:
                self._answer([(publication, Reply({}, error=error)) for publication in group])
            except Exception as error:
                reply = defect("the batch could not be placed", error)
                self._answer([(publication, reply) for publication in group])

    def _place(self, group: list[Publication], now_s: float, line: str | None = None) -> None:
        scheduler, version = self._coordinator.scheduler, self._coordinator.registry.version
        catalogue = self._coordinator.registry.catalogue
        counts = catalogue.counts()
        chunk_idx = self._batches.place(group)
        generation, now_us = scheduler.current, self._batches.time_of(group)
        moment = (counts, version, now_us)
        batch_no, instructions = scheduler.batch_accepted(moment, chunk_idx, now_s, len(group) > 1, line)
        event_count = sum([publication.form.event_count for publication in group])
        reader = self._coordinator.resources.catalogue_reader
        self._batches.open[batch_no] = OpenBatch(
            group, event_count, generation, version, counts, now_us, chunk_idx, reader
        )
        if self._coordinator.retained.active:
            self._coordinator.retained.placed(batch_no, group)
        self._carry_out(instructions)

    def done(self, batch_no: int) -> None:
        """Every shard has answered: merge, reply, lend the chunk to the tuner or release it."""
        batch, answered = self._batches.done(batch_no)
        count = self._coordinator.resources.count
        count.add("events_matched", batch.event_count - len(batch.refused))
        count.add("matches", batch.match_count)
        if batch.refused:
            count.add("events_refused", len(batch.refused))
        self._coordinator.multicast.flush()
        delivery = self._coordinator.delivery
        if delivery.sent or delivery.dropped:
            count.set("notifications_sent", delivery.sent)
            count.set("notifications_dropped", delivery.dropped)
        self._answer(answered)
        if self._coordinator.retained.active:
            good = [publication for publication, reply in answered if reply.error is None]
            self._coordinator.retained.done(batch_no, (batch.version, batch.now_us), good)
        now_s = time.monotonic()
        tuner = self._coordinator.tuner
        if tuner.wants_sample(batch.event_count, now_s):
            check = self._coordinator.self_check.pick(batch, now_s)
            self._coordinator.backend.send_tuner(tuner.lend(batch.chunk_idx, now_s, check))
        else:
            self._coordinator.resources.slab.release(batch.chunk_idx)

    def refused(self, batch_no: int, error: PubSubError) -> None:
        """The batch cannot be answered: keep a poisonous one, tell the publisher."""
        if isinstance(error, PoisonBatchError):
            status_page.keep_poison(self._coordinator, self._batches.open[batch_no], batch_no)
        batch = self._batches.close(batch_no)
        self._coordinator.retained.closed(batch_no)
        self._coordinator.resources.slab.release(batch.chunk_idx)
        self._answer([(publication, Reply({}, error=error)) for publication in batch.group])

    def divided(self, batch_no: int) -> None:
        """A group has failed: each of its members goes out again, alone."""
        batch = self._batches.close(batch_no)
        self._coordinator.retained.closed(batch_no)
        self._coordinator.resources.slab.release(batch.chunk_idx)
        self.intake.put_back(batch.group)

    def kept(self, record: int, error: StoreError | None) -> None:
        """What a publication tells durable receivers is durable, or cannot be: answer it."""
        if record not in self._held:  # its batch is answered: something went wrong after it was kept
            return
        publication, reply = self._held.pop(record)
        reply = msgspec.structs.replace(reply, waits_for=0) if error is None else Reply({}, error=error)
        self._answer([(publication, reply)])

    def _answer(self, answered: Answered) -> None:
        window, count = self._coordinator.window, self._coordinator.resources.count
        answers: list[tuple[bytes, list[Buffer]]] = []
        refused_count = held_count = 0
        for publication, reply in answered:
            if reply.waits_for:
                self._held[reply.waits_for] = publication, reply
                held_count += 1
                continue
            refused_count += reply.error is not None
            keep = not isinstance(reply.error, BusyError | StoreError)
            identity, request = window.finish(publication.key, reply, keep)
            answers.append((identity, reply.frames(request)))
        count.add("batches_answered", len(answered) - refused_count - held_count)
        if refused_count:
            count.add("batches_refused", refused_count)
        self._coordinator.frontend.send_all(answers)
