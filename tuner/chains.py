"""Chains of a layout's tables and slots, under the keys that they have in the layout that follows it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.code_space import F8, I8
from pubsub_cluster.shm.layout import LayoutView
from pubsub_cluster.tuner.last_layout import Base, Translation
from pubsub_cluster.tuner.work import Work


class Chains(NamedTuple):
    """The chains of a table, or of the slots, of the old layout, as they lie in its blob.

    Attributes
    ----------
    key : int64[k]
        In the new layout; -1 where it has none.
    position : int64[k]
        Ascending.
    probability : float64[k]
        That an event has the key.
    """

    key: I8
    position: I8
    probability: F8

    def having(self, key: I8) -> I8:
        """Return the first chain of each of some keys, in any order, that is there."""
        known = np.flatnonzero(self.key >= 0)
        own = self.key[known]
        if not len(own):
            return known
        at = np.minimum(np.searchsorted(own, key), len(own) - 1)
        return np.asarray(known[at[own[at] == key]])


def table_chains(
    base: Base, table: int, codes: list[int], multiplier: list[int], translation: Translation, work: Work
) -> Chains | None:
    """Return the chains of a table of the old layout; None where nothing can be told of its keys.

    Parameters
    ----------
    base : Base
    table : int
        Of the old layout.
    codes, multiplier : list of int
        Part codes and multipliers of the table to come, whose keys are exact.
    translation : Translation
    work : Work
        Of the layout to come.
    """
    layout = base.layout
    if layout.table_mode[table] & form.TABLE_INEXACT:
        return None
    parts = slice(*layout.table_part[table : table + 2].tolist())
    keys: list[npt.NDArray[Any]] = []
    chances: list[npt.NDArray[Any]] = []
    losses: list[npt.NDArray[Any]] = []
    for old_code, code, factor in zip(layout.part_code[parts].tolist(), codes, multiplier, strict=True):
        first, stop = layout.attribute_point[old_code >> 1 : (old_code >> 1) + 2].tolist()
        point = translation.slot[first : max(stop, first + 1)]
        keys.append((point - int(work.predicates.attribute_point[code >> 1])) * factor)
        chances.append(work.ways.slot_probability[point])
        losses.append(point < 0)
    position, of_keys = _old_keys(layout, table, [len(part) for part in keys])
    key = of_keys(np.add, keys)
    if any(loss.any() for loss in losses):
        key[of_keys(np.logical_or, losses)] = -1
    return _ascending(Chains(key, position, of_keys(np.multiply, chances)))


def _old_keys(layout: LayoutView, table: int, radix: list[int]) -> tuple[I8, Callable[..., Any]]:
    """Return the positions of a table's keys, ascending, and who combines what their digits stand for.

    The latter takes a ufunc and an array by digit for each part.
    """
    area = int(layout.table_area[table])
    if layout.table_mode[table] & form.TABLE_DIRECT:
        region = layout.table_direct[area : area + int(layout.table_size[table])]
        key = np.flatnonzero(region >= 0)

        def of_all(ufunc: np.ufunc, parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.asarray(functools.reduce(ufunc.outer, parts[::-1]).ravel()[key])

        return region[key].astype(np.int64), of_all
    pairs = layout.table_hash[2 * area : 2 * (area + int(layout.table_places[table]))].reshape(-1, 2)
    pairs = pairs[pairs[:, 1] >= 0]
    key, position = np.ascontiguousarray(pairs[np.argsort(pairs[:, 1])].T)
    digits = []
    for size in radix:
        digits.append(key % size)
        key = key // size

    def of_digits(ufunc: np.ufunc, parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        picked = (part[digit] for part, digit in zip(parts, digits, strict=True))
        return np.asarray(functools.reduce(ufunc, picked))

    return position, of_digits


def slot_chains(base: Base, translation: Translation, slot_probability: F8) -> Chains | None:
    """Return what hangs off the slots of the old layout, each section a chain of its own."""
    layout = base.layout
    slot = np.repeat(np.arange(len(layout.access_start) - 1), np.diff(layout.access_start))
    key = translation.slot[slot]
    return _ascending(Chains(key, layout.cluster_start[: len(slot)], slot_probability[key]))


def _ascending(chains: Chains) -> Chains | None:
    """Return chains if their keys go with their positions, as those of layouts by labels do."""
    known = chains.key[chains.key >= 0]
    is_so = bool((known[1:] >= known[:-1]).all() and (chains.position[1:] > chains.position[:-1]).all())
    return chains if is_so else None
