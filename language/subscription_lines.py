"""Subscriptions as lines of a file: what a line may be, and what is wrong with one that is none.

A line is an object with ``expr`` and, if wanted, more; an expression in JSON form; a JSON string that holds
the text form; or the text form itself. Whoever reads such files, the command line or the pipeline, reads them
here. What a line's expression means, and whether it may stand, is judged by those who take the subscription.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from pubsub_cluster.language.change_items import ChangeItem
from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.timestamps import parse_instant

OPTIONAL_KEYS = ("id", "owner", "valid_from", "valid_until", "metadata")
ITEM_KEYS = frozenset({"expr", *OPTIONAL_KEYS})

_raw = msgspec.json.Decoder(msgspec.Raw).decode
_item = msgspec.json.Decoder(ChangeItem).decode


def read_item(line: bytes, owner: str | None, as_it_is: bool = False) -> dict[str, Any] | None:
    """Return the subscription of one line, as `Client.subscribe_many` takes it; None for an empty line.

    A line is ``{"expr": ..., "id": ..., "owner": ..., "valid_from": ..., "valid_until": ...}``, an expression
    in JSON form, a JSON string that holds the text form, or the text form itself. `as_it_is` leaves an
    expression in JSON form undecoded where that can be, for a client to send.

    Raises
    ------
    ExpressionError, WindowError
        The line is none of these, or one of its instants is none.
    """
    line = line.strip()
    if not line:
        return None
    item = _plain_item(line) if as_it_is else None
    if item is None:
        item = _any_item(line)
    for name in ("valid_from", "valid_until"):
        if isinstance(item.get(name), str):
            item[name] = parse_instant(f"`{name}`", item[name])
    if owner is not None:
        item.setdefault("owner", owner)
    return item


def _plain_item(line: bytes) -> dict[str, Any] | None:
    """Read a line of ASCII that is an expression in JSON form, or an object with one; None for all others.

    The expression stays as it is: the cluster reads it.
    """
    if not line.isascii() or line[:1] != b"{":
        return None
    try:
        if b'"expr"' not in line:
            return {"expr": orjson.Fragment(bytes(_raw(line)))}
        item = _item(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return {**item.body(), "expr": orjson.Fragment(bytes(item.expr))}


def _any_item(line: bytes) -> dict[str, Any]:
    if line[:1] not in (b"{", b'"', b"["):
        item: dict[str, Any] = {"expr": _text(line)}
    else:
        found = _json(line)
        if isinstance(found, str):
            item = {"expr": found}
        elif not isinstance(found, dict):
            raise ExpressionError("the line is a list", seen=found, remedy="Write one expression per line.")
        else:
            item = found if "expr" in found else {"expr": found}
    unknown = sorted(item.keys() - ITEM_KEYS)
    if unknown:
        raise ExpressionError("the line has unknown members", seen=unknown, limit=sorted(ITEM_KEYS))
    return item


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ExpressionError(
            f"the line is not UTF-8: {error.reason} at byte {error.start}", seen=repr(line[:40])
        ) from None


def _json(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExpressionError(
            f"the line is not JSON: {error}",
            seen=line[:80].decode(errors="replace"),
            remedy="A line is one JSON document or one expression in text form.",
        ) from None
