"""Segments that the tuner holds: their pages are freed by it, and not before it is time."""

from __future__ import annotations

import math
import os
import time
import uuid
from pathlib import Path

import pytest

from pubsub_cluster.shm.segment import Segment, current_owner
from pubsub_cluster.tuner.held import HELD_S, HeldSegments


def is_open(segment: str) -> bool:
    """Tell whether this process has a descriptor of an unlinked segment; other tests have others."""
    names = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return f"/dev/shm/{segment} (deleted)" in names


def test_a_segment_is_held_until_some_time_after_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    made = Segment.create("scratch", 1, 4096, current_owner(uuid.uuid4().hex[:8]))
    made.close()
    held = HeldSegments()
    held.hold(made.name)
    held.hold(made.name)
    held.hold("pubsub-0badc0de-1-1-layout-7")
    made.unlink()
    assert is_open(made.name)
    held.drop(made.name)
    held.drop("a catalogue")
    assert held.over(100.0 + HELD_S / 2) == []
    assert held.over(100.0 + HELD_S) == [made.name, "a catalogue"]
    assert held.over(math.inf) == []
    held.let_go("a catalogue")
    assert is_open(made.name)
    held.let_go(made.name)
    assert not is_open(made.name)
