"""Where figures come from and where they go: one CSV per benchmark, one line per figure.

A line names the figure, its value and unit, and what it was measured on: commit, date, CPU, cores, versions,
seed. Documents are generated from these lines (`benchmarks/figures.py`); nothing is typed by hand.
"""

from __future__ import annotations

import csv
import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
MADE_OF_FIGURES = ("benchmarks/results", "docs", "README.md")
FIELDS = (
    "workload",
    "subscriptions",
    "figure",
    "value",
    "unit",
    "target",
    "spread",
    "seed",
    "date",
    "commit",
    "cpu",
    "cores",
    "pinning",
    "python",
    "numpy",
    "numba",
    "load",
)


class Figure(NamedTuple):
    """One measured figure.

    Attributes
    ----------
    figure : str
        What was measured, in words.
    value : float
    unit : str
    target : str
        As the issue states it; empty where there is none.
    spread : str
        How far repeats lay apart; empty for a single run.
    seed : int or None
    workload : str
    subscriptions : int or None
        Of the workload; empty for a benchmark that is none.
    """

    figure: str
    value: float
    unit: str
    target: str = ""
    spread: str = ""
    seed: int | None = None
    workload: str = ""
    subscriptions: int | None = None


def cpu_model() -> str:
    """Return the CPU's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def commit() -> str:
    """Return the commit, with a mark when more of the tree differs than figures and documents."""
    found = _git("describe", "--always", "--exclude=*", "--abbrev=10")
    changed = _git("status", "--porcelain", "--", ".", *(f":!{path}" for path in MADE_OF_FIGURES))
    return (found or "unknown") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def facts() -> dict[str, str]:
    """Return what every line says about the machine and the moment."""
    allowed = sorted(os.sched_getaffinity(0))
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": str(len(allowed)),
        "pinning": "none" if len(allowed) == os.cpu_count() else ",".join(map(str, allowed)),
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def write(
    name: str, figures: Iterable[Figure], keep_others: bool = False, only_figures: bool = False
) -> Path:
    """Write the CSV of one benchmark; return its path.

    Parameters
    ----------
    name : str
    figures : iterable of Figure
    keep_others : bool
        Keep the earlier lines of other workloads and sizes; else the last run's lines are all replaced.
    only_figures : bool
        Keep also the other figures of the same workloads and sizes.
    """
    RESULTS.mkdir(parents=True, exist_ok=True)
    now = facts()
    lines = [
        {
            **figure._asdict(),
            "value": f"{figure.value:.6g}",
            "seed": "" if figure.seed is None else str(figure.seed),
            "subscriptions": "" if figure.subscriptions is None else str(figure.subscriptions),
            **now,
        }
        for figure in figures
    ]
    if keep_others:
        key = ("workload", "subscriptions", "figure")[: 3 if only_figures else 2]
        replaced = {tuple(line[part] for part in key) for line in lines}
        lines = [line for line in read(name) if tuple(line[part] for part in key) not in replaced] + lines
        lines.sort(key=lambda line: (line["workload"], int(line["subscriptions"] or 0)))
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, restval="")
        writer.writeheader()
        writer.writerows(lines)
    return path


def read(name: str) -> list[dict[str, str]]:
    """Return the lines of a benchmark's CSV; none when it was never run."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
