"""What a coordinator holds on the machine, and whether it is still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.resources import WORKER_SOCKET_NAME, Resources
from pubsub_cluster.language.errors import SegmentError
from pubsub_cluster.language.paths import CLIENT_SOCKET_NAME, RECORDS_SOCKET_NAME
from pubsub_cluster.shm.owner import list_segments, unlink_segment


@pytest.mark.parametrize("which", ["catalogue", "slab", "counters", "results"])
def test_segments_that_were_removed_are_noticed(which: str, tmp_path: Path) -> None:
    config = ClusterConfig(data_dir=tmp_path / "data", shards=1, replicas=1, slab_chunks=2)
    resources = Resources(config)
    try:
        resources.check_segments()
        found = resources.results[0] if which == "results" else getattr(resources, which)
        unlink_segment(found.name)
        with pytest.raises(SegmentError, match="were removed") as caught:
            resources.check_segments()
        assert caught.value.seen == [found.name]
    finally:
        resources.close()
    assert list_segments(resources.cluster_id) == []


def test_the_sockets_of_a_dead_coordinator_are_removed(tmp_path: Path) -> None:
    """The one for records as well, which this one may never open."""
    config = ClusterConfig(data_dir=tmp_path / "data", shards=1, replicas=1, slab_chunks=2)
    Resources(config).close()
    for name in (CLIENT_SOCKET_NAME, WORKER_SOCKET_NAME, RECORDS_SOCKET_NAME):
        (config.data_dir / name).touch()
    Resources(config).close()
    assert not list(config.data_dir.glob("*.sock"))
