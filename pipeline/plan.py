"""Which worker matches which events against which parts of a catalogue, decided before a job and told.

Where a host's memory has room for the whole layout, every worker maps all of it and sees each event once.
Where it has not, parts are bundled so that a bundle fits, and every bundle sees all events: the events are
read (or shuffled) once per bundle. A subscription lies in one part, so the results are simply put together.
"""

from __future__ import annotations

from typing import NamedTuple

import psutil

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.shm.layout_folder import LayoutGeneration

MEMORY_SHARE = 0.5
"""Of a host's memory that mapped layouts may take; the rest is for events, results and Spark."""

TASK_BYTES_MIN, TASK_BYTES_MAX = 4 << 20, 128 << 20
"""Of files, that a task reads: a task costs about as much as reading a few megabytes."""


class Plan(NamedTuple):
    """How a catalogue and events meet.

    Attributes
    ----------
    bundles : tuple of tuple of int
        Parts that a worker maps together; one bundle where all fit.
    layout_bytes : int
        Of all parts.
    room_bytes : int
        What a host has for mapped layouts.
    """

    bundles: tuple[tuple[int, ...], ...]
    layout_bytes: int
    room_bytes: int

    def explain(self) -> str:
        """Say what was chosen, and why."""
        size, room = _mib(self.layout_bytes), _mib(self.room_bytes)
        parts = sum(map(len, self.bundles))
        if len(self.bundles) == 1:
            return (
                f"whole catalogue in every worker: {parts} part(s), {size}, have room in a host's {room}; "
                "each event is read once"
            )
        return (
            f"bundles of parts x events: {parts} parts, {size}, do not fit a host's {room}; "
            f"{len(self.bundles)} bundles, each event is read {len(self.bundles)} times"
        )


def choose_plan(generation: LayoutGeneration, room_bytes: int | None = None) -> Plan:
    """Bundle the parts of a catalogue.

    Parameters
    ----------
    generation : LayoutGeneration
    room_bytes : int, optional
        Memory of a host for mapped layouts; half of this machine's by default, which is right where the
        executors' hosts are like the driver's.

    Raises
    ------
    LimitError
        One part alone is larger than that.
    """
    room = int(MEMORY_SHARE * psutil.virtual_memory().total) if room_bytes is None else room_bytes
    bundles: list[list[int]] = []
    left = 0
    for idx, part in enumerate(generation.parts):
        if part.size_bytes > room:
            raise LimitError(
                "a part of the layout does not fit a host's memory",
                seen=part.size_bytes,
                limit=room,
                remedy="Build it in more parts (pipeline build --parts), or give more room.",
            )
        if not bundles or part.size_bytes > left:
            bundles.append([])
            left = room
        bundles[-1].append(idx)
        left -= part.size_bytes
    return Plan(tuple(map(tuple, bundles)), generation.size_bytes, room)


class FileSlice(NamedTuple):
    """Row groups of a Parquet file: those whose middle row lies in a part of it, bytes taken for rows.

    Attributes
    ----------
    path : str
    file_idx : int
        Among all files, by path.
    start, stop : int
        The part, of `size` bytes; it does not have to say where anything lies in the file.
    size : int
        1 or more.
    """

    path: str
    file_idx: int
    start: int
    stop: int
    size: int

    def has_rows(self, first: int, count: int, total: int) -> bool:
        """Say whether a row group of `count` rows, of the file's `total`, belongs to the slice."""
        return self.start <= (2 * first + count) * self.size // (2 * total) < self.stop


def deal_files(sizes: dict[str, int], cores: int, tasks: int | None = None) -> list[list[FileSlice]]:
    """Deal files to tasks, each the same share of all bytes, whatever the files' sizes.

    Parameters
    ----------
    sizes : dict of str to int
        Bytes by path.
    cores : int
        Tasks that run at a time: there are as many, or a multiple, so that all cores end together.
    tasks : int, optional
        About how many there are to be; by size by default.

    Returns
    -------
    list of list of FileSlice
        What each task reads.
    """
    files = [(path, max(size, 1)) for path, size in sorted(sizes.items())]
    total = sum(size for _, size in files)
    if not files:
        return []
    if tasks is None:
        rounds = -(-total // (cores * TASK_BYTES_MAX))
        tasks = min(rounds * cores, -(-total // TASK_BYTES_MIN))
    ends = [(task + 1) * total // tasks for task in range(tasks)]
    dealt: list[list[FileSlice]] = [[] for _ in ends]
    task = before = 0
    for file_idx, (path, size) in enumerate(files):
        start = 0
        while start < size:
            stop = min(ends[task] - before, size)
            if start < stop:
                dealt[task].append(FileSlice(path, file_idx, start, stop, size))
                start = stop
            if start < size:
                task += 1
        before += size
    return [mine for mine in dealt if mine]


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"
