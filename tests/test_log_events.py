"""Log files as events: how they are packed, how lines are counted, what is refused, what is remembered."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.errors import EventError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Atom, Expression, Operator
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import check_limit
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.language.text_literals import line_sieve
from pubsub_cluster.language.values import fold
from pubsub_cluster.logs import files
from pubsub_cluster.logs.detector import Answer, Detector, Event, EventForm
from pubsub_cluster.logs.files import BadLine, Block, expand, parse_line, read_blocks
from pubsub_cluster.logs.projection import Projection
from pubsub_cluster.sigma_rules.events import Normaliser, normalise
from tests.vectors import load_vectors

LINES = b'{"a": 1}\r\n\r\n{"a": 2}\n\n{"a": 3}'
NUMBERED = [("{name}", 1, {"a": 1}), ("{name}", 3, {"a": 2}), ("{name}", 5, {"a": 3})]


def read(*sources: Path | str) -> tuple[list[tuple[str, int, Any]], list[BadLine]]:
    """Every event of some sources with its place, and what could not be read."""
    bad: list[BadLine] = []
    found = []
    for block in read_blocks([str(source) for source in sources], bad.append):
        for number, line in enumerate(block.lines, start=block.first_line):
            event = parse_line(line)
            if event is not None:
                found.append((block.file, number, event))
    return found, bad


def expected(name: str) -> list[tuple[str, int, Any]]:
    return [(name, number, event) for _, number, event in NUMBERED]


@pytest.fixture(params=[1 << 20, 7, 3])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK_SIZE_BYTES", request.param)


@pytest.mark.usefixtures("block_size")
def test_lines_are_numbered_as_in_an_editor_whatever_they_are_packed_in(tmp_path: Path) -> None:
    plain, packed, archive = tmp_path / "e.json", tmp_path / "e.json.gz", tmp_path / "e.bin"
    plain.write_bytes(b"\xef\xbb\xbf" + LINES)
    packed.write_bytes(gzip.compress(LINES) + gzip.compress(b'\n{"a": 4}\n'))
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("folder/one.json", LINES)
        made.writestr("__MACOSX/folder/._one.json", b"\0\1")
        made.writestr("two.json", LINES + b"\n")
    assert read(plain) == (expected("e.json"), [])
    assert read(packed) == ([*expected("e.json"), ("e.json", 6, {"a": 4})], [])
    assert read(archive) == ([*expected("one.json"), *expected("two.json")], [])


def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LINES)))
    assert read("-") == (expected("<stdin>"), [])


def test_a_folder_stands_for_its_logs(tmp_path: Path) -> None:
    for name in ("b.json", "a.ndjson", "notes.txt"):
        (tmp_path / name).write_bytes(b"{}\n")
    assert expand([str(tmp_path), "-"]) == [str(tmp_path / "a.ndjson"), str(tmp_path / "b.json"), "-"]


def test_what_cannot_be_read_does_not_keep_the_rest(tmp_path: Path) -> None:
    good, cut, torn = tmp_path / "good.json", tmp_path / "cut.json.gz", tmp_path / "torn.zip"
    good.write_bytes(LINES)
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 100_000)[:-20])
    with zipfile.ZipFile(torn, "w") as made:
        made.writestr("one.json", b'{"a": 1}\n')
    torn.write_bytes(torn.read_bytes().replace(b'{"a": 1}', b'{"a": 7}'))
    found, bad = read(cut, torn, tmp_path / "absent.json", good)
    assert found[-3:] == expected("good.json")
    assert [(each.file, each.line) for each in bad] == [
        ("cut.json.gz", 0),
        ("one.json", 0),
        ("absent.json", 0),
    ]
    assert "No such file" in bad[2].error.condition


@pytest.mark.usefixtures("block_size")
def test_a_line_beyond_the_limit_is_refused_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BLOCK_SIZE_BYTES", 8)
    monkeypatch.setattr(files, "LINE_SIZE_BYTES_MAX", 32)
    path = tmp_path / "long.json"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"x" * 100 + b'"}\n{"a": 3}\n')
    found, bad = read(path)
    assert found == [("long.json", 1, {"a": 1}), ("long.json", 3, {"a": 3})]
    assert [(each.line, each.error.limit) for each in bad] == [(2, 32)]


@pytest.mark.parametrize("line", [b"{", b"[1]", b"17", b'{"a": NaN}', b'{"a": 1e400}', b'{"a": "\xff"}'])
def test_a_line_that_is_no_event_says_why(line: bytes) -> None:
    with pytest.raises(EventError, match="the line is"):
        parse_line(line)


# -- the sieve ----------------------------------------------------------------------------------------------


def sieve(*literals: str, operator: Operator = Operator.CONTAINS) -> Any:
    return line_sieve(Atom(None, operator, literal, ignore_case=True) for literal in literals)


def test_the_sieve_folds_as_predicates_do() -> None:
    same = {chr(point) for point in range(128, 0x110000) if not 0xD800 <= point < 0xE000}
    folding = {char: fold(char) for char in same if fold(char).isascii()}
    assert folding  # the Kelvin sign and the long s
    for char, letter in folding.items():
        test = sieve(f"ab{letter}")
        assert test(json.dumps({"x": f"AB{char}"}).encode())
        assert test(json.dumps({"x": f"AB{char}"}, ensure_ascii=False).encode())


@pytest.mark.parametrize("literal", ["1.5", "-3", "1e5", '"\\', ""])
def test_the_sieve_says_when_it_is_useless(literal: str) -> None:
    assert sieve(literal) is None
    assert line_sieve([Atom(None, Operator.MATCHES, "abc")]) is None


@given(
    st.text(max_size=6), st.text(max_size=20), st.text(max_size=6), st.booleans(), st.sampled_from(["", "*"])
)
def test_the_sieve_lets_every_holder_pass(
    literal: str, before: str, after: str, as_ascii: bool, star: str
) -> None:
    test = sieve(literal + star, operator=Operator.LIKE if star else Operator.CONTAINS)
    text = before + literal.swapcase() + after
    if test is not None and fold(literal) in fold(text):
        try:
            line = json.dumps({"x": text}, ensure_ascii=as_ascii).encode()
        except UnicodeEncodeError:
            return
        assert test(line)


# -- projections and the detector ---------------------------------------------------------------------------


class NaiveRules:
    """The naive matcher as the engine of a run; counts what it is asked."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._naive = NaiveMatcher()
        for position, expression in enumerate(expressions):
            self._naive.subscribe(str(position), expression)
        self.asked: list[Event] = []

    def __call__(self, events: list[Event]) -> Answer:
        self.asked += events
        matches: list[list[int]] = []
        refused = {}
        for i, event in enumerate(events):
            try:
                matches.append([int(name) for name in self._naive.match(event)])
            except EventError as error:
                refused[i] = error
                matches.append([])
        return Answer(matches, refused)


def run(
    expressions: list[Expression], lines: list[bytes], form: EventForm | None = None, per_block: int = 3
) -> tuple[list[tuple[int, tuple[int, ...]]], list[BadLine], NaiveRules, Detector]:
    bad: list[BadLine] = []
    naive = NaiveRules(expressions)
    detector = Detector(expressions, naive, bad.append, form or EventForm())
    found: list[tuple[int, tuple[int, ...]]] = []
    for first in range(0, len(lines), per_block):
        block = Block("f", first + 1, lines[first : first + per_block], 0.0)
        found += [(each.line, tuple(each.rules)) for each in detector.matches_of(block)]
    return found, bad, naive, detector


RULES = [
    parse_text(text)
    for text in (
        'channel = "s" AND id = 1 AND image SUFFIX "x.exe"',
        'channel = "s" AND id IN (1, 2) AND NOT user = "me"',
        'channel = "p" AND (ANY ATTRIBUTE CONTAINS "Needle" IGNORE CASE OR n > 5)',
        'channel = "s" AND id = 3 AND a.b = 1',
        'channel IN ("s", "p") AND id = 4',
    )
]


def lines_of(*events: Any) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_gates_are_found_and_projections_leave_out_what_nobody_reads() -> None:
    projection = Projection(RULES, EventForm().values, {})
    assert projection.gate_attributes == ("channel", "id")
    kind = projection.class_of(("s", 1))
    assert (kind.candidates, kind.fields) == ((0, 1), ("channel", "id", "image", "user"))
    assert projection.class_of(("s", 9)).candidates == ()
    assert projection.class_of(("s", True)).candidates == ()
    assert projection.class_of((["s", "p"], 4)).candidates == (2, 4)
    lines = [b'{"x": "needle"}', b'{"x": "a NEEDLE"}', '{"x": "\u00e9"}'.encode()]
    assert kind.anywhere.passing(lines) == [False] * 3
    assert projection.class_of(("p", 0)).anywhere.passing(lines) == [True, True, False]


def test_each_projection_is_asked_about_once() -> None:
    events = [
        {"channel": "s", "id": 1, "image": "x.exe", "time": 1},
        {"channel": "s", "id": 1, "image": "x.exe", "time": 2, "user": None},
        {"channel": "s", "id": 9, "image": "x.exe"},
        {"channel": "s", "id": 1, "image": "x.exe", "time": 3, "user": "me"},
        {"channel": "p", "text": "none", "time": 4},
        {"channel": "p", "text": "none", "time": 5},
        {"channel": "p", "text": "a needle", "time": 6},
        {"channel": "s", "id": 3, "a": {"b": 1}},
    ]
    found, bad, naive, detector = run(RULES, lines_of(*events))
    assert found == [(1, (0, 1)), (2, (0, 1)), (4, (0,)), (7, (2,)), (8, (3,))]
    assert not bad
    assert [sorted(event) for event in naive.asked] == [
        ["channel", "id", "image"],
        ["channel", "id", "image", "user"],
        ["channel"],
        ["channel", "text", "time"],
        ["a.b", "channel", "id"],
    ]
    assert detector.tally.event_count == 8


def test_bad_lines_are_told_and_cost_themselves_only() -> None:
    wide = b'{"channel": "p", "n": 36893488147419103232}'
    lines = [b"{", b"", b" \r", *lines_of({"channel": "p", "n": 6}), wide, b'{"a.b": 1, "a": {"b": 2}}', wide]
    found, bad, _, detector = run(RULES, lines)
    assert found == [(4, (2,))]
    assert [each.line for each in bad] == [1, 5, 6, 7]
    assert "outside 64 bits" in bad[1].error.condition
    tally = detector.tally
    assert (tally.event_count, tally.blank_count, tally.bad_count) == (1, 2, 4)


def test_integers_beyond_64_bits_are_told_apart() -> None:
    """The fast decoder rounds them, also in the attributes of gates."""
    rules = [parse_text(f'id = "{number}" AND n = "{number}"') for number in (2**65, 2**65 + 1, 2**65 + 2)]
    events = [{"id": n, "n": m} for n in (2**65, 2**65 + 1, 2**65 + 2) for m in (n, n, 2**65 + 3)]
    found, _, _, _ = run(rules, lines_of(*events), EventForm(Normaliser()))
    assert found == [(1, (0,)), (2, (0,)), (4, (1,)), (5, (1,)), (7, (2,)), (8, (2,))]


def test_only_objects_that_hold_something_read_are_looked_into() -> None:
    projection = Projection(
        [parse_text("a.b.c = 1"), parse_text('d = "x"')], EventForm().values, {"d": ("e.f",)}
    )
    assert projection.roots == {"a", "a.b", "e"}
    nested = [
        {"a": {"b": {"c": 1}}},
        {"a": [{"b.c": 1}]},
        {"d": {"x": 1}, "a.b": {"c": 1}},
        {"d": ["x", [1]]},
    ]
    rules = [parse_text("a.b.c = 1"), parse_text('d = "x"')]
    assert run(rules, lines_of(*nested))[0] == [(1, (0,)), (2, (0,)), (3, (0,)), (4, (1,))]


def test_a_batch_that_is_too_much_is_asked_in_parts() -> None:
    bad: list[BadLine] = []
    naive = NaiveRules(RULES)

    def narrow(events: list[Event]) -> Answer:
        size = sum(event["n"] for event in events)
        check_limit("batch_size_bytes_max", size, 10, "size of a batch", "Split the batch.")
        return naive(events)

    detector = Detector(RULES, narrow, bad.append, EventForm())
    lines = lines_of(*({"channel": "p", "n": n} for n in (6, 1, 12, 7, 5, 8, 11)))
    assert [tuple(each) for each in detector.matches_of(Block("f", 1, lines, 0.0))] == [
        (line, (2,)) for line in (1, 4, 6)
    ]
    assert [each.line for each in bad] == [3, 7]
    assert detector.tally.event_count == 5


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub_cluster.logs.detector.REMEMBERED_MAX", 2)
    events = [{"channel": "p", "n": n} for n in (1, 2, 3, 4, 5, 6, 1, 6)]
    found, _, naive, detector = run(RULES, lines_of(*events), per_block=1)
    assert [line for line, _ in found] == [6, 8]
    assert len(naive.asked) == 7
    assert len(detector._newer) + len(detector._older) <= 4


def test_fields_are_renamed_where_the_event_has_none_of_the_new_name() -> None:
    form = EventForm(None, {"Event.Channel": "channel", "Event.Id": "id"})
    events = [{"Event": {"Channel": "p", "Id": 4}}, {"Event": {"Channel": "p", "Id": 4}, "channel": "x"}]
    assert run(RULES, lines_of(*events), form)[0] == [(1, (4,))]


def test_sigma_events_are_normalised_after_projection() -> None:
    rules = [
        parse_text('Channel = "Security" IGNORE CASE AND EventID IN (4688, "4688") AND Image SUFFIX "a"'),
        parse_text('Channel = "System" AND EventID IN (1, "1") AND Provider_Name = "P" AND n = "7"'),
    ]
    events: list[dict[str, Any]] = [
        {"Channel": "security", "EventID": 4688, "NewProcessName": "aa"},
        {"Channel": "security", "EventID": "4688", "NewProcessName": "aa", "Image": "b"},
        {"Channel": "System", "EventID": 1, "SourceName": "P", "n": 7},
        {"Channel": "System", "EventID": 1, "SourceName": "P", "n": {"m": 1}},
    ]
    found, _, naive, _ = run(rules, lines_of(*events), EventForm(Normaliser()))
    assert found == [(1, (0,)), (3, (1,))]
    assert all("EventID" in event and type(event["EventID"]) is str for event in naive.asked)
    reference = NaiveRules(rules)
    assert reference([normalise(event) for event in events]).matches == [[0], [], [1], []]


SCALARS = st.sampled_from(
    [None, 1, 2, 1.0, True, "s", "p", "x.exe", "needle", "1", ["s", "p"], [1, None], []]
)
EVENTS = st.dictionaries(st.sampled_from(["channel", "id", "image", "user", "n", "a", "text"]), SCALARS)


@given(st.lists(EVENTS, max_size=12), st.integers(1, 5))
def test_matches_are_those_of_the_whole_event(events: list[Any], per_block: int) -> None:
    found, _, _, _ = run(RULES, lines_of(*events), per_block=per_block)
    whole = NaiveRules(RULES)(events).matches
    assert found == [(i, tuple(rules)) for i, rules in enumerate(whole, start=1) if rules]


def test_vectors_hold_through_projections() -> None:
    """Every vector whose subscriptions stay: the detector agrees with what is written in."""
    checked = 0
    for vector in load_vectors():
        steps = vector["steps"]
        subscribed = [step for step in steps if step["op"] == "subscribe"]
        published = [step for step in steps if step["op"] == "publish" and "event" in step]
        plain = all(step["op"] in ("subscribe", "publish") and "valid_from" not in step for step in steps)
        if not plain or not published or any("expect" in step for step in subscribed):
            continue
        if any("$" in json.dumps(step.get("event")) or step["expect"] == "error" for step in published):
            continue
        if any(step["op"] == "subscribe" for step in steps[steps.index(published[0]) :]):
            continue
        rules = [expression_from_json(step["expr"]) for step in subscribed]
        found, bad, _, _ = run(rules, lines_of(*(step["event"] for step in published)))
        by_line = dict(found)
        for line, step in enumerate(published, start=1):
            ids = sorted(subscribed[i]["id"] for i in by_line.get(line, ()))
            assert ids == step["expect"], vector["id"]
        assert not bad
        checked += 1
    assert checked > 20


ALIASED = st.dictionaries(
    st.sampled_from(["Channel", "EventID", "Message", "Data", "SourceName", "NewProcessName", "Image", "x"]),
    st.sampled_from([None, "Security", "a", 4688, "4688", 1.5, True, [], ["a", 2], {"y": 1}]),
)


@given(ALIASED)
def test_a_log_event_is_normalised_as_the_reference_does(event: dict[str, Any]) -> None:
    form = EventForm(Normaliser())
    flat = form.flat(json.dumps(event).encode())
    assert flat is not None
    assert flatten_event(form.seen(flat)) == flatten_event(normalise(flat))
    if not any(type(value) is dict for value in event.values()):
        assert flat == event
