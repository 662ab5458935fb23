"""Run the papers' experiments and keep what becomes of their claims.

    python -m pubsub_cluster.benchmarks.papers [FIGURE...] [--scale paper] [--out FOLDER] [--keep]

Each experiment runs in a process of its own, so that none meets the memory of another. With ``--keep`` its
CSV goes to ``benchmarks/results/papers/`` and its verdicts, with the machine and the commit, to
``benchmarks/results/claims.csv``, in place of earlier ones on the same claims. `docs/papers.md` is made of
that.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pubsub_cluster.benchmarks.record import RESULTS, facts, read
from pubsub_cluster.benchmarks.reproductions.figures import FIGURES
from pubsub_cluster.benchmarks.reproductions.outcome import SCALES

FIELDS = (
    "claim",
    "experiment",
    "scale",
    "verdict",
    "ours",
    "why",
    "date",
    "commit",
    "cpu",
    "cores",
    "python",
    "numpy",
    "numba",
    "load",
)


def kept(name: str, scale: str, verdicts: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the lines of ``claims.csv`` for an experiment's verdicts."""
    now = facts()
    lines = [{**now, **verdict, "experiment": name, "scale": scale} for verdict in verdicts]
    return [{field: line[field] for field in FIELDS} for line in lines]


def keep(lines: Sequence[dict[str, str]]) -> None:
    """Write lines into ``claims.csv`` in place of those on the same claims."""
    claims = {line["claim"] for line in lines}
    everything = [line for line in read("claims") if line["claim"] not in claims] + list(lines)
    with (RESULTS / "claims.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(sorted(everything, key=lambda line: line["claim"]))


def main() -> int:
    """Run the experiments that are named, all where none is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures", nargs="*", metavar="FIGURE")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--out", type=Path, default=Path("reproductions"))
    parser.add_argument("--keep", action="store_true")
    asked = parser.parse_args()
    unknown = set(asked.figures) - set(FIGURES)
    if unknown:
        parser.error(f"there is no experiment {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)}")
    failed = []
    for name in asked.figures or FIGURES:
        begin = time.monotonic()
        command = [sys.executable, "-m", "pubsub_cluster.cli", "reproduce", name, "--scale", asked.scale]
        done = subprocess.run([*command, "--out", str(asked.out)], check=False)
        print(f"{name}: {time.monotonic() - begin:.0f} s, exit status {done.returncode}", flush=True)
        if done.returncode:
            failed.append(name)
        elif asked.keep:
            with (asked.out / f"{name}-verdicts.csv").open(newline="") as file:
                keep(kept(name, asked.scale, list(csv.DictReader(file))))
            (RESULTS / "papers").mkdir(exist_ok=True)
            shutil.copy(asked.out / f"{name}.csv", RESULTS / "papers" / f"{name}.csv")
    if failed:
        sys.stderr.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
