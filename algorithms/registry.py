"""All matchers, by name."""

from __future__ import annotations

from pubsub_cluster.algorithms.htree import entries as htree
from pubsub_cluster.algorithms.interface import Entry, Matcher
from pubsub_cluster.algorithms.lesub import entries as lesub
from pubsub_cluster.algorithms.naive import Naive
from pubsub_cluster.algorithms.riabov import entries as riabov
from pubsub_cluster.algorithms.rr4089 import entries as rr4089
from pubsub_cluster.algorithms.topss import entries as topss
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema

MATCHERS: dict[str, Entry] = {
    "naive": Entry(Naive, "all", "every subscription for every event; the reference"),
    **rr4089.ENTRIES,
    **topss.ENTRIES,
    **riabov.ENTRIES,
    **htree.ENTRIES,
    **lesub.ENTRIES,
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
