"""The session that the command line uses: that of ``spark-submit`` or Spark Connect, else a local one.

Functions of the pipeline take a session, or find the active one; none of them makes one.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import SparkSession

from pubsub_cluster.pipeline.java import find_java_home

Options: TypeAlias = dict[str, bool | float | int | str | None]
LOCAL_OPTIONS: Options = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "FATAL",  # what fails a job is raised, and reported by whoever asked for it
    # Stopping a query with a Python source overflows the default stack in Spark's own expression parser.
    "spark.driver.extraJavaOptions": "-Xss8m",
}
CONNECT_OPTIONS: Options = {"spark.connect.grpc.binding.address": "127.0.0.1"}
TASK_FAILURES_MAX = 4
"""As on a cluster: a task whose Python worker was killed is tried again."""

SUBMITTED_VARIABLES = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT", "SPARK_ENV_LOADED")
LOCAL_REMOTE = "local"
"""How ``SPARK_REMOTE`` begins where pyspark starts the server of Spark Connect itself, in this process."""


def get_session(cores: int | None = None) -> SparkSession:
    """Return the session that this process was submitted to or has, else make a local one.

    Parameters
    ----------
    cores : int, optional
        Of a local one; all by default.

    Raises
    ------
    StartError
        There is no Java for a local one.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName("pubsub-cluster")
    if os.environ.get("SPARK_REMOTE", "").startswith(LOCAL_REMOTE):
        _prepare_for_jvm()
        return builder.config(map=_local_options(cores) | CONNECT_OPTIONS).getOrCreate()
    if any(name in os.environ for name in SUBMITTED_VARIABLES):
        return builder.getOrCreate()
    return local_session(cores)


def local_session(cores: int | None = None, **options: str) -> SparkSession:
    """Start Spark in a JVM of this process; nothing but this process may use it.

    Parameters
    ----------
    cores : int, optional
        Tasks at a time; as many as the machine has cores by default.
    **options : str
        Further settings of Spark, with ``__`` for a dot.

    Raises
    ------
    StartError
        There is no Java.
    """
    _prepare_for_jvm()
    builder = SparkSession.builder.master(f"local[{cores or '*'},{TASK_FAILURES_MAX}]").appName(
        "pubsub-cluster"
    )
    given: Options = {name.replace("__", "."): value for name, value in options.items()}
    return builder.config(map=_local_options(cores) | given).getOrCreate()


def _local_options(cores: int | None) -> Options:
    shuffles: Options = {"spark.sql.shuffle.partitions": str(cores or os.cpu_count() or 1)}
    return shuffles | LOCAL_OPTIONS


def _prepare_for_jvm() -> None:
    """Set what a JVM that is started from here inherits, where nobody has set it."""
    # Else it runs the path's `python3`, which lacks our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folder = Path(tempfile.mkdtemp(prefix="pubsub-cluster-java-"))
    home = find_java_home(folder)
    if home is None:
        folder.rmdir()
        return
    os.environ["JAVA_HOME"] = str(home)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
