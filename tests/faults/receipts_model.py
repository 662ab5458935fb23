"""What durable receivers must be told, and have been told: the judge of `tests/faults/durable.py`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Key(NamedTuple):
    """What recognises a notification."""

    publisher: str
    batch_id: str
    event_index: int


class Line(NamedTuple):
    """A notification as a receiver wrote it down.

    Attributes
    ----------
    process : str
        Of the receiver, which is killed now and then.
    value : int
        Of the event's attribute.
    dropped : int
        That were lost before it, as it was told.
    """

    process: str
    sequence: int
    key: Key
    value: int
    dropped: int


def judge(
    sent: dict[Key, int], answered: set[Key], heard: Iterable[Line], deaths: int
) -> tuple[Counter[str], list[str]]:
    """Judge what one receiver has written down; return counts and the broken promises.

    Parameters
    ----------
    sent : dict of Key to int
        Every event that it may be told of, and its value.
    answered : set of Key
        Those whose publisher was answered: it must be told of them.
    heard : iterable of Line
        In the order in which they were written.
    deaths : int
        Of the coordinator and of this receiver: without any, nothing may come twice.
    """
    counts: Counter[str] = Counter()
    breaches: list[str] = []
    last: dict[str, int] = defaultdict(int)
    seen: Counter[Key] = Counter()
    for line in heard:
        counts["notifications"] += 1
        seen[line.key] += 1
        if line.key not in sent:
            breaches.append(f"{line.key} was never published, or not for this owner")
        elif sent[line.key] != line.value:
            breaches.append(f"{line.key} has the value {line.value}, published was {sent[line.key]}")
        if line.sequence <= last[line.process]:
            breaches.append(f"{line.key}: sequence {line.sequence} after {last[line.process]} in one process")
        last[line.process] = line.sequence
        if line.dropped:
            breaches.append(f"{line.key}: {line.dropped} are said to be lost before it")
    lost = answered - seen.keys()
    counts["lost"] = len(lost)
    breaches += [f"{key} was answered, and is lost" for key in sorted(lost)]
    counts["repeated"] = seen.total() - len(seen)
    if counts["repeated"] and not deaths:
        breaches.append(f"{counts['repeated']} repeats although nobody died")
    return counts, breaches
