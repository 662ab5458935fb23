"""The coordinator process: sockets, children and the clock around the pure parts.

One thread, one poller. Every message is taken to the part that it concerns; the scheduler's instructions are
carried out here and nowhere else. The store's commit thread, the only other one, reports through the poller.

Reading order: `run`, `_on_client`, `_on_worker`, `carry_out`; then `coordinator.publishing`."""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import os
import time
from collections.abc import Callable
from typing import Any

from pubsub_cluster.coordinator import instructions as todo
from pubsub_cluster.coordinator import status as status_page
from pubsub_cluster.coordinator.adopting import offer_layout, open_store
from pubsub_cluster.coordinator.answers import Reply, ReplyWindow, defect
from pubsub_cluster.coordinator.backend import TUNER, Backend
from pubsub_cluster.coordinator.batches import BatchDesk
from pubsub_cluster.coordinator.building import BuildingDesk
from pubsub_cluster.coordinator.change_answers import ChangeAnswers
from pubsub_cluster.coordinator.clock import Clock
from pubsub_cluster.coordinator.config import ClusterConfig, allowed_cpus
from pubsub_cluster.coordinator.delivery.bounds import Bounds
from pubsub_cluster.coordinator.delivery.desk import DeliveryDesk
from pubsub_cluster.coordinator.delivery.durable import DurableDesk
from pubsub_cluster.coordinator.delivery.groups import GroupDesk
from pubsub_cluster.coordinator.delivery.match_counters import MatchCounters
from pubsub_cluster.coordinator.delivery.multicast import Multicast
from pubsub_cluster.coordinator.delivery.outbox_store import OutboxStore
from pubsub_cluster.coordinator.engine_language import limits_of, reader_of
from pubsub_cluster.coordinator.folding import FoldPolicy
from pubsub_cluster.coordinator.frontend import Frontend
from pubsub_cluster.coordinator.keeping import Job, KeeperDesk
from pubsub_cluster.coordinator.knobs import Knobs
from pubsub_cluster.coordinator.merge import ShardPage
from pubsub_cluster.coordinator.observations import LayoutReports
from pubsub_cluster.coordinator.publishing import PublishDesk
from pubsub_cluster.coordinator.queries import answer_query
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.resources import Resources
from pubsub_cluster.coordinator.retained import RetainedDesk
from pubsub_cluster.coordinator.schema_store import with_stored_schema
from pubsub_cluster.coordinator.self_check import SelfCheck
from pubsub_cluster.coordinator.state import Scheduler
from pubsub_cluster.coordinator.tuning import RESPAWN_DELAY_S, TunerDesk
from pubsub_cluster.language.errors import BusyError, PubSubError, error_from_dict
from pubsub_cluster.language.protocol import Message, Op, PublishRequest
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.memory import keep_memory
from pubsub_cluster.shm.owner import unlink_segment
from pubsub_cluster.tuner import messages as tuner_wire
from pubsub_cluster.workers import messages as worker_wire

TICK_S = 0.1
LOOK_AROUND_S = 0.01  # finer than anything that waits for the clock
DRAIN_S_MAX = 5.0  # what was accepted is answered before a stop, if that takes no longer
# Many small objects are made that stay: looking through those of a million rows takes 70 ms, so that each is
# looked at twice at most. A few hundred at once: two thousand take 0.7 ms.
GC_THRESHOLDS = (250, 0, 1 << 30)
WORK = (Op.PUBLISH, Op.SUBSCRIBE, Op.UPDATE, Op.UNSUBSCRIBE)
AGAIN = -1  # instead of an exit status: another life is to begin in this process
log = logging.getLogger("pubsub_cluster.coordinator")


class Coordinator:
    """One cluster's coordinator.

    Parameters
    ----------
    config : ClusterConfig
    on_ready : callable, optional
        Called once with the status when every worker takes tasks.
    parent_pid : int, optional
        Stop when this process ends.
    jobs : dict of int to Job, optional
        Of the life before in this process.

    Raises
    ------
    StartError, StoreError
        The cluster cannot start here; nothing is left behind.
    """

    def __init__(
        self,
        config: ClusterConfig,
        on_ready: Callable[[dict[str, Any]], None] | None = None,
        parent_pid: int | None = None,
        jobs: dict[int, Job] | None = None,
    ) -> None:
        self.config = config
        self._jobs: dict[int, Job] = {} if jobs is None else jobs
        self._on_ready = on_ready
        self._parent_pid = parent_pid
        self._stopping = self._stop_asked = self._serving = False  # serving: the catalogue is complete
        self._look_around_s = 0.0
        self.started_s = time.monotonic()
        self.started_us = time.time_ns() // 1_000
        self.resources = Resources(config)
        try:
            self._open()
        except BaseException:
            self.resources.close()
            raise

    def _open(self) -> None:
        resources = self.resources
        self.store = open_store(self.config, resources.data_dir)
        self.keeper = KeeperDesk(self, self.config.schema, self._jobs)
        self.config = config = with_stored_schema(self.config, self.store)
        self.registry = Registry(resources.catalogue, config.schema, limits_of(config), reader_of(config))
        timeouts_s = config.task_timeout_s, config.worker_silence_s
        self.scheduler = Scheduler(config.shards, config.replicas, *timeouts_s, resources.catalogue.name)
        self.layouts = LayoutReports()
        self.tuner = TunerDesk(resources.owner, FoldPolicy(config.retune_interval_s))
        self.self_check = SelfCheck(config.self_check_rows)
        self.window = ReplyWindow()
        self.frontend = Frontend(resources.client_endpoints, config.limits)
        self.backend = Backend(resources.worker_endpoint, allowed_cpus() if config.pin else [])
        self.multicast = Multicast(self.frontend.offer, resources.open_broadcast)
        self.delivery = DeliveryDesk(self.frontend.offer, self.multicast)
        heard = self.delivery.listeners, self.multicast.membership
        self.groups = GroupDesk(resources.owner, *heard, config.schema, config.limits)
        self.knobs = Knobs(self)
        clock = Clock(config.injected_clock, self.store.marks)
        self.matched = MatchCounters(lambda: self.registry.next_handle)
        self.batches = BatchDesk(config, resources.slab, self.delivery, self.groups, self.matched, clock)
        self.retained = RetainedDesk(config, self.backend, self.batches.now_us)
        self.publishing = PublishDesk(self, self.batches, self.carry_out)
        self.durable = self.delivery.durable = DurableDesk(
            OutboxStore(resources.data_dir, config.durability),
            Bounds.of(config),
            self.delivery,
            self.frontend.offer,
            self.frontend.send,
            self.publishing.kept,
        )
        self.change_answers = ChangeAnswers(self, self.frontend.send)
        self.changes = self.change_answers.desk
        self.building = BuildingDesk(self)

    def run(self) -> int:
        """Serve until stopped by a signal or a client; return the exit status, or `AGAIN`."""
        gc.set_threshold(*GC_THRESHOLDS)
        keep_memory()
        try:
            self.carry_out(self.scheduler.start())
            self.backend.spawn(TUNER, 0.0)
            self._spawn_due(time.monotonic())  # they load and compile while the catalogue is taken over
            self.keeper.recover(self.registry, self._attend_children)
            self.store.start()
            self.durable.start()
            offer_layout(self)
            self.building.catalogue_changed()
            self._serving = True
            self._tell_ready()
            while not self._stopping and self._parent_pid in (None, os.getppid()):
                self._serve_once()
            drained_s = time.monotonic() + DRAIN_S_MAX
            while not (self.changes.idle and self.publishing.idle) and time.monotonic() < drained_s:
                self._serve_once()
            return AGAIN if self.keeper.exchange() and not self._stop_asked else 0
        finally:
            self._close()

    def _serve_once(self) -> None:
        now_s = time.monotonic()
        ready = self.backend.poll(
            [self.frontend.socket, self.store.wake_fd, self.durable.wake_fd, *self.multicast.sockets],
            self._wait_ms(now_s),
            now_s,
        )
        now_s = time.monotonic()
        if len(ready) > (from_clients := self.frontend.socket in ready):
            self._hear_children(ready, now_s)
        if self.store.wake_fd in ready:
            self.changes.hear()
        changes_due = self.changes.is_due(now_s, len(ready) > (self.store.wake_fd in ready))
        if is_changed := changes_due and self.changes.reported and self.changes.committed():
            self.building.catalogue_changed()
        if self.durable.wake_fd in ready:
            self.durable.poll()
        if any(socket in ready for socket in self.multicast.sockets):
            self.multicast.hear()
        if from_clients:
            for identity, message in self.frontend.receive():
                self._on_client(identity, message, now_s)
        self.publishing.place_waiting(now_s)
        if changes_due and not is_changed:  # two slices in a turn are a long time for all others
            self.changes.work()
        self.durable.work()
        self.carry_out(self.building.epochs.work())
        if now_s >= self._look_around_s or not ready:
            self._look_around_s = now_s + LOOK_AROUND_S
            self._look_around(now_s)

    def _wait_ms(self, now_s: float) -> int:
        """Return how long to wait for a message: until something is to be done without any."""
        wait_s = min(TICK_S, self.changes.wait_s(now_s), self.building.epochs.wait_s(now_s))
        return 0 if self.durable.busy else math.ceil(1_000 * wait_s)

    def _hear_children(self, ready: set[object], now_s: float) -> None:
        # Children's messages come before their deaths: what a worker finished is rarely done twice.
        for said in self.backend.receive():
            self._on_child(said.child, said.body, now_s)
        for child in self.backend.ended(ready):
            self._on_death(child, now_s)

    def _attend_children(self) -> bool:
        """Serve the children alone, while the catalogue is being taken over; False: stop."""
        now_s = time.monotonic()
        self._hear_children(self.backend.poll([], 0, now_s), now_s)
        self._spawn_due(now_s)
        return not self._stopping

    def _spawn_due(self, now_s: float) -> None:
        for worker_idx in self.backend.spawn_due(now_s):
            self.scheduler.worker_spawned(worker_idx, now_s)

    def _look_around(self, now_s: float) -> None:
        """Do what time alone makes due."""
        self.carry_out(self.scheduler.tick(now_s))
        self.delivery.tick(now_s)
        self.durable.tick(now_s)
        if self.tuner.hangs(now_s):
            self.backend.kill(TUNER)
        self.retained.tick(now_s)
        self._spawn_due(now_s)
        self.building.fold(now_s)
        self.building.form_groups(now_s)
        self.keeper.tick(now_s)

    def _close(self) -> None:
        # Each step is taken whatever becomes of the others; the last one named is the first to run.
        with contextlib.ExitStack() as steps:
            steps.callback(self.resources.close)
            steps.callback(self.frontend.close)
            steps.callback(self.multicast.close)
            steps.callback(self.durable.close)
            steps.callback(self.changes.committed, math.inf)
            steps.callback(self.store.close)
            steps.callback(self.backend.close)
            steps.callback(self.keeper.close)

    @fault_point("client.message")
    def _on_client(
        self, identity: bytes, message: Message | PublishRequest | PubSubError, now_s: float
    ) -> None:
        if isinstance(message, PubSubError):
            self.resources.count.add("messages_refused", 1)
            request = str(message.fields.get("request", ""))
            self.frontend.send(identity, Reply({}, error=message).frames(request))
            return
        try:
            reply = self._handle(identity, message, now_s)
            frames = None if reply is None else reply.frames(message.request)
        except PubSubError as error:
            if error.code == "bad_message":
                self.resources.count.add("messages_refused", 1)
            frames = Reply({}, error=error).frames(message.request)
        except Exception as error:  # also an answer that JSON cannot carry
            log.exception("request %s failed", message.op)
            frames = defect(f"the request `{message.op}` failed", error).frames(message.request)
        if frames is not None:
            self.frontend.send(identity, frames)

    def _handle(self, identity: bytes, message: Message | PublishRequest, now_s: float) -> Reply | None:
        if self._stopping and message.op in WORK:
            raise BusyError("the cluster is stopping", remedy="Send again later.", retry_after_s=1.0)
        if isinstance(message, PublishRequest):
            return self.publishing.submit(identity, message, now_s)
        match Op(message.op):
            case Op.SUBSCRIBE | Op.UPDATE | Op.UNSUBSCRIBE as op:
                return self.change_answers.submit(identity, message, op)
            case op:
                return answer_query(self, identity, message, op)

    def stop(self) -> None:
        """Answer what was accepted, then leave."""
        self._stopping = self._stop_asked = True

    def restart(self) -> None:
        """Answer what was accepted, then begin another life in this process."""
        self._stopping = True

    @fault_point("child.message")
    def _on_child(self, worker_idx: int | None, body: bytes, now_s: float) -> None:
        if worker_idx is None:
            self.tuner.heard_at_s = now_s
            self.building.told(tuner_wire.decode_from_tuner(body), now_s)
        else:
            self.scheduler.worker_heard(worker_idx, now_s)
            self.carry_out(self._on_worker(worker_idx, worker_wire.decode_from_worker(body), now_s))

    def _on_worker(
        self, worker_idx: int, message: worker_wire.FromWorker, now_s: float
    ) -> list[todo.Instruction]:
        match message:
            case worker_wire.Page():
                return self._on_page(worker_idx, message, now_s)
            case worker_wire.Hello():
                worker = self.scheduler.workers[worker_idx]
                setup = self.resources.worker_setup(worker, self.config.schema)
                return self.scheduler.worker_hello(worker_idx, setup, now_s)
            case worker_wire.Ready():
                instructions = self.scheduler.worker_ready(worker_idx, now_s)
                self.backend.pinned[worker_idx] = message.pinned_cpu
                self._tell_ready()
                return instructions
            case worker_wire.LayoutAttached(generation, lookups):
                self.layouts.attached(generation, lookups)
                return self.scheduler.layout_attached(worker_idx, generation, now_s)
            case worker_wire.LayoutRefused(generation, error):
                log.error("worker %d cannot map generation %d: %s", worker_idx, generation, error)
                given_up = self.building.refused(generation, error, now_s)
                return given_up + self.scheduler.layout_refused(worker_idx, generation, now_s)
            case worker_wire.TaskFailed(task_id, error):
                return self.scheduler.task_failed(worker_idx, task_id, error_from_dict(error), now_s)
            case worker_wire.Observed():
                self.layouts.observed(self.scheduler.workers[worker_idx].shard_idx, message)
                return []
            case worker_wire.Heartbeat():
                return []

    @fault_point("page.read")
    def _on_page(self, worker_idx: int, page: worker_wire.Page, now_s: float) -> list[todo.Instruction]:
        run = self.scheduler.run_of(worker_idx, page.task_id)
        if run is None:
            return []
        if page.base_us or page.delta_us:
            self.tuner.policy.measured(page.base_us, page.delta_us)
        shard_idx = self.scheduler.workers[worker_idx].shard_idx
        try:
            answer = ShardPage(*self.resources.results[worker_idx].read_page(run.slot_idx))
            self.batches.add_page(run.batch_no, shard_idx, answer, page.refused)
        except PubSubError as error:
            return self.scheduler.page_refused(worker_idx, page.task_id, error, now_s)
        return self.scheduler.page_read(worker_idx, page.task_id, page.more, now_s)

    def _on_death(self, worker_idx: int | None, now_s: float) -> None:
        if worker_idx is not None:
            if not self.scheduler.workers[worker_idx].dismissed:
                log.warning("worker %d died", worker_idx)
                self.resources.count.add("worker_restarts", 1)
                self.resources.check_segments()
            self.carry_out(self.scheduler.worker_died(worker_idx, self.resources.task_of(worker_idx), now_s))
            return
        log.warning("the tuner died")
        self.resources.count.add("tuner_restarts", 1)
        self.groups.died(now_s)
        chunk_idx = self.tuner.died(now_s)
        if chunk_idx is not None:
            self.resources.slab.release(chunk_idx)
        self.backend.spawn(TUNER, now_s + RESPAWN_DELAY_S)

    def carry_out(self, instructions: list[todo.Instruction]) -> None:
        """Do what the scheduler asks for."""
        for instruction in instructions:
            match instruction:
                case todo.SendWorker(worker_idx, message):
                    self.backend.send_worker(worker_idx, message)
                case todo.BatchDone(batch_no):
                    self.publishing.done(batch_no)
                case todo.SpawnWorker(worker_idx, delay_s, gently):
                    place = self.scheduler.workers[worker_idx].place
                    self.backend.spawn(worker_idx, time.monotonic() + delay_s, gently, place)
                case todo.KillWorker(worker_idx):
                    if not self.scheduler.workers[worker_idx].dismissed:  # else it starts for nothing
                        log.warning("worker %d does not answer, or cannot go on, and is killed", worker_idx)
                    self.backend.kill(worker_idx)
                case todo.WorkerGone(worker_idx):
                    self.backend.forget(worker_idx)
                    self.resources.give_seat(worker_idx)
                case todo.Resized(shards, replicas):
                    log.warning("resized to %d shards x %d replicas", shards, replicas)
                    self.layouts.forget_observed()
                case todo.DiscardPages(batch_no, shard_idx):
                    self.batches.discard_pages(batch_no, shard_idx)
                case todo.BatchRefused(batch_no, error):
                    self.publishing.refused(batch_no, error)
                case todo.BatchDivided(batch_no):
                    self.publishing.divided(batch_no)
                case todo.GenerationPublished(generation):
                    self.building.published(generation)
                case todo.UnlinkSegment(segment):
                    unlink_segment(segment)
                    self.building.unlinked(segment)

    def _tell_ready(self) -> None:
        ready = self._serving and all(worker.ready for worker in self.scheduler.workers.values())
        if self._on_ready is not None and ready:
            callback, self._on_ready = self._on_ready, None
            callback(status_page.status(self))
