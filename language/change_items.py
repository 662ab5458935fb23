"""Requests that change the catalogue, taken apart by type: what most of them are.

The items of such a request keep their expressions as they came. An item that is not of the usual shape makes
the whole request go through `protocol.parse_message`, which alone says what is wrong with a request; what is
wrong with an item is said when the item's turn comes.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from pubsub_cluster.language.protocol import (
    FRAME_COUNT_MAX,
    MAGIC,
    REQUEST_ID_SIZE_MAX,
    Buffer,
    Message,
    Op,
)

_RequestId = Annotated[str, msgspec.Meta(min_length=1, max_length=REQUEST_ID_SIZE_MAX)]


class ChangeItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An item of ``subscribe`` or ``update``; members that are absent are `msgspec.UNSET`.

    Only names are checked: a value may be anything that JSON has.
    """

    expr: msgspec.Raw
    id: Any = msgspec.UNSET
    owner: Any = msgspec.UNSET
    valid_from: Any = msgspec.UNSET
    valid_until: Any = msgspec.UNSET
    metadata: Any = msgspec.UNSET

    def body(self) -> dict[str, Any]:
        """Return the members that are given; the expression as it came."""
        body = {"expr": self.expr}
        # Not a loop over names: each of a million lines of a load comes here.
        if self.id is not msgspec.UNSET:
            body["id"] = self.id
        if self.owner is not msgspec.UNSET:
            body["owner"] = self.owner
        if self.valid_from is not msgspec.UNSET:
            body["valid_from"] = self.valid_from
        if self.valid_until is not msgspec.UNSET:
            body["valid_until"] = self.valid_until
        if self.metadata is not msgspec.UNSET:
            body["metadata"] = self.metadata
        return body


class _Change(msgspec.Struct, tag_field="op", forbid_unknown_fields=True):
    request: _RequestId


class _Subscribe(_Change, tag=Op.SUBSCRIBE.value):
    items: list[ChangeItem]
    retained: Any = msgspec.UNSET


class _Update(_Change, tag=Op.UPDATE.value):
    items: list[ChangeItem]


class _Unsubscribe(_Change, tag=Op.UNSUBSCRIBE.value):
    ids: list[str]


_decode = msgspec.json.Decoder(_Subscribe | _Update | _Unsubscribe).decode


def parse_change(frames: list[Buffer]) -> Message | None:
    """Take a request to change the catalogue apart; its items are `ChangeItem`, its ids texts.

    None for any other message, and for one that is not as it must be or has an unusual item:
    `protocol.parse_message` and `protocol.check_request` say why, or take it as it is.
    """
    if not 2 <= len(frames) <= FRAME_COUNT_MAX or frames[0] != MAGIC:
        return None
    try:
        header = _decode(frames[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    buffers = frames[2:]
    if isinstance(header, _Unsubscribe):
        return Message(Op.UNSUBSCRIBE.value, header.request, {"ids": header.ids}, buffers)
    op = Op.SUBSCRIBE if isinstance(header, _Subscribe) else Op.UPDATE
    fields: dict[str, Any] = {"items": header.items}
    if isinstance(header, _Subscribe) and header.retained is not msgspec.UNSET:
        fields["retained"] = header.retained
    return Message(op.value, header.request, fields, buffers)
