"""Some of a catalogue's owners: a share of them all, or those that are chosen."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from pubsub_cluster.shm.code_space import I4
from pubsub_cluster.tuner.grid import Bools


class Slice(NamedTuple):
    """The share of one of several who divide a catalogue's owners: those with ``owner % of == number``."""

    number: int = 0
    of: int = 1

    def has(self, owner: I4) -> Bools:
        """Return which owners are in the share; -1, nobody, is not."""
        found: Bools = (owner >= 0) & (owner % self.of == self.number)
        return found


class Chosen(NamedTuple):
    """Some of a catalogue's owners.

    Attributes
    ----------
    is_chosen : bool[owners + 1]
        By owner; the last stands for nobody and is False.
    """

    is_chosen: Bools

    @classmethod
    def of(cls, owners: I4, owner_count: int) -> Chosen:
        """Return the choice of some owners of so many."""
        is_chosen = np.zeros(owner_count + 1, np.bool_)
        is_chosen[owners] = True
        return cls(is_chosen)

    def has(self, owner: I4) -> Bools:
        """Return which owners are chosen; -1, nobody, is not."""
        found: Bools = self.is_chosen[owner]
        return found


Share: TypeAlias = Slice | Chosen


ALL_OWNERS = Slice()
