"""A client and the fake cluster that it talks to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_cluster import FakeCluster

from pubsub_cluster.client import Client, session, watch


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client ask after a tenth of a second instead of two; it may send a request more than once."""
    monkeypatch.setattr(session, "SILENCE_S", 0.1)
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(watch, "HEARTBEAT_S", 0.1)


@pytest.fixture
def cluster(tmp_data_dir: Path) -> Iterator[FakeCluster]:
    with FakeCluster(tmp_data_dir) as fake:
        yield fake


@pytest.fixture
def client(tmp_data_dir: Path) -> Iterator[Client]:
    with Client(tmp_data_dir, timeout_s=60.0) as made:
        yield made
