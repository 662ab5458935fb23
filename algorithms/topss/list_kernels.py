"""Kernels of ordered lists of predicates (`ordered_lists`).

`lists` is ``(int32[attributes * 6] heads, int32[room] following)``: list ``6 * attribute + comparison``
begins with the predicate of number ``heads[...]``, `following` has each one's successor; `EMPTY` ends a list.
The constants, ascending along a list, are those of the book (`predicate_book.Book`). Each kernel has its
plain twin in `reference`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.algorithms.topss.table_kernels import EMPTY, drop_reference, set_bit, take_number
from pubsub_cluster.workers.kernels._jit import kernel, leaf

COMPARISONS = 6
LT, LE, EQ, NE, GE, GT = range(COMPARISONS)


@kernel
def add_all(
    lists: Any,
    book: Any,
    attribute: Any,
    comparison: Any,
    constant: Any,
    numbers: Any,
    begin: Any,
    counters: Any,
) -> Any:
    """Add the predicates [begin, p), each by a search of its list; `following` has the book's room.

    Parameters
    ----------
    lists, book : tuple
    attribute, comparison, constant : int32[p], int8[p], float64[p]
    numbers : int32[p]
        The number of each (out).
    begin : int
    counters : int64[1]
        Grows by the nodes looked at.

    Returns
    -------
    int
        p, or the predicate at which the book was full.
    """
    heads, following = lists
    for at in range(begin, attribute.shape[0]):
        slot = COMPARISONS * attribute[at] + comparison[at]
        before, node = EMPTY, heads[slot]
        while node != EMPTY and book[5][node] < constant[at]:
            counters[0] += 1
            before, node = node, following[node]
        number = node
        if node == EMPTY or book[5][node] != constant[at]:
            number = take_number(book, attribute[at], comparison[at], constant[at])
            if number == EMPTY:
                return at
            following[number] = node
            if before == EMPTY:
                heads[slot] = number
            else:
                following[before] = number
        book[2][number] += 1
        numbers[at] = number
    return attribute.shape[0]


@kernel
def remove_all(lists: Any, book: Any, numbers: Any, counters: Any) -> None:
    """Drop a reference to each of the predicates int32[p]; the last takes it out of its list."""
    heads, following = lists
    for at in range(numbers.shape[0]):
        number = numbers[at]
        if not drop_reference(book, number):
            continue
        slot = COMPARISONS * book[3][number] + book[4][number]
        before, node = EMPTY, heads[slot]
        while node != number:
            counters[0] += 1
            before, node = node, following[node]
        if before == EMPTY:
            heads[slot] = following[number]
        else:
            following[before] = following[number]


@leaf
def _holds(comparison: Any, value: Any, constant: Any) -> Any:
    if comparison == LT:
        return value < constant
    if comparison == LE:
        return value <= constant
    if comparison == EQ:
        return value == constant
    if comparison == NE:
        return value != constant
    if comparison == GE:
        return value >= constant
    return value > constant


@kernel
def evaluate(lists: Any, constants: Any, values: Any, bits: Any, counters: Any) -> None:
    """Set the bits of the predicates that events satisfy; see `predicate_book.Predicates.evaluate`."""
    heads, following = lists
    for row in range(values.shape[0]):
        for attribute in range(min(values.shape[1], heads.shape[0] // COMPARISONS)):
            value = values[row, attribute]
            if value != value:
                continue
            for comparison in range(COMPARISONS):
                is_upper = comparison in (EQ, GE, GT)
                node = heads[COMPARISONS * attribute + comparison]
                while node != EMPTY:
                    counters[0] += 1
                    if is_upper and constants[node] > value:
                        break
                    if _holds(comparison, value, constants[node]):
                        set_bit(bits, row, node)
                    node = following[node]
