"""The second phase of counting: hits of subscriptions (RR-4089 section 5); plainly in `reference`."""

from __future__ import annotations

from typing import Any

from pubsub_cluster.workers.kernels._jit import kernel

HITS = 1
"""Counter: hits that were added."""


@kernel
def count_hits(arrays: Any, predicates: Any, stops: Any, hits: Any, out: Any, how: Any) -> Any:
    """Match events; return the event that had no room any more, and how many matches.

    Parameters
    ----------
    arrays : (lists, int64[subscriptions], int32[subscriptions], int32[k])
        Subscriptions of each predicate (`list_kernels`), owners, numbers of predicates, and those that have
        none.
    predicates : int32[...]
        That events satisfy.
    stops : int64[events + 1]
    hits : uint8[subscriptions]
        0 between calls.
    out : (int64[...], int64[...])
        Events and owners of matches (out).
    how : (int, int, int64[4])
        First event, last one; counters: events, hits added.
    """
    (heads, pool, _), owner, size, always = arrays
    events, owners = out
    begin, end, counters = how
    total = 0
    for event in range(begin, end):
        before = total
        is_full = False
        for at in range(stops[event], stops[event + 1]):
            first, length = heads[predicates[at], 0], heads[predicates[at], 1]
            counters[HITS] += length
            for place in range(first, first + length):
                subscription = pool[place]
                hits[subscription] += 1
                if hits[subscription] == size[subscription]:
                    if total < events.shape[0]:
                        events[total], owners[total] = event, owner[subscription]
                        total += 1
                    else:
                        is_full = True
        hits[:] = 0
        for at in range(always.shape[0]):
            if total < events.shape[0]:
                events[total], owners[total] = event, owner[always[at]]
                total += 1
            else:
                is_full = True
        if is_full:
            return event, before
        counters[0] += 1
    return end, total
