"""The control of durable changes: pages are written and timed, and nothing stays behind."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from pubsub_cluster.benchmarks.disk import watching

SEEN_S_MAX = 20.0


def test_pages_are_timed_until_the_end(tmp_path: Path) -> None:
    before = multiprocessing.active_children()
    with watching(str(tmp_path), 500.0) as page:
        took_s: list[float] = []
        deadline = time.monotonic() + SEEN_S_MAX
        while len(took_s) < 5:
            assert time.monotonic() < deadline
            took_s += page.took_s()
        assert min(took_s) > 0.0
    assert multiprocessing.active_children() == before
    assert not list(tmp_path.iterdir())
