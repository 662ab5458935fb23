"""The kernels of RR-4089's matchers once more, plainly: what they must do, in NumPy and Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.predicate_kernels import EQ
from pubsub_cluster.algorithms.rr4089.cluster_kernels import (
    ACCESS,
    ACCESSES,
    CAPACITY,
    COUNT,
    FIRST_TABLE,
    NONE,
    PARTS,
    REST,
    SINGLE,
    START,
    TABLE,
    TABLES,
)


def check_cluster(words: Any, flags: Any, cluster: tuple[int, int, int], rest: int) -> list[int]:
    """Return who matches in a cluster; see `check_kernels.check_cluster`."""
    start, stride, size = cluster
    lines = [words[start + line * stride :][:size] for line in range(rest + 1)]
    holds = np.ones(size, np.bool_)
    for line in lines[:-1]:
        holds &= flags[line] != 0
    found: list[int] = lines[-1][holds].tolist()
    return found


def parts_of(held: Any, access: int) -> tuple[int, ...]:
    """Return the predicates of an access."""
    table = int(held.access[access, TABLE])
    width = table if table < FIRST_TABLE else int(held.tables[table, 0])
    return tuple(held.access[access, PARTS : PARTS + width].tolist())


def candidates_of(held: Any, satisfied: Any) -> list[int]:
    """Return the accesses that an event meets, by going through all; see `check_kernels.candidates_of`.

    Parameters
    ----------
    held : Held
    satisfied : int32[k]
        Predicates.
    """
    there = set(satisfied.tolist())
    live = {NONE, SINGLE, *held.live[: held.counts[TABLES]].tolist()}
    return [
        access
        for access in range(held.counts[ACCESSES])
        if int(held.access[access, TABLE]) in live and there.issuperset(parts_of(held, access))
    ]


def equalities_of(held: Any, subscription: int) -> list[int]:
    """Return a subscription's equality predicates."""
    heads, pool, _ = held.parts
    start, size = heads[subscription].tolist()
    return [one for one in pool[start : start + size].tolist() if held.comparison[one] == EQ]


def cost_of(held: Any, subscription: int, parts: Any, weight: float) -> float:
    """Return nu * checking of a subscription behind some of its equalities (D-04)."""
    size = int(held.parts[0][subscription, 1])
    return float(np.prod(held.nu[list(parts)])) * (1.0 + weight * (size - len(parts)))


def least_cost(held: Any, subscription: int, weight: float) -> float:
    """Return the cost of a subscription where it is best off (D-06)."""
    mine = equalities_of(held, subscription)
    by_attribute = {int(held.attribute[one]): one for one in mine}
    ways: list[tuple[int, ...]] = [(one,) for one in mine] or [()]
    for table in held.live[: held.counts[TABLES]].tolist():
        schema = held.tables[table, 1 : 1 + held.tables[table, 0]].tolist()
        if set(schema) <= set(by_attribute):
            ways.append(tuple(by_attribute[attribute] for attribute in schema))
    return min(cost_of(held, subscription, way, weight) for way in ways)


def weigh(held: Any, subscriptions: Any, weight: float) -> dict[tuple[int, ...], tuple[float, int, int]]:
    """Return by schema what `schema_kernels.weigh` sums: gains, movers, references saved."""
    found: dict[tuple[int, ...], tuple[float, int, int]] = {}
    for subscription in subscriptions.tolist():
        access = int(held.clusters[held.cluster[subscription], ACCESS])
        now = cost_of(held, subscription, parts_of(held, access), weight)
        mine = equalities_of(held, subscription)
        for width in (2, 3, 4):
            for parts in itertools.combinations(mine, width):
                then = cost_of(held, subscription, parts, weight)
                if then < now * (1 - 1e-9):
                    schema = tuple(sorted(held.attribute[list(parts)].tolist()))
                    gain, movers, saved = found.get(schema, (0.0, 0, 0))
                    more = width - len(parts_of(held, access))
                    found[schema] = gain + now - then, movers + 1, saved + more
    return found


def places(held: Any) -> dict[int, tuple[tuple[int, ...], list[int]]]:
    """Return of each subscription that lies somewhere its access, and the predicates left, in order."""
    found: dict[int, tuple[tuple[int, ...], list[int]]] = {}
    for row in held.clusters[: held.counts[1]]:
        start, stride, size, rest = (int(row[column]) for column in (START, CAPACITY, COUNT, REST))
        for entry in range(size):
            column = [int(held.words[start + line * stride + entry]) for line in range(rest + 1)]
            assert column[-1] not in found
            found[column[-1]] = parts_of(held, int(row[ACCESS])), column[:-1]
    return found
