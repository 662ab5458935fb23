"""Kernels of predicate tables (`predicate_table`), and of the book of predicates that all structures share.

`table` is ``(int64[attributes, 4] directory, int32[...] cells)``: of an attribute, where its cells begin, its
lower bound l, its width u - l + 1, and how many slices it has; slice s of constant c is cell
``first + s * width + c - l``, the predicate's number or `EMPTY`. `book` is `predicate_book.Book`. Each kernel
has its plain twin in `reference`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.workers.kernels._jit import kernel, leaf

EMPTY = -1
SLICES = (0, 4, 2, 3, 5, 1)
"""By comparison: the paper's four operators <, >, =, <> come first, then <= and >=."""


@leaf
def take_number(book: Any, attribute: Any, comparison: Any, constant: Any) -> Any:
    """Return a number for a new predicate, a free one before a new one; `EMPTY`: the book is full."""
    state, free, references, attributes, comparisons, constants = book
    if state[1] > 0:
        state[1] -= 1
        number = free[state[1]]
    elif state[0] < free.shape[0]:
        number = np.int32(state[0])
        state[0] += 1
    else:
        return np.int32(EMPTY)
    attributes[number], comparisons[number], constants[number] = attribute, comparison, constant
    references[number] = 0
    return number


@leaf
def drop_reference(book: Any, number: Any) -> Any:
    """Drop a reference to a predicate; return whether it was the last and the number is free."""
    state, free, references = book[0], book[1], book[2]
    references[number] -= 1
    if references[number] > 0:
        return False
    free[state[1]] = number
    state[1] += 1
    return True


@leaf
def set_bit(bits: Any, row: Any, number: Any) -> None:
    """Say that a predicate is satisfied."""
    bits[row, number >> 3] |= 1 << (number & 7)


@leaf
def _cell(directory: Any, attribute: Any, comparison: Any, constant: Any) -> Any:
    first, low, width = directory[attribute, 0], directory[attribute, 1], directory[attribute, 2]
    return first + SLICES[comparison] * width + np.int64(constant) - low


@kernel
def add_all(
    table: Any, book: Any, attribute: Any, comparison: Any, constant: Any, numbers: Any, begin: Any
) -> Any:
    """Add the predicates [begin, p), whose tables have room for them.

    Parameters
    ----------
    table, book : tuple
    attribute, comparison, constant : int32[p], int8[p], float64[p]
    numbers : int32[p]
        The number of each (out).
    begin : int

    Returns
    -------
    int
        p, or the predicate at which the book was full.
    """
    directory, cells = table
    for at in range(begin, attribute.shape[0]):
        cell = _cell(directory, attribute[at], comparison[at], constant[at])
        number = cells[cell]
        if number == EMPTY:
            number = take_number(book, attribute[at], comparison[at], constant[at])
            if number == EMPTY:
                return at
            cells[cell] = number
        book[2][number] += 1
        numbers[at] = number
    return attribute.shape[0]


@kernel
def remove_all(table: Any, book: Any, numbers: Any) -> None:
    """Drop a reference to each of the predicates int32[p]."""
    directory, cells = table
    for at in range(numbers.shape[0]):
        number = numbers[at]
        if drop_reference(book, number):
            cells[_cell(directory, book[3][number], book[4][number], book[5][number])] = EMPTY


@leaf
def _traverse(cells: Any, begin: Any, stop: Any, bits: Any, row: Any) -> None:
    for at in range(begin, stop):
        if cells[at] != EMPTY:
            set_bit(bits, row, cells[at])


@kernel
def evaluate(table: Any, values: Any, bits: Any, counters: Any) -> None:
    """Set the bits of the predicates that events satisfy; see `predicate_book.Predicates.evaluate`."""
    directory, cells = table
    for row in range(values.shape[0]):
        for attribute in range(min(values.shape[1], directory.shape[0])):
            value, width, slices = values[row, attribute], directory[attribute, 2], directory[attribute, 3]
            if value != value or slices == 0:
                continue
            # The places of the greatest constant <= value and of the least one >= value; any double has them.
            low = directory[attribute, 1]
            under = np.int64(max(min(np.floor(value) - low, width - 1.0), -1.0))
            over = np.int64(max(min(np.ceil(value) - low, width * 1.0), 0.0))
            less = directory[attribute, 0]
            greater, equal, differs = less + width, less + 2 * width, less + 3 * width
            _traverse(cells, less + under + 1, greater, bits, row)
            _traverse(cells, greater, greater + over, bits, row)
            if under == over:
                _traverse(cells, equal + under, equal + under + 1, bits, row)
                counters[0] += 1
            _traverse(cells, differs, differs + over, bits, row)
            _traverse(cells, differs + under + 1, differs + width, bits, row)
            counters[0] += 2 * (width - under - 1 + over)
            if slices > 4:
                at_most, at_least = less + 4 * width, less + 5 * width
                _traverse(cells, at_most + over, at_least, bits, row)
                _traverse(cells, at_least, at_least + under + 1, bits, row)
                counters[0] += width - over + under + 1
