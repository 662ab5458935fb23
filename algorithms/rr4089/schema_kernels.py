"""Kernels that weigh tables which are not there: what subscriptions would gain there (RR-4089 sections 3, 4).

A *schema* is a set of 2 to 4 attributes, a mask of bits; larger ones would save less than one check, where
values have some tens of equals (RR-4089 example 3.1). `schemas` is
``(int64[2**n] masks, float64[2**n, 3] sums, int64[1] count)``, hashed, mask 0 free. A subscription adds to
each schema of which it has all equalities, if it is better off there: what it gains (nu * checking), one, and
the predicate references that it loses. Plain twins are in `reference`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.algorithms.predicate_kernels import EQ
from pubsub_cluster.algorithms.rr4089.cluster_kernels import (
    ACCESS,
    BETTER,
    COUNT,
    choose,
    cost_of,
    leave,
    nu_in,
    nu_of,
    take,
    width_of,
)
from pubsub_cluster.workers.kernels._jit import kernel, leaf

GAIN, MOVERS, SAVED = range(3)
"""Columns of the sums."""


@leaf
def place_of(masks: Any, mask: Any) -> Any:
    """Return where a schema is in the hash, or would be."""
    last = masks.shape[0] - 1
    folded = (mask ^ (mask >> 31)) & 0x7FFFFFFF
    at = ((folded * 0x9E3779B1) >> 16) & last
    while masks[at] != 0 and masks[at] != mask:
        at = (at + 1) & last
    return at


@leaf
def _add(schemas: Any, mask: Any, gain: Any, saved: Any, sign: Any) -> None:
    masks, sums, count = schemas
    at = place_of(masks, mask)
    if masks[at] == 0:
        masks[at] = mask
        count[0] += 1
    sums[at, GAIN] += sign * gain
    sums[at, MOVERS] += sign
    sums[at, SAVED] += sign * saved


@leaf
def _equalities(held: Any, bit: Any, subscription: Any, found: Any) -> Any:
    """Write a subscription's equalities on attributes with a bit; return how many."""
    heads, pool, _ = held.parts
    start = heads[subscription, 0]
    count = 0
    for at in range(start, start + heads[subscription, 1]):
        if held.comparison[pool[at]] == EQ and bit[held.attribute[pool[at]]] >= 0:
            found[count] = pool[at]
            count += 1
    return count


@leaf
def _combinations_of(count: Any) -> Any:
    pairs = count * (count - 1) // 2
    triples = pairs * (count - 2) // 3
    return pairs + triples + triples * (count - 3) // 4


@kernel
def weigh(held: Any, bit: Any, schemas: Any, subscriptions: Any, begin: Any, how: Any, scratch: Any) -> Any:
    """Add subscriptions, from `begin` on, to their schemas; return how far the room reached.

    Parameters
    ----------
    held : Held
    bit : int32[attributes]
        Bit of each attribute in masks, or -1.
    schemas : tuple
    subscriptions : int32[k]
    begin : int
    how : (float, int)
        Weight of checking, see `cluster_kernels.choose`; 1 or -1: added or taken away.
    scratch : int32[...]
        With room for the equalities of one.
    """
    weight, sign = how
    for one in range(begin, subscriptions.shape[0]):
        subscription = subscriptions[one]
        count = _equalities(held, bit, subscription, scratch)
        if 2 * (schemas[2][0] + _combinations_of(count)) > schemas[0].shape[0]:
            return one
        size = held.parts[0][subscription, 1]
        cost = cost_of(held, subscription, weight)
        width = width_of(held, held.clusters[held.cluster[subscription], ACCESS])
        full = 1.0 + weight * size
        for a in range(count):
            mask_a, nu_a = 1 << int(bit[held.attribute[scratch[a]]]), held.nu[scratch[a]]
            for b in range(a + 1, count):
                mask_b = mask_a | (1 << int(bit[held.attribute[scratch[b]]]))
                nu_b = nu_a * held.nu[scratch[b]]
                after = nu_b * (full - weight * 2)
                if after < cost * BETTER:
                    _add(schemas, mask_b, cost - after, 2 - width, sign)
                for c in range(b + 1, count):
                    mask_c = mask_b | (1 << int(bit[held.attribute[scratch[c]]]))
                    nu_c = nu_b * held.nu[scratch[c]]
                    after = nu_c * (full - weight * 3)
                    if after < cost * BETTER:
                        _add(schemas, mask_c, cost - after, 3 - width, sign)
                    for d in range(c + 1, count):
                        mask_d = mask_c | (1 << int(bit[held.attribute[scratch[d]]]))
                        after = nu_c * held.nu[scratch[d]] * (full - weight * 4)
                        if after < cost * BETTER:
                            _add(schemas, mask_d, cost - after, 4 - width, sign)
    return subscriptions.shape[0]


@kernel
def spread(schemas: Any, wider: Any) -> None:
    """Take all schemas into a larger hash, all free yet."""
    masks, sums, count = schemas
    for old in range(masks.shape[0]):
        if masks[old] != 0:
            at = place_of(wider[0], masks[old])
            wider[0][at] = masks[old]
            for column in range(3):
                wider[1][at, column] = sums[old, column]
    wider[2][0] = count[0]


@kernel
def movers_to(held: Any, table: Any, subscriptions: Any, weight: Any, found: Any) -> Any:
    """Write those of the subscriptions that are better off in a table; return how many."""
    count = 0
    for at in range(subscriptions.shape[0]):
        subscription = subscriptions[at]
        take(held, subscription)
        nu = nu_in(held, table)
        leave(held, subscription)
        left = held.parts[0][subscription, 1] - held.tables[table, 0]
        if nu < 2.0 and nu * (1.0 + weight * left) < cost_of(held, subscription, weight) * BETTER:
            found[count] = subscription
            count += 1
    return count


@kernel
def better_off(held: Any, subscriptions: Any, weight: Any, found: Any) -> Any:
    """Write those of the subscriptions whose best access is not theirs; return how many."""
    count = 0
    for at in range(subscriptions.shape[0]):
        subscription = subscriptions[at]
        size = held.parts[0][subscription, 1]
        equalities = take(held, subscription)
        choice = choose(held, subscription, weight)
        if choice < 0:
            cost = held.nu[-1 - choice] * (1.0 + weight * (size - 1))
        else:
            cost = nu_in(held, choice) * (1.0 + weight * (size - held.tables[choice, 0]))
        leave(held, subscription)
        if equalities and cost < cost_of(held, subscription, weight) * BETTER:
            found[count] = subscription
            count += 1
    return count


@kernel
def margins(held: Any, rows: Any, found: Any) -> None:
    """Write BM of clusters: nu times subscriptions (D-10)."""
    for at in range(rows.shape[0]):
        access = held.clusters[rows[at], ACCESS]
        found[at] = nu_of(held, access) * held.clusters[rows[at], COUNT]
