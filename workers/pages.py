"""An answer in pages: what of it goes into one result slot at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class PageSpan(NamedTuple):
    """The part of an answer that one page carries."""

    first_event: int
    counts: npt.NDArray[np.int32]
    row_start: int
    row_stop: int


def cut_pages(offsets: npt.NDArray[np.int64], rows_max: int, events_max: int) -> list[PageSpan]:
    """Cut an answer into pages; an event with more than `rows_max` rows is spread over several.

    Parameters
    ----------
    offsets : int64[event_count + 1]
        Start of each event's rows.
    rows_max, events_max : int
        What one page holds.

    Returns
    -------
    list of PageSpan
        At least one; together they cover every event and row once, in order.
    """
    event_count = len(offsets) - 1
    if event_count <= events_max and offsets[-1] <= rows_max:  # as most answers
        return [PageSpan(0, (offsets[1:] - offsets[:-1]).astype(np.int32), 0, int(offsets[-1]))]
    pages: list[PageSpan] = []
    event, row = 0, 0
    while event < event_count or not pages:
        stop_row = row + rows_max
        # Last event that ends within the page, then perhaps a piece of the next one.
        last = int(np.searchsorted(offsets, stop_row, side="right")) - 1
        last = min(max(last, event), event + events_max, event_count)
        bounds = np.concatenate(([row], offsets[event + 1 : last + 1]))
        if last < event_count and last - event < events_max and offsets[last] < stop_row < offsets[last + 1]:
            bounds = np.append(bounds, stop_row)
        pages.append(PageSpan(event, np.diff(bounds).astype(np.int32), row, int(bounds[-1])))
        row = int(bounds[-1])
        event = last
    return pages
