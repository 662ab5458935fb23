"""What the workers tell of the layouts that they run: how values are looked up, and what matching costs.

A worker looks at a few events of a batch now and then and counts, table by table, the keys it probes, the
clusters it finds there and the candidates in them; of a tree the inner nodes that it opens instead of keys.
Summed over the shards and priced with the tuner's constants, that is the observed cost beside the expected
one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.workers.messages import AttributeLookup, Observed

F8 = npt.NDArray[np.float64]
KINDS = 3
"""Probes, places (clusters found), candidates."""


@dataclass(slots=True)
class _Shard:
    """Sums of one shard."""

    event_count: int
    work: F8  # [T + 2, KINDS]; the last lines are those of the slots and of the tree


@dataclass(slots=True)
class LayoutReports:
    """Reports on the generation in force, and on one that is being attached.

    Attributes
    ----------
    generation : int
        Of `lookups`.
    lookups : list of AttributeLookup
        How the attributes' values find their labels; the first ones where there are very many.
    """

    generation: int = 0
    lookups: list[AttributeLookup] = field(default_factory=list)
    _observed: dict[int, dict[int, _Shard]] = field(default_factory=dict)  # by generation and shard

    def attached(self, generation: int, lookups: list[AttributeLookup]) -> None:
        """A worker has mapped a generation; every worker looks values up in the same way."""
        if generation > self.generation:
            self.generation, self.lookups = generation, lookups
            self._observed = {
                number: found for number, found in self._observed.items() if number >= generation - 1
            }

    def observed(self, shard_idx: int, message: Observed) -> None:
        """Add what a worker has counted."""
        work = np.array(message.work, np.float64).reshape(-1, KINDS)
        shards = self._observed.setdefault(message.generation, {})
        sums = shards.get(shard_idx)
        if sums is None or sums.work.shape != work.shape:
            shards[shard_idx] = _Shard(message.event_count, work)
        else:
            sums.event_count += message.event_count
            sums.work += work

    def forget_observed(self) -> None:
        """Shards are others from now on."""
        self._observed.clear()

    def encoder(self) -> dict[str, str]:
        """Return in words, by attribute, how values are looked up; for ``status``."""
        words = {}
        for name, numbers, number_count, texts, text_count in self.lookups:
            kinds = [("numbers", numbers, number_count), ("texts", texts, text_count)]
            words[name] = (
                ", ".join(f"{kind} by {method} ({count:,})" for kind, method, count in kinds if count)
                or "presence"
            )
        return words

    def priced(self, summary: dict[str, Any]) -> dict[str, Any]:
        """Return a layout's summary with what was observed of it, nanoseconds per event.

        Parameters
        ----------
        summary : dict
            Of `tuner.report.summarise`, with ``constants``; without a report on it, it is returned as it is.
        """
        shards = self._observed.get(int(summary.get("generation", -1)), {})
        constants = summary.get("constants")
        if not shards or not constants:
            return summary
        per_event = np.sum([found.work / max(found.event_count, 1) for found in shards.values()], axis=0)
        price = np.array([constants["probe_ns"], constants["cluster_ns"], constants["entry_ns"]])
        cost = per_event @ price
        tree = self._priced_tree(summary, per_event[-1])
        cost[-1] = tree["tree"]["observed_cost"] if tree else 0.0
        tables = [
            {
                **found,
                "observed_cost": round(float(cost[found["table"]]), 2),
                "observed_probes": round(float(per_event[found["table"], 0]), 3),
                "observed_places": round(float(per_event[found["table"], 1]), 3),
                "observed_candidates": round(float(per_event[found["table"], 2]), 3),
            }
            for found in summary.get("tables", [])
            if found["table"] < len(cost) - 2
        ]
        return {
            **summary,
            "observed_events": max(found.event_count for found in shards.values()),
            "observed_cost_per_event": round(float(cost.sum()), 2),
            "observed_cost_of_slots": round(float(cost[-2]), 2),
            "tables": tables,
            **tree,
        }

    @staticmethod
    def _priced_tree(summary: dict[str, Any], per_event: F8) -> dict[str, Any]:
        """Return ``tree`` of a summary with what was observed of it; nothing where there is none."""
        tree = summary.get("tree")
        if not tree:
            return {}
        nodes, leaf_nodes = float(per_event[0]), float(per_event[1])
        cost = nodes * tree["node_ns"] + leaf_nodes * tree["leaf_ns"]
        observed = {"observed_nodes": nodes, "observed_leaf_nodes": leaf_nodes, "observed_cost": cost}
        return {"tree": {**tree, **{name: round(value, 3) for name, value in observed.items()}}}
