"""Dense numbers for sets of small integers, found by a 64-bit hash of their members: columns, no objects.

A set's hash is the sum of its members' (splitmix64, Steele, Lea, Flood 2014), so it does not depend on their
order. Two sets with one hash would share a number: at a million sets that is one chance in 40 million, and
all that hangs on it is which table is thought worth having, never an answer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import I4, I8

U8 = npt.NDArray[np.uint64]
RECENT_MAX = 1 << 13

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mixed(value: I4 | I8, salt: int) -> U8:
    """Spread integers over 64 bits; another `salt` gives other words.

    Parameters
    ----------
    value : int[...]
    salt : int
    """
    word = np.atleast_1d(value).astype(np.int64).view(np.uint64) * _GAMMA + np.uint64(salt)
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return np.asarray(word ^ (word >> np.uint64(31)))


class KeyIds:
    """Hashes to numbers from 0 on, in the order in which they were met.

    Most are in one sorted column; recent ones in a dictionary that is merged into it when it has grown.

    Attributes
    ----------
    count : int
        Numbers given.
    """

    def __init__(self) -> None:
        self._key: U8 = np.zeros(0, np.uint64)
        self._id: I8 = np.zeros(0, np.int64)
        self._recent: dict[int, int] = {}
        self.count = 0

    def intern(self, keys: U8) -> tuple[I8, I8]:
        """Number some hashes.

        Returns
        -------
        id : int64[m]
        first : int64[new]
            For each number that is new, in order, a position in `keys` that has it.
        """
        distinct, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        found = self._find(distinct)
        new = np.flatnonzero(found < 0)
        found[new] = self.count + np.arange(len(new))
        self.count += len(new)
        self._recent.update(zip(distinct[new].tolist(), found[new].tolist(), strict=True))
        if len(self._recent) > RECENT_MAX:
            self._merge()
        return found[inverse.reshape(-1)], first[new]

    def _find(self, keys: U8) -> I8:
        found = np.full(len(keys), -1, np.int64)
        if len(self._key):
            at = np.minimum(np.searchsorted(self._key, keys), len(self._key) - 1)
            known = self._key[at] == keys
            found[known] = self._id[at[known]]
        if self._recent:
            missing = np.flatnonzero(found < 0)
            get = self._recent.get
            found[missing] = [get(key, -1) for key in keys[missing].tolist()]
        return found

    def _merge(self) -> None:
        key = np.concatenate((self._key, np.fromiter(self._recent, np.uint64, len(self._recent))))
        number = np.fromiter(self._recent.values(), np.int64, len(self._recent))
        order = np.argsort(key, kind="stable")
        self._key, self._id = key[order], np.concatenate((self._id, number))[order]
        self._recent = {}
