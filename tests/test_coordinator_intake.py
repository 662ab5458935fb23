"""Groups of small publications: who may travel with whom, in what order, and what the chunk then holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.coordinator import forms as forms_module
from pubsub_cluster.coordinator import intake
from pubsub_cluster.coordinator.forms import Form, Forms
from pubsub_cluster.coordinator.intake import Intake, Publication, joined
from pubsub_cluster.coordinator.merge import Merged, Parts
from pubsub_cluster.language.batch import check_payload, payload_from_dicts, payload_from_json
from pubsub_cluster.language.errors import BusyError, CallerError, LimitError, ProtocolError
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.protocol import Answer

SIZE_BYTES_MAX = DEFAULT_LIMITS.batch_size_bytes_max


def publication(
    number: int,
    events: list[dict[str, Any]],
    form: str = "msgpack",
    at: int | None = None,
    publisher: str = "p",
) -> Any:
    lines = b"\n".join(map(msgspec.json.encode, events))
    made = payload_from_json(lines) if form == "json" else payload_from_dicts(events)
    return Publication(
        ("batch", publisher, str(number)),
        Answer.HANDLES,
        False,
        at,
        Form(made.header),
        made.buffers,
        made.size_bytes,
    )


PUBLICATIONS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["json", "msgpack"]),
        st.sampled_from([None, 1]),
        st.booleans(),
        st.sampled_from("pqr"),
    ),
    max_size=30,
)


@given(PUBLICATIONS)
def test_groups_keep_the_order_and_mix_nothing(drawn: list[tuple[int, str, int | None, bool, str]]) -> None:
    line = Intake(SIZE_BYTES_MAX)
    made = []
    for number, (count, form, at, alone, publisher) in enumerate(drawn):
        made.append(publication(number, [{"x": number, "y": i} for i in range(count)], form, at, publisher))
        made[-1].alone = alone
        line.add(made[-1])
    groups = []
    while len(line):
        groups.append(line.take())
    taken = [found for group in groups for found in group]
    assert len(taken) == len(made)
    for publisher in "pqr":
        own = [each for each in made if each.key[1] == publisher]
        assert [found for found in taken if found.key[1] == publisher] == own
    for group in groups:
        assert len({(found.form.format, found.at) for found in group}) == 1
        assert len(group) == 1 or not any(found.alone for found in group)
        header_json, buffers = joined(group)
        header = msgspec.json.decode(header_json)
        check_payload(header, buffers)
        offsets = np.frombuffer(buffers[0], np.int64).tolist()
        assert header["event_count"] == sum(found.form.event_count for found in group) == len(offsets) - 1
        assert bytes(buffers[1]) == b"".join(bytes(found.buffers[1]) for found in group)


def test_a_group_has_a_bounded_number_of_events() -> None:
    line = Intake(SIZE_BYTES_MAX)
    events = [{"x": 1}] * intake.SMALL_EVENTS_MAX
    for number in range(20):
        line.add(publication(number, events))
    while len(line):
        assert sum(found.form.event_count for found in line.take()) <= intake.GROUP_EVENTS_MAX


def test_a_group_has_no_more_bytes_than_a_batch() -> None:
    events = [{"x": "a" * 100}]
    size_bytes = publication(0, events).size_bytes
    line = Intake(3 * size_bytes + 1)
    for number in range(7):
        line.add(publication(number, events))
    assert [len(line.take()) for _ in range(3)] == [3, 3, 1]


@pytest.mark.parametrize(("columns", "expected"), [(1, 4), (2, 4), (4, 3), (8, 1)])
def test_a_group_of_columns_is_bounded_by_values_and_events(
    columns: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GROUP_COLUMNS_VALUES_MAX", 24)
    header = {**DENSE, "columns": [{"name": str(name), "type": "int64"} for name in range(columns)]}
    form = Form(header, [16] * columns)
    line = Intake(SIZE_BYTES_MAX)
    for number in range(5):
        frames = [bytes(form.frame_bytes)]
        line.add(Publication(("batch", "p", str(number)), Answer.HANDLES, False, None, form, frames, 16))
    assert len(line.take()) == expected


def test_members_of_a_failed_group_come_first_and_alone() -> None:
    line = Intake(SIZE_BYTES_MAX)
    for number in range(3):
        line.add(publication(number, [{"x": number}]))
    group = line.take()
    line.add(publication(3, [{"x": 3}]))
    line.add(publication(4, [{"x": 4}]))
    line.put_back(group)
    names = []
    while len(line):
        names.append([found.key[-1] for found in line.take()])
    assert names == [["0"], ["1"], ["2"], ["3", "4"]]


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_nobody_waits_for_more_than_one_group_of_another_publisher(form: str) -> None:
    line = Intake(SIZE_BYTES_MAX)
    for number in range(2_000):
        line.add(publication(number, [{"x": 1}], publisher="flood"))
    line.add(publication(0, [{"x": 1}], form, publisher="single"))
    groups = [line.take(), line.take()]
    assert "single" in [found.key[1] for found in groups[0 if form == "msgpack" else 1]]


def test_a_publisher_with_many_leaves_room_for_others() -> None:
    line = Intake(SIZE_BYTES_MAX)
    with pytest.raises(BusyError):
        for number in range(intake.WAITING_MAX):
            line.add(publication(number, [{"x": 1}], publisher="flood"))
    line.add(publication(0, [{"x": 1}], publisher="single"))
    with pytest.raises(BusyError):
        line.add(publication(1, [{"x": 1}], publisher="single"))


def test_large_ones_and_columns_do_not_wait() -> None:
    assert publication(0, [{"x": 1}]).small
    assert not publication(0, [{"x": 1}] * (intake.SMALL_EVENTS_MAX + 1)).small
    assert not publication(0, [{"x": "a" * intake.SMALL_SIZE_BYTES_MAX}]).small
    columns = {"format": "columns", "event_count": 1, "columns": []}
    assert not Publication(("batch", "p", "b"), Answer.HANDLES, False, None, Form(columns), [], 0).small


def test_who_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "WAITING_MAX", 4)
    line = Intake(SIZE_BYTES_MAX)
    for number in range(2):
        line.add(publication(number, [{"x": 1}]))
    with pytest.raises(BusyError) as caught:
        line.add(publication(2, [{"x": 1}]))
    assert caught.value.fields["retry_after_s"] > 0
    line.take()
    line.add(publication(2, [{"x": 1}]))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_a_part_of_an_answer_is_the_answer_of_the_part(counts: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(counts)))
    stop = data.draw(st.integers(first, len(counts)))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    rows = np.arange(offsets[-1], dtype=np.int32)
    edges = [0, first, stop, len(counts)]
    parts = Parts(Merged(offsets, rows.astype(np.uint64) + 7, rows), edges)
    part = parts.part(1)
    assert parts.low == offsets[edges].tolist()
    assert [bytes(buffer) for buffer in parts.csr(1)] == [part.offsets.tobytes(), part.handles.tobytes()]
    assert np.diff(part.offsets).tolist() == counts[first:stop]
    assert part.offsets[0] == 0
    expected = rows[offsets[first] : offsets[stop]]
    assert part.rows.tolist() == expected.tolist()
    assert part.handles.tolist() == (expected + 7).tolist()


DENSE = {"format": "columns", "event_count": 2, "columns": [{"name": "x", "type": "int64"}]}


def form_of(forms: Forms, batch: Any, sizes: Any = msgspec.UNSET) -> Form:
    given = sizes if sizes is msgspec.UNSET else msgspec.Raw(msgspec.json.encode(sizes))
    return forms.of(msgspec.Raw(msgspec.json.encode(batch)), given)


def test_a_form_is_read_once() -> None:
    forms = Forms(DEFAULT_LIMITS)
    first = form_of(forms, DENSE, [16])
    assert form_of(forms, DENSE, [16]) is first
    assert form_of(forms, DENSE) is not first
    assert first.is_dense and first.frame_bytes == 16
    assert first.check([bytes(16)], DEFAULT_LIMITS) == 16


def test_narrow_columns_are_dense_where_they_are_of_one_width() -> None:
    narrow = {**DENSE, "columns": [{"name": name, "type": "int16"} for name in "xy"]}
    form = form_of(Forms(DEFAULT_LIMITS), narrow, [4, 4])
    assert form.is_dense and (form.frame_bytes, form.part_bytes, form.value_count) == (16, 4, 4)
    assert form.check([bytes(16)], DEFAULT_LIMITS) == 8
    mixed = {**DENSE, "columns": [{"name": "x", "type": "int16"}, {"name": "y", "type": "int32"}]}
    assert not form_of(Forms(DEFAULT_LIMITS), mixed, [4, 8]).is_dense


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (DENSE, msgspec.UNSET),
        (DENSE, [16.0]),
        (DENSE, [8]),
        ({**DENSE, "event_count": 0}, [0]),
        ({**DENSE, "columns": []}, []),
        ({**DENSE, "columns": [{"name": "x", "type": "utf8"}]}, [16]),
        ({**DENSE, "columns": [{"name": "x", "type": "int64", "valid": True}]}, [16]),
        ({"format": "json", "event_count": 2}, [16]),
    ],
)
def test_only_whole_columns_of_numbers_are_dense(batch: Any, sizes: Any) -> None:
    assert not form_of(Forms(DEFAULT_LIMITS), batch, sizes).is_dense


def test_frames_are_those_of_their_form() -> None:
    forms = Forms(DEFAULT_LIMITS)
    for frames in ([bytes(15)], [bytes(17)], [], [bytes(16), b""]):
        with pytest.raises(ProtocolError):
            form_of(forms, DENSE, [16]).check(frames, DEFAULT_LIMITS)
    tight = replace(DEFAULT_LIMITS, batch_size_bytes_max=15)
    with pytest.raises(LimitError):
        form_of(forms, DENSE, [16]).check([bytes(16)], tight)
    for sizes in (None, 16, {"0": 16}):
        with pytest.raises(ProtocolError):
            form_of(forms, DENSE, sizes)
    for batch in (None, [], {"format": "columns"}, {"format": "json", "event_count": 1 << 70}):
        with pytest.raises(CallerError):
            form_of(forms, batch)


def test_known_forms_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms_module, "FORMS_MAX", 2)
    forms = Forms(DEFAULT_LIMITS)
    known = [form_of(forms, {**DENSE, "event_count": count}) for count in range(1, 4)]
    assert form_of(forms, {**DENSE, "event_count": 3}) is known[2]
    assert form_of(forms, {**DENSE, "event_count": 1}) is not known[0]


def test_known_forms_are_bounded_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    text_size_bytes = len(msgspec.json.encode(DENSE)) + len(msgspec.json.encode([16]))
    monkeypatch.setattr(forms_module, "FORMS_SIZE_BYTES_MAX", 2 * text_size_bytes)
    forms = Forms(DEFAULT_LIMITS)
    known = [form_of(forms, {**DENSE, "event_count": count}, [16]) for count in range(1, 4)]
    assert form_of(forms, {**DENSE, "event_count": 3}, [16]) is known[2]
    assert form_of(forms, {**DENSE, "event_count": 1}, [16]) is not known[0]
    monkeypatch.setattr(forms_module, "HEADS_SIZE_BYTES_MAX", 2 * len(known[1].head(2).text))
    heads = [known[1].head(count) for count in (2, 3, 4)]
    assert known[1].head(4) is heads[2]
    assert known[1].head(2) == heads[0] and known[1].head(2) is not heads[0]
