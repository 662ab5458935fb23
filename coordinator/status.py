"""What the cluster tells about itself, and what it keeps for diagnosis."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psutil

from pubsub_cluster.coordinator.config import LAYOUT_ENGINE
from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.protocol import PROTOCOL_VERSION, TUNE_ACTIONS
from pubsub_cluster.language.together import REQUESTS_MAX
from pubsub_cluster.shm.fault_points import fault_point
from pubsub_cluster.shm.owner import SHM_DIRECTORY, list_segments, parse_name

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.batches import OpenBatch
    from pubsub_cluster.coordinator.delivery.multicast import Multicast
    from pubsub_cluster.coordinator.runtime import Coordinator

POISON_DIR = "poison"
POISON_FILES_MAX = 16
log = logging.getLogger("pubsub_cluster.coordinator")


def greeting(coordinator: Coordinator) -> dict[str, Any]:
    """Return what a client is told when it says hello."""
    return {
        "cluster_id": coordinator.resources.cluster_id,
        "life": coordinator.resources.life,
        "version": PROTOCOL_VERSION,
        "requests": REQUESTS_MAX,
        "limits": asdict(coordinator.config.limits),
        "schema": coordinator.config.schema.to_json(),
    }


def status(coordinator: Coordinator) -> dict[str, Any]:
    """Return the state of the cluster for ``pubsub-cluster status``."""
    resources, scheduler = coordinator.resources, coordinator.scheduler
    epochs = coordinator.building.epochs
    counts = resources.catalogue.counts()
    base = scheduler.generations[scheduler.current].base_counts
    worker_counters = resources.worker_counters()
    workers = [
        {
            "worker": worker.worker_idx,
            "pid": coordinator.backend.pid(worker.worker_idx),
            "shard": worker.shard_idx,
            "replica": worker.replica_idx,
            "cpu": coordinator.backend.pinned.get(worker.worker_idx),
            "ready": worker.ready,
            "tasks_running": len(worker.running),
            "restarts": worker.restarts,
            **worker_counters[worker.worker_idx],
        }
        for _, worker in sorted(scheduler.workers.items())
    ]
    team, resizing = scheduler.crew.team, scheduler.crew.resizing
    return {
        "cluster_id": resources.cluster_id,
        "pid": resources.owner.pid,
        "endpoint": resources.client_endpoint,
        "data_dir": str(resources.data_dir),
        "uptime_s": round(time.monotonic() - coordinator.started_s, 3),
        "engine": coordinator.config.engine,
        "shards": team.shards,
        "replicas": team.replica_count,
        "resizing": {"shards": resizing[0], "replicas": resizing[1]} if resizing else None,
        "leaving": len(scheduler.crew.leaving),
        "version": coordinator.registry.version,
        "generation": scheduler.current,
        "subscriptions": coordinator.registry.live_count,
        "rows": counts.rows,
        "epochs": {"moves": epochs.moves, "busy": epochs.busy, **epochs.last},
        "delta_rows": counts.rows - (base[0] if base else 0),
        "batches_open": len(coordinator.batches.open),
        "chunks_free": resources.slab.free_count,
        "listeners": coordinator.delivery.listeners.count,
        "multicast": {**coordinator.multicast.status(), "forming": coordinator.groups.status()},
        "unmatched_listeners": coordinator.delivery.unmatched.count,
        "counters": resources.own_counters(),
        "workers": workers,
        "tuner": {
            "pid": coordinator.backend.pid(None),
            "ready": coordinator.tuner.ready,
            "restarts": coordinator.tuner.restarts,
            "building": coordinator.tuner.building.generation if coordinator.tuner.building else None,
            "sampled_events": coordinator.tuner.policy.sample_count,
        },
        "durable_receivers": coordinator.durable.status(),
        "retained": coordinator.retained.status(),
        "self_check": coordinator.self_check.status(),
        "durable": coordinator.keeper.status(),
        "encoder": coordinator.layouts.encoder(),
        "memory": _memory_bytes({"coordinator": resources.owner.pid, **coordinator.backend.pids()}),
        "segments": _segment_sizes(coordinator),
    }


def needs_layout_engine(coordinator: Coordinator, what: str) -> None:
    """Raise `ProtocolError` where the engine is a matcher of the papers; `what` is said of the cluster."""
    if coordinator.config.engine != LAYOUT_ENGINE:
        raise ProtocolError(
            f"a cluster with another engine than `{LAYOUT_ENGINE}` {what}",
            seen=coordinator.config.engine,
            remedy="Start it without --engine for that.",
        )


def tune(coordinator: Coordinator, header: dict[str, Any], request: str) -> dict[str, Any]:
    """Carry out ``pubsub-cluster tune ACTION``; return what it prints, or the job that it is."""
    if header["action"] not in ("show", "set"):
        needs_layout_engine(coordinator, "is not tuned")
    match header["action"]:
        case "show":
            return _tuning(coordinator)
        case "now":
            coordinator.tuner.policy.asked = True
            return {"asked": True, "generation": coordinator.scheduler.current}
        case "set":
            coordinator.knobs.set(header.get("name"), header.get("value"))
        case "freeze" | "thaw" as action:
            coordinator.knobs.freeze(action == "freeze")
        case "import_statistics":
            return {"job": coordinator.keeper.submit("statistics", request, header.get("path")).number}
        case "clear_statistics":
            coordinator.knobs.take_statistics(None)
        case action:
            raise ProtocolError("no such action of the tuner", seen=action, limit=list(TUNE_ACTIONS))
    return {"settings": coordinator.knobs.told()}


def _tuning(coordinator: Coordinator) -> dict[str, Any]:
    scheduler, policy = coordinator.scheduler, coordinator.tuner.policy
    current = scheduler.generations[scheduler.current]
    shard_cost: dict[int, int] = {}
    for shard_idx in current.shard_of_partition(scheduler.crew.team.shards):
        shard_cost[shard_idx] = shard_cost.get(shard_idx, 0) + 1
    return {
        "generation": scheduler.current,
        "pending": scheduler.pending,
        "in_use": {str(number): found.bound_batches for number, found in scheduler.generations.items()},
        "base_rows": policy.base_rows,
        "delta_rows": policy.rows - policy.base_rows,
        "kernel_us_per_task": round(policy.base_us, 1),
        "delta_us_per_task": round(policy.delta_us, 1),
        "sampled_events": policy.sample_count,
        "settings": coordinator.knobs.told(),
        "statistics": coordinator.knobs.statistics(),
        "constants": coordinator.tuner.constants,
        "delivery": _delivery(coordinator.multicast),
        "partitions_per_shard": {str(shard): count for shard, count in sorted(shard_cost.items())},
        "layout": coordinator.layouts.priced(coordinator.tuner.summary),
        "history": coordinator.tuner.history,
    }


def _delivery(multicast: Multicast) -> dict[str, Any]:
    """Return what the ways of delivery cost, and the share of a large group from which a record pays."""
    costs = multicast.rule.costs
    share = costs.wasted_ns / (costs.unicast_ns + costs.wasted_ns)
    threshold = share if multicast.rule.threshold is None else multicast.rule.threshold
    return {**costs._asdict(), "measured": multicast.costs_measured, "threshold": round(threshold, 4)}


@fault_point("poison.write")
def keep_poison(coordinator: Coordinator, batch: OpenBatch, batch_no: int) -> None:
    """Keep a batch that killed its worker twice, for diagnosis; at most `POISON_FILES_MAX` of them.

    Keeping it is a courtesy: where the disk is full, it is not kept.
    """
    folder = coordinator.resources.data_dir / POISON_DIR
    path = folder / f"{coordinator.resources.life}-{batch_no:09d}.batch"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        kept = sorted(folder.glob("*.batch"), key=lambda found: found.stat().st_mtime)
        for old in kept[: len(kept) - POISON_FILES_MAX + 1]:
            old.unlink()
        _write_batch(path, coordinator, batch)
    except OSError as error:
        log.warning("the poison batch %d could not be kept: %s", batch_no, error)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _write_batch(path: Path, coordinator: Coordinator, batch: OpenBatch) -> None:
    header, buffers = coordinator.batches.payload(batch)
    (publication,) = batch.group  # a group is divided, never refused
    _, publisher, batch_id = publication.key
    facts = {"publisher": publisher, "batch_id": batch_id, "batch": header}
    with path.open("wb") as file:
        file.write(orjson.dumps({**facts, "buffer_sizes": [memoryview(buffer).nbytes for buffer in buffers]}))
        file.write(b"\n")
        for buffer in buffers:
            file.write(memoryview(buffer).cast("B") if memoryview(buffer).nbytes else b"")


def _memory_bytes(pids: dict[str, int]) -> dict[str, int]:
    """Return what each process has in memory that is its own: neither segments nor files."""
    found: dict[str, int] = {}
    for name, pid in pids.items():
        with contextlib.suppress(psutil.Error):  # it has just ended
            memory = psutil.Process(pid).memory_info()
            found[name] = memory.rss - memory.shared
    return found


def _segment_sizes(coordinator: Coordinator) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name in list_segments(coordinator.resources.cluster_id):
        parts = parse_name(name)
        if parts is None:
            continue
        try:
            with open(f"{SHM_DIRECTORY}/{name}", "rb") as file:
                sizes[f"{parts.kind}-{parts.generation}"] = os.fstat(file.fileno()).st_blocks * 512
        except FileNotFoundError:
            continue
    return sizes
