"""What an operator can set when a cluster starts; everything has a default that suits the machine."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pubsub_cluster.language.declarations import nearest
from pubsub_cluster.language.errors import CallerError, PubSubError, StartError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.paths import records_endpoint
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

TASKS_PER_WORKER_MAX = 2
WORKERS_MAX = 256
DOUBLINGS_MAX = 16  # of a pause after failures: a float has no 2**1024, and an hour of them comes that far
EVENTS_PER_BATCH_MOST = 1 << 20  # `coordinator.merge` orders (event, handle) in 64 bits
LEAST: dict[str, float] = {
    "slab_chunks": 2,
    "result_slot_bytes": 4_096,
    "retune_interval_s": 0.0,
    "task_timeout_s": 0.1,
    "worker_silence_s": 2.0,  # an idle worker speaks every second
    "partitions": 1,
    "self_check_rows": 0,
    "retained_events_max": 1,
    "retained_bytes_max": 1,
    "retained_age_s": 0.0,
    "snapshot_after": 1,
    "broadcast_ring_bytes": 1 << 16,
    "durable_receivers_max": 0,
}
MOST: dict[str, float] = {"self_check_rows": 10_000}  # a check takes the tuner from its other work
DURABILITIES = ("full", "normal")


LAYOUT_ENGINE = "layout"
ENGINE_SUBSCRIPTIONS_MAX = 100_000


@dataclass(frozen=True)
class ClusterConfig:
    """Settings of one cluster.

    Attributes
    ----------
    data_dir : Path
        Holds the durable store, the sockets and the lock; 0700, owned by the user.
    shards, replicas : int
        ``workers = shards * replicas``. Shards divide the catalogue (latency), replicas the batches
        (throughput).
    pin : bool
        Pin each worker to a CPU of its own of those that this process may use; more workers are not pinned.
    durability : str
        ``full``: an acknowledged change survives a power loss; ``normal``: it survives a crash of any
        process.
    limits : Limits
    schema : Schema
        Declared attributes; others are allowed unless it is closed.
    slab_chunks : int
        Batches that can be in the cluster at once.
    result_slot_bytes : int
        Bytes of one page of a worker's answer.
    retune_interval_s : float
        Least time between two generations that are built for new statistics alone.
    task_timeout_s : float
        A worker that is silent for so long on one task is replaced.
    worker_silence_s : float
        An idle worker that is silent for so long is replaced; never sooner than after `task_timeout_s`.
    self_check_rows : int
        Subscriptions that one live event a second is checked against by brute force, at low priority; 0:
        none. A wrong answer is logged as an alarm and shown by ``status``.
    retained_events_max, retained_bytes_max : int
        Events that are retained for new subscriptions (``valid_until``), and their bytes in memory; the
        oldest are dropped beyond it.
    retained_age_s : float
        An event is not retained for longer than this, whatever its validity.
    snapshot_after : int
        Changes since the last snapshot that are worth one once there are no more: half a second of a
        restart, as it is set. While changes go on, a snapshot is due after ten times as many.
    durable_receivers_max : int
        Durable receivers, of all owners together.
    durable_notifications_max, durable_bytes_max : int
        Notifications that are kept for one durable receiver, and their bytes; the oldest are dropped beyond
        it.
    durable_all_bytes_max : int
        Bytes on the disk that are kept for all durable receivers together; the oldest are dropped beyond it.
    broadcast_ring_bytes : int
        Shared memory for what is sent to groups of listeners; a reader that falls behind by more misses some.
    injected_clock : bool
        Take the time of a batch from its ``at`` field (tests and replays only).
    partitions : int
        Parts of a layout that are dealt to shards.
    listen : str or None
        ``tcp://host:port``: clients may connect there too, and the next port publishes records. Whoever
        reaches it may do everything: for trusted networks only.
    engine : str
        `layout`: the project's own. Else the name of a matcher of the papers, for small catalogues and
        comparisons: at most 100,000 subscriptions, of its language; there is no tuning and no `restore`.
    layout : Path or None
        A layout folder (``pipeline build``) that an empty data directory takes its subscriptions from.
    """

    data_dir: Path
    shards: int = 1
    replicas: int = 1
    pin: bool = True
    durability: str = "full"
    limits: Limits = DEFAULT_LIMITS
    schema: Schema = field(default=EMPTY_SCHEMA)
    slab_chunks: int = 8
    result_slot_bytes: int = 4 << 20
    retune_interval_s: float = 30.0
    task_timeout_s: float = 60.0
    worker_silence_s: float = 10.0
    self_check_rows: int = 250
    retained_events_max: int = 1_000_000
    retained_bytes_max: int = 256 << 20
    retained_age_s: float = 86_400.0
    snapshot_after: int = 10_000
    durable_receivers_max: int = 1_000
    durable_notifications_max: int = 100_000
    durable_bytes_max: int = 256 << 20
    durable_all_bytes_max: int = 4 << 30
    broadcast_ring_bytes: int = 16 << 20
    injected_clock: bool = False
    partitions: int = 64
    listen: str | None = None
    engine: str = LAYOUT_ENGINE
    layout: Path | None = None

    def __post_init__(self) -> None:
        if self.shards < 1 or self.replicas < 1 or self.shards * self.replicas > WORKERS_MAX:
            raise StartError(
                "shards and replicas must be at least 1 and their product within the limit",
                seen=f"shards={self.shards} replicas={self.replicas}",
                limit=f"{WORKERS_MAX} workers",
                remedy="Set --shards and --workers accordingly.",
            )
        if self.durability not in DURABILITIES:
            raise StartError("unknown durability", seen=self.durability, limit=list(DURABILITIES))
        if self.listen is not None:
            _check_listen(self.listen)
        self._check_engine()
        for name in LEAST:
            check_bounds(name, getattr(self, name))
        if self.limits.events_per_batch_max > EVENTS_PER_BATCH_MOST:
            raise StartError(
                "the setting `limits.events_per_batch_max` is too large",
                seen=self.limits.events_per_batch_max,
                limit=EVENTS_PER_BATCH_MOST,
            )
        for name in Limits.__dataclass_fields__:
            check_bounds(f"limits.{name}", getattr(self.limits, name))

    def _check_engine(self) -> None:
        if self.engine == LAYOUT_ENGINE:
            return
        from pubsub_cluster.algorithms.registry import MATCHERS  # their kernels take a while to import

        if self.engine not in MATCHERS:
            raise StartError(
                "there is no such engine",
                seen=self.engine,
                limit=[LAYOUT_ENGINE, *MATCHERS],
                remedy=nearest(str(self.engine), [LAYOUT_ENGINE, *MATCHERS]),
            )
        if self.layout is not None:
            raise StartError(
                "a layout folder is for the engine `layout`",
                seen=self.engine,
                remedy="Leave --engine or --layout out.",
            )

    @property
    def workers(self) -> int:
        """Number of worker processes."""
        return self.shards * self.replicas

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON can carry them (`ClusterConfig.from_json` reads it back)."""
        body = {name: getattr(self, name) for name in self.__dataclass_fields__}
        body["data_dir"] = str(self.data_dir)
        body["layout"] = None if self.layout is None else str(self.layout)
        body["limits"] = asdict(self.limits)
        body["schema"] = self.schema.to_json()
        return body

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> ClusterConfig:
        """Rebuild settings from `to_json`."""
        fields = dict(body)
        fields["data_dir"] = Path(fields["data_dir"])
        if fields.get("layout") is not None:
            fields["layout"] = Path(fields["layout"])
        fields["limits"] = Limits(**fields.get("limits", {}))
        if "schema" in fields:
            fields["schema"] = Schema.from_json(fields["schema"])
        return cls(**fields)


def check_bounds(name: str, value: float, kind: type[PubSubError] = StartError) -> None:
    """Raise an error of a kind when a setting is smaller or larger than it may be."""
    least, most = LEAST.get(name, 1), MOST.get(name)
    if not value >= least:
        raise kind(f"the setting `{name}` is too small", seen=value, limit=f"at least {least:g}")
    if most is not None and value > most:
        raise kind(f"the setting `{name}` is too large", seen=value, limit=f"at most {most:g}")


def _check_listen(endpoint: str) -> None:
    if not endpoint.startswith("tcp://"):
        raise StartError("clients cannot connect to such an endpoint", seen=endpoint, limit="tcp://host:port")
    try:
        records_endpoint(endpoint)
    except CallerError as error:
        raise StartError(error.condition, seen=error.seen, limit="tcp://host:port") from None


def allowed_cpus() -> list[int]:
    """CPUs that this process may run on, in order."""
    return sorted(os.sched_getaffinity(0))
