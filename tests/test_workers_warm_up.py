"""Processes that start together share the compiling of kernels."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from pubsub_cluster.workers import warm_up
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


@pytest.mark.parametrize("turn", [0, 1])
def test_every_part_is_warmed_up(turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes first."""
    monkeypatch.setattr(_jit, "_FOLDER", tmp_path)
    seen: list[str] = []
    monkeypatch.setattr(warm_up, "warm_up_encoder", lambda: seen.append("encode"))
    warm_up.warm_up_in_turn(turn, lambda: seen.append("match"))
    assert seen == (["match", "encode"] if turn else ["encode", "match"])
