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
FIELDS = (
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
    """

    figure: str
    value: float
    unit: str
    target: str = ""
    spread: str = ""
    seed: int | None = None


def cpu_model() -> str:
    """Return the CPU's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def commit() -> str:
    """Return the commit, with a mark when the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def write(name: str, figures: Iterable[Figure]) -> Path:
    """Write the CSV of one benchmark, replacing the last run's; return its path."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    facts = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "cpu": cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
        "load": f"{os.getloadavg()[0]:.2f}",
    }
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        for figure in figures:
            seed = "" if figure.seed is None else str(figure.seed)
            writer.writerow({**figure._asdict(), "value": f"{figure.value:.6g}", "seed": seed, **facts})
    return path


def read(name: str) -> list[dict[str, str]]:
    """Return the lines of a benchmark's CSV; none when it was never run."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
