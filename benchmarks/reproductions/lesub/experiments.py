"""Experiments of LESUB, by name."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Experiment

EXPERIMENTS: dict[str, Experiment] = {}
