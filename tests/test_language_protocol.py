"""Frames of the wire protocol: round trips, and a typed refusal for whatever is not ours."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language import protocol
from pubsub_cluster.language.change_items import parse_change
from pubsub_cluster.language.errors import LimitError, ProtocolError, error_from_dict
from pubsub_cluster.language.protocol import MAGIC, Op, packed, unpacked


def test_a_request_comes_back_as_it_was_sent() -> None:
    frames = protocol.request_frames(Op.LISTEN, "r-1", {"owner": "düsseldorf"}, [b"a", memoryview(b"b")])
    message = protocol.parse_message(frames)
    assert (message.op, message.request, message.header["owner"]) == ("listen", "r-1", "düsseldorf")
    assert [bytes(b) for b in message.buffers] == [b"a", b"b"]
    assert protocol.check_request(message) is Op.LISTEN


def test_an_error_reply_carries_every_field() -> None:
    error = LimitError("too many events", seen=70_000, limit=65_536, remedy="Split it.", limit_name="events")
    message = protocol.parse_message(protocol.error_frames("r-2", error))
    assert (message.op, message.request) == ("error", "r-2")
    rebuilt = error_from_dict(message.header["error"])
    assert type(rebuilt) is LimitError
    assert rebuilt.to_dict() == error.to_dict()


def test_a_notification_has_no_request_id() -> None:
    message = protocol.parse_message(protocol.notify_frames({"owner": "me", "events": []}))
    assert (message.op, message.request) == ("notify", "")


@pytest.mark.parametrize(
    ("frames", "condition"),
    [
        ([], "magic frame"),
        ([MAGIC], "magic frame"),
        ([MAGIC] * (protocol.FRAME_COUNT_MAX + 1), "magic frame"),
        ([b"PSC2", b"{}"], "magic"),
        ([b"x" * 10_000_000, b"{}"], "magic"),
        ([MAGIC, b""], "not JSON"),
        ([MAGIC, b"\xff\xfe"], "not JSON"),
        ([MAGIC, b'{"op": NaN}'], "not JSON"),
        ([MAGIC, b"[1]"], "not a JSON object"),
        ([MAGIC, b"{}"], "`op`"),
        ([MAGIC, b'{"op": 1, "request": "r"}'], "`op`"),
        ([MAGIC, b'{"op": "ping", "request": 7}'], "`request`"),
    ],
)
def test_what_is_not_ours_is_refused(frames: list[bytes], condition: str) -> None:
    with pytest.raises(ProtocolError, match=condition) as caught:
        protocol.parse_message(frames)
    assert len(str(caught.value)) < 1000, "an error about garbage does not repeat the garbage"


@pytest.mark.parametrize(
    ("header", "condition"),
    [
        ({"op": "ping"}, "`request` is missing"),
        ({"op": "pong", "request": "r"}, "no such op"),
        ({"op": "reply", "request": "r"}, "no such op"),
        ({"op": "forget", "request": "r", "durable": "d"}, "lacks the field `owner`"),
        ({"op": "ping", "request": "r", "owner": "me"}, "no field `owner`"),
    ],
)
def test_a_request_with_other_fields_is_refused(header: dict[str, object], condition: str) -> None:
    message = protocol.parse_message([MAGIC, orjson.dumps(header)])
    with pytest.raises(ProtocolError, match=condition):
        protocol.check_request(message)


def test_every_op_has_its_fields() -> None:
    assert set(protocol.REQUEST_FIELDS) == set(protocol.REPLY_FIELDS) == set(Op)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=4), st.booleans())
def test_garbage_is_a_protocol_error_and_nothing_else(frames: list[bytes], with_magic: bool) -> None:
    try:
        protocol.check_request(protocol.parse_message([MAGIC, *frames] if with_magic else frames))
    except ProtocolError:
        return


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_buffers_in_one_frame_come_out_as_they_were(buffers: list[bytes]) -> None:
    sizes, frame = packed(buffers)
    assert [bytes(buffer) for buffer in unpacked([frame], sizes)] == buffers
    assert len(frame) % 8 == 0


@pytest.mark.parametrize(
    ("frames", "sizes"),
    [
        ([b"12345678"], 8),
        ([b"12345678"], {"0": 8}),
        ([b"12345678"], [-8, 16]),
        ([b"12345678"], [True]),
        ([b"12345678"], ["8"]),
        ([b"12345678"], [9]),
        ([b"12345678"], [1 << 70]),
        ([b"12345678"], [8, 1]),
        ([b"1234567"], [7]),
        ([b"12345678"], []),
        ([], []),
        ([b"12345678", b""], [8]),
    ],
)
def test_sizes_that_are_not_those_of_the_frame_are_refused(frames: list[bytes], sizes: object) -> None:
    with pytest.raises(ProtocolError):
        unpacked(frames, sizes)


PUBLISH = {"batch": {"format": "json", "event_count": 0}, "batch_id": "b", "publisher": "p", "sizes": [1, 2]}


@pytest.mark.parametrize("more", [{}, {"answer": "counts", "ids": True, "at": 2**70}])
def test_a_request_to_publish_is_taken_apart_without_its_long_fields(more: dict[str, object]) -> None:
    header = {"op": "publish", "request": "r", **PUBLISH, **more}
    frames = [MAGIC, msgspec.json.encode(header), b"x"]
    quick, whole = protocol.parse_publish(frames), protocol.parse_message(frames)
    assert quick is not None and (quick.op, quick.request, quick.buffers) == ("publish", "r", [b"x"])
    read = msgspec.structs.asdict(quick.header)
    read.update({name: msgspec.json.decode(read[name]) for name in ("batch", "sizes")})
    assert read == {"answer": "handles", "ids": False, "at": None, "valid_until": None, **whole.header}
    protocol.check_request(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"op": "ping"},
        {"request": ""},
        {"request": 1},
        {"request": "r" * 300},
        {"more": 1},
        {"batch_id": None},
    ],
)
def test_other_requests_are_left_to_the_long_way(change: dict[str, object]) -> None:
    header = {"op": "publish", "request": "r", **PUBLISH, **change}
    if change == {"batch_id": None}:
        del header["batch_id"]
    assert protocol.parse_publish([MAGIC, orjson.dumps(header)]) is None
    assert protocol.parse_publish([b"XXXX", orjson.dumps(header)]) is None


ITEM = {"id": "a", "expr": {"attr": "x", "op": "=", "value": 1}}
FULL = {**ITEM, "owner": "o", "valid_from": 1.5, "valid_until": None, "metadata": {"n": [2**70]}}


@pytest.mark.parametrize("item", [ITEM, FULL, {**ITEM, "id": [1]}, {"expr": "x = 1", "owner": None}])
@pytest.mark.parametrize("op", ["subscribe", "update"])
def test_items_of_a_change_are_taken_apart_and_their_expressions_kept(
    op: str, item: dict[str, object]
) -> None:
    frames: list[protocol.Buffer] = [
        MAGIC,
        msgspec.json.encode({"op": op, "request": "r", "items": [item, ITEM]}),
        b"x",
    ]
    quick, whole = parse_change(frames), protocol.parse_message(frames)
    assert quick is not None and protocol.check_request(quick) is protocol.check_request(whole)
    assert (quick.op, quick.request, quick.buffers) == (op, "r", [b"x"])
    bodies = [one.body() for one in quick.header["items"]]
    assert [{**body, "expr": msgspec.json.decode(body["expr"])} for body in bodies] == whole.header["items"]


def test_ids_of_a_removal_are_taken_apart() -> None:
    found = parse_change([MAGIC, b'{"ids":["a","b"],"request":"r","op":"unsubscribe"}'])
    assert found == protocol.Message("unsubscribe", "r", {"ids": ["a", "b"]}, [])


@pytest.mark.parametrize(
    "header",
    [
        {"op": "ping", "request": "r"},
        {"op": "subscribe", "request": "", "items": [ITEM]},
        {"op": "subscribe", "request": 1, "items": [ITEM]},
        {"op": "subscribe", "request": "r" * 300, "items": [ITEM]},
        {"op": "subscribe", "items": [ITEM]},
        {"op": "subscribe", "request": "r"},
        {"op": "subscribe", "request": "r", "items": [ITEM], "more": 1},
        {"op": "subscribe", "request": "r", "items": [{"id": "a"}]},
        {"op": "subscribe", "request": "r", "items": [ITEM, {**ITEM, "more": 1}]},
        {"op": "update", "request": "r", "items": [[]]},
        {"op": "unsubscribe", "request": "r", "ids": ["a", 1]},
        {"op": "unsubscribe", "request": "r", "ids": "a"},
    ],
)
def test_unusual_changes_are_left_to_the_long_way(header: dict[str, object]) -> None:
    assert parse_change([MAGIC, orjson.dumps(header)]) is None


def test_what_is_no_change_is_left_to_the_long_way() -> None:
    good = orjson.dumps({"op": "subscribe", "request": "r", "items": [ITEM]})
    assert parse_change([MAGIC, good]) is not None
    for frames in ([MAGIC], [b"XXXX", good], [MAGIC, good[:-1]], [MAGIC, good.replace(b'"x"', b'"\xff"')]):
        found = parse_change(list(frames))
        assert found is None or b"\xff" in bytes(found.header["items"][0].expr)  # its own item's error
