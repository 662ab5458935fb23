"""What a Python worker does before and in its first task, in a process of its own.

    python -m pubsub_cluster.benchmarks.first_task LAYOUT FILE

Imports what a worker imports, maps the layout, takes the kernels from the cache and matches a small file.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pubsub_cluster.pipeline.engine import Selection
from pubsub_cluster.pipeline.match_worker import Answer, FileEvents, match_slices
from pubsub_cluster.pipeline.plan import FileSlice
from pubsub_cluster.shm.layout_folder import open_folder

TIMEOUT_S = 120


def first_task_s(layout: Path, file: Path) -> float:
    """Return the seconds from starting such a process to its end."""
    command = [sys.executable, "-m", "pubsub_cluster.benchmarks.first_task", str(layout), str(file)]
    begin_s = time.perf_counter()
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return time.perf_counter() - begin_s


def main() -> int:
    """Be the worker."""
    layout, file = sys.argv[1:]
    importlib.import_module("pyspark.worker")
    schema = pq.read_schema(file)
    columns = dict(zip(schema.names, schema.types, strict=True))
    selection = Selection(layout, open_folder(Path(layout)).generation, 0, (0,))
    units = [(0, [FileSlice(file, 0, 0, 1, 1)])]
    numbers = iter([pa.record_batch({"id": pa.array([0])})])
    for _ in match_slices(
        numbers, units, [selection], FileEvents(columns, "event_id"), Answer(0, False, False)
    ):
        pass
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
