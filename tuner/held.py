"""Segments that the tuner holds a little longer than others need them.

Whoever lets go of an unlinked segment last frees its pages, which takes long where there are many. That must
not be a worker between two batches; the tuner does it behind everybody else.
"""

from __future__ import annotations

import contextlib
import os
import time

from pubsub_cluster.shm.owner import SHM_DIRECTORY

HELD_S = 2.0  # workers let go of a segment when they have nothing else to do


class HeldSegments:
    """Open descriptors by the names of their segments."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._dropped: list[tuple[float, str]] = []

    def hold(self, name: str) -> None:
        """Hold a segment until `HELD_S` after it is dropped; a missing one is no error."""
        if name not in self._held:
            with contextlib.suppress(OSError):
                self._held[name] = os.open(os.path.join(SHM_DIRECTORY, name), os.O_RDONLY | os.O_CLOEXEC)

    def drop(self, name: str) -> None:
        """Nobody asks for the segment any more."""
        self._dropped.append((time.monotonic() + HELD_S, name))

    def over(self, now_s: float) -> list[str]:
        """Return the names of those that are to be let go of by now."""
        over = [name for due_s, name in self._dropped if due_s <= now_s]
        self._dropped = [one for one in self._dropped if one[0] > now_s]
        return over

    def let_go(self, name: str) -> None:
        """Let go of a segment; one that is not held is no error."""
        if (descriptor := self._held.pop(name, None)) is not None:
            os.close(descriptor)
