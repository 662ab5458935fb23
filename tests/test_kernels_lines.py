"""Projections of lines: what a decoder makes of them is what it makes of the line, cut to the fields."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.workers import line_projector
from pubsub_cluster.workers.line_projector import LineProjector

GATES = ("gate", "id")
FIELDS = ("a", "b\u00e9", "long name of an attribute")
NAMES = (*GATES, *FIELDS, "other", "old")


class Read(NamedTuple):
    """What a class of lines reads: everything but "a" where there is no gate."""

    gate: tuple[Any, ...]
    fields: tuple[str, ...]


def read_of(event: dict[str, Any]) -> Read:
    gate = tuple(json.dumps(event.get(name)) for name in GATES)
    return Read(gate, (*GATES, *FIELDS) if event.get("gate") is not None else (*GATES, *FIELDS[1:]))


def projector() -> LineProjector[Read]:
    return LineProjector(GATES, FIELDS, ["old"], lambda line: read_of(orjson.loads(line)))


def projected(lines: list[bytes]) -> list[dict[str, Any] | None]:
    """The kernels: an object for each line, None for a special one."""
    found = projector().project(lines)
    objects: list[dict[str, Any] | None] = []
    for source, (start, stop), line in zip(found.sources, pairwise(found.bounds), lines, strict=True):
        assert source is not None or start == stop
        objects.append(None if source is None else orjson.loads(found.text[start:stop] or b"{}"))
        assert source is None or source == read_of(orjson.loads(line))
    return objects


def projected_plainly(line: bytes) -> dict[str, Any]:
    """The reference, by a decoder; raises where the line is no event."""
    event = orjson.loads(line)
    return {name: event[name] for name in read_of(event).fields if event.get(name) is not None}


texts = st.text(st.sampled_from('ab"\\\n\t/\x7f\u00e9\ufffd\ud800\U0001f600 ')) | st.sampled_from(
    ["the text that is longest here", "ab"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=2)


@st.composite
def written(draw: st.DrawFn) -> bytes:
    """A line, perhaps with something wrong with it."""
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES) | texts, values), max_size=6))
    space = draw(st.sampled_from(["", " ", "\r", "\t "]))
    is_ascii = draw(st.booleans())
    text = ",".join(
        f"{json.dumps(name, ensure_ascii=is_ascii)}{space}:{space}{json.dumps(value, ensure_ascii=is_ascii)}"
        for name, value in members
    )
    line = f"{space}{{{text}{space}}}{space}".encode(errors="surrogatepass")
    if draw(st.booleans()):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.binary(max_size=2)) + line[at + draw(st.integers(0, 3)) :]
    return line.replace(b"\n", b" ")


@given(st.lists(written(), max_size=4))
def test_a_projection_is_the_event_cut_to_its_fields(lines: list[bytes]) -> None:
    for line, found in zip(lines, projected(lines), strict=True):
        if found is not None:
            expected = projected_plainly(line)
            assert found == expected
            assert list(map(repr, found.values())) == [repr(expected[name]) for name in found]


ORDINARY = [
    b'{"gate":"x","a":1}',
    b' {"a" : [1, "b", null, true, -0.5] ,"id":false }\r',
    b'{"a":"\\\\ \\n\\u00e9 \\/","other":"\\"","b\xc3\xa9":"\xf0\x9f\x98\x80 and more than eight bytes"}',
    b'{"id":18446744073709551616,"a":[]}',
    b'{"other":1,"other":2,"a":null}',
    b'{"z":null}',
]
SPECIAL = [
    b"",
    b" \r",
    b"{}",
    b"[]",
    b"{",
    b'{"a":1',
    b'{"a":1,}',
    b'{"a":1}}',
    b'{"a":1} x',
    b'{"a" 1}',
    b'{"a":}',
    b'{"a":{"b":1}}',
    b'{"a":[[1]]}',
    b'{"a":[1,]}',
    b'{"a":[1',
    b'{"a":[1 2]}',
    b'{"a":1,"a":2}',
    b'{"\\u0061":1}',
    b'{"":1}',
    b'{"\xff":1}',
    b'{"a":"\xff"}',
    b'{"a":"\xff and eight more bytes"}',
    b'{"a":"\x01"}',
    b'{"a":"\\x"}',
    b'{"a":"\\',
    b'{"a":"\\u00"}',
    b'{"a":"\\u00g0"}',
    b'{"a":"\\ud800"}',
    b'{"a":"b}',
    b'{"a":01}',
    b'{"a":-}',
    b'{"a":1.}',
    b'{"a":1e5}',
    b'{"a":' + b"9" * 41 + b"}",
    b'{"a":nul}',
    b'{"old":1}',
    b'{"gate":"' + b"x" * line_projector.CLASS_SIZE_BYTES_MAX + b'"}',
]


def test_ordinary_lines_are_not_special() -> None:
    assert projected(ORDINARY) == [projected_plainly(line) for line in ORDINARY]


@pytest.mark.parametrize("line", SPECIAL)
def test_special_lines_are(line: bytes) -> None:
    assert projected([ORDINARY[0], line, ORDINARY[0]])[1] is None


def test_more_classes_than_fit_are_special_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_projector, "CLASSES_MAX", 4)
    some = projector()
    lines = [b'{"id":%d}' % number for number in range(6)]
    assert [source is None for source in some.project(lines).sources] == [False] * 4 + [True] * 2
    found = some.project(lines[4:]).sources
    assert [source and source.gate[1] for source in found] == ["4", "5"]


def test_no_lines_and_no_gates() -> None:
    assert projector().project([]).sources == []
    everything: LineProjector[Read] = LineProjector((), ("a",), (), lambda line: Read((), ("a",)))
    found = everything.project([b'{"a":1,"b":2}', b"{}", b'{"b":2}'])
    assert found.text == b'{"a":1}'
    assert [source is None for source in found.sources] == [False, True, False]
