"""Every limit of the language and of a batch, named once. Reaching one is an answer, never a crash."""

from __future__ import annotations

from dataclasses import dataclass

from pubsub_cluster.language.errors import LimitError

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

LIKE_SEGMENT_MAX = 256
"""Characters between two stars of a ``like`` pattern, where a ``?`` stands among them."""
LIKE_SEGMENTS_MAX = 4_096
"""Of all such segments of a pattern together: each is compiled."""
PATTERN_MEMORY_BYTES_MAX = 2 << 20
"""RE2 holds a compiled pattern and its cache of states within this."""
PATTERN_STEPS_MAX = 4_096
"""Instructions of a compiled regular expression, a class of characters being one: where the cache of states
does not help, a character of a text costs as many, of some 15 ns each."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force; a cluster's are fixed at its start.

    Attributes
    ----------
    nodes_per_subscription_max : int
        Connectives and predicates of one expression (list members count, the size of its DNF never does).
    nesting_depth_max : int
        Levels of connectives in an expression, and of objects and arrays in an event.
    clauses_max : int
        Up to this many clauses a subscription is stored as clauses, beyond it as a Boolean program.
    attributes_per_event_max : int
        Entries (attribute, value) of one event after flattening.
    string_size_bytes_max : int
        UTF-8 bytes of one string, in an event or as a constant.
    name_size_bytes_max : int
        UTF-8 bytes of an attribute name, an owner or a subscription id.
    metadata_size_bytes_max : int
        UTF-8 bytes of a subscription's metadata, as JSON.
    events_per_batch_max : int
        Events of one batch.
    batch_size_bytes_max : int
        Bytes of all buffers of one batch; a chunk of the batch slab holds exactly this much.
    subscriptions_per_request_max : int
        Changes of the catalogue in one request.
    matches_per_batch_max : int
        (event, subscription) pairs that one batch may give; beyond it the batch is refused.
    subscriptions_max : int
        Live subscriptions; the catalogue has room for twice as many rows.
    """

    nodes_per_subscription_max: int = 20_000
    nesting_depth_max: int = 128
    clauses_max: int = 64
    attributes_per_event_max: int = 4_096
    string_size_bytes_max: int = 1 << 20
    name_size_bytes_max: int = 1_024
    metadata_size_bytes_max: int = 4_096
    events_per_batch_max: int = 65_536
    batch_size_bytes_max: int = 4 << 20
    subscriptions_per_request_max: int = 10_000
    matches_per_batch_max: int = 16_000_000
    subscriptions_max: int = 1 << 24


DEFAULT_LIMITS = Limits()


def check_limit(limit_name: str, seen: int, limit: int, what: str, remedy: str) -> None:
    """Raise `LimitError` when `seen` is above `limit`; `what` names the thing counted."""
    if seen > limit:
        raise LimitError(
            f"too many or too much: {what}", seen=seen, limit=limit, remedy=remedy, limit_name=limit_name
        )
