"""The kernels of TOPSS once more, with the same signatures, plainly; counters are the same too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, truth
from pubsub_cluster.algorithms.topss.table_kernels import EMPTY, SLICES


def _take_number(book: Any, attribute: int, comparison: int, constant: float) -> int:
    bound, free = book.state.tolist()
    if free:
        number = int(book.free[free - 1])
        book.state[1] -= 1
    elif bound < len(book.free):
        number = bound
        book.state[0] += 1
    else:
        return EMPTY
    book.attribute[number], book.comparison[number], book.constant[number] = attribute, comparison, constant
    book.references[number] = 0
    return number


def _drop_reference(book: Any, number: int) -> bool:
    book.references[number] -= 1
    if book.references[number] == 0:
        book.free[book.state[1]] = number
        book.state[1] += 1
    return bool(book.references[number] == 0)


def _cell(directory: Any, attribute: int, comparison: int, constant: float) -> int:
    first, low, width, _ = directory[attribute].tolist()
    return int(first + SLICES[comparison] * width + int(constant) - low)


def table_add_all(
    table: Any, book: Any, attribute: Any, comparison: Any, constant: Any, numbers: Any, begin: int
) -> int:
    """See `table_kernels.add_all`."""
    directory, cells = table
    for at in range(begin, len(attribute)):
        predicate = int(attribute[at]), int(comparison[at]), float(constant[at])
        cell = _cell(directory, *predicate)
        if cells[cell] == EMPTY:
            number = _take_number(book, *predicate)
            if number == EMPTY:
                return at
            cells[cell] = number
        numbers[at] = cells[cell]
        book.references[numbers[at]] += 1
    return len(attribute)


def table_remove_all(table: Any, book: Any, numbers: Any) -> None:
    """See `table_kernels.remove_all`."""
    directory, cells = table
    for number in numbers.tolist():
        if _drop_reference(book, number):
            predicate = book.attribute[number], book.comparison[number], book.constant[number]
            cells[_cell(directory, *predicate)] = EMPTY


def table_evaluate(table: Any, values: Any, bits: Any, counters: Any) -> None:
    """See `table_kernels.evaluate`; each cell's predicate is tested by itself."""
    directory, cells = table
    by_slice = sorted(Comparison, key=lambda one: SLICES[one])
    for row, attribute in np.ndindex(*values.shape):
        value = float(values[row, attribute])
        if attribute >= len(directory) or math.isnan(value):
            continue
        first, low, width, slices = directory[attribute].tolist()
        for comparison in by_slice[:slices]:
            begin = first + SLICES[comparison] * width
            holds = [bool(truth(np.array(value), comparison, low + at)) for at in range(width)]
            counters[0] += sum(holds)
            _set_bits(bits, row, cells[begin : begin + width][holds])


def _set_bits(bits: Any, row: int, numbers: Any) -> None:
    for number in numbers.tolist():
        if number != EMPTY:
            bits[row, number // 8] |= 2 ** (number % 8)


def _walk(lists: Any, attribute: int, comparison: int) -> list[int]:
    heads, following = lists
    nodes, node = [], heads[len(Comparison) * attribute + comparison]
    while node != EMPTY:
        nodes.append(int(node))
        node = following[node]
    return nodes


def _link(lists: Any, attribute: int, comparison: int, nodes: list[int]) -> None:
    heads, following = lists
    heads[len(Comparison) * attribute + comparison] = nodes[0] if nodes else EMPTY
    for node, after in zip(nodes, [*nodes[1:], EMPTY], strict=False):
        following[node] = after


def list_add_all(
    lists: Any,
    book: Any,
    attribute: Any,
    comparison: Any,
    constant: Any,
    numbers: Any,
    begin: int,
    counters: Any,
) -> int:
    """See `list_kernels.add_all`."""
    for at in range(begin, len(attribute)):
        predicate = int(attribute[at]), int(comparison[at]), float(constant[at])
        nodes = _walk(lists, *predicate[:2])
        known = book.constant[nodes].tolist()
        counters[0] += sum(one < predicate[2] for one in known)
        if predicate[2] in known:
            number = nodes[known.index(predicate[2])]
        else:
            number = _take_number(book, *predicate)
            if number == EMPTY:
                return at
            _link(lists, *predicate[:2], sorted([*nodes, number], key=lambda node: book.constant[node]))
        book.references[number] += 1
        numbers[at] = number
    return len(attribute)


def list_remove_all(lists: Any, book: Any, numbers: Any, counters: Any) -> None:
    """See `list_kernels.remove_all`."""
    for number in numbers.tolist():
        if _drop_reference(book, number):
            slot = int(book.attribute[number]), int(book.comparison[number])
            nodes = _walk(lists, *slot)
            counters[0] += nodes.index(number)
            _link(lists, *slot, [node for node in nodes if node != number])


def list_evaluate(lists: Any, constants: Any, values: Any, bits: Any, counters: Any) -> None:
    """See `list_kernels.evaluate`."""
    for row, attribute in np.ndindex(*values.shape):
        value = float(values[row, attribute])
        if len(Comparison) * attribute >= len(lists[0]) or math.isnan(value):
            continue
        for comparison in Comparison:
            nodes = np.array(_walk(lists, attribute, comparison), np.int32)
            below = int((constants[nodes] <= value).sum())
            is_upper = comparison in (Comparison.EQ, Comparison.GE, Comparison.GT)
            counters[0] += min(len(nodes), below + 1) if is_upper else len(nodes)
            holds = [bool(truth(np.array(value), comparison, one)) for one in constants[nodes].tolist()]
            _set_bits(bits, row, nodes[holds])


def _count(
    per_predicate: Callable[[int], tuple[Any, int]],
    bits: Any,
    work: Any,
    count: int,
    found: Any,
    begin: int,
    stops: Any,
    counters: Any,
) -> int:
    """Count, given which subscriptions a predicate belongs to, and what it costs to look."""
    sizes, hits = work
    for row in range(begin, len(bits)):
        if stops[row] + count > len(found):
            return row
        hits[:count] = 0
        for predicate in np.flatnonzero(np.unpackbits(bits[row], bitorder="little")).tolist():
            subscriptions, cost = per_predicate(predicate)
            counters[:2] += (1, cost)
            hits[subscriptions] += 1
        matching = np.flatnonzero(hits[:count] == sizes[:count])
        stops[row + 1] = stops[row] + len(matching)
        found[stops[row] : stops[row + 1]] = matching
        counters[2] += count
    return len(bits)


def count_bytes(bits: Any, matrix: Any, work: Any, count: int, *rest: Any) -> int:
    """See `counting_kernels.count_bytes`."""
    return _count(lambda one: (np.flatnonzero(matrix[one, :count]), count), bits, work, count, *rest)


def _columns_of(words: Any) -> Any:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def count_bits(bits: Any, matrix: Any, work: Any, count: int, *rest: Any) -> int:
    """See `counting_kernels.count_bits`."""
    words = -(-count // 64)
    return _count(lambda one: (_columns_of(matrix[one, :words]), words), bits, work, count, *rest)


def count_lists(bits: Any, lists: Any, work: Any, count: int, *rest: Any) -> int:
    """See `counting_kernels.count_lists`."""

    def ids_of(predicate: int) -> tuple[Any, int]:
        first, size, _ = lists[0][predicate].tolist()
        return lists[1][first : first + size], size

    return _count(ids_of, bits, work, count, *rest)


def _pairs(numbers: Any, stops: Any, columns: Any) -> Iterator[tuple[int, int, int]]:
    """Yield the place, the predicate and the subscription of each association."""
    owners = np.repeat(columns, np.diff(stops))
    yield from zip(range(len(numbers)), numbers.tolist(), owners.tolist(), strict=True)


def set_bytes(matrix: Any, numbers: Any, stops: Any, columns: Any) -> None:
    """See `counting_kernels.set_bytes`."""
    for _, number, column in _pairs(numbers, stops, columns):
        matrix[number, column] = 1


def set_bits(matrix: Any, numbers: Any, stops: Any, columns: Any) -> None:
    """See `counting_kernels.set_bits`."""
    for _, number, column in _pairs(numbers, stops, columns):
        matrix[number, column // 64] |= np.uint64(1 << column % 64)


def append_all(
    arena: Any, numbers: Any, stops: Any, columns: Any, begin: int, step: int, counters: Any
) -> int:
    """See `counting_kernels.append_all`."""
    slots, ids, top = arena
    for at, number, column in list(_pairs(numbers, stops, columns))[begin:]:
        first, size, room = slots[number].tolist()
        if size == room:
            room = size + step if step else max(4, 2 * size)
            if top[0] + room > len(ids):
                return at
            ids[top[0] : top[0] + size] = ids[first : first + size].copy()
            first = int(top[0])
            slots[number] = first, size, room
            top[0] += room
            counters[0] += size
        ids[first + size] = column
        slots[number, 1] += 1
    return len(numbers)


def remove_from(arena: Any, numbers: Any, column: int) -> None:
    """See `counting_kernels.remove_from`."""
    slots, ids, _ = arena
    for number in numbers.tolist():
        first, size, _ = slots[number].tolist()
        mine = ids[first : first + size].tolist()
        ids[first + mine.index(column)] = mine[-1]
        slots[number, 1] -= 1


def repack(arena: Any, packed: Any) -> int:
    """See `counting_kernels.repack`."""
    slots, ids, _ = arena
    top = 0
    for slot in slots:
        packed[top : top + slot[1]] = ids[slot[0] : slot[0] + slot[1]]
        slot[0] = top
        top += int(slot[2])
    return top
