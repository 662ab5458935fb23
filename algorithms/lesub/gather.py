"""Searches that fill an array of places, which grows when it is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from pubsub_cluster.algorithms.conjunctions import I4
from pubsub_cluster.algorithms.interface import I8
from pubsub_cluster.algorithms.lesub.store import grown

Search: TypeAlias = Callable[[int, I8, I4], int]
"""``search(begin, stops, found)`` does events from `begin` on; returns how many are done, all or those before
the one at which `found` was full. Event e has ``found[stops[e]:stops[e + 1]]``."""
FOUND_LEAST = 4096


def gathered(search: Search, event_count: int) -> tuple[I8, I4]:
    """Return pairs of event and place."""
    stops, found = np.zeros(event_count + 1, np.int64), np.empty(FOUND_LEAST, np.int32)
    done = 0
    while done < event_count:
        done = search(done, stops, found)
        if done < event_count:
            found = grown(found, len(found) + 1)
    return np.repeat(np.arange(event_count), np.diff(stops)), found[: stops[-1]]


def everywhere(places: I8, event_count: int) -> tuple[I8, I8]:
    """Return pairs of every event and every one of some places."""
    return np.repeat(np.arange(event_count), len(places)), np.tile(places, event_count)
