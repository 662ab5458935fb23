"""What every matcher offers.

A subscription is known by its *handle*, an integer that whoever builds the matcher chooses. A matcher whose
language is narrower than the project's says so through `supports`, and refuses what it does not support; it
is never silently wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.raw_batch import RawBatch
from pubsub_cluster.language.schema import Schema

I8 = npt.NDArray[np.int64]
Catalogue: TypeAlias = Sequence[tuple[int, Expression]]
"""Handles, from 0 on and each once, and expressions."""


class Matches(NamedTuple):
    """Who matches the events of a batch.

    Attributes
    ----------
    offsets : int64[events + 1]
        Event e has ``handles[offsets[e]:offsets[e + 1]]``.
    handles : int64[m]
        Ascending and without repeats within an event; a refused event has none.
    """

    offsets: I8
    handles: I8

    def of(self, event: int) -> I8:
        """Return the handles that one event matches."""
        return self.handles[self.offsets[event] : self.offsets[event + 1]]


class Matcher(Protocol):
    """A way to match."""

    def supports(self, expression: Expression) -> str | None:
        """Return why a subscription is outside the matcher's language; None: it is not."""

    def build(self, catalogue: Catalogue) -> None:
        """Take subscriptions in place of all that were there.

        Raises
        ------
        CallerError
            One is not supported, or a handle is there twice; nothing has changed then.
        """

    def insert(self, handle: int, expression: Expression) -> None:
        """Add a subscription.

        Raises
        ------
        CallerError
            As for `build`.
        """

    def delete(self, handle: int) -> None:
        """Remove a subscription.

        Raises
        ------
        CallerError
            There is none with this handle.
        """

    def match(self, batch: RawBatch) -> Matches:
        """Match a batch."""

    def memory_bytes(self) -> int:
        """Return the bytes of all arrays that matching reads, by their lengths."""


class Entry(NamedTuple):
    """A matcher's line in the list (`registry.MATCHERS`).

    Attributes
    ----------
    make : callable
        ``make(schema)``.
    paper : str
    about : str
        One line.
    """

    make: Callable[[Schema], Matcher]
    paper: str
    about: str


def refuse_expression(name: str, handle: int, reason: str) -> NoReturn:
    """Raise for a subscription that a matcher does not support."""
    raise CallerError(
        f"{name} cannot hold subscription {handle}",
        seen=reason,
        remedy="Ask `supports` first, and give such subscriptions to another matcher.",
    )


def refuse_handle(handle: int, is_there: bool) -> NoReturn:
    """Raise for a handle that is there already, or is not there."""
    if is_there:
        raise CallerError("a handle is taken", seen=handle, remedy="Delete it first, or choose another one.")
    raise CallerError("there is no subscription with this handle", seen=handle)


def by_event(event: I8, handle: I8, event_count: int) -> Matches:
    """Return pairs in any order, with repeats, as matches.

    Parameters
    ----------
    event, handle : int64[k]
        Handles are not negative.
    event_count : int
    """
    order = np.lexsort((handle, event))
    event, handle = event[order], handle[order]
    is_new = np.ones(len(event), np.bool_)
    is_new[1:] = (event[1:] != event[:-1]) | (handle[1:] != handle[:-1])
    offsets = np.zeros(event_count + 1, np.int64)
    np.cumsum(np.bincount(event[is_new], minlength=event_count), out=offsets[1:])
    return Matches(offsets, handle[is_new])
