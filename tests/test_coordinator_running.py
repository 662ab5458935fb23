"""Lives of a coordinator in one process: what ends them, and that none outlives the next one's beginning."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pubsub_cluster.coordinator import running
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.keeping import KeeperDesk
from pubsub_cluster.coordinator.runtime import AGAIN
from pubsub_cluster.language.errors import LimitError, PubSubError, SegmentError, StartError
from pubsub_cluster.language.schema import EMPTY_SCHEMA


class Lives:
    """Takes the place of `Coordinator`: remembers who lives, and what is done to whom at which moment."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, at: dict[str, Callable[[], None]], again: int
    ) -> None:
        self.living: list[weakref.ref[Any]] = []
        self.overlaps = 0
        self.began_stopped = False
        self.signal: Callable[[], None] = lambda: None
        outer = self

        class Life:
            def __init__(self, config: ClusterConfig, *_: object) -> None:
                outer.overlaps += sum(life() is not None for life in outer.living)
                outer.living.append(weakref.ref(self))
                self.itself = self  # as the parts of a coordinator know each other
                self.is_stopped = False
                self.scheduler = SimpleNamespace(
                    crew=SimpleNamespace(team=SimpleNamespace(shards=3, replica_count=2))
                )
                at.get(f"made {len(outer.living)}", lambda: None)()

            def stop(self) -> None:
                self.is_stopped = True

            def run(self) -> int:
                outer.began_stopped = self.is_stopped
                at.get(f"run {len(outer.living)}", lambda: None)()
                return 0 if self.is_stopped or len(outer.living) > again else AGAIN

        def on_stop(stop: Callable[[], None]) -> None:
            outer.signal = stop

        monkeypatch.setattr(running, "Coordinator", Life)
        monkeypatch.setattr(running, "on_stop", on_stop)
        monkeypatch.setattr(running, "take_turns", lambda _: True)


def test_no_life_is_kept_when_the_next_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lives = Lives(monkeypatch, {}, again=3)
    assert running.run_coordinator(ClusterConfig(tmp_path)) == 0
    assert len(lives.living) == 4 and not lives.overlaps


@pytest.mark.parametrize(
    ("moment", "lives_count"), [("made 1", 1), ("run 1", 1), ("made 2", 2), ("run 2", 2)]
)
def test_a_signal_ends_the_process_at_any_moment(
    moment: str, lives_count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also while a coordinator is being made: nobody is there yet to be told."""
    at: dict[str, Callable[[], None]] = {}
    lives = Lives(monkeypatch, at, again=5)
    at[moment] = lambda: lives.signal()
    assert running.run_coordinator(ClusterConfig(tmp_path)) == 0
    assert len(lives.living) == lives_count
    assert lives.began_stopped == moment.startswith("made"), "it would serve until the next signal"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (SegmentError("no room", remedy="Make /dev/shm larger"), "Make /dev/shm larger"),
        (LimitError("too many"), "Start with the limits"),
    ],
)
def test_a_start_that_does_not_fit_says_what_is_too_small(
    error: PubSubError, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def take_over(*_: object) -> None:
        raise error

    end = SimpleNamespace(version=1)
    store = SimpleNamespace(lineage="a" * 32, stored_schema=lambda: None, end=end)
    coordinator: Any = SimpleNamespace(store=store, resources=SimpleNamespace(data_dir=tmp_path))
    registry: Any = SimpleNamespace(take_over=take_over)

    class Newest:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> object:
            return object()

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("pubsub_cluster.coordinator.keeping.newest_snapshot", Newest)
    with pytest.raises(StartError) as caught:
        KeeperDesk(coordinator, EMPTY_SCHEMA, {}).recover(registry, lambda: True)
    assert caught.value.remedy.startswith(remedy)
