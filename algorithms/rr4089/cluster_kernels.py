"""Kernels of clusters: where subscriptions lie, and how they come, move and go (RR-4089 sections 2.2, 3.1).

A *subscription* here is a conjunction, by number. Its *access* is a conjunction of some of its equality
predicates, of a *table* (a set of attributes); table `NONE` has the empty access, of those without equality,
table `SINGLE` all accesses of one predicate, which the first phase finds anyway. An access has a chain of
clusters that differ in the number of predicates left to check. A cluster lies in one piece of `words`: a
column of predicate numbers for each predicate left, equalities first, then the line of subscriptions.

Kernels that may run out of room check it first: they stop with nothing done and return how far they came.
Each has its plain twin in `reference`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pubsub_cluster.algorithms.list_kernels import piece, release
from pubsub_cluster.algorithms.predicate_kernels import EQ
from pubsub_cluster.workers.kernels._jit import kernel, leaf

WIDTH_MAX = 6
"""Attributes of a table."""
NONE, SINGLE, FIRST_TABLE = 0, 1, 2
TABLE, FIRST, PARTS = 0, 1, 2
"""Columns of an access: its table, its first cluster or -1, its predicates."""
START, CAPACITY, COUNT, REST, ACCESS, NEXT, EPOCH, CANDIDATE = range(8)
"""Columns of a cluster; `START` 0: it has no piece. The last two are the dynamic algorithm's."""
ROW = 8
ACCESSES, CLUSTERS, TABLES, KEYS = range(4)
"""How many there are, in `Held.counts`; of tables: how many are looked up."""
ENTRIES_LEAST = 2
BETTER = 1.0 - 1e-9
"""A cost must fall below this share of another to be called lower: products round."""


class Held(NamedTuple):
    """What kernels read and change.

    Attributes
    ----------
    parts : (int32[subscriptions, 2], int32[...], int64[...])
        Lists of the predicates of each subscription (`list_kernels`).
    cluster, place : int32[subscriptions]
        Where each lies; cluster -1: nowhere.
    attribute : int32[predicates]
    comparison : int8[predicates]
    nu : float64[predicates]
        Probability that an event satisfies it.
    single : int32[predicates]
        Access of one predicate, or -1.
    access : int32[..., 8]
    keys : int32[2**n]
        Accesses of several predicates, hashed; -1: free.
    clusters : int32[..., 8]
    words : int32[...]
    free : int64[1 + CLASSES]
        Free pieces of `words` (`list_kernels`).
    tables : int32[..., 1 + WIDTH_MAX]
        Number of attributes, and these, ascending.
    live : int32[...]
        Tables of several attributes that are looked up, in the order in which they were made.
    population : int64[...]
        Subscriptions of each table.
    mine : int32[attributes]
        -1 between calls: a subscription's equalities.
    counts : int64[4]
    """

    parts: Any
    cluster: Any
    place: Any
    attribute: Any
    comparison: Any
    nu: Any
    single: Any
    access: Any
    keys: Any
    clusters: Any
    words: Any
    free: Any
    tables: Any
    live: Any
    population: Any
    mine: Any
    counts: Any


@leaf
def hash_of(tables: Any, table: Any, equal: Any) -> Any:
    """Return the hash of a table's access for equalities by attribute; -1: one is missing."""
    value = int(table)
    for at in range(1, tables[table, 0] + 1):
        predicate = equal[tables[table, at]]
        if predicate < 0:
            return -1
        value = (((value ^ int(predicate)) * 0x9E3779B1) >> 16) & 0x7FFFFFFF
    return value


@leaf
def is_key(held: Any, access: Any, table: Any, equal: Any) -> Any:
    """Whether an access is the one of a table for equalities by attribute."""
    if held.access[access, TABLE] != table:
        return False
    for at in range(held.tables[table, 0]):
        if held.access[access, PARTS + at] != equal[held.tables[table, 1 + at]]:
            return False
    return True


@leaf
def find(held: Any, table: Any, equal: Any, value: Any) -> Any:
    """Return the place in `keys` of a table's access, or the free one where it would be."""
    mask = held.keys.shape[0] - 1
    at = value & mask
    while held.keys[at] >= 0 and not is_key(held, held.keys[at], table, equal):
        at = (at + 1) & mask
    return at


@leaf
def take(held: Any, subscription: Any) -> Any:
    """Write a subscription's equalities into `mine`; return how many there are."""
    heads, pool, _ = held.parts
    start, size = heads[subscription, 0], heads[subscription, 1]
    count = 0
    for at in range(start, start + size):
        if held.comparison[pool[at]] == EQ:
            held.mine[held.attribute[pool[at]]] = pool[at]
            count += 1
    return count


@leaf
def leave(held: Any, subscription: Any) -> None:
    """Undo `take`."""
    heads, pool, _ = held.parts
    start, size = heads[subscription, 0], heads[subscription, 1]
    for at in range(start, start + size):
        held.mine[held.attribute[pool[at]]] = -1


@leaf
def nu_in(held: Any, table: Any) -> Any:
    """Return nu of the access in a table of whose equalities are in `mine`; 2: it has none there."""
    nu = 1.0
    for at in range(1, held.tables[table, 0] + 1):
        predicate = held.mine[held.tables[table, at]]
        if predicate < 0:
            return 2.0
        nu *= held.nu[predicate]
    return nu


@leaf
def width_of(held: Any, access: Any) -> Any:
    """Return the number of predicates of an access."""
    table = held.access[access, TABLE]
    return table if table < FIRST_TABLE else held.tables[table, 0]


@leaf
def nu_of(held: Any, access: Any) -> Any:
    """Return the probability that an event satisfies an access."""
    nu = 1.0
    for at in range(width_of(held, access)):
        nu *= held.nu[held.access[access, PARTS + at]]
    return nu


@leaf
def cost_of(held: Any, subscription: Any, weight: Any) -> Any:
    """Return nu * checking of a subscription where it lies."""
    row = held.cluster[subscription]
    return nu_of(held, held.clusters[row, ACCESS]) * (1.0 + weight * held.clusters[row, REST])


@leaf
def choose(held: Any, subscription: Any, weight: Any) -> Any:
    """Return the best access of whose equalities are in `mine`: a table, or ``-1 - predicate`` (D-06).

    It minimises nu * checking, where checking is ``1 + weight * predicates left``; the first of equals, and
    single ones come first.
    """
    heads, pool, _ = held.parts
    start, size = heads[subscription, 0], heads[subscription, 1]
    best, least = NONE, 1e300
    for at in range(start, start + size):
        if held.comparison[pool[at]] == EQ:
            cost = held.nu[pool[at]] * (1.0 + weight * (size - 1))
            if cost < least * BETTER:
                best, least = -1 - int(pool[at]), cost
    for at in range(held.counts[TABLES]):
        table = held.live[at]
        nu = nu_in(held, table)
        cost = nu * (1.0 + weight * (size - held.tables[table, 0]))
        if nu < 2.0 and cost < least * BETTER:
            best, least = int(table), cost
    return best


@leaf
def _access_for(held: Any, choice: Any) -> Any:
    """Return the access that was chosen, a new one if it is not there; there is room."""
    if choice == NONE:
        return 0
    if choice < 0:
        predicate = -1 - choice
        access = held.single[predicate]
        if access >= 0:
            return access
        access = held.counts[ACCESSES]
        held.single[predicate] = access
        held.access[access, TABLE], held.access[access, PARTS] = SINGLE, predicate
    else:
        at = find(held, choice, held.mine, hash_of(held.tables, choice, held.mine))
        if held.keys[at] >= 0:
            return held.keys[at]
        access = held.counts[ACCESSES]
        held.keys[at] = access
        held.counts[KEYS] += 1
        held.access[access, TABLE] = choice
        for part in range(held.tables[choice, 0]):
            held.access[access, PARTS + part] = held.mine[held.tables[choice, 1 + part]]
    held.access[access, FIRST] = -1
    held.counts[ACCESSES] = access + 1
    return access


@leaf
def _cluster_for(held: Any, access: Any, rest: Any) -> Any:
    """Return an access's cluster for so many predicates left, a new one if it is not there; there is room."""
    row = held.access[access, FIRST]
    while row >= 0:
        if held.clusters[row, REST] == rest:
            return row
        row = held.clusters[row, NEXT]
    row = held.counts[CLUSTERS]
    held.counts[CLUSTERS] = row + 1
    for column in range(ROW):
        held.clusters[row, column] = 0
    held.clusters[row, REST], held.clusters[row, ACCESS] = rest, access
    held.clusters[row, NEXT] = held.access[access, FIRST]
    held.access[access, FIRST] = row
    return row


@leaf
def _widen(held: Any, row: Any) -> Any:
    """Give a full cluster about twice the room; return False if `words` has none."""
    clusters, words = held.clusters, held.words
    lines, count = clusters[row, REST] + 1, clusters[row, COUNT]
    size_class = 0
    while (1 << size_class) // lines < max(ENTRIES_LEAST, count + 1):
        size_class += 1
    arena = (clusters, words, held.free)
    start = piece(arena, size_class)
    if start == 0:
        return False
    capacity = words[start - 1] // lines
    old, stride = clusters[row, START], clusters[row, CAPACITY]
    for line in range(lines):
        for at in range(count):
            words[start + line * capacity + at] = words[old + line * stride + at]
    if old:
        release(arena, old)
    clusters[row, START], clusters[row, CAPACITY] = start, capacity
    return True


@leaf
def push(held: Any, subscription: Any, choice: Any) -> Any:
    """Put a subscription, whose equalities are in `mine`, where it was chosen to be; False: no room."""
    counts, clusters, words = held.counts, held.clusters, held.words
    full = counts[ACCESSES] + 1 > held.access.shape[0] or counts[CLUSTERS] + 1 > clusters.shape[0]
    if full or 2 * (counts[KEYS] + 1) > held.keys.shape[0]:
        return False
    heads, pool, _ = held.parts
    start, size = heads[subscription, 0], heads[subscription, 1]
    access = _access_for(held, choice)
    width = width_of(held, access)
    row = _cluster_for(held, access, size - width)
    if clusters[row, COUNT] == clusters[row, CAPACITY] and not _widen(held, row):
        return False
    at = clusters[row, START] + clusters[row, COUNT]
    for is_equality in (True, False):
        for number in range(start, start + size):
            predicate = pool[number]
            is_left = (held.comparison[predicate] == EQ) == is_equality
            for part in range(width):
                is_left = is_left and held.access[access, PARTS + part] != predicate
            if is_left:
                words[at] = predicate
                at += clusters[row, CAPACITY]
    words[at] = subscription
    held.cluster[subscription], held.place[subscription] = row, clusters[row, COUNT]
    clusters[row, COUNT] += 1
    held.population[held.access[access, TABLE]] += 1
    return True


@leaf
def take_out(held: Any, row: Any, place: Any) -> None:
    """Take an entry out of a cluster; the last takes its place."""
    clusters, words = held.clusters, held.words
    start, stride, last = clusters[row, START], clusters[row, CAPACITY], clusters[row, COUNT] - 1
    for line in range(clusters[row, REST] + 1):
        words[start + line * stride + place] = words[start + line * stride + last]
    if place != last:
        held.place[words[start + clusters[row, REST] * stride + place]] = place
    clusters[row, COUNT] = last
    if last == 0:
        release((clusters, words, held.free), start)
        clusters[row, START], clusters[row, CAPACITY] = 0, 0
    held.population[held.access[clusters[row, ACCESS], TABLE]] -= 1


@kernel
def place_all(held: Any, subscriptions: Any, begin: Any, weight: Any) -> Any:
    """Put subscriptions, from `begin` on, into their best clusters; return how far the room reached.

    Those that lie somewhere are moved if another access is better, or if their table is gone.
    """
    for at in range(begin, subscriptions.shape[0]):
        subscription = subscriptions[at]
        row, place = held.cluster[subscription], held.place[subscription]
        take(held, subscription)
        choice = choose(held, subscription, weight)
        is_there = False
        if row >= 0:
            access = held.clusters[row, ACCESS]
            table = held.access[access, TABLE]
            is_there = table == choice or (table == SINGLE and choice == -1 - held.access[access, PARTS])
        is_done = is_there or push(held, subscription, choice)
        leave(held, subscription)
        if not is_done:
            return at
        if row >= 0 and not is_there:
            take_out(held, row, place)
    return subscriptions.shape[0]


@kernel
def remove_all(held: Any, subscriptions: Any) -> None:
    """Take subscriptions out of their clusters."""
    for at in range(subscriptions.shape[0]):
        subscription = subscriptions[at]
        take_out(held, held.cluster[subscription], held.place[subscription])
        held.cluster[subscription] = -1


@kernel
def rehash(held: Any, keys: Any) -> None:
    """Take all accesses of several predicates into a larger hash, all free yet."""
    mask = keys.shape[0] - 1
    for old in range(held.keys.shape[0]):
        access = held.keys[old]
        if access < 0:
            continue
        table = held.access[access, TABLE]
        value = int(table)
        for part in range(held.tables[table, 0]):
            value = (((value ^ int(held.access[access, PARTS + part])) * 0x9E3779B1) >> 16) & 0x7FFFFFFF
        at = value & mask
        while keys[at] >= 0:
            at = (at + 1) & mask
        keys[at] = access


@kernel
def members_of(held: Any, rows: Any, found: Any) -> Any:
    """Write the subscriptions of clusters; return how many."""
    count = 0
    for at in range(rows.shape[0]):
        row = rows[at]
        first = held.clusters[row, START] + held.clusters[row, REST] * held.clusters[row, CAPACITY]
        for place in range(held.clusters[row, COUNT]):
            found[count] = held.words[first + place]
            count += 1
    return count
