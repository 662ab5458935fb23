"""New generations and epochs: when the tuner is asked for one, and what becomes of what it says."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from pubsub_cluster.coordinator.config import LAYOUT_ENGINE
from pubsub_cluster.coordinator.delivery.distribution import DeliveryCosts
from pubsub_cluster.coordinator.delivery.groups import Situation
from pubsub_cluster.coordinator.epochs import EpochDesk
from pubsub_cluster.coordinator.instructions import Instruction
from pubsub_cluster.language.errors import error_from_dict
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.memory import give_back_memory
from pubsub_cluster.tuner import messages as wire

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

log = logging.getLogger("pubsub_cluster.coordinator")


class BuildingDesk:
    """The tuner's side of a coordinator.

    Attributes
    ----------
    epochs : EpochDesk
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._removed_seen = 0
        in_use = coordinator.publishing.is_in_use
        self.epochs = EpochDesk(
            coordinator.registry, coordinator.scheduler, self._moved, self._failed, in_use
        )

    def told(self, message: wire.FromTuner, now_s: float) -> None:
        """Take a message of the tuner."""
        coordinator, tuner = self._coordinator, self._coordinator.tuner
        match message:
            case wire.TunerHello():
                setup = coordinator.resources.tuner_setup(coordinator.config.schema)
                coordinator.backend.send_tuner(setup)
            case wire.TunerReady():
                tuner.ready = True
                coordinator.knobs.tell_tuner()
            case wire.Measured(constants):
                tuner.constants = constants
            case wire.SampleTaken():
                coordinator.self_check.told(message)
                chunk_idx = tuner.taken_back(message)
                if chunk_idx is not None:
                    coordinator.resources.slab.release(chunk_idx)
            case wire.Built():
                tuner.built(message, now_s)
                coordinator.knobs.layout_built()
                self._built(message)
            case wire.BuildFailed():
                self._failed(message)
            case wire.DeliveryMeasured(costs):
                self._measured(costs)
            case wire.GroupsFormed():
                coordinator.groups.formed(message, now_s)
            case wire.GroupsFailed():
                coordinator.groups.failed(message, now_s)
            case wire.TunerHeartbeat():
                pass

    def fold(self, now_s: float) -> None:
        """Ask for a generation if one is due."""
        coordinator = self._coordinator
        if self.epochs.busy:  # one after the other
            return
        if coordinator.config.engine != LAYOUT_ENGINE:  # it has no generations
            return
        moment = (coordinator.registry.version, coordinator.batches.clock_us)
        pending = coordinator.scheduler.pending is not None
        request = coordinator.tuner.fold(coordinator.registry.catalogue, *moment, pending, now_s)
        if request is not None:
            coordinator.backend.send_tuner(request)

    def form_groups(self, now_s: float) -> None:
        """Ask for groups of listeners if they are due, and offer those that are there."""
        coordinator, tuner = self._coordinator, self._coordinator.tuner
        if tuner.ready and tuner.building is None and not self.epochs.busy:
            registry, layout = coordinator.registry, coordinator.scheduler.current
            situation = Situation(registry.catalogue, registry.version, layout, tuner.policy.sample_count)
            request = coordinator.groups.wanted(situation, now_s)
            if request is not None:
                coordinator.backend.send_tuner(request)
        tuner.grouping_since_s = coordinator.groups.asked_at_s
        coordinator.multicast.invite(coordinator.groups.offer(now_s), now_s)

    def _measured(self, costs: dict[str, float]) -> None:
        """Take over what deliveries cost, unless that could not be measured."""
        multicast = self._coordinator.multicast
        multicast.costs_measured = bool(costs)
        if costs:
            multicast.rule = multicast.rule._replace(costs=DeliveryCosts(**costs))

    def published(self, generation: int) -> None:
        """A generation is in force."""
        self._coordinator.resources.count.add("generations", 1)
        base_rows = self._coordinator.scheduler.generations[generation].base_counts[0]
        self._coordinator.registry.base_rows = base_rows
        self._coordinator.tuner.policy.published(base_rows, time.monotonic())
        give_back_memory()

    def refused(self, generation: int, error: dict[str, Any], now_s: float) -> list[Instruction]:
        """A worker cannot map a generation; give one up that comes with an epoch."""
        if generation != self._coordinator.scheduler.pending:
            return []
        if self._coordinator.scheduler.is_held:
            return self.epochs.refused(error_from_dict(error))
        self._coordinator.tuner.refused(generation, error, now_s)
        return []

    def unlinked(self, segment: str) -> None:
        """Nobody asks for a segment any more; the tuner may have it."""
        self._coordinator.backend.send_tuner(wire.DropSegment(segment))

    def catalogue_changed(self) -> None:
        """Changes are in force."""
        registry = self._coordinator.registry
        newly, self._removed_seen = registry.removed_in_base - self._removed_seen, registry.removed_in_base
        rows = registry.catalogue.counts().rows
        self._coordinator.tuner.policy.changed(rows, time.monotonic(), newly, registry.dead_count)

    @fault_point("epoch.built")
    def _built(self, message: wire.Built) -> None:
        built = (message.generation, message.segment, message.counts, message.version)
        scheduler, catalogue = self._coordinator.scheduler, message.catalogue_segment
        self._coordinator.carry_out(scheduler.layout_built(*built, message.partition_cost, catalogue))
        if catalogue:
            self._coordinator.carry_out(self.epochs.begin(message))

    def _failed(self, message: wire.BuildFailed) -> None:
        log.error("generation %d failed: %s", message.generation, message.error)
        self._coordinator.tuner.failed(message, time.monotonic())

    def _moved(self) -> None:
        self._coordinator.resources.take_catalogue(self._coordinator.registry.catalogue)
        self._coordinator.tuner.moved()
        self.catalogue_changed()
