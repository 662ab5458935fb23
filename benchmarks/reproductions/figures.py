"""All experiments that can be redrawn, by name."""

from __future__ import annotations

from pathlib import Path

from pubsub_cluster.benchmarks.reproductions.htree import experiments as htree
from pubsub_cluster.benchmarks.reproductions.lesub import experiments as lesub
from pubsub_cluster.benchmarks.reproductions.outcome import Experiment, Note, Scale, Verdict, write_outcome
from pubsub_cluster.benchmarks.reproductions.riabov import experiments as riabov
from pubsub_cluster.benchmarks.reproductions.rr4089 import experiments as rr4089
from pubsub_cluster.benchmarks.reproductions.topss import experiments as topss

FIGURES: dict[str, Experiment] = {
    **rr4089.EXPERIMENTS,
    **topss.EXPERIMENTS,
    **riabov.EXPERIMENTS,
    **htree.EXPERIMENTS,
    **lesub.EXPERIMENTS,
}


def reproduce(name: str, scale: Scale, folder: Path, note: Note) -> tuple[list[Verdict], tuple[Path, ...]]:
    """Run an experiment and write it down; return its verdicts and the files."""
    experiment = FIGURES[name]
    outcome = experiment.run(scale, note)
    return list(outcome.verdicts), write_outcome(name, outcome, experiment.claims, folder)
