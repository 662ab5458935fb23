"""What an entry of a section costs, by the form that its section is likely to have (`shm.blob`).

Sections hold clauses of one shape. Where their ranges are of the same attributes, these stand in uniform
columns: every section bears a price per column, every entry a small one. Else intervals are mixed, and an
entry's are evaluated until one fails: `checking` of RR-4089, section 3.1.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.shm.code_space import F8, I4, I8, U1
from pubsub_cluster.tuner.configuration import Bools
from pubsub_cluster.tuner.constants import CostConstants

SORTED_MIN = 64
"""As in `tuner.columns`."""

ALIKE_LEAST = 1e-9
MARKS_LISTED = 8
"""Survivors of uniform columns are listed by going through so many marks at a time, where any is left."""

UNIFORM_LEAST = 1e-3
"""Chances of a uniform section below this are nothing."""


class Residuals(NamedTuple):
    """What is left of some clauses to be checked: literals, flags of them, and as in `Block`."""

    left: F8
    flags: F8
    tests_max: F8
    passing: F8
    unlike: F8

    def of(self, column: I8, gone: Any) -> Residuals:
        """Return those of some clauses, with so many flags less to be checked."""
        left, flags, *rest = (part[column] for part in self)
        return Residuals(left - gone, flags - gone, *rest)


def shape_of(count: I8, literal: I4, is_flag: Bools, words: U1) -> I8:
    """Number the shapes of clauses with `count` literals each, which take so many words (`cost.Ways`)."""
    predicate = literal >> 1
    column = np.repeat(np.arange(len(count)), count)
    flags: I8 = np.bincount(column, is_flag[predicate], len(count)).astype(np.int64)
    size: I8 = np.bincount(column, words[predicate], len(count)).astype(np.int64)
    _, shape = np.unique(count << 40 | flags << 20 | size, return_inverse=True)
    return np.asarray(shape.reshape(-1))


def unlike_of(count: I8, literal: I4, is_flag: Bools, shape: I8, attribute: I4) -> F8:
    """Return minus the logarithm of the share of fellows of like shape with ranges of like attributes.

    Parameters
    ----------
    count : int64[n]
        Literals of each clause.
    literal : int32[]
    is_flag : bool[P]
    shape : int64[n]
        By `shape_of`.
    attribute : int32[P]
    """
    predicate = literal >> 1
    ranges = np.flatnonzero(~is_flag[predicate])
    column = np.repeat(np.arange(len(count)), count)[ranges]
    # Sums of random numbers: equal for equal sets of attributes.
    mark = np.random.default_rng(1).integers(0, 1 << 40, int(attribute.max(initial=0)) + 2)
    own = np.zeros(len(count), np.int64)
    np.add.at(own, column, mark[attribute[predicate[ranges]]])
    own = own * (int(shape.max(initial=0)) + 1) + shape
    _, kind, size = np.unique(own, return_inverse=True, return_counts=True)
    fellows = np.maximum(np.bincount(shape) - 1, 1)
    return np.asarray(-np.log(np.clip((size[kind.reshape(-1)] - 1) / fellows[shape], ALIKE_LEAST, 1.0)))


def checking(own: Residuals, load: Any, share: Any, constants: CostConstants) -> F8:
    """Cost an entry by the form that its section is likely to have.

    Parameters
    ----------
    own : Residuals
    load : float or float64[n]
        Entries per section.
    share : float or float64[n]
        Of a section's fixed cost, that an entry bears.
    """
    ranges = np.maximum(own.left - np.maximum(own.flags, 0.0), 0.0)
    has_ranges = ranges > 0.5
    mixed = _checking_mixed(own, constants)
    looked_at = np.where(load >= SORTED_MIN, own.passing, 1.0)
    is_uniform = np.exp(-own.unlike * load) * -np.expm1(-load) * has_ranges
    way = constants.cluster_ns + np.where(has_ranges, constants.section_ns, 0.0)
    if not np.any(is_uniform > UNIFORM_LEAST):
        return np.asarray(way * share + mixed)
    uniform = ranges * constants.column_ns * share
    uniform += constants.uniform_ns * (1.0 + np.maximum(ranges - 1.0, 0.0) * looked_at)
    survive = own.passing**ranges
    uniform += constants.entry_ns * np.minimum(MARKS_LISTED * survive, 1.0)
    uniform += constants.residual_ns * survive * (own.flags > 0.5)
    return np.asarray(way * share + mixed + (uniform - mixed) * is_uniform)


def _checking_mixed(own: Residuals, constants: CostConstants) -> F8:
    """Cost an entry whose residuals are checked until one fails, flags first."""
    further = np.minimum(np.maximum(own.left - 1.0, 0.0), own.tests_max)
    is_dear = (own.flags < 0.5) & (own.left > 0.5)
    per_test = np.where(is_dear, constants.interval_ns, 0.0)
    return np.asarray(constants.entry_ns + per_test + (constants.residual_ns + per_test) * further)
