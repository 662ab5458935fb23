"""A change table from a layout folder: all of it or nothing, and only where there was nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pubsub_cluster.coordinator import adopting
from pubsub_cluster.coordinator.adopting import open_store
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.snapshots import newest_snapshot
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import PubSubError, StartError, StoreError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Attribute, Schema
from pubsub_cluster.shm import layout_folder
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change

pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
from layout_folders import build_folder

SCHEMA = Schema((Attribute("a", "integer"),))


def rows(count: int = 7) -> list[dict[str, Any]]:
    metadata = {2: '{"n":2}'}
    return [{"id": f"s{n}", "expr": f"a = {n % 3}", "metadata": metadata.get(n)} for n in range(count)]


def config_of(data_dir: Path, layout: Path | None, **settings: Any) -> ClusterConfig:
    return ClusterConfig(data_dir, layout=layout, **settings)


def recovered(store: ChangeStore, data_dir: Path) -> Registry:
    """Start from what is durable, as the keeper's desk does."""
    writer = CatalogueWriter.in_memory(1 << 10)
    registry = Registry(writer, SCHEMA, DEFAULT_LIMITS)
    with newest_snapshot(data_dir, store.lineage, store.stored_schema() or "", store.end.version) as snapshot:
        assert snapshot is not None
        registry.take_over(snapshot)
    registry.replay(lambda: store.replay(registry.version))
    return registry


@pytest.mark.parametrize(("parts", "size"), [(1, 100), (1, 2), (3, 2)])
def test_a_table_and_a_snapshot_hold_what_the_folder_holds(tmp_path: Path, parts: int, size: int) -> None:
    made = build_folder(tmp_path / "layout", rows(), SCHEMA, parts, size)
    assert len(made.parts) == parts
    store = open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path)
    changes = list(store.replay())
    assert [(c.version, c.operation, c.handle, c.subscription_id, c.expression) for c in changes] == [
        (n + 1, SUBSCRIBE, n + 1, f"s{n}", b'"a = %d"' % (n % 3)) for n in range(7)
    ]
    registry = recovered(store, tmp_path)
    assert (registry.live_count, registry.version, registry.next_handle) == (7, 7, 8)
    for n in range(7):
        _, row, live = registry.live(f"s{n}")
        assert (live.handle, live.owner, live.metadata) == (n + 1, "default", b'{"n":2}' if n == 2 else None)
        assert registry.row_versions.version_of(row) == n + 1
        form = CatalogueReader.of(registry.catalogue).normal_form(row)
        assert form == registry._staging.expressions.normalised(f"a = {n % 3}")
    store.close()


def test_handles_that_were_given_keep_their_changes(tmp_path: Path) -> None:
    given = [{"id": f"s{n}", "expr": f"a = {n}", "handle": handle} for n, handle in enumerate((30, 10, 20))]
    build_folder(tmp_path / "layout", given, SCHEMA, size=2, has_handles=True)
    store = open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path)
    registry = recovered(store, tmp_path)
    assert registry.next_handle == 31 and store.end.handle == 30
    for n in range(3):
        _, row, live = registry.live(f"s{n}")
        assert live.handle == given[n]["handle"]
        assert store.expressions([registry.row_versions.version_of(row)]) == {n + 1: b'"a = %d"' % n}
    store.close()


def test_a_table_with_changes_of_its_own_is_left_alone(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path, "full")
    store.start()
    store.commit([Change(1, SUBSCRIBE, 1, "mine", "me", b'"a = 1"', None, None)])
    store.close()
    build_folder(tmp_path / "layout", rows())
    with pytest.raises(StartError, match="holds subscriptions already"):
        open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path)
    again = ChangeStore(tmp_path, "full")
    assert [change.subscription_id for change in again.replay()] == ["mine"]
    again.close()


def test_the_same_settings_start_it_again_and_another_folder_does_not(tmp_path: Path) -> None:
    for name, count in (("layout", 7), ("other", 3)):
        build_folder(tmp_path / name, rows(count))
    open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path).close()
    build_folder(tmp_path / "layout", rows(5))  # it may go on, or go
    store = open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path)
    assert store.end.version == 7
    assert store.wake_fd >= 0, "it is open"
    store.start()
    store.commit([Change(8, SUBSCRIBE, 8, "more", "me", b'"a = 1"', None, None)])
    store.close()
    assert [found.error for found in store.poll()] == [None]
    with pytest.raises(StartError, match="holds subscriptions already"):
        open_store(config_of(tmp_path, tmp_path / "other"), tmp_path)


def test_whatever_goes_wrong_leaves_an_empty_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = tmp_path / "layout"
    made = build_folder(layout, rows(), SCHEMA)

    def refused(match: str, **settings: Any) -> None:
        with pytest.raises(PubSubError, match=match) as found:
            open_store(config_of(tmp_path, layout, **settings), tmp_path)
        assert isinstance(found.value, StartError | StoreError)
        store = ChangeStore(tmp_path, "full")
        assert store.is_empty() and store.stored_schema() is None
        store.close()

    refused("another schema", schema=Schema((Attribute("a", "string"),)))
    refused("more subscriptions", limits=Limits(subscriptions_max=3))
    with monkeypatch.context() as patch:
        patch.setattr(layout_folder, "_versions", lambda: [0, 0])
        refused("another version")
    for file, match in ((made.changes[0].file, "damaged"), (made.parts[0].file, "damaged")):
        path = made.folder / file
        data = path.read_bytes()
        path.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
        refused(match)
        path.write_bytes(data)
    with monkeypatch.context() as patch:
        patch.setattr(adopting, "replace_changes", _killed)
        with pytest.raises(KeyboardInterrupt):
            open_store(config_of(tmp_path, layout), tmp_path)
    store = open_store(config_of(tmp_path, layout, schema=SCHEMA), tmp_path)
    assert store.end.version == 7
    store.close()


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_folder_without_changes_is_for_matching_alone(tmp_path: Path) -> None:
    made = build_folder(tmp_path / "layout", rows())
    layout_folder.publish_generation(tmp_path / "layout", made._replace(changes=()))
    with pytest.raises(StoreError, match="matching alone"):
        open_store(config_of(tmp_path, tmp_path / "layout"), tmp_path)
