"""The commands where Spark is somebody else's: by Spark Connect, and submitted by ``spark-submit``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folders import write_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 100
SUBSCRIPTIONS = '{"id": "dear", "expr": "price > 6"}\n{"id": "cheap", "expr": "price < 2"}\nprice = = 2\n'
MATCHED = [(0, "cheap"), (1, "cheap"), (7, "dear"), (8, "dear"), (9, "dear")]
COMMANDS = [
    ["prepare", "subscriptions", "some.ndjson", "--output", "prepared", "--json"],
    ["statistics", "events", "--output", "statistics", "--json"],
    ["build", "prepared/subscriptions", "--statistics", "statistics", "--output", "layout", "--json"],
    ["match", "events", "--layout", "layout", "--output", "matches", "--ids", "--json"],
    ["groups", "--layout", "layout", "--events", "events/a.parquet", "--attributes", "price",
     "--output", "groups", "--json"],
    ["stream", "arriving", "--layout", "layout", "--output", "streamed", "--checkpoint", "checkpoint",
     "--once", "--ids", "--json"],
]  # fmt: skip


def write_inputs(folder: Path) -> None:
    table = pa.table({"event_id": list(range(10)), "price": list(range(10))})
    for name in ("events", "arriving"):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "a.parquet")
    (folder / "some.ndjson").write_text(SUBSCRIPTIONS)


def matched(folder: Path) -> list[tuple[int, str]]:
    return sorted((row["event_id"], row["id"]) for row in pq.read_table(folder).to_pylist())


def test_a_remote_session_does_what_a_local_one_does(
    spark: SparkSession, connect_url: str, tmp_path: Path
) -> None:
    """Paths are given as in a shell; the server and its workers have another working directory."""
    write_inputs(tmp_path)
    (tmp_path / "events" / "b.parquet").write_bytes(b"PAR1 and nothing else")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("connect_session.py"))],
        input=json.dumps(COMMANDS), cwd=tmp_path, env={**os.environ, "SPARK_REMOTE": connect_url},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["session"] == "pyspark.sql.connect.session"
    assert [code for code, _, _ in told["commands"]] == [1, 1, 0, 1, 0, 0], told["commands"]
    prepared, counted, built, found, grouped, streamed = (json.loads(out) for _, out, _ in told["commands"])
    assert prepared["codes"] == {"bad_text": 1}
    assert counted["events"] == 10 and built["subscriptions"] == 2 and streamed["matches"] == len(MATCHED)
    assert matched(tmp_path / "matches" / "outcome=match") == MATCHED
    (reject,) = found["rejects"]
    assert reject["file"] == str(tmp_path / "events" / "b.parquet") and reject["seen"]
    assert grouped["owners"] == 1
    assert matched(tmp_path / "streamed" / "batch_id=0" / "outcome=match") == MATCHED


@pytest.mark.spark
@pytest.mark.slow
def test_a_command_may_be_submitted(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    from pubsub_cluster.cli import __main__ as script
    from pubsub_cluster.pipeline.java import find_java_home

    write_inputs(tmp_path)
    write_folder(
        tmp_path / "layout", [{"id": "dear", "expr": "price > 6"}, {"id": "cheap", "expr": "price < 2"}]
    )
    home = find_java_home(tmp_path / "java")
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {} if home is None else {"JAVA_HOME": str(home)}
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    submit += ["--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=FATAL"]
    submit += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", str(script.__file__)]
    command = ["pipeline", "match", "events", "--layout", "layout", "--output", "matches", "--ids", "--json"]
    done = subprocess.run(
        submit + command, cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    assert json.loads(done.stdout)["matches"] == len(MATCHED)
    assert matched(tmp_path / "matches" / "outcome=match") == MATCHED
