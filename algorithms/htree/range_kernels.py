"""Kernels over conjunctions of ranges: the test of one, the scan of Simple, and a copy in a new order.

`rows` is ``(int64[n + 1] stops, integer[p] attribute, T[p] lo, T[p] hi)``, the fields of `ranges.Ranges`;
`values` is T[events, attributes]. Each kernel has its plain twin in `htree/reference.py`.
"""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel, leaf


@leaf
def satisfied(rows: Any, row: Any, values: Any, event: Any) -> Any:
    """Say whether all ranges of a row hold an event's values; the first that does not ends it."""
    stops, attribute, lo, hi = rows
    for at in range(stops[row], stops[row + 1]):
        value = values[event, attribute[at]]
        if value < lo[at] or value > hi[at]:
            return False
    return True


@kernel
def scan(rows: Any, alive: Any, values: Any, most: Any, begin: Any, stops: Any, found: Any) -> Any:
    """Compare each event of [begin, n) with all rows (Simple, D-27).

    Parameters
    ----------
    rows : tuple
    alive : uint8[rows]
    values : T[n, attributes]
    most : int
        An event is done when it has this many matches.
    begin : int
    stops : int64[n + 1]
        Where the matches of each event end; in up to ``stops[begin]``, out from there on.
    found : int32[...]
        Rows (out).

    Returns
    -------
    int
        n, or the event at which `found` was full.
    """
    for event in range(begin, values.shape[0]):
        total = stops[event]
        room = found.shape[0]
        for row in range(alive.shape[0]):
            if alive[row] and satisfied(rows, row, values, event):
                if total == room:
                    return event
                found[total] = row
                total += 1
                if total - stops[event] == most:
                    break
        stops[event + 1] = total
    return values.shape[0]


@kernel
def gather(rows: Any, order: Any, slot: Any, out: Any) -> None:
    """Copy rows in a new order, each with its ranges on some attributes last.

    Parameters
    ----------
    rows, out : tuple
        The stops of `out` are there.
    order : int64[k]
    slot : int16[...]
        Attributes with a number of 0 or more here are those whose ranges come last; others keep their order.
    """
    stops, attribute, lo, hi = rows
    out_stops, out_attribute, out_lo, out_hi = out
    for row in range(order.shape[0]):
        at = out_stops[row]
        for turn in range(2):
            for source in range(stops[order[row]], stops[order[row] + 1]):
                number = attribute[source]
                is_last = number < slot.shape[0] and slot[number] >= 0
                if is_last == (turn == 1):
                    out_attribute[at] = number
                    out_lo[at] = lo[source]
                    out_hi[at] = hi[source]
                    at += 1
