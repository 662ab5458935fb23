"""One Spark session for all tests of the pipeline, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a local session of two cores; its JVM ends with the last test."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    from pyspark import SparkContext

    from pubsub_cluster.pipeline.session import local_session

    scratch = tmp_path_factory.mktemp("spark")
    session = local_session(
        2,
        spark__sql__warehouse__dir=str(scratch / "warehouse"),
        spark__local__dir=str(scratch / "local"),
        spark__driver__memory="1g",
    )
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(20)
            SparkContext._gateway = SparkContext._jvm = None
