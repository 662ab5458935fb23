"""Kill a cluster's processes under load and check everything that it says: ``make faults MINUTES=2``.

    python tests/faults/run.py --minutes 2
    python tests/faults/run.py --kills 500,100,100 --record     (workers, coordinators, tuners)

Prints one line of counts. Ends with status 1, and says why, when a promise was broken: an acknowledged
change lost or undone, a batch lost or answered otherwise than the naive matcher does, a process, a segment or
a socket left behind. SIGUSR1 shows where its threads stand.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from catalogue_model import (
    EVENTS,
    EXPRESSIONS,
    Answer,
    CatalogueModel,
    random_events,
    random_expressions,
    truth_of,
)
from killer import COORDINATOR, KEEPER, RETAINER, TUNER, WORKER, Killer
from load import PATIENCE_S, Load
from outcome import BREACHES_SHOWN, Outcome

from pubsub_cluster import Cluster
from pubsub_cluster.benchmarks import record
from pubsub_cluster.client import session
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.shm.fault_points import VARIABLE
from pubsub_cluster.shm.owner import list_segments

SNAPSHOT_AFTER = 50  # changes at rest; ten times as many under load: every few seconds
RESTORES = 4
KILLS_WANTED = {WORKER: 500, COORDINATOR: 100, TUNER: 100}
CHANCES = {WORKER: 12, TUNER: 3, COORDINATOR: 2, RETAINER: 1, KEEPER: 1}
"""Whom to kill next: twenty minutes reach what is wanted. Starts of the coordinator are killed besides, and
those who do not come by their instant live on."""
COUNTS_SHOWN = (
    "batches answered",
    "events judged",
    "changes acknowledged",
    "changes sent to two lives",
    "batches sent to two lives",
    "batches refused after two deaths",
    "resizes",
    "backups",
    "retained events found",
    "retained events lost, said",
    "restores killed",
    "answers in doubt, settled",
    "notifications judged",
    "notifications repeated",
)
START_S_MAX = 300.0  # a first start compiles the kernels
SILENCE_S_MAX = 60.0  # where a machine is busy, a worker may be silent for long without hanging
PROGRESS_BATCHES = 4  # answered between two kills, mostly; else nothing would be under load
HURRY = 0.5  # of the kills come without waiting for that
CLIENT_SILENCE_S = (
    0.5  # a client asks after this silence instead of two seconds: more restarts fit into a run
)


def endless(draw: random.Random) -> Iterator[str]:
    """Yield whom to kill, without end."""
    while True:
        yield draw.choices(list(CHANCES), list(CHANCES.values()))[0]


def by_counts(draw: random.Random, killer: Killer, wanted: dict[str, int]) -> Iterator[str]:
    """Yield whom to kill until so many of each were."""
    while True:
        left = {kind: number - killer.kills[kind] for kind, number in wanted.items()}
        left = {kind: number for kind, number in left.items() if number > 0}
        if not left:
            return
        others = sum(left.values()) / 20  # the retainer and the keeper have no number
        yield draw.choices([*left, RETAINER, KEEPER], [*left.values(), others, others])[0]


def run(
    seed: int,
    seconds: float | None = None,
    kills: dict[str, int] | None = None,
    shards: int = 2,
    replicas: int = 1,
    publishers: int = 2,
    churners: int = 2,
    with_resizes: bool = True,
    with_restores: bool = True,
) -> Outcome:
    """Run a cluster under load and kill; either for some time or until so many kills are done."""
    draw = random.Random(seed)
    outcome = Outcome("faults", seed, list(CHANCES), COUNTS_SHOWN)
    begin_s = time.monotonic()
    base = Path(tempfile.mkdtemp(prefix="psc-", dir="/tmp"))
    points_dir = base / "points"
    points_dir.mkdir()
    before = os.environ.get(VARIABLE), session.SILENCE_S
    os.environ[VARIABLE], session.SILENCE_S = str(points_dir), CLIENT_SILENCE_S
    expressions, events = random_expressions(draw, EXPRESSIONS), random_events(draw, EVENTS)
    model = CatalogueModel(truth_of(expressions, events), outcome.breaches)
    cluster = Cluster(
        base / "data",
        shards=shards,
        replicas=replicas,
        retune_interval_s=1.0,
        start_timeout_s=300.0,
        snapshot_after=SNAPSHOT_AFTER,
    )
    killer = Killer(cluster, points_dir, draw, model.breach)
    load = Load(base / "data", model, expressions, events, killer.kills)
    try:
        cluster.start()
        load.start(publishers, churners, seed, with_resizes)
        plan = endless(draw) if kills is None else by_counts(draw, killer, kills)
        _kill_for(plan, killer, load, draw, None if seconds is None else time.monotonic() + seconds)
        load.stop()
        load.judge()
        load.retained.settle(after_s=0.0)  # nobody is killed any more, and all deaths are counted
        if load.waiting:
            model.breach(f"{load.waiting} answers could not be judged: some changes were never settled")
        _judge_the_end(cluster, model, load)
        if with_restores:
            _restore_and_judge(cluster, killer, model, load, base / "at_the_end.backup")
        cluster.stop()
        cluster.start()  # what was acknowledged is there without any kill, too
        _judge_the_end(cluster, model, load)
    except Exception as error:
        model.breach(f"the run ended early: {type(error).__name__}: {error}")
    finally:
        load.stopping.set()
        cluster.stop()
        os.environ.pop(VARIABLE)
        if before[0] is not None:
            os.environ[VARIABLE] = before[0]
        session.SILENCE_S = before[1]
    for left in _left_behind(cluster, points_dir):
        model.breach(f"left behind: {left}")
    outcome.seconds = time.monotonic() - begin_s
    outcome.kills, outcome.named, outcome.restart_s = killer.kills, killer.named, killer.restart_s
    outcome.counts = load.counts
    outcome.counts["answers in doubt, settled"] = model.in_doubt
    if outcome.breaches:
        sys.stderr.write(f"the data directory is kept: {base}\n")
    else:
        shutil.rmtree(base, ignore_errors=True)
    return outcome


def _kill_for(
    plan: Iterator[str], killer: Killer, load: Load, draw: random.Random, until_s: float | None
) -> None:
    _wait_for_progress(load)
    for kind in plan:
        if until_s is not None and time.monotonic() >= until_s:
            break
        if killer.kill(kind) and draw.random() >= HURRY:
            _wait_for_progress(load)
        load.judge()
        if len(load.model.breaches) >= BREACHES_SHOWN:
            break  # more would tell nothing new
        time.sleep(draw.random() * 0.1)
    _wait_for_progress(load)


def _wait_for_progress(load: Load) -> None:
    start = load.counts["batches answered"]
    changes = load.counts["changes acknowledged"]
    deadline_s = time.monotonic() + PATIENCE_S
    while (
        load.counts["batches answered"] < start + PROGRESS_BATCHES
        or load.counts["changes acknowledged"] == changes
    ):
        if time.monotonic() > deadline_s or len(load.model.breaches) >= BREACHES_SHOWN:
            load.model.breach(f"nothing moved for {PATIENCE_S} s")
            raise TimeoutError("the cluster is stuck")
        time.sleep(0.005)
        load.judge()


def _judge_the_end(cluster: Cluster, model: CatalogueModel, load: Load) -> None:
    """Every event of the pool against every subscription, and every id by name."""
    events = np.arange(len(load.events))
    with cluster.client(timeout_s=PATIENCE_S, publisher="at the end") as client:
        found = client.publish(load.events, ids=True)
        assert found.offsets is not None and found.handles is not None and found.ids is not None
        model.judge(
            Answer("at the end", "all", events, found.version, found.offsets, found.handles, found.ids, True)
        )
        live, gone = model.live(), model.gone()
        for name, told in zip(live, client.describe_many(live), strict=True):
            if isinstance(told, PubSubError):
                model.breach(f"acknowledged, and lost: {name}: {told}")
        for name, told in zip(gone, client.describe_many(gone), strict=True):
            if not isinstance(told, PubSubError):
                model.breach(f"removed, and there again: {name}: {told}")
        count = client.status()["subscriptions"]
        if count != len(live):
            model.breach(f"the cluster has {count} subscriptions, {len(live)} are acknowledged")


def _restore_and_judge(
    cluster: Cluster, killer: Killer, model: CatalogueModel, load: Load, path: Path
) -> None:
    """Restore what there is, again and again, somebody dying at it: nothing may have changed by it."""
    for _ in range(RESTORES):
        with cluster.client(timeout_s=PATIENCE_S) as client:
            client.backup(path)
        load.counts["restores killed"] += killer.restore(path)
        _judge_the_end(cluster, model, load)


def _left_behind(cluster: Cluster, points_dir: Path) -> list[str]:
    """Return processes, segments and sockets of the cluster that are still there."""
    mark = f"{VARIABLE}={points_dir}".encode()
    deadline_s = time.monotonic() + 5.0
    while True:
        left: list[str] = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    left.append(f"process {entry.name}")
            except OSError:
                continue
        if "cluster_id" in cluster.started:
            left += [f"segment {name}" for name in list_segments(cluster.started["cluster_id"])]
        left += [f"socket {path}" for path in Path(cluster.data_dir).glob("*.sock")]
        if not left or time.monotonic() > deadline_s:
            return left
        time.sleep(0.05)


def figures_of(outcome: Outcome, workload: str) -> list[record.Figure]:
    """Return what ``docs/reliability.md`` shows of a run; the workload is shards times replicas."""

    def figure(name: str, value: float, unit: str = "", target: str = "") -> record.Figure:
        return record.Figure(name, value, unit, target, seed=outcome.seed, workload=workload)

    found = [
        figure(f"{kind}s killed", outcome.kills[kind], "", f">= {KILLS_WANTED[kind]}")
        for kind in KILLS_WANTED
    ]
    found += [figure(f"{kind}s killed", outcome.kills[kind]) for kind in (RETAINER, KEEPER)]
    found.append(figure("kills at named instants", outcome.named.total()))
    found.append(figure("named instants hit", len(outcome.named)))
    found += [figure(name, outcome.counts[name]) for name in COUNTS_SHOWN]
    if outcome.restart_s:
        found.append(figure("coordinator restart, median", statistics.median(outcome.restart_s), "s"))
        found.append(figure("coordinator restart, longest", max(outcome.restart_s), "s"))
    found.append(figure("length of the run", outcome.seconds, "s"))
    found.append(figure("broken promises", len(outcome.breaches), "", "<= 0"))
    return found


def main() -> int:
    """Run as the command line says; return the exit status."""
    faulthandler.register(signal.SIGUSR1)  # where does it stand?
    parser = argparse.ArgumentParser(description="Kill a cluster's processes under load; check every answer.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--kills", help="workers,coordinators,tuners: until so many were killed")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/faults.csv")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    kills = None
    if options.kills:
        numbers = [int(number) for number in options.kills.split(",")]
        kills = dict(zip((WORKER, COORDINATOR, TUNER), numbers, strict=True))
    seconds = None if kills else options.minutes * 60.0
    outcome = run(seed, seconds, kills, options.shards, options.replicas)
    print(outcome.line())
    if options.record:
        record.write(
            "faults", figures_of(outcome, f"{options.shards} x {options.replicas}"), keep_others=True
        )
    return outcome.status()


if __name__ == "__main__":
    raise SystemExit(main())
