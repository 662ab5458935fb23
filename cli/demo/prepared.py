"""Events and alerts from the pipeline: `pipeline prepare flights`, where Spark can run.

The job has a process of its own, so that its JVM is gone, with memory and threads, before the cluster is
started. What it has written is what the demonstration publishes and subscribes.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from pubsub_cluster.cli.demo.alerts import Alert
from pubsub_cluster.cli.demo.flights import Flights, flights_of_events
from pubsub_cluster.language.errors import PubSubError

TIMEOUT_S = 600.0
NEEDED = ("pyspark", "pyarrow")
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A job of half a minute is over before the second compiler has paid for itself."""


class Prepared(NamedTuple):
    """What the job has made.

    Attributes
    ----------
    flights : Flights
    alerts : list of Alert
    report : dict
        What the command says with ``--json``.
    """

    flights: Flights
    alerts: list[Alert]
    report: dict[str, Any]


class NotPrepared(Exception):
    """The pipeline cannot run here, or has failed; says why."""


def check_spark() -> None:
    """Raise `NotPrepared` unless Spark and a Java for it are here."""
    for package in NEEDED:
        if importlib.util.find_spec(package) is None:
            raise NotPrepared(f"{package} is not installed (the extra `spark`)")
    from pubsub_cluster.pipeline.java import find_java_home

    try:
        with tempfile.TemporaryDirectory(prefix="pubsub-cluster-java-") as folder:
            find_java_home(Path(folder))
    except PubSubError as error:
        raise NotPrepared(error.condition) from None


def prepare(alert_count: int, seed: int) -> Prepared:
    """Run the job, read what it has written.

    Raises
    ------
    NotPrepared
        It has failed.
    """
    with tempfile.TemporaryDirectory(prefix="pubsub-cluster-demo-") as folder:
        command = [
            sys.executable, "-m", "pubsub_cluster.cli", "pipeline", "prepare", "flights", "--alerts",
            str(alert_count), "--seed", str(seed), "--output", folder, "--overwrite", "--json",
        ]  # fmt: skip
        given = os.environ.get("JDK_JAVA_OPTIONS", "")
        environment = {**os.environ, "JDK_JAVA_OPTIONS": f"{JAVA_OPTIONS} {given}".strip()}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotPrepared(f"the job took more than {TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            raise NotPrepared(f"the job ended with {done.returncode}: {said[-1] if said else 'no word'}")
        report = json.loads(done.stdout)
        root = Path(folder)
        return Prepared(
            flights_of_events(root / "events"), alerts_of_subscriptions(root / "alerts/subscriptions"), report
        )


def alerts_of_subscriptions(folder: Path) -> list[Alert]:
    """Return alerts from prepared subscriptions, in the order of their ids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet"))).sort_by("id")
    # Some thousand predicates make 200,000 alerts: each is kept once.
    decode = json.JSONDecoder(object_pairs_hook=_Shared()).decode
    columns = [table[name].to_pylist() for name in ("id", "owner", "expr", "metadata")]
    return [
        Alert(name, owner, decode(expression), json.loads(metadata)["sentence"])
        for name, owner, expression, metadata in zip(*columns, strict=True)
    ]


class _Shared:
    """Makes objects of JSON; equal ones of plain members are one."""

    def __init__(self) -> None:
        self._known: dict[Any, dict[str, Any]] = {}

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        try:
            # The types are part of the key: 1 and 1.0 are equal and are not written alike.
            key = tuple((name, type(value), value) for name, value in pairs)
            return self._known.setdefault(key, dict(pairs))
        except TypeError:  # a list or an object in it
            return dict(pairs)
