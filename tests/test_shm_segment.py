"""The traps of shared memory, each with a process that would fall into it."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterator
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

import numpy as np
import pytest

from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.shm.owner import owner_is_alive, process_start_ticks
from pubsub_cluster.shm.segment import (
    Owner,
    PrivateSegment,
    Segment,
    SegmentName,
    current_owner,
    list_segments,
    parse_name,
    sweep_dead,
    unlink_segment,
)

ROOT = Path(__file__).resolve().parents[1]
SHM = Path("/dev/shm")
WAIT_S_MAX = 60


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Return this process as an owner in a cluster of its own; whatever is left of it is unlinked."""
    made = current_owner(uuid.uuid4().hex[:8])
    yield made
    for name in list_segments(made.cluster_id):
        unlink_segment(name)


def run_python(code: str, *arguments: str, kill: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter that shows every warning; with `kill` it ends itself by SIGKILL."""
    if kill:
        code += "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
    )


ATTACH = """
import sys
from pubsub_cluster.shm.segment import Segment
segment = Segment.attach(sys.argv[1])
view = segment.array("i8", 64, 4)
print(view.tolist())
"""


def test_attach_reads_what_the_creator_wrote(owner: Owner) -> None:
    segment = Segment.create("test", 3, 4096, owner)
    segment.array("i8", 64, 4)[:] = [1, 2, 3, 4]
    other = Segment.attach(segment.name)
    assert other.array("i8", 64, 4).tolist() == [1, 2, 3, 4]
    assert other.size_bytes == 4096
    assert other.stamp == segment.stamp
    assert (other.stamp.kind, other.stamp.generation, other.stamp.owner_pid) == ("test", 3, os.getpid())


def test_views_are_read_only_for_good_unless_writable(owner: Owner) -> None:
    segment = Segment.create("test", 1, 4096, owner)
    view = Segment.attach(segment.name).array("i8", 64, 4)
    assert not view.flags.writeable
    with pytest.raises(ValueError):
        view.flags.writeable = True
    Segment.attach(segment.name, writable=True).array("i8", 64, 4)[0] = 5
    assert view[0] == 5
    assert not Segment.attach(segment.name).array("i8", 64, 0).flags.writeable


def test_a_segment_is_private_to_its_user(owner: Owner) -> None:
    segment = Segment.create("test", 1, 4096, owner)
    assert stat.S_IMODE((SHM / segment.name).stat().st_mode) == 0o600


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("order", list(itertools.permutations(["segment", "view", "slice", "close"])))
def test_views_and_segment_go_in_any_order(owner: Owner, order: tuple[str, ...]) -> None:
    segment = Segment.create("test", 1, 1 << 20, owner)
    view = segment.array("i8", 64, 1000)
    held = {"segment": segment, "view": view, "slice": view[10:20]}
    del segment, view
    held["slice"][:] = 7
    for what in order:
        if what == "close":
            if "segment" in held:
                held["segment"].close()
                held["segment"].close()
        else:
            del held[what]
        gc.collect()
        if "slice" in held:
            assert held["slice"].tolist() == [7] * 10


def test_nothing_is_printed_when_an_interpreter_ends_with_live_views(owner: Owner) -> None:
    code = """
import sys
from pubsub_cluster.shm.segment import Segment, current_owner
segment = Segment.create("test", 1, 1 << 20, current_owner(sys.argv[1]))
other = Segment.attach(segment.name)
views = [segment.array("i8", 64, 10), other.array("i8", 64, 10)[2:]]
class Loop: pass
loop = Loop(); loop.loop = loop; loop.views = views; loop.segment = segment
sys.modules["kept"] = loop
segment.unlink()
"""
    done = run_python(code, owner.cluster_id)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kill", [False, True])
def test_a_process_that_attached_and_ended_leaves_the_segment(owner: Owner, kill: bool) -> None:
    segment = Segment.create("test", 1, 4096, owner)
    segment.array("i8", 64, 4)[:] = 9
    done = run_python(ATTACH + "\nsys.stdout.flush()", segment.name, kill=kill)
    assert done.returncode == (-signal.SIGKILL if kill else 0)
    assert (done.stdout.strip(), done.stderr) == ("[9, 9, 9, 9]", "")
    assert list_segments(owner.cluster_id) == [segment.name]
    assert Segment.attach(segment.name).array("i8", 64, 4).tolist() == [9] * 4


def test_a_forked_child_leaves_the_segment(owner: Owner) -> None:
    code = """
import os, sys
from pubsub_cluster.shm.segment import Segment, current_owner, list_segments
segment = Segment.create("test", 1, 4096, current_owner(sys.argv[1]))
view = segment.array("i8", 64, 1)
child = os.fork()
if child == 0:
    view[0] = 5
    sys.exit(0)
os.waitpid(child, 0)
assert list_segments(sys.argv[1]) == [segment.name] and view[0] == 5
segment.unlink()
"""
    done = run_python(code, owner.cluster_id)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_tracker_is_started_and_no_global_is_patched(owner: Owner) -> None:
    code = """
import sys
from multiprocessing import resource_tracker, shared_memory
before = shared_memory.SharedMemory.__init__, resource_tracker.register, resource_tracker.unregister
from pubsub_cluster.shm.segment import Segment, current_owner
segment = Segment.create("test", 1, 4096, current_owner(sys.argv[1]))
Segment.attach(segment.name)
segment.unlink()
assert resource_tracker._resource_tracker._pid is None
assert resource_tracker._resource_tracker._fd is None
assert before == (shared_memory.SharedMemory.__init__, resource_tracker.register, resource_tracker.unregister)
assert shared_memory.resource_tracker is resource_tracker
"""
    done = run_python(code, owner.cluster_id)
    assert (done.returncode, done.stderr) == (0, "")
    assert shared_memory.resource_tracker is resource_tracker  # type: ignore[attr-defined]


def test_leftovers_of_a_killed_owner_are_swept_and_maps_stay_valid(owner: Owner) -> None:
    alive = Segment.create("test", 1, 4096, owner)
    code = """
import sys
from pubsub_cluster.shm.segment import Segment, current_owner
owner = current_owner(sys.argv[1])
for kind in ("first", "second"):
    Segment.create(kind, 1, 4096, owner).array("i8", 64, 4)[:] = 3
"""
    done = run_python(code, owner.cluster_id, kill=True)
    assert done.returncode == -signal.SIGKILL
    left = [name for name in list_segments(owner.cluster_id) if name != alive.name]
    assert len(left) == 2
    view = Segment.attach(left[0]).array("i8", 64, 4)
    assert sweep_dead(owner.cluster_id) == left
    assert view.tolist() == [3] * 4
    assert list_segments(owner.cluster_id) == [alive.name]
    assert sweep_dead(owner.cluster_id) == []


def test_a_pid_in_use_again_does_not_protect_a_leftover(owner: Owner) -> None:
    former = owner._replace(start_time_ticks=owner.start_time_ticks - 1)
    segment = Segment.create("test", 1, 4096, former)
    assert not owner_is_alive(former) and owner_is_alive(owner)
    assert sweep_dead(owner.cluster_id) == [segment.name]


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_start_ticks(child.pid) is None
    child.wait(WAIT_S_MAX)
    assert process_start_ticks(child.pid) is None


def test_a_size_beyond_the_file_system_is_refused_before_use(owner: Owner) -> None:
    with pytest.raises(SegmentError) as caught:
        Segment.create("test", 1, 1 << 50, owner)
    assert caught.value.fields["need_bytes"] == 1 << 50
    assert 0 < caught.value.fields["free_bytes"] < 1 << 50
    assert "shm-size" in str(caught.value)
    assert list_segments(owner.cluster_id) == []


def test_a_failed_create_leaves_no_name(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "posix_fallocate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Segment.create("test", 1, 4096, owner)
    assert list_segments(owner.cluster_id) == []


def test_a_sparse_segment_takes_only_what_is_reserved(owner: Owner) -> None:
    segment = Segment.create("test", 1, 1 << 40, owner, reserve=False)

    def taken_bytes() -> int:
        return (SHM / segment.name).stat().st_blocks * 512

    assert taken_bytes() <= 2 << 20  # a huge page at most
    segment.reserve(1 << 30, 8 << 20)
    assert 8 << 20 <= taken_bytes() <= 14 << 20
    segment.array("u1", 1 << 30, 8 << 20)[:] = 1
    with pytest.raises(SegmentError, match="no room"):
        segment.reserve(1 << 31, 1 << 39)
    assert taken_bytes() <= 14 << 20
    assert Segment.attach(segment.name).array("u1", 1 << 30, 8 << 20).all()
    with pytest.raises(SegmentError, match="outside"):
        segment.reserve((1 << 40) - 1, 2)


def test_names_are_parsed_back_and_foreign_ones_refused() -> None:
    name = SegmentName(Owner("0123abcd", 17, 99), "batch_chunk", 4)
    assert str(name) == "pubsub-0123abcd-17-99-batch_chunk-4"
    assert parse_name(str(name)) == name
    for foreign in ("", "psm_1234", "pubsub-0123abcd-1-2-x", "../etc/passwd", f"{name}/..", f"{name}\n"):
        assert parse_name(foreign) is None
        with pytest.raises(SegmentError):
            Segment.attach(foreign)
        with pytest.raises(SegmentError):
            unlink_segment(foreign)


@pytest.mark.parametrize("cluster_id", ["", "0123ABCD", "0123abc", "0123abcd0", "../../ab"])
def test_a_cluster_id_is_eight_hexadecimal_digits(cluster_id: str) -> None:
    with pytest.raises(SegmentError):
        current_owner(cluster_id)


def test_a_name_is_taken_once_and_missing_after_unlink(owner: Owner) -> None:
    segment = Segment.create("test", 1, 4096, owner)
    with pytest.raises(SegmentError, match="exists"):
        Segment.create("test", 1, 4096, owner)
    assert list_segments(owner.cluster_id) == [segment.name]
    segment.unlink()
    segment.unlink()
    with pytest.raises(SegmentError, match="missing"):
        Segment.attach(segment.name)


@pytest.mark.parametrize("size_bytes", [0, 10, 64, 4096])
def test_a_failed_attach_does_not_remove_the_name(owner: Owner, size_bytes: int) -> None:
    path = SHM / str(SegmentName(owner, "test", 1))
    path.write_bytes(bytes(size_bytes))
    with pytest.raises(SegmentError):
        Segment.attach(path.name)
    assert path.exists()


@pytest.mark.parametrize("make", ["shared", "private"])
def test_a_view_stays_inside_and_aligned(owner: Owner, make: str) -> None:
    segment = Segment.create("test", 1, 4096, owner) if make == "shared" else PrivateSegment(4096)
    assert segment.array("i4", 4092, 1).tolist() == [0]
    assert len(segment.array("i8", 4096, 0)) == 0
    for offset_bytes, count in ((4096, 1), (-8, 1), (64, 505), (68, 1), (64, -1)):
        with pytest.raises(SegmentError):
            segment.array(np.int64, offset_bytes, count)
    segment.close()
    with pytest.raises(SegmentError, match="closed"):
        segment.array("i4", 64, 1)


def test_private_memory_is_virtual() -> None:
    segment = PrivateSegment(1 << 36)
    segment.reserve(0, 1 << 36)
    view = segment.array("i8", 1 << 35, 10)
    view[:] = 1
    segment.close()
    segment.unlink()
    assert view.sum() == 10
