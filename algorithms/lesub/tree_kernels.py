"""Kernels of Gough and Smith's tree, of Aguilera et al.'s, and of NEON's tables.

All nodes are numbers, and what a node has is in arrays under its number; -1 is none. Each search writes what
it has done for each event to `work`. The plain twin of each search is in `lesub/tree_reference.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.algorithms.lesub.counting_kernels import holds
from pubsub_cluster.algorithms.predicate_kernels import EQ
from pubsub_cluster.workers.kernels._jit import kernel, leaf


@kernel
def descend(values: Any, levels: Any, tree: Any, leaf_of: Any, work: Any) -> None:
    """Follow each event's only path through Gough and Smith's tree.

    Parameters
    ----------
    values : float64[n, attributes]
    levels : int32[levels]
        The attribute of each level.
    tree : (int32[nodes], int64[nodes + 1], float64[edges], int32[edges])
        The child of an event that no edge takes; node i has the edges [stops[i], stops[i + 1]); an edge takes
        values from its bound up to the next one's; its child.
    leaf_of : int32[n]
        Where each event ends; -1: it matches nothing (out).
    work : int64[n, 2]
        Levels, comparisons (out).
    """
    other, stops, bound, child = tree
    for event in range(values.shape[0]):
        node, visited, steps = 0, 0, 0
        for level in range(levels.shape[0]):
            value = values[event, levels[level]]
            visited += 1
            below = other[node]
            if value == value:
                first = lo = stops[node]
                hi = stops[node + 1]
                while lo < hi:
                    middle = (lo + hi) >> 1
                    steps += 1
                    if bound[middle] <= value:
                        lo = middle + 1
                    else:
                        hi = middle
                if lo > first:
                    below = child[lo - 1]
            node = below
            if node < 0:
                break
        leaf_of[event] = node
        work[event, 0] = visited
        work[event, 1] = steps


@leaf
def _edge(test: Any, bits: Any, edges: Any) -> Any:
    """Return the place of a test's edge for a value in the hash table, or where it belongs."""
    edge_test, edge_bits = edges[0], edges[1]
    mask = edge_test.shape[0] - 1
    # Products of numbers below 2**31 and 2**32: nothing wraps around.
    mixed = ((bits ^ (bits >> 32)) & 0x7FFFFFFF) * 0x9E3779B1 ^ np.int64(test) * 0x85EBCA6B
    at = (mixed ^ (mixed >> 15) ^ (mixed >> 31)) & mask
    while edge_test[at] >= 0 and (edge_test[at] != test or edge_bits[at] != bits):
        at = (at + 1) & mask
    return at


@kernel
def rehash(old: Any, new: Any) -> None:
    """Take the edges of a hash table over to an empty one; see `thread` for what they are."""
    for at in range(old[0].shape[0]):
        if old[0][at] >= 0:
            to = _edge(old[0][at], old[1][at], new)
            new[0][to] = old[0][at]
            new[1][to] = old[1][at]
            new[2][to] = old[2][at]


@leaf
def _order(attribute: Any, comparison: Any, constant: Any, test: Any, tests: Any) -> Any:
    """Return a negative number, 0 or a positive one as a predicate's test is before, at or after another."""
    other = tests[1][test]
    if attribute != tests[0][test]:
        return attribute - tests[0][test]
    if comparison != other:
        if comparison == EQ:
            return -1
        return 1 if other == EQ else comparison - other
    if comparison == EQ or constant == tests[2][test]:
        return 0
    return 1 if constant > tests[2][test] else -1


@kernel
def thread(begin: Any, end: Any, store: Any, positions: Any, tests: Any, edges: Any, sizes: Any) -> None:
    """Take conjunctions into Aguilera et al.'s tree: each has one path; its predicates are in tests' order.

    Parameters
    ----------
    begin, end : int
    store : (int64[...], int32[...], int8[...], float64[...], int64[...])
        Stops, attributes, comparisons, constants, and constants' bits.
    positions : (int32[...], int32[...], int32[...])
        The first test of a position, the first conjunction that ends there, the next one of a conjunction.
    tests : (int32[...], int8[...], float64[...], int32[...], int32[...])
        A test's attribute, comparison, constant (none for equality, which gets the value), the next test of
        the position (where its don't-care edge leads), the position under a comparison that holds.
    edges : (int32[2**k], int64[2**k], int32[2**k])
        A hash table from (test, bits of the value) to the position under an equality.
    sizes : int64[4]
        Numbers of tests, positions, edges, and positions where conjunctions end.
    """
    stops, attribute, comparison, constant, bits = store
    first_test, first_place, next_place = positions
    for place in range(begin, end):
        position = 0
        for one in range(stops[place], stops[place + 1]):
            key = (attribute[one], comparison[one], constant[one])
            before, test = -1, first_test[position]
            while test >= 0 and _order(key[0], key[1], key[2], test, tests) > 0:
                before, test = test, tests[3][test]
            if test < 0 or _order(key[0], key[1], key[2], test, tests) != 0:
                new = sizes[0]
                sizes[0] += 1
                tests[0][new], tests[1][new], tests[2][new] = key
                tests[3][new], tests[4][new] = test, -1
                if before < 0:
                    first_test[position] = new
                else:
                    tests[3][before] = new
                test = new
            if key[1] == EQ:
                at = _edge(test, bits[one], edges)
                if edges[0][at] < 0:
                    edges[0][at], edges[1][at], edges[2][at] = test, bits[one], sizes[1]
                    sizes[1] += 1
                    sizes[2] += 1
                position = edges[2][at]
            else:
                if tests[4][test] < 0:
                    tests[4][test] = sizes[1]
                    sizes[1] += 1
                position = tests[4][test]
        sizes[3] += first_place[position] < 0
        next_place[place] = first_place[position]
        first_place[position] = place


@kernel
def walk(
    values: Any,
    bits: Any,
    positions: Any,
    tests: Any,
    edges: Any,
    stack: Any,
    begin: Any,
    stops: Any,
    found: Any,
    work: Any,
) -> Any:
    """Follow all paths of each event through Aguilera et al.'s tree; see `thread`, and `gather.Search`.

    Parameters
    ----------
    values, bits : float64[n, attributes], int64[n, attributes]
    stack : int32[positions]
    work : int64[n, 3]
        Nodes visited (tests, and positions where conjunctions end), paths that end in one, dead ends (out).
    """
    first_test, first_place, next_place = positions
    attribute, comparison, constant, next_test, below = tests
    for event in range(begin, values.shape[0]):
        total, visited, paths, dead = stops[event], 0, 0, 0
        stack[0], top = 0, 1
        while top:
            top -= 1
            position = stack[top]
            place, pushed = first_place[position], top
            if place >= 0:
                visited += 1
                paths += 1
            while place >= 0:
                if total == found.shape[0]:
                    return event
                found[total] = place
                total += 1
                place = next_place[place]
            test = first_test[position]
            while test >= 0:
                visited += 1
                value = values[event, attribute[test]]
                child = -1
                if comparison[test] == EQ:
                    if value == value:
                        at = _edge(test, bits[event, attribute[test]], edges)
                        child = edges[2][at] if edges[0][at] >= 0 else -1
                elif holds(value, comparison[test], constant[test]):
                    child = below[test]
                if child >= 0:
                    stack[top] = child
                    top += 1
                test = next_test[test]
            dead += top == pushed and first_place[position] < 0
        stops[event + 1] = total
        work[event, 0] = visited
        work[event, 1] = paths
        work[event, 2] = dead
    return values.shape[0]


@kernel
def query(
    values: Any,
    kinds: Any,
    operations: Any,
    rows: Any,
    need: Any,
    count: Any,
    begin: Any,
    stops: Any,
    found: Any,
    work: Any,
) -> Any:
    """Evaluate the predicates that NEON's operations lead to; see `gather.Search`.

    Parameters
    ----------
    values : float64[n, attributes]
    kinds : int32[n]
        Each event's type; -1: one that no predicate speaks of.
    operations : (int32[types], int32[m], int32[m], int8[m], int32[m], int32[m])
        The first operation of a type; an operation's next, its attribute, its comparison, the attribute to
        compare with (-1: constants), its first row.
    rows : (int32[p], int32[p], float64[p])
        The next row of the operation, the conjunction, the constant.
    need, count : int32[conjunctions]
        Numbers of predicates, and of those that hold (scratch).
    work : int64[n, 3]
        Operations read, predicates evaluated, predicates that hold (out).
    """
    first, following, attribute, comparison, other, first_row = operations
    next_row, place_of, constant = rows
    for event in range(begin, values.shape[0]):
        total, read, evaluated, satisfied = stops[event], 0, 0, 0
        for place in range(count.shape[0]):
            count[place] = 0
        operation = first[kinds[event]] if kinds[event] >= 0 else -1
        while operation >= 0:
            read += 1
            value, compare, to = values[event, attribute[operation]], comparison[operation], other[operation]
            row = first_row[operation] if value == value else -1
            while row >= 0:
                evaluated += 1
                right = values[event, to] if to >= 0 else constant[row]
                if right == right and holds(value, compare, right):
                    satisfied += 1
                    place = place_of[row]
                    count[place] += 1
                    if count[place] == need[place]:
                        if total == found.shape[0]:
                            return event
                        found[total] = place
                        total += 1
                row = next_row[row]
            operation = following[operation]
        stops[event + 1] = total
        work[event, 0] = read
        work[event, 1] = evaluated
        work[event, 2] = satisfied
    return values.shape[0]
