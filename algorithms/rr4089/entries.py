"""Matchers of RR-4089, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.interface import Entry

ENTRIES: dict[str, Entry] = {}
