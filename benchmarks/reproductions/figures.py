"""All experiments that can be redrawn, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pubsub_cluster.benchmarks.reproductions import (
    riabov_claims,
    riabov_figure4,
    riabov_figure6,
    riabov_trees,
)
from pubsub_cluster.benchmarks.reproductions.outcome import (
    Claim,
    Note,
    Outcome,
    Scale,
    Verdict,
    write_outcome,
)


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


FIGURES: dict[str, Experiment] = {
    "riabov-4": Experiment(
        riabov_figure4.run, riabov_claims.CLAIMS, "prices, popularity and amounts (RIABOV figure 4, our data)"
    ),
    "riabov-6": Experiment(
        riabov_figure6.run, riabov_claims.CLAIMS, "unicast or multicast by a threshold (RIABOV figure 6)"
    ),
    "riabov-trees": Experiment(
        riabov_trees.run, riabov_claims.CLAIMS, "shape and point queries of the S-tree (RIABOV section 3)"
    ),
}


def reproduce(name: str, scale: Scale, folder: Path, note: Note) -> tuple[list[Verdict], tuple[Path, ...]]:
    """Run an experiment and write it down; return its verdicts and the files."""
    experiment = FIGURES[name]
    outcome = experiment.run(scale, note)
    return list(outcome.verdicts), write_outcome(name, outcome, experiment.claims, folder)
