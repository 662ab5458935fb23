"""What RR-4089 claims, in our words, and when we say that a claim holds; see `outcome.Claim`."""

from __future__ import annotations

from pubsub_cluster.benchmarks.reproductions.outcome import Claim

CLAIMS: dict[str, Claim] = {}
