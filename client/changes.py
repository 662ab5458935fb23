"""Changes of the catalogue on the wire: the items of a request, and what the cluster says of each.

An expression goes out as the user gave it where JSON can carry it: text as text, the JSON form as JSON.
Only trees and Python expressions are converted here. JSON encoders turn NaN and infinities into ``null``;
``null`` never stands in an expression, so an item whose bytes contain that word takes the slow path, which
finds the reason; in metadata it may stand.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from pubsub_cluster.language.errors import (
    CallerError,
    LimitError,
    ProtocolError,
    PubSubError,
    WindowError,
    error_from_dict,
)
from pubsub_cluster.language.protocol import Fields, Message, check_field_names


class Keep(enum.Enum):
    """Says that an update leaves a member of the validity window, or the metadata, as it is."""

    KEEP = "keep"


KEEP = Keep.KEEP
# One request of this many items keeps a cluster busy for a fraction of a second and a progress bar moving.
ITEMS_PER_REQUEST = 2_000


_CARRIED = frozenset({str, dict, orjson.Fragment})
"""Types of expressions that go out as they are."""


@dataclass(frozen=True, slots=True)
class Retained:
    """Retained events that a new subscription matches.

    Attributes
    ----------
    count : int or None
        How many there are; None where they could not be looked at (`error`).
    events : sequence of dict
        The newest of them, in the order of acceptance: ``publisher batch_id event_index accepted_at
        valid_until event``, the last as its publisher gave it.
    error : PubSubError or None
    """

    count: int | None = 0
    events: Sequence[dict[str, Any]] = ()
    error: PubSubError | None = None


NOTHING_RETAINED = Retained()


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the cluster says of a subscription that it has made or replaced.

    Attributes
    ----------
    id : str
    handle : int
        Its number in match lists; never reused, kept by `Client.update`.
    clauses : int
        Clauses that it is stored as; 0 for a Boolean program.
    never : bool
        True when it can never match, by its own constants or by the schema.
    retained : Retained
        Events that were accepted before it was made and are still valid; always none after an update.
    """

    id: str
    handle: int
    clauses: int
    never: bool
    retained: Retained = field(default=NOTHING_RETAINED, compare=False, repr=False)


def expression_json(expression: Any) -> bytes:
    """Return an expression in any form (text, JSON form, tree, Python form) as bytes of JSON.

    JSON that is encoded already is taken as it is (`orjson.Fragment`).

    Raises
    ------
    ExpressionError
        It cannot be carried; what only the cluster can judge is left to it.
    """
    if isinstance(expression, orjson.Fragment):
        return orjson.dumps(expression)
    if isinstance(expression, str | dict):
        try:
            data = orjson.dumps(expression)
        except orjson.JSONEncodeError:
            pass
        else:
            if isinstance(expression, str) or b"null" not in data:
                return data
    # Imported here: most clients send text and JSON, and the import costs more than the rest of this module.
    from pubsub_cluster.language.json_form import expression_to_json
    from pubsub_cluster.language.python_form import to_expression

    # Not orjson: it stops at 254 levels, and a connective takes two.
    return msgspec.json.encode(expression_to_json(to_expression(expression)))


def encode_item(item: Mapping[str, Any], fields: Fields, size_bytes_max: int) -> bytes:
    """Return one item of ``subscribe`` or ``update`` as bytes of JSON.

    Members that are absent stay absent; ``valid_from`` and ``valid_until`` may be None (unbounded).

    Raises
    ------
    PubSubError
        Unknown or missing fields, an expression or a number that cannot be carried, an item above
        `size_bytes_max`.
    """
    if not isinstance(item, Mapping):
        raise ProtocolError("an item is not a mapping", seen=item, remedy='Give {"expr": ..., "id": ...}.')
    check_field_names("an item", item.keys(), fields)
    body = dict(item)
    for name in ("valid_from", "valid_until"):
        if isinstance(body.get(name), float):  # JSON says null for a NaN, and that is unbounded
            raise WindowError(f"{name} is not an integer of microseconds since the epoch", seen=body[name])
    body["expr"] = orjson.Fragment(expression_json(body["expr"]))
    try:
        data = orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise ProtocolError("an item has a field that JSON cannot carry", seen=str(error)) from None
    if b"null" in data and body.get("metadata") is not None:
        # Imported here: most clients never come here.
        from pubsub_cluster.language.subscription import check_finite

        check_finite(body["metadata"])
    if len(data) > size_bytes_max:
        raise LimitError(
            "a subscription is larger than a request may be",
            seen=len(data),
            limit=size_bytes_max,
            remedy="Split it into several subscriptions.",
            limit_name="batch_size_bytes_max",
        )
    return data


def encode_items(items: Sequence[Mapping[str, Any]], fields: Fields, size_bytes_max: int) -> bytes | None:
    """Return many items as one JSON list, if they are all of the usual kind; None: take them one by one.

    What is returned is a list of what `encode_item` gives for each of them.
    """
    required, allowed = fields.required, fields.required | fields.optional
    for item in items:
        if type(item) is not dict or not required <= item.keys() <= allowed:
            return None
        if type(item["expr"]) not in _CARRIED:
            return None
    try:
        data = orjson.dumps(items)
    except orjson.JSONEncodeError:
        return None
    return None if b"null" in data or len(data) > size_bytes_max else data


def parts_of(encoded: Sequence[bytes], count_max: int, size_bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yield index ranges (first, stop) of items that fit into one request by count and by bytes."""
    first = 0
    size_bytes = 0
    for item_idx, data in enumerate(encoded):
        full = item_idx - first >= count_max or size_bytes + len(data) > size_bytes_max
        if full and item_idx > first:
            yield first, item_idx
            first, size_bytes = item_idx, 0
        size_bytes += len(data) + 1
    if first < len(encoded):
        yield first, len(encoded)


def results_of(message: Message, count: int) -> list[dict[str, Any] | PubSubError]:
    """Return the result of each item of a request: its fields, or its error.

    Raises
    ------
    ProtocolError
        The number of results is not the number of items.
    """
    results = message.header.get("results")
    if not isinstance(results, list) or len(results) != count:
        raise ProtocolError(
            "the reply does not have one result per item",
            seen=len(results) if isinstance(results, list) else results,
            limit=count,
        )
    return [_result(result) for result in results]


def subscription_from(result: Mapping[str, Any]) -> Subscription:
    """Return the subscription that a good result describes."""
    try:
        made = (result["id"], result["handle"], result["clauses"], result["never"])
        return (
            Subscription(*made, _retained(result["retained"]))
            if "retained" in result
            else Subscription(*made)
        )
    except KeyError as error:
        raise ProtocolError("a result lacks a field", seen=sorted(result), limit=str(error)) from None


def _retained(told: dict[str, Any]) -> Retained:
    if "error" in told:
        return Retained(None, [], error_from_dict(told["error"]))
    return Retained(told["count"], told["events"])


def as_unsure(error: CallerError) -> CallerError:
    """Return the error of a change that was sent again after a restart, saying so."""
    error.remedy = (
        "The cluster was restarted while this change was on its way and the change was sent again: "
        "it may have been carried out before the restart."
    )
    return error


def _result(result: Any) -> dict[str, Any] | PubSubError:
    if not isinstance(result, dict):
        raise ProtocolError("a result is not an object", seen=result)
    if result.get("ok") is True:
        return result
    body = result.get("error")
    return (
        error_from_dict(body)
        if isinstance(body, dict)
        else ProtocolError("a result without an error", seen=result)
    )
