"""A coordinator in this process, from its settings to its exit status."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.keeping import Job
from pubsub_cluster.coordinator.runtime import AGAIN, Coordinator
from pubsub_cluster.shm.lifeline import SHORT_TURN_US, on_stop, take_turns


def run_coordinator(
    config: ClusterConfig,
    on_ready: Callable[[dict[str, Any]], None] | None = None,
    parent_pid: int | None = None,
) -> int:
    """Run a cluster in this process until it is stopped; return the exit status.

    When a backup has been restored, the coordinator ends as on a stop and another one begins with what is
    durable then; clients see a restart. Parameters and errors are those of `Coordinator`.
    """
    take_turns(SHORT_TURN_US)  # before there are any other threads
    lives: list[Coordinator] = []  # the present one
    is_stopped = False

    def stop() -> None:
        nonlocal is_stopped
        is_stopped = True
        for life in lives:
            life.stop()

    on_stop(stop)  # not in each life: that would keep the one before, and miss a signal between them
    jobs: dict[int, Job] = {}
    while True:
        lives = [Coordinator(config, on_ready, parent_pid, jobs)]
        if is_stopped:
            lives[0].stop()
        status = lives[0].run()
        if is_stopped:
            return 0
        if status != AGAIN:
            return status
        on_ready = None
        team = lives[0].scheduler.crew.team
        config = replace(config, shards=team.shards, replicas=team.replica_count)
        lives = []
        gc.collect()  # its parts know each other, and a segment takes room until the last view of it is gone
