"""Several answers or requests in one message: what went in comes out, and what lies is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.errors import LimitError, ProtocolError, error_from_dict
from pubsub_cluster.language.protocol import (
    FRAME_COUNT_MAX,
    MAGIC,
    Op,
    error_frames,
    parse_message,
    reply_frames,
    request_frames,
)
from pubsub_cluster.language.together import (
    REPLIES,
    REQUESTS,
    REQUESTS_MAX,
    parse_requests,
    taken_apart,
    together,
)

buffers = st.lists(st.binary(max_size=20), max_size=3)


@given(st.lists(buffers, max_size=5))
def test_answers_come_out_as_they_went_in(contents: list[list[bytes]]) -> None:
    answers = [reply_frames(f"r{i}", {"n": i}, content) for i, content in enumerate(contents)]
    answers.append(error_frames("bad", LimitError("too many")))
    message = parse_message(together(REPLIES, answers))
    assert (message.op, message.request) == (REPLIES, "")
    *good, bad = taken_apart(message)
    assert [(one.op, one.request, one.header["n"]) for one in good] == [
        ("reply", f"r{i}", i) for i in range(len(contents))
    ]
    assert [[bytes(buffer) for buffer in one.buffers] for one in good] == contents
    assert (bad.op, bad.request, bad.buffers) == ("error", "bad", [])
    assert isinstance(error_from_dict(bad.header["error"]), LimitError)


GOOD = {"op": "reply", "request": "r"}


@pytest.mark.parametrize(
    ("header", "frames"),
    [
        ({}, [b""]),
        ({"replies": [GOOD]}, [b""]),
        ({"replies": [GOOD], "sizes": []}, [b""]),
        ({"replies": GOOD, "sizes": [[]]}, [b""]),
        ({"replies": [GOOD], "sizes": [[]]}, []),
        ({"replies": [GOOD], "sizes": [[]]}, [b"", b""]),
        ({"replies": [GOOD], "sizes": [[9]]}, [b"12345678"]),
        ({"replies": [GOOD, GOOD], "sizes": [[3], [6]]}, [b"12345678"]),
        ({"replies": [GOOD], "sizes": [[-1]]}, [b"12345678"]),
        ({"replies": [GOOD], "sizes": [[8]]}, [b"12345678" * 2]),
        ({"replies": [GOOD], "sizes": [["1"]]}, [b"12345678"]),
        ({"replies": [GOOD], "sizes": [1]}, [b"12345678"]),
        ({"replies": ["r"], "sizes": [[]]}, [b""]),
        ({"replies": [{"op": "notify", "request": "r"}], "sizes": [[]]}, [b""]),
        ({"replies": [{"op": "reply"}], "sizes": [[]]}, [b""]),
    ],
)
def test_what_does_not_fit_is_refused(header: dict[str, Any], frames: list[bytes]) -> None:
    message = parse_message([MAGIC, orjson.dumps({"op": REPLIES, **header}), *frames])
    with pytest.raises(ProtocolError):
        list(taken_apart(message))


@given(st.lists(buffers, min_size=1, max_size=5))
def test_requests_come_out_as_they_went_in(contents: list[list[bytes]]) -> None:
    requests = [request_frames(Op.PUBLISH, f"r{i}", {"n": i}, content) for i, content in enumerate(contents)]
    found = parse_requests(together(REQUESTS, requests))
    assert found is not None
    assert [[bytes(frame) for frame in one] for one in found] == requests


@pytest.mark.parametrize(
    ("header", "frames"),
    [
        ({"requests": [{}], "sizes": []}, [b""]),
        ({"requests": [{}], "sizes": [[]]}, []),
        ({"requests": [{}], "sizes": [[]]}, [b"", b""]),
        ({"requests": [{}], "sizes": [[9]]}, [b"12345678"]),
        ({"requests": [{}, {}], "sizes": [[3], [6]]}, [b"12345678"]),
        ({"requests": [{}], "sizes": [[-1]]}, [b"12345678"]),
        ({"requests": [{}], "sizes": [[3]]}, [b"12345678" * 2]),
        ({"requests": [{}], "sizes": [[3]]}, [b"123"]),
        ({"requests": [{}, {}], "sizes": [[0] * FRAME_COUNT_MAX, [0]]}, [b""]),
        ({"requests": [{}] * (REQUESTS_MAX + 1), "sizes": [[]] * (REQUESTS_MAX + 1)}, [b""]),
    ],
)
def test_requests_that_do_not_fit_are_refused(header: dict[str, Any], frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        parse_requests([MAGIC, orjson.dumps({"op": REQUESTS, **header}), *frames])


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b'{"op":"publish"}',
        b'{"op":"requests"}',
        b'{"op":"requests","sizes":[["1"]],"requests":[{}]}',
    ],
)
def test_other_messages_are_left_to_others(header: bytes) -> None:
    assert parse_requests([MAGIC, header, b""]) is None
