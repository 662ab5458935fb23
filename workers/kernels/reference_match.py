"""What the matching kernel must do, in plain Python: see `reference`."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from typing import Any

import numpy as np

from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm.blob import PROGRAM_HOLDS, TABLE_DIRECT, mix_key, partition_of
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW


def label_passes(label: Any, test: Any, at: Any, set_start: Any, set_label: Any) -> Any:
    """See `match.label_passes`."""
    _, lo, hi, reference = test[at : at + 4].tolist()
    if reference < 0:
        return lo <= label <= hi
    members = set_label[set_start[reference >> 1] : set_start[(reference >> 1) + 1]].tolist()
    return lo <= label <= hi and (label in members) != bool(reference & 1)


def _literal_holds(literal: int, tables: Any, labels: dict[int, list[int]], bits: set[int]) -> bool:
    at = (literal >> 1) * 4
    attribute, lo = tables.tests.predicate_test[at : at + 2].tolist()
    if attribute < 0:
        truth = lo in bits
    else:
        truth = any(
            label_passes(
                label, tables.tests.predicate_test, at, tables.tests.set_start, tables.tests.set_label
            )
            for label in labels.get(attribute, [])
        )
    return truth != bool(literal & 1)


def _residual_holds(residual: Any, tables: Any, labels: dict[int, list[int]], bits: set[int]) -> bool:
    if isinstance(residual, int):
        return _literal_holds(residual, tables, labels, bits)
    code, lo, hi = residual
    return any(lo <= label <= hi for label in labels.get(code >> 1, [])) != bool(code & 1)


def match_events(tables: Any, events: Any, scratch: Any, start: Any, out_row: Any, out_start: Any) -> Any:
    """See `match.match_events`; leaves `scratch` alone."""
    first_event = start[0]
    event_count = len(events.entry_start) - 1
    count = int(out_start[first_event])
    for event in range(first_event, event_count):
        labels, bits = _event(event, events)
        rows: list[int] = []
        by_slots, by_tree = _slot_places(labels, bits, tables), _tree_places(labels, tables)
        for position, digits in [*_table_places(labels, tables), *by_slots, *by_tree]:
            rows += _rows_at(position, digits, tables, labels, bits)
        rows = [
            row
            for at, row in enumerate(rows)
            if not (row < 0 or tables.row_many[row]) or row not in rows[:at]
        ]
        if count + len(rows) > len(out_row):
            return OVERFLOW, event
        for row in rows:
            out_row[count] = row if row >= 0 else tables.programs.program_row[~row]
            count += 1
        out_start[event + 1] = count
    return OK, event_count


def observe_events(tables: Any, events: Any) -> tuple[list[int], list[int]]:
    """Return clusters met and candidates in them over all events, each of tables, slots and tree."""
    places, candidates = [0, 0, 0], [0, 0, 0]
    for event in range(len(events.entry_start) - 1):
        labels, bits = _event(event, events)
        by_slots, by_tree = _slot_places(labels, bits, tables), _tree_places(labels, tables)
        for sort, found in enumerate((_table_places(labels, tables), by_slots, by_tree)):
            places[sort] += len(found)
            for position, _ in found:
                sections = unpack_sections(tables.blobs.word, position)
                candidates[sort] += sum(len(entries) for _, entries in sections)
    return places, candidates


def _event(event: int, events: Any) -> tuple[dict[int, list[int]], set[int]]:
    """Return an event's labels by attribute, and its bits."""
    labels: dict[int, list[int]] = {}
    for entry in range(events.entry_start[event], events.entry_start[event + 1]):
        labels.setdefault(int(events.entry_attribute[entry]), []).append(int(events.entry_label[entry]))
    return labels, set(events.bit[events.bit_start[event] : events.bit_start[event + 1]].tolist())


def _digits(code: int, labels: dict[int, list[int]], tables: Any) -> list[int]:
    """Return the digits that an event's labels give a part code."""
    attribute = code >> 1
    found = set()
    for label in labels.get(attribute, []):
        if code & 1:
            first, stop = tables.slices.slice_start[attribute : attribute + 2].tolist()
            above = bisect_right(tables.slices.slice_label[first:stop].tolist(), label) - 1
            found |= {cell for cell in (above - 1, above) if 0 <= cell < stop - first - 1}
        elif tables.points.point_base[attribute] >= 0:
            point = int(tables.points.label_point[tables.points.point_base[attribute] + label])
            if point >= 0:
                found.add(point)
    return sorted(found)


def _table_places(labels: dict[int, list[int]], tables: Any) -> list[tuple[int, tuple[int, ...]]]:
    """Return where in the blob the event's keys lead, and the digits of each."""
    places = []
    mine, count = tables.partition_mine, len(tables.partition_mine)
    for table, (first, stop) in enumerate(itertools.pairwise(tables.parts.table_part.tolist())):
        options = [_digits(int(code), labels, tables) for code in tables.parts.part_code[first:stop]]
        area, room = int(tables.areas.table_area[table]), int(tables.areas.table_places[table])
        for digits in itertools.product(*options):
            products = (
                d * int(m) for d, m in zip(digits, tables.parts.part_multiplier[first:stop], strict=True)
            )
            key = sum(products) - int(tables.parts.table_offset[table])
            if not mine[partition_of(table, mix_key(key), count)]:
                continue
            if tables.areas.table_mode[table] & TABLE_DIRECT:
                position = int(tables.areas.table_direct[area + key])
            else:
                region = tables.areas.table_hash[2 * area : 2 * (area + room)].reshape(-1, 2).tolist()
                position = dict((k, at) for k, at in region if at >= 0).get(key, -1)
            if position >= 0:
                places.append((position, digits))
    return places


def _slot_places(
    labels: dict[int, list[int]], bits: set[int], tables: Any
) -> list[tuple[int, tuple[int, ...]]]:
    """Return where the clusters of the slots lie that an event opens."""
    always = len(tables.slots.access_start) - 2
    attribute_count = len(tables.points.attribute_point) - 1
    slots = [always, *(always - attribute_count + attribute for attribute in labels)]
    slots += [int(tables.points.attribute_point[-1]) + bit for bit in bits]
    for attribute in labels:
        slots += _digits(2 * attribute, labels, tables)
    return [
        (int(tables.slots.cluster_start[cluster]), ())
        for slot in slots
        for cluster in range(tables.slots.access_start[slot], tables.slots.access_start[slot + 1])
        if tables.partition_mine[tables.slots.cluster_partition[cluster]]
    ]


def _tree_places(labels: dict[int, list[int]], tables: Any) -> list[tuple[int, tuple[int, ...]]]:
    """Return where the clusters of the leaf nodes lie that an event opens."""
    lo, hi, firsts, counts = (column.tolist() for column in tables.tree[1:])
    found: list[tuple[int, tuple[int, ...]]] = []
    node_count, waiting = len(firsts), [0][: len(firsts)]
    least, most = {}, {}
    for attribute, dimension in enumerate(tables.tree.attribute_dimension.tolist()):
        if dimension >= 0:
            mine = labels.get(attribute, [0])
            least[dimension], most[dimension] = min(mine), max(mine)
    for node in waiting:
        first, count = firsts[node], counts[node]
        if count == 0 and tables.partition_mine[tables.slots.cluster_partition[first]]:
            found.append((int(tables.slots.cluster_start[first]), ()))
        waiting += [
            child
            for child in range(first, first + count)
            if all(
                lo[d * node_count + child] <= most[d] and least[d] <= hi[d * node_count + child]
                for d in least
            )
        ]
    return found


def _rows_at(
    position: int, digits: tuple[int, ...], tables: Any, labels: dict[int, list[int]], bits: set[int]
) -> list[int]:
    """Return the targets of the sections at a place whose residuals hold; programs stay ``~program``."""
    found: list[int] = []
    for mine, entries in unpack_sections(tables.blobs.word, position):
        if mine is not None and mine != digits:
            continue
        for target, residuals in entries:
            if not all(_residual_holds(residual, tables, labels, bits) for residual in residuals):
                continue
            if target < 0:
                first, stop = tables.programs.program_start[~target : ~target + 2].tolist()
                steps = tables.programs.program_code[first:stop].reshape(-1, 3).tolist()
                step = 0
                while step >= 0:
                    literal, if_true, if_false = steps[step]
                    step = if_true if _literal_holds(literal, tables, labels, bits) else if_false
                if step != PROGRAM_HOLDS:
                    continue
            found.append(target)
    return found


def unpack_sections(
    blob: Any, position: int
) -> list[tuple[tuple[int, ...] | None, list[tuple[int, list[Any]]]]]:
    """Return digits (None: any) and entries of every section of a chain.

    An entry is (target, residuals); a residual is a literal or (2 * attribute + negated, first, last label).
    """
    sections = []
    more = True
    while more:
        head = int(blob[position])
        more = bool(head & form.HEAD_MORE)
        count = head & form.ENTRY_MASK
        shifts = (form.FLAG_SHIFT, form.UNIFORM_SHIFT, form.INTERVAL_SHIFT, form.TEST_SHIFT)
        masks = (form.FLAG_MASK, form.UNIFORM_MASK, form.INTERVAL_MASK, form.TEST_MASK)
        counts = [head >> shift & mask for shift, mask in zip(shifts, masks, strict=True)]
        position += 1

        def take(size: int, dtype: Any = np.int32) -> list[int]:
            """Return the next numbers; those smaller than words fill up a word."""
            nonlocal position
            word_count = -(-size * np.dtype(dtype).itemsize // 4)
            position += word_count
            words: list[int] = blob[position - word_count : position].view(dtype)[:size].tolist()
            return words

        if head & form.HEAD_LONG:
            counts = take(4)
        flags, uniforms, intervals, tests = counts
        digits = tuple(take(take(1)[0])) if head & form.HEAD_LABELS else None
        if head & form.HEAD_FRONT:
            position += position % 2 + form.front_words(count)
            rows = [take(3 * intervals, np.uint16) for _ in range(count)]
            residuals = [list(zip(row[0::3], row[1::3], row[2::3], strict=True)) for row in rows]
            sections.append((digits, list(zip(take(count), residuals, strict=True))))
            position += -position % form.LINE_WORDS
            continue
        columns: list[list[Any]] = []
        if head & form.HEAD_RUNS:
            run_count = take(1)[0]
            literals, stops = take(run_count), take(run_count)
            column: list[int] = []
            for literal, stop in zip(literals, stops, strict=True):
                column += [literal] * (stop - len(column))
            columns.append(column)
            flags, tests = (flags - 1, tests) if flags else (flags, tests - 1)
        columns += [_uniform_column(count, take) for _ in range(uniforms)]
        columns += [take(count) for _ in range(flags)]
        dtype = np.uint16 if head & form.HEAD_NARROW else np.int32
        for _ in range(intervals):
            numbers = take(3 * count, dtype)
            columns.append(list(zip(numbers[0::3], numbers[1::3], numbers[2::3], strict=True)))
        columns += [take(count) for _ in range(tests)]
        targets = take(count)
        sections.append((digits, [(targets[e], [c[e] for c in columns]) for e in range(count)]))
    return sections


def _uniform_column(count: int, take: Any) -> list[tuple[int, int, int]]:
    """Return the intervals of a uniform column."""
    code = take(1)[0]
    has_first, has_last = bool(code & form.COLUMN_FIRST), bool(code & form.COLUMN_LAST)
    top, dtype = (form.HALF_MAX, np.uint16) if code & form.COLUMN_WIDE else (form.BYTE_MAX, np.uint8)
    common = [] if has_first and has_last else take(1) * count
    numbers = take((has_first + has_last) * count, dtype)
    first = numbers[:count] if has_first else common
    last = [top - number for number in numbers[-count:]] if has_last else common
    attribute = code >> form.COLUMN_SHIFT
    return [(2 * attribute, lo, hi) for lo, hi in zip(first, last, strict=True)]
