"""What operators set: kept, told, taken back; nothing changes that cannot be kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pubsub_cluster.cli.tune import settings_in_words
from pubsub_cluster.coordinator import knobs
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.delivery.distribution import Rule
from pubsub_cluster.coordinator.delivery.groups import GROUPS_DEFAULT
from pubsub_cluster.coordinator.knobs import Knobs
from pubsub_cluster.coordinator.settings_file import SETTINGS_FILE
from pubsub_cluster.language.errors import LimitError, ProtocolError, StoreError
from pubsub_cluster.tuner.messages import FrozenTable, Tune

TABLE = {"attributes": ["b", "a"], "slices": [4, 0], "clauses": 7}
FROZEN = (FrozenTable(("b", "a"), (4, 0)),)


class Parts:
    """What a coordinator has that knobs act on."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.said: list[Tune] = []
        self.config = ClusterConfig(data_dir=data_dir, **settings)
        self.resources = SimpleNamespace(data_dir=data_dir)
        self.tuner = SimpleNamespace(policy=SimpleNamespace(retune_interval_s=0.0), summary={})
        self.self_check = SimpleNamespace(row_count=0)
        self.multicast = SimpleNamespace(rule=Rule())
        self.groups = SimpleNamespace(group_count=0)
        self.backend = SimpleNamespace(send_tuner=self.said.append)
        self.knobs = Knobs(self)  # type: ignore[arg-type]


def test_what_is_set_holds_at_the_next_start_and_can_be_taken_back(tmp_path: Path) -> None:
    first = Parts(tmp_path, self_check_rows=7)
    assert first.knobs.told()["set"] == [] and first.self_check.row_count == 7
    first.knobs.set("bm_max", 5000)
    first.knobs.set("self_check_rows", 3)
    assert first.said[-1].thresholds.bm_max == 5000.0

    second = Parts(tmp_path, self_check_rows=9)
    told = second.knobs.told()
    assert told["bm_max"] == 5000.0 and told["set"] == ["bm_max", "self_check_rows"]
    assert second.self_check.row_count == told["self_check_rows"] == 3
    second.knobs.tell_tuner()
    assert second.said[-1].thresholds.bm_max == 5000.0
    second.knobs.set("bm_max", None)
    second.knobs.set("self_check_rows", None)
    told = second.knobs.told()
    assert told["bm_max"] == "auto" and told["self_check_rows"] == 9 and told["set"] == []
    assert Parts(tmp_path, self_check_rows=5).self_check.row_count == 5


def test_groups_and_when_events_go_to_them_are_set(tmp_path: Path) -> None:
    first = Parts(tmp_path)
    told = first.knobs.told()
    assert told["multicast_threshold"] == "auto" and told["multicast_groups"] == GROUPS_DEFAULT
    assert first.groups.group_count == GROUPS_DEFAULT and first.multicast.rule == Rule()
    first.knobs.set("multicast_threshold", 0.15)
    first.knobs.set("multicast_groups", 7)
    assert first.multicast.rule == Rule(0.15) and first.groups.group_count == 7

    second = Parts(tmp_path)
    assert second.knobs.told()["multicast_threshold"] == 0.15 and second.groups.group_count == 7
    second.knobs.set("multicast_threshold", None)
    assert second.multicast.rule == Rule() and second.knobs.told()["multicast_threshold"] == "auto"
    for name, value in (("multicast_threshold", 1.5), ("multicast_groups", -1), ("multicast_groups", 2_000)):
        with pytest.raises(LimitError, match=name):
            second.knobs.set(name, value)
    with pytest.raises(ProtocolError, match="whole"):
        second.knobs.set("multicast_groups", 1.5)
    with pytest.raises(LimitError, match="out of range"):
        second.knobs.set("bm_max", 1e300)


def test_a_tree_is_forced_forbidden_or_left_to_the_cost_model(tmp_path: Path) -> None:
    first = Parts(tmp_path)
    assert first.knobs.told()["tree"] == "auto"
    first.knobs.tell_tuner()
    assert first.said[-1].tree is None
    assert settings_in_words(first.knobs.told())["tree"] == "auto (default)"
    for value, word in ((0, "off"), (1, "on")):
        first.knobs.set("tree", value)
        assert first.knobs.told()["tree"] == value and first.said[-1].tree is bool(value)
        assert settings_in_words(first.knobs.told())["tree"] == f"{word} (set)"
    second = Parts(tmp_path)
    second.knobs.tell_tuner()
    assert second.said[-1].tree is True
    second.knobs.set("tree", None)
    assert second.said[-1].tree is None
    with pytest.raises(ProtocolError, match="whole"):
        second.knobs.set("tree", 0.5)
    with pytest.raises(LimitError, match="tree"):
        second.knobs.set("tree", 2)


def test_tables_stay_frozen_after_a_start(tmp_path: Path) -> None:
    first = Parts(tmp_path)
    first.tuner.summary = {"subscriptions": 10, "tables": [TABLE]}
    first.knobs.freeze(True)
    assert first.said[-1].frozen == FROZEN
    first.tuner.summary = {"subscriptions": 10, "tables": []}
    first.knobs.freeze(True)  # again: they are frozen already
    second = Parts(tmp_path)
    assert second.knobs.told()["frozen"] is True
    second.knobs.tell_tuner()
    assert second.said[-1].frozen == FROZEN
    second.knobs.freeze(False)
    assert second.said[-1].frozen is None and second.knobs.told()["frozen"] is False
    assert Parts(tmp_path).knobs.told()["frozen"] is False


def test_where_there_are_no_tables_yet_those_of_the_first_layout_are_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path)
    parts.knobs.freeze(True)
    parts.tuner.summary = {"subscriptions": 0, "tables": []}
    parts.knobs.layout_built()
    assert [message.frozen for message in parts.said] == [None]
    parts = Parts(tmp_path)  # nor is there a layout when a start finds them to be frozen
    parts.tuner.summary = {"subscriptions": 10, "tables": [TABLE]}
    with monkeypatch.context() as patch:
        patch.setattr(knobs, "write_settings", failing)
        parts.knobs.layout_built()  # said in the log; a coordinator does not end of it
    assert parts.said == []
    parts.knobs.layout_built()
    assert parts.said[-1].frozen == FROZEN
    parts.tuner.summary = {"subscriptions": 10, "tables": []}
    parts.knobs.layout_built()
    assert len(parts.said) == 1


def failing(*_: Any) -> None:
    raise StoreError("the settings could not be kept")


def test_what_cannot_be_kept_is_not_set(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.knobs.set("rp_min", 10)
    before = parts.knobs.told()
    (tmp_path / f"{SETTINGS_FILE}.part").mkdir()  # in the way of what is written
    with pytest.raises(StoreError, match="could not be kept"):
        parts.knobs.set("bm_max", 1)
    with pytest.raises(LimitError, match="above `rp_min`"):
        parts.knobs.set("b_min", 11)
    for name, value in (("bm_min", None), ("bm_max", "5"), ("self_check_rows", 1.5)):
        with pytest.raises(ProtocolError):
            parts.knobs.set(name, value)
    assert parts.knobs.told() == before and len(parts.said) == 1
    assert Parts(tmp_path).knobs.told() == before


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"values": {"bm_max": -1}}',
        b'{"values": {"no such": 1}}',
        b'{"new": 1}',
        b'{"is_frozen": true, "tables": [{"attributes": ["a", "b"], "slices": [0]}]}',
    ],
)
def test_a_start_goes_on_without_settings_that_it_does_not_understand(tmp_path: Path, content: bytes) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(content)
    parts = Parts(tmp_path)
    assert parts.knobs.told()["set"] == [] and not parts.knobs.told()["frozen"]
    assert (tmp_path / SETTINGS_FILE).read_bytes() == content
