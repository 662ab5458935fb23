"""Who answers for a segment, told by its name: a process, by pid *and* start time.

A pid alone is used again sooner or later; with the start time in clock ticks since boot
(``/proc/<pid>/stat``, field 22) the pair names one process for the life of the machine's kernel, which is
also the life of ``/dev/shm``. A zombie counts as dead: its maps are gone. Segments are named after their
owner, ``pubsub-<cluster>-<pid>-<start>-<kind>-<generation>``, so leftovers of dead ones are found by a look
at the directory, without opening anything.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.fault_points import fault_point

SHM_DIRECTORY = "/dev/shm"

_NAME = re.compile(r"pubsub-([0-9a-f]{8})-([0-9]{1,10})-([0-9]{1,20})-([a-z][a-z_]{0,15})-([0-9]{1,19})")
_CLUSTER_ID = re.compile(r"[0-9a-f]{8}")
_STATE, _START_TIME = 0, 19  # positions after the command's closing bracket, see proc(5)


class Owner(NamedTuple):
    """A process of a cluster.

    Attributes
    ----------
    cluster_id : str
        Eight lower-case hexadecimal digits.
    pid : int
    start_time_ticks : int
        Start of the process, clock ticks since boot.
    """

    cluster_id: str
    pid: int
    start_time_ticks: int


def process_start_ticks(pid: int) -> int | None:
    """Return the start time of a live process in clock ticks since boot; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rfind(b")") + 2 :].split()
    if fields[_STATE] in (b"Z", b"X"):
        return None
    return int(fields[_START_TIME])


def current_owner(cluster_id: str) -> Owner:
    """Return the running process as an owner.

    Raises
    ------
    SegmentError
        `cluster_id` is not eight hexadecimal digits, or ``/proc`` is not there.
    """
    if _CLUSTER_ID.fullmatch(cluster_id) is None:
        raise SegmentError("not a cluster id", seen=cluster_id, limit="8 lower-case hexadecimal digits")
    start_ticks = process_start_ticks(os.getpid())
    if start_ticks is None:
        raise SegmentError("cannot read /proc/self/stat", remedy="Mount /proc; segments are named by it")
    return Owner(cluster_id, os.getpid(), start_ticks)


def owner_is_alive(owner: Owner) -> bool:
    """Tell whether the very process that `owner` names still runs."""
    return process_start_ticks(owner.pid) == owner.start_time_ticks


class SegmentName(NamedTuple):
    """The parts of a segment's name."""

    owner: Owner
    kind: str
    generation: int

    def __str__(self) -> str:
        cluster_id, pid, start = self.owner
        return f"pubsub-{cluster_id}-{pid}-{start}-{self.kind}-{self.generation}"


def parse_name(name: str) -> SegmentName | None:
    """Return the parts of `name`, or None when it is not a name of ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    cluster_id, pid, start, kind, generation = found.groups()
    return SegmentName(Owner(cluster_id, int(pid), int(start)), kind, int(generation))


def free_shared_bytes() -> int | None:
    """Return the free bytes of the shared-memory file system; None where it has no size."""
    try:
        found = os.statvfs(SHM_DIRECTORY)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize if found.f_blocks else None


@fault_point("segment.unlink")
def unlink_segment(name: str) -> bool:
    """Remove the name of a segment of ours; return False when there is none."""
    if parse_name(name) is None:
        raise SegmentError("not the name of a segment", seen=name)
    try:
        os.unlink(os.path.join(SHM_DIRECTORY, name))
    except FileNotFoundError:
        return False
    return True


def list_segments(cluster_id: str | None = None) -> list[str]:
    """Return the names of all segments of this user, of one cluster or of all, sorted."""
    names = []
    try:
        entries = list(os.scandir(SHM_DIRECTORY))
    except FileNotFoundError:
        return []
    for entry in entries:
        parts = parse_name(entry.name)
        if parts is None or (cluster_id is not None and parts.owner.cluster_id != cluster_id):
            continue
        try:
            if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                names.append(entry.name)
        except FileNotFoundError:
            continue
    return sorted(names)


@fault_point("segment.sweep")
def sweep_dead(cluster_id: str | None = None) -> list[str]:
    """Unlink this user's segments whose owner is dead; return their names.

    An owner is its pid and its start time, so a pid in use again does not protect a leftover, and a segment
    whose owner lives is never touched. (Owners of another pid namespace look dead: containers that share
    ``/dev/shm`` must share pids as well.)
    """
    swept = []
    for name in list_segments(cluster_id):
        parts = parse_name(name)
        if parts is not None and not owner_is_alive(parts.owner) and unlink_segment(name):
            swept.append(name)
    return swept
