"""One Spark session for all tests of the pipeline, in one process."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_TOKEN = uuid.uuid4().hex
JAVA_OPTIONS = "-Xss8m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No job of a test runs for long enough to pay for the compiler that takes long."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return a local session of two cores; its JVM ends with the last test."""
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    from pyspark import SparkContext

    from pubsub_cluster.pipeline.session import local_session

    scratch = tmp_path_factory.mktemp("spark")
    connect = {
        "spark__plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark__connect__grpc__binding__address": "127.0.0.1",
        "spark__connect__grpc__binding__port": "0",
        "spark__connect__authenticate__token": CONNECT_TOKEN,
    }
    session = local_session(
        2,
        spark__sql__warehouse__dir=str(scratch / "warehouse"),
        spark__local__dir=str(scratch / "local"),
        spark__driver__memory="1g",
        spark__driver__extraJavaOptions=JAVA_OPTIONS,
        **(connect if find_spec("grpc") else {}),
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


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    """Return where Spark Connect serves the same JVM, for ``SPARK_REMOTE``."""
    pytest.importorskip("grpc", reason="the extra `connect` is not installed")
    assert spark._jvm is not None
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://localhost:{getattr(service, 'MODULE$').localPort()}/;token={CONNECT_TOKEN}"
