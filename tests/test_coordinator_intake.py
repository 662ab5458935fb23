"""Groups of small publications: who may travel with whom, in what order, and what the chunk then holds."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.coordinator import intake
from pubsub_cluster.coordinator.intake import Intake, Publication, joined
from pubsub_cluster.coordinator.merge import Merged, part_of
from pubsub_cluster.language.batch import check_payload, payload_from_dicts, payload_from_json
from pubsub_cluster.language.errors import BusyError
from pubsub_cluster.language.protocol import Answer


def publication(
    number: int, events: list[dict[str, Any]], form: str = "msgpack", at: int | None = None
) -> Any:
    lines = b"\n".join(map(msgspec.json.encode, events))
    made = payload_from_json(lines) if form == "json" else payload_from_dicts(events)
    name = str(number)
    return Publication(
        "p",
        name,
        Answer.HANDLES,
        False,
        at,
        made.header,
        msgspec.json.encode(made.header),
        made.buffers,
        made.size_bytes,
    )


PUBLICATIONS = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["json", "msgpack"]), st.sampled_from([None, 1]), st.booleans()
    ),
    max_size=30,
)


@given(PUBLICATIONS)
def test_groups_keep_the_order_and_mix_nothing(drawn: list[tuple[int, str, int | None, bool]]) -> None:
    line = Intake()
    made = []
    for number, (count, form, at, alone) in enumerate(drawn):
        made.append(publication(number, [{"x": number, "y": i} for i in range(count)], form, at))
        made[-1].alone = alone
        line.add(made[-1])
    groups = []
    while len(line):
        groups.append(line.take())
    assert [found for group in groups for found in group] == made
    for group in groups:
        assert len({(found.batch["format"], found.at) for found in group}) == 1
        assert len(group) == 1 or not any(found.alone for found in group)
        header_json, buffers = joined(group)
        header = msgspec.json.decode(header_json)
        check_payload(header, buffers)
        offsets = np.frombuffer(buffers[0], np.int64).tolist()
        assert header["event_count"] == sum(found.event_count for found in group) == len(offsets) - 1
        assert bytes(buffers[1]) == b"".join(bytes(found.buffers[1]) for found in group)


def test_a_group_has_a_bounded_number_of_events() -> None:
    line = Intake()
    events = [{"x": 1}] * intake.SMALL_EVENTS_MAX
    for number in range(20):
        line.add(publication(number, events))
    while len(line):
        assert sum(found.event_count for found in line.take()) <= intake.GROUP_EVENTS_MAX


def test_members_of_a_failed_group_come_first_and_alone() -> None:
    line = Intake()
    for number in range(3):
        line.add(publication(number, [{"x": number}]))
    group = line.take()
    line.add(publication(3, [{"x": 3}]))
    line.add(publication(4, [{"x": 4}]))
    line.put_back(group)
    names = []
    while len(line):
        names.append([found.batch_id for found in line.take()])
    assert names == [["0"], ["1"], ["2"], ["3", "4"]]


def test_large_ones_and_columns_do_not_wait() -> None:
    assert publication(0, [{"x": 1}]).small
    assert not publication(0, [{"x": 1}] * (intake.SMALL_EVENTS_MAX + 1)).small
    assert not publication(0, [{"x": "a" * intake.SMALL_SIZE_BYTES_MAX}]).small
    columns = {"format": "columns", "event_count": 1, "columns": []}
    assert not Publication("p", "b", Answer.HANDLES, False, None, columns, b"", [], 0).small


def test_who_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "WAITING_MAX", 2)
    line = Intake()
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
    part = part_of(Merged(offsets, rows.astype(np.uint64) + 7, rows), first, stop)
    assert np.diff(part.offsets).tolist() == counts[first:stop]
    assert part.offsets[0] == 0
    expected = rows[offsets[first] : offsets[stop]]
    assert part.rows.tolist() == expected.tolist()
    assert part.handles.tolist() == (expected + 7).tolist()
