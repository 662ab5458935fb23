"""A whole cluster for a script or a test: real processes, real shared memory, gone at the end."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from pubsub_cluster.client import Client
from pubsub_cluster.coordinator.children import child_environment
from pubsub_cluster.coordinator.config import ClusterConfig
from pubsub_cluster.language.errors import ClusterError, PubSubError, StartError, error_from_dict
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

START_TIMEOUT_S = 180.0  # a first start compiles the kernels
STOP_TIMEOUT_S = 15.0


class Cluster:
    """A running cluster, as a context manager.

    Parameters
    ----------
    data_dir : path, optional
        Kept at the end; without it a temporary directory is used and removed.
    shards, replicas : int
    schema : Schema
    start_timeout_s : float
    **settings : object
        Further fields of `ClusterConfig`.

    Examples
    --------
    >>> with Cluster(shards=2) as cluster, cluster.client() as client:  # doctest: +SKIP
    ...     client.subscribe('price < 10 AND item = "tea"')
    ...     client.publish([{"item": "tea", "price": 4}])[0]
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        shards: int = 1,
        replicas: int = 1,
        schema: Schema = EMPTY_SCHEMA,
        start_timeout_s: float = START_TIMEOUT_S,
        **settings: Any,
    ) -> None:
        self._temporary = data_dir is None
        if data_dir is None:
            # Short, so that the sockets' paths fit into the system's 107 bytes.
            self.data_dir = Path(tempfile.mkdtemp(prefix="psc-"))
        else:
            self.data_dir = Path(data_dir)
        self.config = ClusterConfig(
            self.data_dir, shards=shards, replicas=replicas, schema=schema, **settings
        )
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self.started: dict[str, Any] = {}

    def start(self) -> Cluster:
        """Start the coordinator and wait until every worker takes tasks.

        Raises
        ------
        StartError, StoreError
            As the coordinator says; nothing is left running.
        """
        ready_read, ready_write = os.pipe()
        arguments = ["--ready-fd", str(ready_write), "--parent", str(os.getpid())]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pubsub_cluster.coordinator.main", *arguments],
            stdin=subprocess.PIPE,
            pass_fds=[ready_write],
            env=child_environment(),
            process_group=0,
        )
        os.close(ready_write)
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pipe.write(orjson.dumps(self.config.to_json()))
            self.started = _read_ready(ready_read, self._start_timeout_s)
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(ready_read)
        return self

    def stop(self) -> None:
        """Stop every process and, with a temporary directory, remove it."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def kill(self) -> None:
        """Kill the coordinator with SIGKILL, as a crash would; `start` brings the cluster back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self, **options: Any) -> Client:
        """Return a new client of this cluster."""
        return Client(self.data_dir, **options)

    def pids(self) -> dict[str, int | list[int | None] | None]:
        """Return the pids of coordinator, tuner and workers, as of now."""
        with self.client() as client:
            found = client.status()
        workers = [worker["pid"] for worker in found["workers"]]
        return {"coordinator": found["pid"], "tuner": found["tuner"]["pid"], "workers": workers}

    def __enter__(self) -> Cluster:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _read_ready(descriptor: int, timeout_s: float) -> dict[str, Any]:
    text = b""
    while not text.endswith(b"\n"):
        readable, _, _ = select.select([descriptor], [], [], timeout_s)
        if not readable:
            raise StartError(
                "the cluster was not ready in time",
                limit=f"{timeout_s} s",
                remedy="Look at its messages on standard error; `pubsub-cluster doctor` checks the machine.",
            )
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            raise StartError("the coordinator ended before it was ready", remedy="Look at standard error.")
        text += piece
    body = orjson.loads(text)
    if "error" in body:
        error: PubSubError = error_from_dict(body["error"])
        raise error
    ready = body.get("ready")
    if not isinstance(ready, dict):
        raise ClusterError("the coordinator said something unexpected", seen=body)
    return ready
