"""Engines with nothing around them: processes that match the same batches at the same time."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

from pubsub_cluster.benchmarks.workloads import Workload
from pubsub_cluster.language.batch import payload_from_columns
from pubsub_cluster.shm.layout_folder import map_part, open_folder
from pubsub_cluster.workers.engine import MatchEngine

BATCH = 16_384
GENERATION = 1


class BareEngines:
    """So many processes, each of which matches all batches when it is asked to.

    Parameters
    ----------
    folder : Path
        A layout folder of one part, which all map.
    workload : Workload
        Events are drawn from it, and encoded before anything is timed.
    event_count : int
    count : int
        Processes.
    """

    def __init__(self, folder: Path, workload: Workload, event_count: int, count: int) -> None:
        self._events = event_count * count
        fresh = multiprocessing.get_context("spawn")
        self._pipes = []
        self._processes = []
        for _ in range(count):
            mine, other = fresh.Pipe()
            process = fresh.Process(target=_serve, args=(folder, workload, event_count, other), daemon=True)
            process.start()
            self._processes.append(process)
            self._pipes.append(mine)
        for pipe in self._pipes:
            pipe.recv()

    def events_per_second(self) -> tuple[float, int]:
        """Return the rate of all together, and the matches that one of them found."""
        begin_s = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(None)
        matches = [pipe.recv() for pipe in self._pipes]
        assert len(set(matches)) == 1, matches
        return self._events / (time.perf_counter() - begin_s), matches[0]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.terminate()
            process.join()


def _serve(folder: Path, workload: Workload, event_count: int, pipe: Any) -> None:
    part = map_part(open_folder(folder).paths[0])
    engine = MatchEngine(part.catalogue)
    engine.warm_up()
    engine.attach_layout(GENERATION, part.layout)
    counts = part.layout.counts
    batches = [
        payload_from_columns(workload.events(min(BATCH, event_count - first), first).columns())
        for first in range(0, event_count, BATCH)
    ]
    while True:
        found = 0
        for header, buffers, _ in batches:
            found += len(engine.match_batch(engine.read(header, buffers), GENERATION, counts).rows)
        pipe.send(found)
        pipe.recv()
