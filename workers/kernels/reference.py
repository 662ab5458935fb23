"""What every kernel must do, in plain Python: same names, same signatures, no cleverness.

Change the reference first. `tests/test_kernels_*.py` compare each kernel with its namesake here, bit for
bit, in every mode: compiled, not compiled (``NUMBA_DISABLE_JIT=1``) and with bounds checks
(``NUMBA_BOUNDSCHECK=1``). What the arguments are is said at the kernels. Only functions that Python calls
are here, and the leaves that carry rules.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import OK, OVERFLOW
from pubsub_cluster.workers.kernels.visible import ORDERED_MAX


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


def keep_visible(rows: Any, start: Any, moment: Any, catalogue: Any, windows: Any, refused: Any) -> Any:
    """See `visible.keep_visible`."""
    row_count, window_count, version, now_us = moment
    handle, removed_version = (column.tolist() for column in catalogue)
    table = list(zip(*(column.tolist() for column in windows), strict=True))[:window_count]
    window = {row: (begin, end) for row, begin, end in table}
    found = [rows[start[event] : start[event + 1]].tolist() for event in range(len(start) - 1)]
    at = unordered = 0
    for event, mine in enumerate(found):
        kept = []
        for row in mine if event not in refused.tolist() else []:
            begin, end = window.get(row, (now_us, now_us + 1))
            live = row < row_count and not 0 < removed_version[row] <= version
            if live and begin <= now_us < end:
                kept.append(row)
        unordered += len(kept) > ORDERED_MAX
        kept.sort(key=lambda row: handle[row] if len(kept) <= ORDERED_MAX else 0)
        rows[at : at + len(kept)] = kept
        at += len(kept)
        start[event + 1] = at
    return unordered
