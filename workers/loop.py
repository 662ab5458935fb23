"""The worker's loop: messages from the socket, actions from the machine, matches into result slots."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import zmq

from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.counters import CounterWriter
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.layout import attach_layout
from pubsub_cluster.shm.lifeline import gently
from pubsub_cluster.shm.memory import forget_pages, give_back_memory, keep_memory
from pubsub_cluster.shm.result_slots import ResultSlots
from pubsub_cluster.shm.slab import SlabReader
from pubsub_cluster.workers import messages as wire
from pubsub_cluster.workers.batch import EventBatch
from pubsub_cluster.workers.catalogues import Catalogues
from pubsub_cluster.workers.engine import EMPTY_GENERATION, MatchEngine, MatchResult
from pubsub_cluster.workers.pages import PageSpan, cut_pages
from pubsub_cluster.workers.process import HEARTBEAT_S, error_body, now_us
from pubsub_cluster.workers.state import (
    Action,
    Configure,
    Forget,
    MapLayout,
    Match,
    Stop,
    TakeSchema,
    UnmapLayout,
    WorkerMachine,
    WritePage,
)
from pubsub_cluster.workers.swap import SwapWork

LOOKUPS_TOLD_MAX = 256
OBSERVE_INTERVAL_US = 1_000_000
COUNT_INTERVAL_US = 10_000
OBSERVED_EVENTS = 16
log = logging.getLogger("pubsub_cluster.worker")


class Answer:
    """Matches of one task, cut into pages, until the last page is written."""

    def __init__(self, result: MatchResult, pages: list[PageSpan], first_page: dict[str, Any]) -> None:
        self.result = result
        self.pages = pages
        self.first_page = first_page


class WorkerLoop:
    """One worker process.

    Parameters
    ----------
    endpoint : str
        Where the coordinator listens for workers.
    worker_idx : int
    pinned_cpu : int or None
    is_gentle : bool
        Kernels are loaded behind whatever else wants the processor.
    """

    def __init__(
        self, endpoint: str, worker_idx: int, pinned_cpu: int | None, is_gentle: bool = False
    ) -> None:
        self._worker_idx = worker_idx
        self._pinned_cpu = pinned_cpu
        self._is_gentle = is_gentle
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, int(HEARTBEAT_S * 1_000))
        self._socket.setsockopt(zmq.IDENTITY, f"w{worker_idx}.{os.getpid()}".encode())
        self._socket.connect(endpoint)
        self._machine = WorkerMachine()
        self._answers: dict[int, Answer] = {}
        self._swap = SwapWork()
        self._running = True
        self._observe_at_us = 0
        self._count_at_us = 0
        self._counted_ns = 0
        self._beat_at_s = 0.0
        self._has_freed = False

    def run(self) -> int:
        """Serve until told to stop."""
        keep_memory()
        self._say(wire.Hello(self._worker_idx, os.getpid()))
        while self._running:
            try:
                body = self._socket.recv(zmq.NOBLOCK if self._swap.is_pending else 0)
            except zmq.Again:  # nothing for so long, or for now
                self._beat()
                self._unmap(self._swap.idle(self._forget_pages))
            else:
                for action in self._machine.receive(wire.decode_to_worker(body)):
                    self._do(action)
            for attached in self._swap.work():
                self._say(attached)
        self._context.destroy(linger=0)
        return 0

    def _beat(self) -> None:
        """Say that nothing is wrong, but no more often than is needed: between the slices of a swap, too."""
        now_s = time.monotonic()
        if not self._swap.is_pending or now_s >= self._beat_at_s:
            self._beat_at_s = now_s + HEARTBEAT_S
            self._say(wire.Heartbeat())
            if self._counted_ns:  # configured
                self._count_busy(now_us())
        if self._has_freed and not self._swap.is_pending:  # there was nothing to do for a second
            self._has_freed = False
            give_back_memory()

    @fault_point("worker.message")
    def _do(self, action: Action) -> None:
        match action:  # the most frequent first
            case Match(task):
                self._match(task)
            case WritePage():
                self._write_page(action)
            case Configure(setup):
                self._configure(setup)
            case TakeSchema(schema):
                self._engine.schema = self._schema = Schema.from_json(schema)
            case MapLayout(message):
                self._map_layout(message)
            case UnmapLayout(generation):
                self._unmap(self._swap.let_go(generation))
            case Forget(task_id):
                del self._answers[task_id]
            case Stop():
                self._running = False

    def _map_layout(self, message: wire.AttachLayout) -> None:
        try:
            layout = attach_layout(message.segment)
            mine = np.frombuffer(message.partition_mine, np.uint8)
            counts = CatalogueCounts(*message.base_counts)
            catalogue = self._catalogues.attach(message.generation, message.catalogue_segment)
            self._engine.attach_layout(message.generation, layout, counts, mine, catalogue)
            lookups = self._engine.lookups(message.generation)[:LOOKUPS_TOLD_MAX]
            shard = self._setup.shard_idx, self._setup.shard_count
            attached = wire.LayoutAttached(message.generation, lookups)
            self._swap.add(attached, self._engine, shard, message.catalogue_segment)
        except Exception as error:  # what this worker holds goes on answering
            log.exception("generation %d cannot be mapped", message.generation)
            self._engine.drop_layout(message.generation)
            self._catalogues.drop(message.generation)
            self._say(wire.LayoutRefused(message.generation, error_body(error)))

    def _forget_pages(self, generation: int) -> Iterator[None]:
        if (layout := self._engine.layout(generation)) is not None:  # None: it could not be mapped
            yield from forget_pages(layout.info)
        if (catalogue := self._catalogues.alone_of(generation)) is not None:
            yield from forget_pages(catalogue.reader.columns.handle)

    def _unmap(self, generations: list[int]) -> None:
        for generation in generations:
            self._engine.drop_layout(generation)
            self._catalogues.drop(generation)
            self._has_freed = True

    @fault_point("worker.configure")
    def _configure(self, setup: wire.Setup) -> None:
        started_us = now_us()
        self._setup = setup
        self._limits = Limits(**setup.limits)
        self._schema = Schema.from_json(setup.schema)
        self._slab = SlabReader.attach(setup.slab_segment)
        self._slots = ResultSlots.attach(setup.results_segment)
        self._counters = CounterWriter.attach(setup.counters_segment, setup.counter_slot)
        self._catalogues = Catalogues(setup.catalogue_segment)
        gently(self._warm_up) if self._is_gentle else self._warm_up()
        gc.freeze()  # a compiler's modules stay: looking through them would hold a batch up for 0.1 s
        give_back_memory()
        self._counted_ns = time.process_time_ns()
        self._say(wire.Ready((now_us() - started_us) // 1_000, self._pinned_cpu))

    def _warm_up(self) -> None:
        catalogue = self._catalogues.of(EMPTY_GENERATION)
        self._engine = _engine(catalogue.reader, self._schema, self._limits, self._setup.engine)
        self._engine.warm_up()
        catalogue.visibility.warm_up()

    def _match(self, task: wire.Task) -> None:
        self._counters.begin(task.task_id)  # whoever dies of a task is known to have been at it
        self._answer(task)
        self._counters.begin(0)

    def _answer(self, task: wire.Task) -> None:
        started_us = now_us()
        try:
            header, buffers = self._slab.read(task.chunk_idx)
            batch = self._engine.read(header, buffers)
            refused = batch.refused
            decoded_us = now_us()
            counts = CatalogueCounts(*task.counts)
            catalogue = self._catalogues.of(task.generation)
            self._swap.saw(catalogue.name, counts, task.version)
            result = self._engine.match_batch(
                batch,
                task.generation,
                counts,
                self._setup.shard_idx,
                self._setup.shard_count,
                task.version,
            )
            result = catalogue.visibility.keep(result, counts, task.version, task.now_us, refused)
            matched_us = now_us()
            if matched_us >= self._observe_at_us and task.generation:
                self._observe_at_us = matched_us + OBSERVE_INTERVAL_US
                self._observe(batch, task.generation)
        except Exception as error:  # any failure is this batch's answer, never the worker's end
            if not isinstance(error, PubSubError):
                log.exception("task %d failed", task.task_id)
            self._machine.failed(task.task_id)
            self._say(wire.TaskFailed(task.task_id, error_body(error)))
            return
        first_page = {
            "refused": {event_idx: error.to_dict() for event_idx, error in refused.items()},
            "decode_us": decoded_us - started_us,
            "base_us": matched_us - decoded_us - result.delta_us,
            "delta_us": result.delta_us,
        }
        pages = cut_pages(result.event_offsets, self._slots.page_rows_max, self._slots.page_events_max)
        self._answers[task.task_id] = Answer(result, pages, first_page)
        event_count = batch.event_count  # the chunk is another batch's as soon as this one is answered
        for action in self._machine.matched(task.task_id, len(pages)):
            self._do(action)
        self._counters.add("tasks", 1)
        self._counters.add("events", event_count)
        if matched_us >= self._count_at_us:
            self._count_busy(matched_us)

    def _count_busy(self, at_us: int) -> None:
        """Bring the processor time up to date; asking for it takes microseconds, so not after every task."""
        self._count_at_us = at_us + COUNT_INTERVAL_US
        busy_ns = time.process_time_ns()
        self._counters.add("busy_us", (busy_ns - self._counted_ns) // 1_000)
        self._counted_ns = busy_ns

    def _observe(self, batch: EventBatch, generation: int) -> None:
        """Tell what a few events of a batch took; before its answer, which gives its chunk to another."""
        seen = self._engine.observe(batch, generation, OBSERVED_EVENTS)
        self._say(wire.Observed(generation, seen.event_count, seen.work.reshape(-1).tolist()))

    def _write_page(self, action: WritePage) -> None:
        answer = self._answers[action.task_id]
        page = answer.pages[action.page_idx]
        rows = answer.result.rows[page.row_start : page.row_stop]
        self._slots.write_page(action.slot_idx, page.first_event, page.counts, rows)
        facts: dict[str, Any] = {"refused": {}, "decode_us": 0, "base_us": 0, "delta_us": 0}
        if action.page_idx == 0:
            facts = answer.first_page
        self._say(wire.Page(action.task_id, action.more, **facts))

    @fault_point("worker.send")
    def _say(self, message: wire.FromWorker) -> None:
        self._socket.send(wire.encode(message))


def _engine(catalogue: CatalogueReader, schema: Schema, limits: Limits, name: str) -> MatchEngine:
    if name == "layout":
        return MatchEngine(catalogue, schema, limits)
    from pubsub_cluster.workers.matcher_engine import MatcherEngine  # with every matcher's kernels

    return MatcherEngine(catalogue, schema, limits, name)
