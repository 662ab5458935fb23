"""The wire protocol between clients and the coordinator: frames, ops and header fields, without sockets.

A message is a list of frames: the magic ``PSC1``, a JSON header, then raw buffers that the header
describes. `docs/protocol.md` is the reference for other languages; the tables below are its counterpart
in code, and a test holds the two together. Both sides build and take apart every message here, so that
neither can understand the frames differently from the other.

Rules: a header is one JSON object; a field that an op does not know is refused, never ignored; a message
that is not ours is a `ProtocolError`, whatever its bytes are.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import orjson

from pubsub_cluster.language.errors import ProtocolError, PubSubError

MAGIC = b"PSC1"
PROTOCOL_VERSION = 1
# Magic, header, and five buffers (valid, list offsets, values, text offsets, text) for each of 4,096 columns.
FRAME_COUNT_MAX = 2 + 5 * 4096
# Above this, putting buffers into one frame costs more than their frames do.
PACKED_SIZE_BYTES_MAX = 4 << 20
# Room above `Limits.batch_size_bytes_max` that a receiver leaves for a frame that is not a batch buffer.
FRAME_SLACK_BYTES = 1 << 16
REQUEST_ID_SIZE_MAX = 256

Buffer: TypeAlias = bytes | bytearray | memoryview


class Op(enum.StrEnum):
    """What a client can ask for."""

    HELLO = "hello"
    PING = "ping"
    SUBSCRIBE = "subscribe"
    UPDATE = "update"
    UNSUBSCRIBE = "unsubscribe"
    DESCRIBE = "describe"
    LIST = "list"
    PUBLISH = "publish"
    LISTEN = "listen"
    UNLISTEN = "unlisten"
    ACKNOWLEDGE = "acknowledge"
    FORGET = "forget"
    STATUS = "status"
    STATS = "stats"
    TUNE = "tune"
    SCHEMA = "schema"
    RESIZE = "resize"
    BACKUP = "backup"
    RESTORE = "restore"
    VERIFY = "verify"
    JOB = "job"
    STOP = "stop"


class Answer(enum.StrEnum):
    """How much of a batch's matches its publisher wants back."""

    HANDLES = "handles"
    COUNTS = "counts"
    NONE = "none"


REPLY = "reply"
ERROR = "error"
NOTIFY = "notify"
INVITE = "invite"
UNMATCHED = ""
"""Stands for the owner where events are told that matched nobody; no owner has this name."""
TUNE_ACTIONS = ("show", "now", "set", "freeze", "thaw", "import_statistics", "clear_statistics")


class Fields(NamedTuple):
    """Names of header fields beside ``op`` and ``request``."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


REQUEST_FIELDS: dict[Op, Fields] = {
    Op.HELLO: Fields(frozenset({"client", "version"}), frozenset({"replies"})),
    Op.PING: Fields(),
    Op.SUBSCRIBE: Fields(frozenset({"items"}), frozenset({"retained"})),
    Op.UPDATE: Fields(frozenset({"items"})),
    Op.UNSUBSCRIBE: Fields(frozenset({"ids"})),
    Op.DESCRIBE: Fields(frozenset({"ids"}), frozenset({"expressions"})),
    Op.LIST: Fields(optional=frozenset({"after"})),
    Op.PUBLISH: Fields(
        frozenset({"batch", "batch_id", "publisher"}),
        frozenset({"answer", "ids", "at", "sizes", "valid_until"}),
    ),
    Op.LISTEN: Fields(optional=frozenset({"owner", "durable", "window", "records", "unmatched"})),
    Op.UNLISTEN: Fields(optional=frozenset({"owner", "durable", "unmatched"})),
    Op.ACKNOWLEDGE: Fields(frozenset({"number", "sequence"})),
    Op.FORGET: Fields(frozenset({"owner", "durable"})),
    Op.STATUS: Fields(),
    Op.STATS: Fields(frozenset({"kind"}), frozenset({"names", "top"})),
    Op.TUNE: Fields(frozenset({"action"}), frozenset({"name", "value", "path"})),
    Op.SCHEMA: Fields(frozenset({"action"}), frozenset({"definition"})),
    Op.RESIZE: Fields(frozenset({"shards", "replicas"})),
    Op.BACKUP: Fields(frozenset({"path"})),
    Op.RESTORE: Fields(frozenset({"path"})),
    Op.VERIFY: Fields(frozenset(), frozenset({"sample"})),
    Op.JOB: Fields(frozenset({"job"})),
    Op.STOP: Fields(),
}
REPLY_FIELDS: dict[Op, frozenset[str]] = {
    Op.HELLO: frozenset({"cluster_id", "life", "version", "requests", "limits", "schema"}),
    Op.PING: frozenset(),
    Op.SUBSCRIBE: frozenset({"results", "version"}),
    Op.UPDATE: frozenset({"results", "version"}),
    Op.UNSUBSCRIBE: frozenset({"results", "version"}),
    Op.DESCRIBE: frozenset({"results"}),
    Op.LIST: frozenset({"items", "next", "version"}),
    Op.PUBLISH: frozenset({"event_count", "generation", "version", "match_count", "refused"}),
    Op.LISTEN: frozenset({"owner", "durable", "number", "sequence", "records"}),
    Op.UNLISTEN: frozenset(),
    Op.ACKNOWLEDGE: frozenset(),
    Op.FORGET: frozenset({"forgotten"}),
    Op.STATUS: frozenset(),
    Op.STATS: frozenset({"since", "items"}),
    Op.TUNE: frozenset(),
    Op.SCHEMA: frozenset({"schema"}),
    Op.RESIZE: frozenset(),
    Op.BACKUP: frozenset({"job"}),
    Op.RESTORE: frozenset({"job"}),
    Op.VERIFY: frozenset({"job"}),
    Op.JOB: frozenset({"number", "kind", "state", "seconds", "answer", "error"}),
    Op.STOP: frozenset(),
}
SUBSCRIBE_ITEM_FIELDS = Fields(
    frozenset({"expr"}), frozenset({"id", "owner", "valid_from", "valid_until", "metadata"})
)
UPDATE_ITEM_FIELDS = Fields(frozenset({"id", "expr"}), frozenset({"valid_from", "valid_until", "metadata"}))
RETAINED_TOLD, RETAINED_TOLD_MAX = 100, 1_000
"""Retained events that a new subscription is told, unless it says how many; and the most that it may say."""
DESCRIBED_IDS_MAX = 1_000
"""Ids of one request to describe: their metadata is the reply, and has to fit into a message."""
DESCRIBED_EXPRESSIONS_MAX = 100
"""The same with expressions, each of which is looked up on the disk."""
STATS_KINDS = ("subscription", "owner", "group")
COUNTED_ITEMS, COUNTED_ITEMS_MAX = 20, 1_000
"""Items of one reply to `stats`, unless it is asked for so many, and the most that may be asked for."""
LISTED_MAX = 1_000
LISTED_SIZE_BYTES_MAX = 1 << 20
"""Subscriptions of one page, and about the bytes of their ids and expressions, unless one alone has more."""
_ALWAYS = frozenset({"op", "request"})
_OPS = {op.value: op for op in Op}
INVITE_FIELDS = frozenset({"generation", "groups", "token"})
NOTIFY_FIELDS = frozenset({"owner", "durable", "publisher", "batch_id", "dropped", "events", "ended"})
WINDOW_DEFAULT, WINDOW_MAX = 1_000, 100_000
"""Notifications that a durable receiver may have unacknowledged, unless it says how many; and the most."""


class Message(NamedTuple):
    """A message taken apart.

    Attributes
    ----------
    op : str
        An `Op` in requests; ``reply``, ``error`` or ``notify`` in what a cluster sends.
    request : str
        The request's id; empty in a notification, and in an error about a message without a readable one.
    header : dict
        The whole header.
    buffers : list of bytes-like
        The frames after the header.
    """

    op: str
    request: str
    header: dict[str, Any]
    buffers: list[Buffer]


def request_frames(
    op: Op, request: str, fields: Mapping[str, Any], buffers: Sequence[Buffer] = ()
) -> list[Buffer]:
    """Return the frames of a request; `fields` may hold `orjson.Fragment` values.

    Raises
    ------
    ProtocolError
        JSON cannot carry a field: half a character in a text, say, or an integer beyond 64 bits.
    """
    return [MAGIC, as_json({"op": op.value, "request": request, **fields}), *buffers]


def as_json(value: Any) -> bytes:
    """Return a value as bytes of JSON; raises `ProtocolError` where that cannot carry it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ProtocolError(
            "a request has a field that JSON cannot carry",
            seen=str(error),
            limit="texts of whole characters, integers of 64 bits, lists, objects",
        ) from None


def reply_frames(request: str, fields: Mapping[str, Any], buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the frames of a good reply."""
    return [MAGIC, orjson.dumps({"op": REPLY, "request": request, "ok": True, **fields}), *buffers]


def error_frames(request: str, error: PubSubError) -> list[Buffer]:
    """Return the frames of a refusal."""
    return [MAGIC, orjson.dumps({"op": ERROR, "request": request, "error": error.to_dict()})]


def notify_frames(fields: Mapping[str, Any]) -> list[Buffer]:
    """Return the frames of a notification; its events may be `orjson.Fragment` values."""
    return [MAGIC, orjson.dumps({"op": NOTIFY, **fields})]


def invite_frames(generation: int, groups: Sequence[int], token: bytes) -> list[Buffer]:
    """Return the frames that invite a connection to groups."""
    fields = {"generation": generation, "groups": list(groups), "token": token.hex()}
    return [MAGIC, orjson.dumps({"op": INVITE, **fields})]


def parse_message(frames: Sequence[Buffer]) -> Message:
    """Take a message apart.

    Raises
    ------
    ProtocolError
        Too few or too many frames, another magic, or a header that is no JSON object with a text ``op``
        and a text ``request`` (notifications have none). ``fields["request"]`` has the id where one was read.
    """
    if not 2 <= len(frames) <= FRAME_COUNT_MAX:
        raise ProtocolError(
            "a message of our protocol has a magic frame, a header frame and its buffers",
            seen=len(frames),
            limit=f"2 to {FRAME_COUNT_MAX} frames",
        )
    if bytes(memoryview(frames[0])[:16]) != MAGIC:
        raise ProtocolError(
            "the first frame is not this protocol's magic",
            seen=repr(bytes(memoryview(frames[0])[:16])),
            limit=repr(MAGIC),
            remedy="Is this the client socket of a pubsub-cluster of the same version?",
        )
    try:
        # msgspec, not orjson: an integer constant beyond 64 bits must arrive as it is and be refused, where
        # orjson would turn it into a nearby float.
        header = msgspec.json.decode(frames[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("the header frame is not JSON", seen=str(error)) from None
    if not isinstance(header, dict):
        raise ProtocolError("the header is not a JSON object", seen=type(header).__name__)
    request = header.get("request", "")
    if not isinstance(request, str):
        raise ProtocolError("the field `request` is not a text", seen=request)
    op = header.get("op")
    if not isinstance(op, str):
        raise ProtocolError("the field `op` is missing or not a text", seen=op, request=request)
    return Message(op, request, header, list(frames[2:]))


class PublishHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The header of a request to publish, its long fields as they came."""

    op: Literal["publish"]
    request: Annotated[str, msgspec.Meta(min_length=1, max_length=REQUEST_ID_SIZE_MAX)]
    batch: msgspec.Raw
    batch_id: Any
    publisher: Any
    answer: Any = Answer.HANDLES.value
    ids: Any = False
    at: Any = None
    valid_until: Any = None
    sizes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class PublishRequest(NamedTuple):
    """A request to publish, taken apart: what most messages are.

    Attributes
    ----------
    op, request : str
    header : PublishHeader
    buffers : list of bytes-like
        The frames after the header.
    """

    op: str
    request: str
    header: PublishHeader
    buffers: list[Buffer]


_publish_header = msgspec.json.Decoder(PublishHeader).decode


def parse_publish(frames: list[Buffer]) -> PublishRequest | None:
    """Take a request to publish apart; its fields ``batch`` and ``sizes`` stay as they came (`msgspec.Raw`).

    A publisher's batches are mostly alike, so whoever reads these fields may know them already. None for any
    other message, and for one that is not as it must be: `parse_message` and `check_request` say why.
    """
    if not 2 <= len(frames) <= FRAME_COUNT_MAX or frames[0] != MAGIC:
        return None
    try:
        header = _publish_header(frames[1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return PublishRequest(header.op, header.request, header, frames[2:])


def packed(buffers: Sequence[Buffer]) -> tuple[list[int], bytes]:
    """Return the sizes of buffers and one frame with all of them, each at the next multiple of eight."""
    views = [memoryview(buffer) for buffer in buffers]
    parts: list[Buffer] = []
    for view in views:
        parts.append(view)
        if view.nbytes & 7:
            parts.append(bytes(-view.nbytes & 7))
    return [view.nbytes for view in views], b"".join(parts)


def unpacked(frames: Sequence[Buffer], sizes: Any) -> list[Buffer]:
    """Return the buffers that `packed` put into one frame, not copied.

    Raises
    ------
    ProtocolError
        Not one frame, or not of the sizes that its header says.
    """
    if not isinstance(sizes, list) or len(sizes) > FRAME_COUNT_MAX:
        raise ProtocolError("`sizes` is not a list of sizes", seen=type(sizes).__name__)
    if len(frames) != 1:
        raise ProtocolError("buffers with `sizes` stand in one frame", seen=len(frames), limit=1)
    view, at = memoryview(frames[0]), 0
    found: list[Buffer] = []
    for size_bytes in sizes:
        if type(size_bytes) is not int or not 0 <= size_bytes <= view.nbytes - at:
            raise ProtocolError("`sizes` do not fit into the frame", seen=size_bytes, limit=view.nbytes - at)
        found.append(view[at : at + size_bytes])
        at += size_bytes + (-size_bytes & 7)
    if at != view.nbytes:
        raise ProtocolError("`sizes` do not fill the frame", seen=at, limit=view.nbytes)
    return found


def check_request(message: Message) -> Op:
    """Return the op of a request after checking it and the names of its header fields.

    Raises
    ------
    ProtocolError
        No request id, an unknown op (the remedy lists the known ones), a missing or an unknown field.
    """
    if not message.request:
        raise ProtocolError("the field `request` is missing", remedy="Give each request a text of its own.")
    if len(message.request) > REQUEST_ID_SIZE_MAX:
        raise ProtocolError(
            "the field `request` is too long", seen=len(message.request), limit=REQUEST_ID_SIZE_MAX
        )
    op = _OPS.get(message.op)
    if op is None:
        raise ProtocolError(
            "no such op", seen=message.op, remedy=f"Known are {', '.join(Op)}.", request=message.request
        )
    fields = REQUEST_FIELDS[op]
    # The common case first: a client's requests are alike.
    if message.header.keys() - _ALWAYS - fields.optional != fields.required:
        check_field_names(f"a {op} request", message.header.keys() - _ALWAYS, fields)
    return op


def check_field_names(what: str, names: Collection[str], fields: Fields) -> None:
    """Raise `ProtocolError` when a required field is missing from `names` or one there is unknown."""
    missing = sorted(fields.required.difference(names))
    if missing:
        raise ProtocolError(f"{what} lacks the field `{missing[0]}`", seen=sorted(names))
    unknown = sorted(set(names) - fields.required - fields.optional)
    if unknown:
        raise ProtocolError(
            f"{what} has no field `{unknown[0]}`",
            seen=sorted(names),
            limit=sorted(fields.required | fields.optional),
        )
