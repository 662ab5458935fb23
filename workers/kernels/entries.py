"""Entries: what the scanners of rows write, one per value, in the order of the events.

An event that a scanner does not take whole (nesting, lists, repeated names, escapes, numbers or names that
need care, whatever is malformed) is *special*: it leaves no entries, and is read the long way, exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN
from pubsub_cluster.workers.kernels._jit import leaf

KIND_BOOLEAN, KIND_NUMBER, KIND_TEXT = 0, 1, 2
KIND_NULL, KIND_SPECIAL = -1, -2
"""Between scanners only: no value, and a value that sends the event the long way."""

SPECIAL = -1
"""What `event_first` says of an event that must be read the long way."""

_TWO_63 = 2.0**63


class Entries(NamedTuple):
    """Values of a batch; room for m of them.

    A boolean is 0 or 1 in `whole`; a text is ``data[whole:stop]``.
    """

    name: Any  # int32[m]
    kind: Any  # int8[m]
    whole: Any  # int64[m]
    part: Any  # float64[m], numbers only
    stop: Any  # int64[m], texts only
    event_first: Any  # int64[n], or SPECIAL
    event_stop: Any  # int64[n]


@leaf
def put(entries: Any, at: Any, name: Any, value: Any) -> None:
    """Write an entry whose `value` is (kind, whole, part, stop)."""
    kind, whole, part, stop = value
    entries.name[at] = name
    entries.kind[at] = kind
    entries.whole[at] = whole
    entries.part[at] = part
    entries.stop[at] = stop


@leaf
def key_of_double(value: Any) -> Any:
    """Return (whole, part) of the number key of a double that is not NaN (`language.values`)."""
    if -_TWO_63 <= value < _TWO_63:
        whole = np.int64(value)
        return whole, value - np.float64(whole) + 0.0
    return np.int64(INT64_MAX if value > 0 else INT64_MIN), value
