"""Imported statistics: checked and copied before they count, kept over starts, let go again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import orjson
import pytest
from clusters import next_generation, wait_until
from test_coordinator_knobs import Parts, failing

from pubsub_cluster import Client, Cluster
from pubsub_cluster.cli.tune import page
from pubsub_cluster.client.blocking import run
from pubsub_cluster.coordinator import knobs
from pubsub_cluster.coordinator.statistics_file import PREFIX, copy_statistics
from pubsub_cluster.language.batch import decode_payload, payload_from_dicts
from pubsub_cluster.language.errors import ProtocolError, StoreError
from pubsub_cluster.language.protocol import Op
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Attribute, DomainKind, Schema
from pubsub_cluster.tuner import frequencies_file
from pubsub_cluster.tuner.frequencies import EventCounter
from pubsub_cluster.tuner.frequencies_file import StoredFrequencies, read_frequencies, write_frequencies
from pubsub_cluster.tuner.messages import STATISTICS_FILE

NO_SCHEMA = orjson.dumps(EMPTY_SCHEMA.to_json()).decode()
SIDES = Schema((Attribute("side", DomainKind.ENUMERATED, ("buy", "sell")),))


def counted(folder: Path, events: int = 1_000, schema: Schema = EMPTY_SCHEMA) -> Path:
    """Write statistics of events in which `rare` has many values and `common` two; return their folder."""
    counter = EventCounter()
    payload = payload_from_dicts([{"rare": number, "common": number % 2} for number in range(events)])
    counter.add(decode_payload(payload.header, payload.buffers), "here", 0)
    folder.mkdir()
    stored = StoredFrequencies(counter.frequencies(), schema.to_json(), {"made_us": 5})
    write_frequencies(folder / STATISTICS_FILE, stored)
    return folder


def copies(data_dir: Path) -> list[str]:
    return sorted(path.name for path in data_dir.glob(f"{PREFIX}*"))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def test_a_copy_is_what_was_given(tmp_path: Path, data_dir: Path) -> None:
    given = counted(tmp_path / "given")
    for path in (given, given / STATISTICS_FILE):
        facts = copy_statistics(path, data_dir, NO_SCHEMA)
        assert facts["events"] == facts["sampled_events"] == 1_000 and facts["made_us"] == 5
        assert (data_dir / facts["file"]).read_bytes() == (given / STATISTICS_FILE).read_bytes()
    assert len(copies(data_dir)) == 2  # neither is in force


def test_what_cannot_be_used_is_refused_and_leaves_nothing(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = counted(tmp_path / "given", schema=SIDES)
    with pytest.raises(StoreError, match="another schema") as refused:
        copy_statistics(given, data_dir, NO_SCHEMA)
    assert refused.value.seen == ["side"]
    assert copy_statistics(given, tmp_path, orjson.dumps(SIDES.to_json()).decode())["events"] == 1_000
    with pytest.raises(StoreError, match="no such file"):
        copy_statistics(tmp_path / "nowhere", data_dir, NO_SCHEMA)
    good = (given / STATISTICS_FILE).read_bytes()
    (given / STATISTICS_FILE).write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
    with pytest.raises(StoreError, match="damaged"):
        copy_statistics(given, data_dir, NO_SCHEMA)
    monkeypatch.setattr(frequencies_file, "STATISTICS_FORMAT", 0)
    with pytest.raises(StoreError, match="another version"):
        copy_statistics(counted(tmp_path / "old"), data_dir, NO_SCHEMA)
    assert copies(data_dir) == []


def test_they_are_in_force_until_they_are_cleared(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Parts(data_dir)
    assert first.knobs.statistics() is None and first.tuner.policy.samples_count
    one = copy_statistics(counted(tmp_path / "one"), data_dir, NO_SCHEMA)
    first.knobs.take_statistics(one)
    assert first.tuner.policy.asked and not first.tuner.policy.samples_count
    second = Parts(data_dir)
    assert second.knobs.statistics() == one
    second.knobs.tell_tuner()
    path = second.said[-1].statistics
    assert path is not None and read_frequencies(Path(path)).frequencies.event_count == 1_000
    two = copy_statistics(counted(tmp_path / "two", 7), data_dir, NO_SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(knobs, "write_settings", failing)
        with pytest.raises(StoreError):
            second.knobs.take_statistics(two)
    assert second.knobs.statistics() == one and len(copies(data_dir)) == 2
    second.knobs.take_statistics(two)
    assert copies(data_dir) == [two["file"]] and second.said[-1].statistics == str(data_dir / two["file"])
    second.knobs.take_statistics(None)
    assert second.said[-1].statistics is None and second.tuner.policy.samples_count
    assert copies(data_dir) == [] and Parts(data_dir).knobs.statistics() is None


@pytest.mark.cluster
def test_a_cluster_chooses_tables_by_them(tmp_path: Path, tmp_data_dir: Path) -> None:
    """After a start too; what cannot be imported changes nothing."""
    with Cluster(data_dir=tmp_data_dir) as cluster, cluster.client() as client:
        for number in range(20):
            client.subscribe(f"rare = {number} and common = {number % 2}")
        given = counted(tmp_path / "given")
        before = client.status()["generation"]
        facts = client.tune_import_statistics(given)
        assert facts["events"] == 1_000 and client.tune_show()["statistics"]["source"].startswith(str(given))
        assert next_generation(client) > before
        layout = client.tune_show()["layout"]
        assert (layout["statistics"], layout["sampled_events"]) == ("imported", 1_000)
        (given / STATISTICS_FILE).write_bytes(b"no statistics")
        with pytest.raises(StoreError, match="no file of this kind"):
            client.tune_import_statistics(given)
        with pytest.raises(ProtocolError, match="absolute"):
            run(client._session.ask(Op.TUNE, {"action": "import_statistics", "path": "here"}))
        assert client.tune_show()["statistics"]["file"] == facts["file"]
    with Cluster(data_dir=tmp_data_dir) as cluster, cluster.client() as client:
        next_generation(client)
        shown = client.tune_show()
        assert shown["layout"]["statistics"] == "imported"
        assert "statistics of 1,000 events, imported from" in page(shown)
        (tmp_data_dir / facts["file"]).write_bytes(b"damaged since")
        pid = client.status()["tuner"]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: tuner_is_another(client, pid), "another tuner")
        next_generation(client)
        layout = client.tune_show()["layout"]
        assert layout["statistics"] == "sampled" and "no file of this kind" in layout["statistics_error"]
        client.tune_clear_statistics()
        next_generation(client)
        shown = client.tune_show()
        assert shown["statistics"] is None and shown["layout"]["statistics"] == "sampled"
        assert "tables are chosen by" in page(shown) and copies(tmp_data_dir) == []


def tuner_is_another(client: Client, pid: int) -> bool:
    tuner = client.status()["tuner"]
    return bool(tuner["ready"]) and tuner["pid"] != pid
