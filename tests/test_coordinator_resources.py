"""What a coordinator holds on the machine, and whether it is still there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.coordinator.resources import Resources
from pubsub_cluster.language.errors import SegmentError
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
