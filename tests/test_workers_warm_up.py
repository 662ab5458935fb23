"""Processes that start together share the compiling of kernels."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels import _jit


def is_free(path: Path) -> bool:
    """Say whether nobody holds a lock."""
    with open(path, "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_one_process_at_a_time_until_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for the first; who failed leaves the work to them, and who comes later waits for nobody."""
    monkeypatch.setattr(_jit, "_FOLDER", tmp_path)
    lock = tmp_path / "part.lock"
    with pytest.raises(KeyError), _jit.compiling("part"):
        raise KeyError
    with _jit.compiling("part"):
        assert not is_free(lock)
    assert is_free(lock)
    with _jit.compiling("part"):
        assert is_free(lock)


def test_without_a_folder_each_compiles_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that cannot be had is no error."""
    monkeypatch.setattr(_jit, "_FOLDER", tmp_path / "gone")
    with _jit.compiling("part"):
        pass


def test_parts_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process is at comes last, when it is done with it or failed."""
    monkeypatch.setattr(_jit, "_FOLDER", tmp_path)
    seen: list[str] = []

    def carry_out(part: str) -> Callable[[], None]:
        def run() -> None:
            assert not is_free(tmp_path / f"{part}.lock")
            seen.append(part)
            if part == "c":
                other.close()  # lets go of "a"

        return run

    with open(tmp_path / "a.lock", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        _jit.compile_together({part: carry_out(part) for part in "abc"})
    assert seen == ["b", "c", "a"]
    with _jit.compiling("a", wait=False) as is_mine:
        assert is_mine, "it is done: there is nothing to wait for"


def test_an_engine_warms_up_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "_FOLDER", tmp_path)
    MatchEngine(CatalogueReader.of(CatalogueWriter.in_memory(1))).warm_up()
    assert {path.stem for path in tmp_path.glob("*.done")} == {"match", "encode", "delta", "observe"}
