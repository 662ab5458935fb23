"""What an experiment gives, and how it is written down."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

Scale: TypeAlias = Literal["small", "paper"]
SCALES: tuple[Scale, ...] = ("small", "paper")
Note: TypeAlias = Callable[[str], None]


class Claim(NamedTuple):
    """Something that a paper says.

    Attributes
    ----------
    where : str
        Section or figure.
    says : str
    holds_when : str
        What decides it.
    """

    where: str
    says: str
    holds_when: str


class Verdict(NamedTuple):
    """A claim, decided.

    Attributes
    ----------
    claim : str
        Its id.
    verdict : {"holds", "fails", "not decided"}
    ours : str
        Our figures.
    why : str
        Why it fails, or cannot be decided; or what else there is to know.
    """

    claim: str
    verdict: Literal["holds", "fails", "not decided"]
    ours: str
    why: str = ""


class Outcome(NamedTuple):
    """What an experiment gives.

    Attributes
    ----------
    lines : sequence of mapping
        Of the CSV; all have the same keys.
    verdicts : sequence of Verdict
    draw : callable
        ``draw(path)`` draws a PNG.
    """

    lines: Sequence[Mapping[str, Any]]
    verdicts: Sequence[Verdict]
    draw: Callable[[Path], None]


class Experiment(NamedTuple):
    """An experiment's line in the list.

    Attributes
    ----------
    run : callable
        ``run(scale, note)``.
    claims : mapping of str to Claim
        Of its paper.
    about : str
        One line.
    """

    run: Callable[[Scale, Note], Outcome]
    claims: Mapping[str, Claim]
    about: str


def decided(claim: str, holds: bool, ours: str, why: str = "") -> Verdict:
    """Return a verdict on a claim whose condition was looked at; `why` belongs to a failure."""
    return Verdict(claim, "holds" if holds else "fails", ours, "" if holds else why)


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV; floats with six digits."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        for line in lines:
            writer.writerow({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in line.items()})


def write_outcome(
    name: str, outcome: Outcome, claims: Mapping[str, Claim], folder: Path
) -> tuple[Path, Path, Path]:
    """Write the CSV, the PNG and the verdicts (CSV too) of an experiment; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.csv", folder / f"{name}.png", folder / f"{name}-verdicts.csv"
    write_lines(paths[0], outcome.lines)
    outcome.draw(paths[1])
    verdicts = [
        {
            "claim": one.claim,
            "where": claims[one.claim].where,
            "says": claims[one.claim].says,
            "holds when": claims[one.claim].holds_when,
            "verdict": one.verdict,
            "ours": one.ours,
            "why": one.why,
        }
        for one in outcome.verdicts
    ]
    write_lines(paths[2], verdicts)
    return paths


def canvas(rows: int, columns: int, title: str) -> tuple[Any, Any, Any]:
    """Return pyplot, a figure and its axes, float the axes in a grid; for PNG files, without a display."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=(4.6 * columns, 3.6 * rows), squeeze=False, dpi=110)
    figure.suptitle(title)
    for one in axes.flat:
        one.grid(True, alpha=0.3)
    return pyplot, figure, axes


def save(pyplot: Any, figure: Any, path: Path) -> None:
    """Write a figure and let go of it."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)
