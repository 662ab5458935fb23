"""Packed files reach the disk in steps, and hold what was given."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from pubsub_cluster.shm.packed_file import STEP_SIZE_BYTES, PackedWriter, opened


def test_nobody_waits_behind_more_than_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to the disk between two synchronisations is bounded, whatever the sizes of columns."""
    sizes: list[int] = []
    synchronise = os.fsync

    def fsync(descriptor: int) -> None:
        synchronise(descriptor)
        sizes.append(os.fstat(descriptor).st_size)

    columns = {"large": np.arange(3 * STEP_SIZE_BYTES // 8 + 5)}
    columns |= {f"small {number}": np.full(STEP_SIZE_BYTES // 32, number) for number in range(9)}
    columns["empty"] = np.zeros(0)
    path = tmp_path / "columns"
    with monkeypatch.context() as patch, PackedWriter(path, "test") as file:
        patch.setattr(os, "fsync", fsync)
        for name, column in columns.items():
            file.add(name, column)
        size_bytes = file.finish({})
    assert sizes.index(size_bytes) == len(sizes) - 2, "the last two are of the whole file and of its folder"
    assert np.diff(sizes[:-1], prepend=0).max() < 2 * STEP_SIZE_BYTES
    with opened(path, "test") as packed:
        for name, column in columns.items():
            assert np.array_equal(packed.column(name), column)


def test_a_file_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most[1]))
    try:
        for size_bytes in (99_900, 200_000):  # the end of it, which is in a buffer, or most of it
            with pytest.raises(OSError) as raised, PackedWriter(tmp_path / "columns", "test") as file:
                file.add("column", np.zeros(size_bytes, np.uint8))
                file.finish({})
            assert raised.value.errno == errno.EFBIG
            assert not os.listdir(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
