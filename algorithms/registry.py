"""All matchers, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pubsub_cluster.algorithms.hilbert_r_tree import HilbertRTree
from pubsub_cluster.algorithms.interface import Matcher
from pubsub_cluster.algorithms.naive import Naive
from pubsub_cluster.algorithms.s_tree import STree
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema


class Entry(NamedTuple):
    """A matcher's line in the list.

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


MATCHERS: dict[str, Entry] = {
    "naive": Entry(Naive, "all", "every subscription for every event; the reference"),
    "s-tree": Entry(STree, "RIABOV", "boxes in an unbalanced tree, packed top-down"),
    "hilbert-r-tree": Entry(HilbertRTree, "RIABOV", "boxes in an R-tree, packed along a Hilbert curve"),
}


def make_matcher(name: str, schema: Schema = EMPTY_SCHEMA) -> Matcher:
    """Return a new matcher.

    Raises
    ------
    CallerError
        There is none of this name.
    """
    if name not in MATCHERS:
        raise CallerError("there is no such matcher", seen=name, limit=list(MATCHERS))
    return MATCHERS[name].make(schema)
