"""Dealing: which table every clause goes to.

Every clause goes to the table that promises the least candidates (the papers' nu: the product of the
probabilities of its looked-up literals), or stays with its slot where no table promises less. Clauses are
dealt in blocks that stay in the cache: a matrix of ways (part codes) by clauses holds the cost of each, so
that a table is a product of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.code_space import I4, I8
from pubsub_cluster.tuner.access import Ways
from pubsub_cluster.tuner.predicates import SPREAD_MAX, Predicates
from pubsub_cluster.tuner.source import Clauses
from pubsub_cluster.tuner.tables import NOT_HERE, Lookup

MATRIX_ITEMS_MAX = 1 << 20
BLOCK_CLAUSES_MIN, BLOCK_CLAUSES_MAX = 1 << 12, 1 << 16
SLOT, NEVER, UNDEALT = -1, -2, -3
"""Instead of a table: the clause hangs off its slot; it cannot hold; nothing is known of it yet."""

TABLES_MAX = 1 << 15
"""Numbers of fewer tables have two bytes."""

F4 = npt.NDArray[np.float32]


class Prices(NamedTuple):
    """What a literal's ways cost; all arrays but `tables` are by literal, ``2 * predicate + negated``.

    Attributes
    ----------
    tables : list of list of int
        Rows of the matrix that each table is the product of.
    row_count : int
        Of the matrix; the last one is for what no table looks up.
    row, cost : tuple of int32[2P], tuple of float32[2P]
        By label, by cell; empty where no table looks anything up in that way.
    slot_cost : float32[2P]
    members : float32[2P] or None
        Keys by label; None where all have one.
    is_impossible : bool[2P] or None
        None where all are possible.
    """

    tables: list[list[int]]
    row_count: int
    row: tuple[I4, I4]
    cost: tuple[F4, F4]
    slot_cost: F4
    members: F4 | None
    is_impossible: npt.NDArray[np.bool_] | None


def price_literals(codes: list[list[int]], predicates: Predicates, lookup: Lookup, ways: Ways) -> Prices:
    """Work out what `deal_clauses` looks up of literals.

    Parameters
    ----------
    codes : list of list of int
        Part codes of each table.
    predicates, lookup, ways
        What is known of predicates.
    """
    wanted = sorted({code for mine in codes for code in mine})
    number = {code: row for row, code in enumerate(wanted)}
    row_of_code = np.full(2 * len(predicates.attribute_point), len(wanted), np.int32)  # -1 picks the last
    row_of_code[wanted] = np.arange(len(wanted))
    rows, costs = [], []
    for by_cell in (0, 1):
        is_used = any(code & 1 == by_cell for code in wanted)
        predicate_row = row_of_code[2 * predicates.attribute + by_cell]
        is_here = (lookup.cost[by_cell] < NOT_HERE) & (predicate_row < len(wanted))
        rows.append(_by_literal(predicate_row, is_here, len(wanted))[: None if is_used else 0])
        costs.append(_by_literal(lookup.cost[by_cell], is_here, NOT_HERE)[: None if is_used else 0])
    everything = np.ones(len(ways.cost), bool)
    has_sets, is_impossible = bool((lookup.member_count > 1).any()), predicates.is_impossible
    return Prices(
        [[number[code] for code in mine] for mine in codes],
        len(wanted) + 1,
        (rows[0].astype(np.int32), rows[1].astype(np.int32)),
        (costs[0], costs[1]),
        _by_literal(ways.cost.astype(np.float32), everything, 1.0),
        _by_literal(lookup.member_count.astype(np.float32), everything, 1.0) if has_sets else None,
        _by_literal(is_impossible, everything, False) if is_impossible.any() else None,
    )


def _by_literal(value: npt.NDArray[Any], is_here: npt.NDArray[np.bool_], otherwise: Any) -> npt.NDArray[Any]:
    """Return a predicate's value for its positive literal, `otherwise` elsewhere."""
    found = np.full(2 * len(value), otherwise, value.dtype)
    found[0::2] = np.where(is_here, value, value.dtype.type(otherwise))
    return found


def undealt_clauses(clause_count: int, table_count: int) -> npt.NDArray[Any]:
    """Return the table of each clause before anything is dealt."""
    small = np.int16 if table_count < TABLES_MAX else np.int32  # sorted by radix
    return np.full(clause_count, UNDEALT, small)


def deal_clauses(clauses: Callable[[Any], Clauses], table_of: npt.NDArray[Any], prices: Prices) -> None:
    """Deal the clauses that are not dealt yet, in place.

    Parameters
    ----------
    clauses : callable
        From some clauses, a slice or an array, to their literals, numbered by the layout.
    table_of : int[n]
        A table, `SLOT`, `NEVER` or `UNDEALT`.
    prices : Prices
    """
    is_undealt = table_of == UNDEALT
    picked = None if is_undealt.all() else np.flatnonzero(is_undealt)
    clause_count = len(table_of) if picked is None else len(picked)
    size = MATRIX_ITEMS_MAX // prices.row_count
    size = min(max(size, BLOCK_CLAUSES_MIN), BLOCK_CLAUSES_MAX, max(clause_count, 1))
    matrix = np.empty(prices.row_count * size, np.float32)
    for first in range(0, clause_count, size):
        block = slice(first, min(first + size, clause_count))
        mine = block if picked is None else picked[block]
        table_of[mine] = assign_block(clauses(mine), prices, matrix)


def assign_block(clauses: Clauses, prices: Prices, matrix: F4 | None = None) -> I4:
    """Return the table of each clause, `SLOT` or `NEVER`.

    Parameters
    ----------
    clauses : Clauses
        Literals numbered by the layout.
    prices : Prices
    matrix : float32[], optional
        Room for ``prices.row_count * clauses`` items, to be overwritten.
    """
    count, literal = len(clauses.start) - 1, clauses.literal
    table, best = np.full(count, SLOT, np.int32), np.full(count, NOT_HERE, np.float32)
    filled = np.flatnonzero(np.diff(clauses.start))
    if not len(filled):
        return table
    best[filled] = np.minimum.reduceat(prices.slot_cost[literal], clauses.start[filled])
    room = prices.row_count * count
    cost, members = _lay_out(clauses, prices, np.empty(room, np.float32) if matrix is None else matrix[:room])
    held: dict[int, I8] = {}
    for number, parts in enumerate(prices.tables):
        for part in parts:
            if part not in held:
                held[part] = np.flatnonzero(cost[part] < NOT_HERE)
        rarest, *others = sorted(parts, key=lambda part: len(held[part]))
        rows = held[rarest]
        if not len(rows):
            continue
        product = cost[rarest][rows]
        for part in others:
            product *= cost[part][rows]
        is_better = product < best[rows]
        if members is not None:
            copies = members[rarest][rows]
            for part in others:
                copies *= members[part][rows]
            is_better &= copies <= SPREAD_MAX
        better = np.flatnonzero(is_better)
        chosen = rows[better]
        best[chosen] = product[better]
        table[chosen] = number
    if prices.is_impossible is not None:
        table[clauses.owner[prices.is_impossible[literal]]] = NEVER
    return table


def _lay_out(clauses: Clauses, prices: Prices, room: F4) -> tuple[F4, F4 | None]:
    """Return cost and keys of every way of every clause; of several literals the cheapest, first."""
    count = len(clauses.start) - 1
    room[:] = NOT_HERE
    members = None if prices.members is None else np.ones(len(room), np.float32)
    backwards = clauses.literal[::-1]  # of equals the last one written stays
    for by_cell in (0, 1):
        if not len(prices.row[by_cell]):
            continue
        literal = backwards
        at = prices.row[by_cell][literal].astype(np.int64)
        at *= count
        at += clauses.owner[::-1]
        value = prices.cost[by_cell][literal]
        while len(at):
            room[at] = value
            if members is not None and prices.members is not None and by_cell == 0:
                members[at] = prices.members[literal]
            elif members is not None:
                members[at] = 1.0
            cheaper = np.flatnonzero(room[at] > value)
            at, value, literal = at[cheaper], value[cheaper], literal[cheaper]
    shape = (prices.row_count, count)
    return room.reshape(shape), None if members is None else members.reshape(shape)


def clauses_by_table(table_of: npt.NDArray[Any], table_count: int) -> list[I4]:
    """Return the clauses of `SLOT` and of each table, the first table's last, each to be let go of alone."""
    blocks = [slice(first, first + BLOCK_CLAUSES_MAX) for first in range(0, len(table_of), BLOCK_CLAUSES_MAX)]
    counts = np.zeros((len(blocks), table_count + 2), np.int64)
    for number, block in enumerate(blocks):
        counts[number] = np.bincount(table_of[block] - np.int32(NEVER), minlength=table_count + 2)
    pieces = [np.empty(count, np.int32) for count in counts.sum(axis=0).tolist()]
    start = (np.cumsum(counts, axis=0) - counts).tolist()
    for number, block in enumerate(blocks):
        order = np.argsort(table_of[block], kind="stable").astype(np.int32)
        order += block.start
        stop = np.cumsum(counts[number])
        for piece in np.flatnonzero(counts[number]).tolist():
            mine = order[stop[piece] - counts[number, piece] : stop[piece]]
            first = start[number][piece]
            pieces[piece][first : first + len(mine)] = mine
    return [pieces[1], *pieces[:1:-1]]
