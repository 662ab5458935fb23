"""The tuner process: samples live events, builds generations, at low priority.

Started by module name: ``python -m pubsub_cluster.tuner.process``. It reads the catalogue and lent
batches, writes new segments in the coordinator's name, and decides nothing about when they are used.
"""

from __future__ import annotations

import argparse
import functools
import logging
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from pubsub_cluster.language.batch import decode_payload, event_values
from pubsub_cluster.language.errors import ClusterError, PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.catalogue_store import rows_for
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.layout import attach_layout, layout_lengths, move_layout
from pubsub_cluster.shm.lifeline import SYSTEM_TURN_US, gently, leave, take_turns, tie_to_parent
from pubsub_cluster.shm.memory import give_back_memory, use_one_heap
from pubsub_cluster.shm.owner import Owner, unlink_segment
from pubsub_cluster.shm.slab import SlabReader
from pubsub_cluster.tuner import messages as wire
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.constants import (
    DEFAULT_CONSTANTS,
    DELIVERY_MEASURE_MODULE,
    CostConstants,
    Measurement,
)
from pubsub_cluster.tuner.epochs import Catalogues, write_epoch
from pubsub_cluster.tuner.frequencies import Frequencies
from pubsub_cluster.tuner.frequencies_file import read_frequencies
from pubsub_cluster.tuner.group_builder import form_group_map
from pubsub_cluster.tuner.held import HeldSegments
from pubsub_cluster.tuner.live import LiveTables, told
from pubsub_cluster.tuner.report import summarise
from pubsub_cluster.tuner.self_check import check_event
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.tuner.trees import TreeChoice

HEARTBEAT_S = 1.0
MEASURE_AFTER_S = 3.0  # leaves the machine to the workers while they start
MEASURE_FROM_CLAUSES = 2_000  # fewer are as fast by the default constants, and measuring takes seconds
MEASURED_FROM_CLAUSES = 50_000  # a larger build waits for the constants, but not for long
MEASURE_WAIT_S_MAX = 10.0
DECISIONS_TOLD_MAX = 32  # of one generation
log = logging.getLogger("pubsub_cluster.tuner")


class TunerLoop:
    """One tuner process.

    Parameters
    ----------
    endpoint : str
        Where the coordinator listens for its processes.
    """

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IDENTITY, f"t.{os.getpid()}".encode())
        self._socket.connect(endpoint)
        self._measure_at_s = time.monotonic() + MEASURE_AFTER_S
        self._is_worth_measuring = False
        self._measurement: Measurement | None = None
        self._constants: CostConstants | None = None
        self._delivery: Measurement | None = None  # begins when somebody is to be told by groups
        self._delivery_told = False
        self._random = np.random.default_rng()
        self._tune = wire.Tune(wire.Thresholds())
        self._imported: Frequencies | None = None
        self._import_error = ""
        self._held = HeldSegments()
        self._last_segment = ""  # whose layout the next one takes over from

    def run(self) -> int:
        """Serve until told to stop."""
        self._say(wire.TunerHello(os.getpid()))
        while True:
            is_idle = not self._socket.poll(int(HEARTBEAT_S * 1_000))
            self._measure()
            self._let_go(time.monotonic())
            if is_idle:
                self._say(wire.TunerHeartbeat())
                continue
            if not self._take(wire.decode_to_tuner(self._socket.recv())):
                self._context.destroy(linger=0)
                return 0

    @fault_point("tuner.message")
    def _take(self, message: wire.ToTuner) -> bool:
        """Do what a message says; return False when it says to leave."""
        match message:
            case wire.TunerSetup():
                self._configure(message)
            case wire.SchemaExtended(schema):
                self._schema = Schema.from_json(schema)
            case wire.Sample():
                gently(functools.partial(self._sample, message))
            case wire.Tune():
                self._take_settings(message)
            case wire.Fold():
                self._let_go(math.inf)  # the new generation needs the room
                # Not in the thread that is gentle: the measurement would have its priority, and end with it.
                self._wait_for_constants(CatalogueCounts(*message.counts).clauses)
                if message.can_wait:
                    gently(functools.partial(self._fold, message))
                else:
                    self._fold(message)
                gently(give_back_memory)
            case wire.FormGroups():
                self._delivery = self._delivery or Measurement(DELIVERY_MEASURE_MODULE)  # not gently either
                gently(functools.partial(self._form_groups, message))
                gently(give_back_memory)
            case wire.DropSegment(segment):
                self._held.drop(segment)
            case wire.TunerShutdown():
                return False
        return True

    def _let_go(self, now_s: float) -> None:
        """Let go of the segments for which it is time."""

        def free(names: list[str]) -> None:
            for name in names:
                self._catalogues.drop(name)
                if name == self._last_segment:
                    self._live.last.forget()
                self._held.let_go(name)
            give_back_memory()

        if over := self._held.over(now_s):
            gently(functools.partial(free, over))

    def _configure(self, setup: wire.TunerSetup) -> None:
        self._setup = setup
        self._limits = Limits(**setup.limits)
        self._schema = Schema.from_json(setup.schema)
        self._catalogues = Catalogues()
        self._slab = SlabReader.attach(setup.slab_segment)
        self._owner = Owner(setup.cluster_id, setup.owner_pid, setup.owner_start_ticks)
        self._events = EventSample()
        self._live, self._live_over = LiveTables(), ""
        self._say(wire.TunerReady())

    def _take_settings(self, tune: wire.Tune) -> None:
        if tune.statistics != self._tune.statistics:
            self._imported, self._import_error = None, ""
            if tune.statistics is not None:
                try:
                    self._imported = read_frequencies(Path(tune.statistics)).frequencies
                except PubSubError as error:
                    log.warning("tables are chosen by the sample: %s", error)
                    self._import_error = str(error)
            self._live = LiveTables()  # other statistics, other tables: they are chosen anew
        self._tune = tune

    @fault_point("tuner.sample")
    def _sample(self, lent: wire.Sample) -> None:
        event_count, checked_rows = 0, 0
        differences: list[wire.Difference] = []
        try:
            header, buffers = self._slab.read(lent.chunk_idx)
            raw = decode_payload(header, buffers, self._schema, self._limits)
            event_count = self._events.add(raw)
            if lent.check is not None and lent.check.event_idx not in raw.refused:
                values = event_values(raw, lent.check.event_idx)
                catalogue = self._catalogues.of(lent.check.catalogue_segment)
                checked_rows, differences = check_event(catalogue, values, lent.check, self._random)
        except PubSubError as error:
            log.warning("batch not sampled: %s", error)
        held_count = self._events.event_count
        self._say(wire.SampleTaken(lent.chunk_idx, event_count, held_count, checked_rows, differences))

    @fault_point("tuner.fold")
    def _fold(self, request: wire.Fold) -> None:
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        made: list[str] = []  # segments of a new epoch
        try:
            catalogue, counts = self._source(request, made)
            self._live.thresholds, self._live.frozen = self._tune.thresholds, self._tune.frozen
            trees = TreeChoice(self._tune.tree)
            arrays = build_layout(
                catalogue,
                counts,
                request.version,
                self._events if self._imported is None else self._imported,
                request.generation,
                partition_count=self._setup.partition_count,
                configuration=self._live.configure,
                constants=self._constants,
                trees=trees,
                last=self._live.last,
            )
            built_s = time.perf_counter()
            cost: list[float] = arrays.partition_cost.tolist()
            constants = self._constants or DEFAULT_CONSTANTS
            summary = summarise(arrays, catalogue.attribute_name, constants)
            columns, lengths = list(arrays), layout_lengths(arrays)
            del arrays
            segment = move_layout(columns, lengths, request.generation, self._owner)
            summary |= {
                "constants": constants._asdict(),
                "constants_measured": self._constants is not None,
                "tables_chosen_anew": self._live.reason,
                "taken_over": round(self._live.last.taken_over, 3),
                "tree_choice": trees.weighed.to_dict(),
                "decisions": self._told(catalogue),
                **self._known_events(),
                "build_ms": round((built_s - started_s) * 1_000),
                "build_cpu_ms": round((time.process_time() - cpu_started_s) * 1_000),
                "write_ms": round((time.perf_counter() - built_s) * 1_000),
            }
        except Exception as error:  # the generation in force stays; the coordinator records why
            log.exception("generation %d could not be built", request.generation)
            for name in made:
                unlink_segment(name)
                self._catalogues.drop(name)
            shown = (
                error
                if isinstance(error, PubSubError)
                else ClusterError("the build failed", seen=repr(error))
            )
            self._live = LiveTables()  # it may have been left half changed: the next try begins anew
            self._say(wire.BuildFailed(request.generation, shown.to_dict()))
            return
        name = segment.name
        segment.close()
        self._held.hold(name)
        self._last_segment = name
        try:
            self._live.last.settle(attach_layout(name))
        except (OSError, PubSubError):  # then the next one is packed whole
            log.exception("the layout of generation %d could not be mapped", request.generation)
        built = (request.generation, name, tuple(counts), request.version, cost, summary)
        self._say(wire.Built(*built, *made))

    def _form_groups(self, request: wire.FormGroups) -> None:
        try:
            catalogue = self._catalogues.of(request.catalogue_segment)
            segment, summary = form_group_map(catalogue, request, self._events.events(), self._owner)
        except Exception as error:
            log.exception("no groups were formed")
            shown = (
                error
                if isinstance(error, PubSubError)
                else ClusterError("groups could not be formed", seen=repr(error))
            )
            self._say(wire.GroupsFailed(request.number, shown.to_dict()))
            return
        self._say(wire.GroupsFormed(request.number, segment, summary))

    def _known_events(self) -> dict[str, Any]:
        """Return what the generation's estimates come from."""
        if self._imported is None:
            error = {"statistics_error": self._import_error} if self._import_error else {}
            return {"statistics": "sampled", "sampled_events": self._events.event_count, **error}
        return {"statistics": "imported", "sampled_events": self._imported.event_count}

    def _source(self, request: wire.Fold, made: list[str]) -> tuple[CatalogueReader, CatalogueCounts]:
        """Return what the generation is built from; the names of segments of a new epoch go to `made`."""
        catalogue, counts = self._catalogues.of(request.catalogue_segment), CatalogueCounts(*request.counts)
        if self._live_over != request.catalogue_segment:
            self._live, self._live_over = LiveTables(), request.catalogue_segment
        if not request.epoch:
            return catalogue, counts
        rows_max, moment = rows_for(self._limits.subscriptions_max), (request.version, request.now_us)
        epoch = write_epoch(catalogue, counts, moment, rows_max, request.epoch, self._owner)
        made += [epoch.catalogue_segment, epoch.moved_segment]
        self._catalogues.add(epoch)
        # They know clauses by number; the tables they have chosen are known by their names.
        self._live = self._live.after_epoch(counts.clauses)
        self._live_over = epoch.catalogue_segment
        return epoch.reader, epoch.counts

    def _told(self, catalogue: CatalogueReader) -> list[dict[str, Any]]:
        """Return the last decisions, as the coordinator records them."""
        decisions = self._live.decisions[-DECISIONS_TOLD_MAX:]
        return [told(decision, catalogue.attribute_name) for decision in decisions]

    def _measure(self) -> None:
        """Measure the machine's constants once they are of use, beside everything else, and tell them."""
        if self._delivery is not None and not self._delivery_told and self._delivery.is_done():
            self._delivery_told = True
            self._say(wire.DeliveryMeasured(self._delivery.said()))
        if self._constants is not None or time.monotonic() < self._measure_at_s:
            return
        if self._measurement is not None:
            if self._measurement.is_done():
                self._finish_measurement(self._measurement)
        elif self._is_worth_measuring:
            self._measurement = Measurement()

    def _finish_measurement(self, measurement: Measurement) -> None:
        self._constants = measurement.result()
        self._say(wire.Measured(self._constants._asdict()))

    def _wait_for_constants(self, clause_count: int) -> None:
        """Wait for the machine's constants, but not for long, and only for a build that is large."""
        self._is_worth_measuring |= clause_count >= MEASURE_FROM_CLAUSES
        if self._constants is None and clause_count >= MEASURED_FROM_CLAUSES:
            self._measurement = self._measurement or Measurement()
            if self._measurement.is_done(MEASURE_WAIT_S_MAX):
                self._finish_measurement(self._measurement)

    @fault_point("tuner.send")
    def _say(self, message: wire.FromTuner) -> None:
        self._socket.send(wire.encode(message))


def main(argv: list[str] | None = None) -> int:
    """Run the tuner until it is told to stop or its coordinator dies."""
    parser = argparse.ArgumentParser(prog="pubsub_cluster.tuner.process")
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args(argv)
    tie_to_parent(options.parent)
    use_one_heap()
    take_turns(SYSTEM_TURN_US)  # its parent's are short
    logging.basicConfig(level=logging.INFO, format="%(asctime)s tuner %(message)s")
    return TunerLoop(options.endpoint).run()


if __name__ == "__main__":
    leave(main())
