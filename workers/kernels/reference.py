"""What every kernel must do, in plain Python: same names, same signatures, no cleverness.

Change the reference first. `tests/test_kernels_*.py` compare each kernel with its namesake here, bit for
bit, in every mode: compiled, not compiled (``NUMBA_DISABLE_JIT=1``) and with bounds checks
(``NUMBA_BOUNDSCHECK=1``). What the arguments are is said at the kernels. Only functions that Python calls
are here, and the leaves that carry rules.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from pubsub_cluster.shm.code_space import FALSE_LABEL, FIRST_NUMBER_LABEL
from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW
from pubsub_cluster.workers.kernels.match import CLUSTER_HEADER


def encode_numbers(event: Any, keys: Any, constants: Any, bounds: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_numbers`."""
    first, stop = bounds
    known = list(zip(constants[0][first:stop].tolist(), constants[1][first:stop].tolist(), strict=True))
    values = list(zip(keys[0].tolist(), keys[1].tolist(), strict=True))
    return _write_labels(event, [FIRST_NUMBER_LABEL + _gap_or_constant(known, v) for v in values], at, out)


def encode_texts(event: Any, texts: Any, constants: Any, bounds: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_texts`."""
    first, stop, base = bounds
    offset, data, _ = constants
    known = [data[offset[i] : offset[i + 1]].tobytes() for i in range(first, stop)]
    values = [texts[2][lo:hi].tobytes() for lo, hi in zip(texts[0].tolist(), texts[1].tolist(), strict=True)]
    return _write_labels(event, [base + _gap_or_constant(known, value) for value in values], at, out)


def encode_booleans(event: Any, value: Any, at: Any, out: Any) -> Any:
    """See `encode.encode_booleans`."""
    return _write_labels(event, [FALSE_LABEL + bool(v) for v in value.tolist()], at, out)


def _gap_or_constant(known: list[Any], value: Any) -> int:
    at = bisect_left(known, value)
    return 2 * at + (at < len(known) and known[at] == value)


def _write_labels(event: Any, labels: list[int], at: int, out: Any) -> int:
    out[0][at : at + len(labels)] = event
    out[1][at : at + len(labels)] = labels
    return len(labels) - len(set(event.tolist()))


def prefix_of(data: Any, start: Any, end: Any) -> Any:
    """See `encode.prefix_of`."""
    return int.from_bytes(data[start:end].tobytes()[:8].ljust(8, b"\0"), "big")


def arrange(segments: Any, rows: Any, entry_start: Any, entries: Any) -> None:
    """See `encode.arrange`."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(entry_start) - 1)]
    for attribute, first, stop in zip(*(column.tolist() for column in segments), strict=True):
        for row in range(first, stop):
            found[rows[0][row]].append((attribute, rows[1][row]))
    at = 0
    for event, mine in enumerate(found):
        for attribute, label in mine:
            entries[0][at], entries[1][at] = attribute, label
            at += 1
        entry_start[event + 1] = at


def label_passes(label: Any, test: Any, at: Any, set_start: Any, set_label: Any) -> Any:
    """See `match.label_passes`."""
    _, lo, hi, reference = test[at : at + 4].tolist()
    if reference < 0:
        return lo <= label <= hi
    members = set_label[set_start[reference >> 1] : set_start[(reference >> 1) + 1]].tolist()
    return lo <= label <= hi and (label in members) != bool(reference & 1)


def _literal_holds(literal: int, tables: Any, labels: dict[int, list[int]], bits: set[int]) -> bool:
    at = (literal >> 1) * 4
    attribute, lo = tables.predicate_test[at : at + 2].tolist()
    if attribute < 0:
        truth = lo in bits
    else:
        truth = any(
            label_passes(label, tables.predicate_test, at, tables.set_start, tables.set_label)
            for label in labels.get(attribute, [])
        )
    return truth != bool(literal & 1)


def evaluate(program: list[int], truth: dict[int, Any], ones: int) -> int:
    """Evaluate postfix code over words of bits: `truth` of each predicate, complement by `ones`."""
    stack: list[int] = []
    for code in program:
        if code >= 0:
            stack.append(truth[code >> 1] ^ (ones if code & 1 else 0))
            continue
        operands = [stack.pop() for _ in range(-code >> 1)]
        result = operands[0]
        for operand in operands[1:]:
            result = result | operand if code & 1 else result & operand
        stack.append(result)
    return stack[0]


def match_events(tables: Any, events: Any, scratch: Any, start: Any, out_row: Any, out_start: Any) -> Any:
    """See `match.match_events`; leaves `scratch` alone."""
    first_event, _ = start
    event_count = len(events.entry_start) - 1
    count = int(out_start[first_event])
    for event in range(first_event, event_count):
        entries = range(events.entry_start[event], events.entry_start[event + 1])
        labels: dict[int, list[int]] = {}
        for entry in entries:
            labels.setdefault(int(events.entry_attribute[entry]), []).append(int(events.entry_label[entry]))
        bits = set(events.bit[events.bit_start[event] : events.bit_start[event + 1]].tolist())
        rows: list[int] = []
        for slot in _slots(labels, bits, tables, len(scratch.bit_flag)):
            rows += _rows_of_slot(slot, tables, labels, bits)
        rows = [
            row
            for at, row in enumerate(rows)
            if not (row < 0 or tables.row_many[row]) or row not in rows[:at]
        ]
        if count + len(rows) > len(out_row):
            return OVERFLOW, event
        for row in rows:
            out_row[count] = row if row >= 0 else tables.program_row[~row]
            count += 1
        out_start[event + 1] = count
    return OK, event_count


def _slots(labels: dict[int, list[int]], bits: set[int], tables: Any, bit_count: int) -> list[int]:
    """Return the slots that an event opens, in the order of the kernel."""
    bit_base = int(tables.label_start[-1])
    present_base = bit_base + bit_count
    slots = [int(tables.label_start[a]) + label for a, mine in labels.items() for label in mine]
    slots += [present_base + attribute for attribute in labels]
    slots += [bit_base + bit for bit in sorted(bits)]
    return [*slots, present_base + len(tables.label_start) - 1]


def _rows_of_slot(slot: int, tables: Any, labels: dict[int, list[int]], bits: set[int]) -> list[int]:
    """Return the targets of a slot whose residuals hold; programs that hold stay ``~program``."""
    found: list[int] = []
    for cluster in tables.access_cluster[tables.access_start[slot] : tables.access_start[slot + 1]].tolist():
        if not tables.partition_mine[tables.cluster_partition[cluster]]:
            continue
        blob = tables.blob[tables.cluster_start[cluster] : tables.cluster_start[cluster + 1]].tolist()
        for target, residuals in unpack_cluster(blob):
            if not all(_literal_holds(literal, tables, labels, bits) for literal in residuals):
                continue
            if target < 0:
                first, stop = tables.program_start[~target : ~target + 2].tolist()
                code = tables.program_code[first:stop].tolist()
                used = {literal >> 1 for literal in code if literal >= 0}
                truth = {p: int(_literal_holds(2 * p, tables, labels, bits)) for p in used}
                if not evaluate(code, truth, 1):
                    continue
            found.append(target)
    return found


def unpack_cluster(blob: list[int]) -> list[tuple[int, list[int]]]:
    """Return (target, residual literals) of every entry of a cluster."""
    column_count, entry_count, run_count = blob[:CLUSTER_HEADER]
    at = CLUSTER_HEADER
    columns: list[list[int]] = []
    if column_count:
        literals, stops = blob[at : at + run_count], blob[at + run_count : at + 2 * run_count]
        column: list[int] = []
        for literal, stop in zip(literals, stops, strict=True):
            column += [literal] * (stop - len(column))
        columns.append(column)
        at += 2 * run_count
    for _ in range(1, column_count):
        columns.append(blob[at : at + entry_count])
        at += entry_count
    targets = blob[at:]
    return [(targets[entry], [column[entry] for column in columns]) for entry in range(entry_count)]


def sort_by_slot(entries: Any, label_start: Any, slot_stop: Any, slot_event: Any) -> None:
    """See `delta.sort_by_slot`."""
    slots = [
        (int(label_start[attribute]) + label, at, event)
        for at, (event, attribute, label) in enumerate(zip(*(c.tolist() for c in entries), strict=True))
    ]
    slot_event[:] = [event for _, _, event in sorted(slots)]
    for slot in range(len(slot_stop) - 1):
        slot_stop[slot + 1] = sum(1 for found, _, _ in slots if found <= slot)


def fill_bitmaps(intervals: Any, slot_stop: Any, slot_event: Any, bits: Any, bitmap: Any) -> None:
    """See `delta.fill_bitmaps`."""
    hits = list(zip(bits[1].tolist(), bits[0].tolist(), strict=True))
    for predicate, first, last in zip(*(column.tolist() for column in intervals), strict=True):
        if first <= last:
            hits += [(predicate, e) for e in slot_event[slot_stop[first] : slot_stop[last + 1]].tolist()]
    for predicate, event in hits:
        bitmap[predicate, event // 64] = int(bitmap[predicate, event // 64]) | 1 << event % 64


def match_rows(programs: Any, bounds: Any, bitmap: Any, stack: Any, out: Any) -> Any:
    """See `delta.match_rows`; leaves `stack` alone."""
    start, code, catalogue_row = programs
    first, row_stop, event_count, first_event, count = bounds
    words = [sum(int(word) << 64 * at for at, word in enumerate(row)) for row in bitmap]
    every = (1 << 64 * bitmap.shape[1]) - 1  # bits beyond the events too: room is judged by words
    for row in range(first, len(catalogue_row)):
        if catalogue_row[row] >= row_stop:
            break
        found = evaluate(code[start[row] : start[row + 1]].tolist(), dict(enumerate(words)), every) & every
        if found and count + event_count > len(out[0]):
            return OVERFLOW, row, count
        events = [event for event in range(event_count) if found >> event & 1]
        for event in events:
            out[0][count], out[1][count] = first_event + event, catalogue_row[row]
            count += 1
    return OK, len(catalogue_row), count


def merge_pairs(base: Any, row_catalogue: Any, pairs: Any, out_start: Any, out_row: Any) -> None:
    """See `delta.merge_pairs`."""
    start, layout_row = base
    at = 0
    for event in range(len(out_start) - 1):
        mine = [row_catalogue[row] for row in layout_row[start[event] : start[event + 1]].tolist()]
        mine += [row for e, row in zip(pairs[0].tolist(), pairs[1].tolist(), strict=True) if e == event]
        out_row[at : at + len(mine)] = mine
        at += len(mine)
        out_start[event + 1] = at
