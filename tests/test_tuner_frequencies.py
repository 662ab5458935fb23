"""Frequencies: one definition, whoever counts, in whatever parts."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch
from strategies import FLOATS, INTEGERS, TEXTS

from pubsub_cluster.language.batch import decode_payload, event_values, payload_from_dicts
from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.raw_batch import TextEntries
from pubsub_cluster.language.values import number_key
from pubsub_cluster.shm.code_space import CodeSpaces, build_code_spaces, gather_predicates
from pubsub_cluster.tuner import frequencies_file
from pubsub_cluster.tuner.event_rows import accepted_events, join_batches, pick_events
from pubsub_cluster.tuner.frequencies import EventCounter, Frequencies, merge
from pubsub_cluster.tuner.frequencies_file import (
    StoredFrequencies,
    from_bytes,
    read_frequencies,
    to_bytes,
    write_frequencies,
)
from pubsub_cluster.tuner.statistics import EventSample, LabelStatistics
from pubsub_cluster.tuner.value_counts import (
    LONG_TEXT_BYTES,
    CountLimits,
    count_numbers,
    most_frequent,
    text_hashes,
)

Event = dict[str, tuple[Any, ...]]
FEW = CountLimits(distinct=3, text_bytes=12, hashes=4, events=4)

VALUES = st.one_of(
    st.booleans(),
    st.sampled_from(INTEGERS),
    st.sampled_from([float(x) for x in FLOATS]),
    st.sampled_from(TEXTS),
)
EVENTS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.lists(VALUES, min_size=1, max_size=3).map(tuple), max_size=3),
    max_size=12,
)


def counted(
    events: Sequence[Event], limits: CountLimits = FEW, source: str = "", first_row: int = 0
) -> Frequencies:
    counter = EventCounter(limits)
    counter.add(raw_batch(list(events)), source, first_row)
    return counter.frequencies()


def plain(found: Frequencies) -> Any:
    """Everything that frequencies say, in a form that can be compared."""
    attributes = {
        name: (
            mine.totals,
            [column.tolist() for column in mine.numbers],
            mine.texts,
            None if mine.hashes is None else mine.hashes.tolist(),
        )
        for name, mine in found.attributes.items()
    }
    priority, events = found.sample
    sampled = [event_values(events, number) for number in range(events.event_count)]
    return found.event_count, attributes, priority.tolist(), sampled


def canonical(value: Any) -> tuple[str, Any]:
    """A value by kind; equal numbers are one."""
    if isinstance(value, bool):
        return "boolean", value
    return ("text", value.encode()) if isinstance(value, str) else ("number", number_key(value))


@settings(max_examples=60)
@given(events=EVENTS)
def test_counts_are_those_of_a_plain_loop(events: list[Event]) -> None:
    found = counted(events, CountLimits())
    assert found.event_count == len(events)
    for name in "abc":
        values = [canonical(value) for event in events for value in event.get(name, ())]
        if not values:
            assert name not in found.attributes
            continue
        mine, expected = found.attributes[name], Counter(values)
        numbers = {
            ("number", (whole, part)): times
            for whole, part, times in zip(*(column.tolist() for column in mine.numbers), strict=True)
        }
        texts = {("text", text): times for text, times in mine.texts.items()}
        booleans = {("boolean", False): mine.totals.false, ("boolean", True): mine.totals.true}
        assert {**numbers, **texts, **{key: n for key, n in booleans.items() if n}} == expected
        assert mine.totals.present == sum(1 for event in events if name in event)
        assert mine.totals.values == len(values)
        assert mine.distinct_count(found.limits) == len(expected)


@settings(max_examples=150)
@given(events=EVENTS, data=st.data())
def test_parts_merge_into_the_whole_in_any_order_and_grouping(
    events: list[Event], data: st.DataObject
) -> None:
    """Few distinct values are allowed here, so some attributes are exact and others are not."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    bounds = list(itertools.pairwise([0, *cuts, len(events)]))
    parts = [counted(events[first:stop], first_row=first) for first, stop in bounds]
    whole = plain(counted(events))
    assert plain(merge(parts)) == whole
    assert plain(merge(data.draw(st.permutations(parts)))) == whole
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left = merge([left, part])
    for part in reversed(parts[:-1]):
        right = merge([part, right])
    assert plain(left) == plain(right) == whole
    one_counter = EventCounter(FEW)
    for first, stop in bounds:
        one_counter.add(raw_batch(events[first:stop]), "", first)
    assert plain(one_counter.frequencies()) == whole


def test_an_attribute_is_exact_if_and_only_if_its_distinct_values_are_few() -> None:
    few = [{"a": (1, True, "x")}, {"a": (2.0, "x")}, {"a": (1.0, 2)}]
    assert counted(few).attributes["a"].is_exact
    for more in ({"a": (0.5,)}, {"a": ("y",)}):  # a fourth number or text; booleans do not count
        parts = counted(few), counted([more], source="2")
        assert not counted([*few, more]).attributes["a"].is_exact
        assert parts[1].attributes["a"].is_exact and not merge(parts).attributes["a"].is_exact
    assert not counted([{"a": ("x" * 7, "y" * 6)}]).attributes["a"].is_exact  # too many bytes


def test_the_number_of_distinct_values_is_estimated_within_its_error() -> None:
    limits = CountLimits(distinct=10, hashes=1_024)
    for values in (np.arange(20_000), np.arange(20_000) / 8, [f"text number {i}" for i in range(20_000)]):
        payload = payload_from_dicts([{"a": value} for value in np.asarray(values).tolist()])
        raw = decode_payload(payload.header, payload.buffers)
        counter = EventCounter(limits)
        counter.add(raw, "one", 0)
        counter.add(raw, "two", 0)
        found = counter.frequencies().attributes["a"].distinct_count(limits)
        assert abs(found - 20_000) < 4 * 20_000 / 32  # four standard errors


def test_the_sample_is_uniform_and_its_stated_error_holds() -> None:
    count, limits = 50_000, CountLimits(distinct=10, events=2_000)
    rows = np.arange(count)
    events = decode_payload(*payload_from_dicts([{"a": n, "b": n % 5} for n in rows.tolist()])[:2])
    found = EventCounter(limits)
    for first in range(0, count, 5_000):
        found.add(pick_events(events, rows[first : first + 5_000]), "file", first)
    frequencies = found.frequencies()
    entries = frequencies.sample.events.attributes["a"]
    assert entries.numbers is not None
    sampled = np.sort(entries.numbers.whole)
    assert len(np.unique(sampled)) == limits.events
    assert frequencies.error("b") == 0.0 and frequencies.error("a") == pytest.approx(0.5 / 2_000**0.5)
    shares = np.searchsorted(sampled, np.arange(0, count, 1_000)) / limits.events
    assert np.abs(shares - np.arange(0, count, 1_000) / count).max() < 4 * frequencies.error("a")


def test_events_in_small_batches_are_sampled_as_those_of_a_large_one() -> None:
    events: list[Event] = [{"a": (number,)} for number in range(300)]
    limits = CountLimits(distinct=10, events=4)
    for source in map(str, range(20)):
        counter = EventCounter(limits)
        for first in range(0, len(events), 5):
            counter.add(raw_batch(events[first : first + 5]), source, first)
        assert plain(counter.frequencies()) == plain(counted(events, limits, source))


EXPRESSIONS = [
    {"attr": "a", "op": "=", "value": 1},
    {"attr": "a", "op": "in", "value": [2, "ab", True]},
    {"attr": "b", "op": "between", "lo": 0.5, "hi": 3},
    {"attr": "b", "op": "=", "value": "abc"},
    {"attr": "c", "op": "exists"},
    {"attr": "missing", "op": "=", "value": 7},
]


def spaces_of(expressions: list[dict[str, Any]]) -> tuple[CodeSpaces, list[str]]:
    catalogue = Case(expressions)
    used = np.arange(catalogue.writer.counts().predicates, dtype=np.int32)
    gathered = gather_predicates(catalogue.reader.columns, used)
    spaces, _ = build_code_spaces(gathered)
    return spaces, [catalogue.reader.attribute_name(int(number)) for number in gathered.attribute_id]


def rows_sorted(found: LabelStatistics) -> list[Any]:
    return [found.label.tolist(), found.present.tolist(), sorted(found.events.tolist())]


@settings(max_examples=60)
@given(events=EVENTS)
def test_exact_counts_say_what_a_sample_of_all_these_events_says(events: list[Event]) -> None:
    spaces, names = spaces_of(EXPRESSIONS)
    sample = EventSample(16 * max(len(events), 1))
    sample.add(raw_batch(events))
    expected = rows_sorted(sample.statistics(spaces, names))
    exact = counted(events, CountLimits())
    assert all(mine.is_exact for mine in exact.attributes.values())
    assert rows_sorted(exact.statistics(spaces, names)) == expected
    by_sample = counted(events, CountLimits(distinct=0))  # all of them are sampled
    assert not any(mine.is_exact for mine in by_sample.attributes.values() if mine.totals.numbers)
    assert rows_sorted(by_sample.statistics(spaces, names)) == expected
    for name in (None, "a", "missing"):
        assert exact.texts(name) == by_sample.texts(name) == sample.texts(name)


def test_values_that_only_a_sample_knows_are_scaled_to_their_number() -> None:
    spaces, names = spaces_of(EXPRESSIONS)
    events: list[Event] = [{"b": (number % 4,)} if number % 2 else {} for number in range(4_000)]
    found = counted(events, CountLimits(distinct=1, events=1_000)).statistics(spaces, names)
    b = names.index("b")
    first, stop = spaces.label_start[b : b + 2].tolist()
    assert found.present[b] == pytest.approx(0.5, abs=1e-3)
    assert found.label[first:stop].sum() == pytest.approx(0.5, abs=1e-3)
    exact = counted(events, CountLimits()).statistics(spaces, names)
    assert np.abs(found.label - exact.label)[first:stop].max() < 4 * 0.5 / 1_000**0.5


@given(st.lists(st.sampled_from([*INTEGERS, *FLOATS]), max_size=30), st.integers(0, 3))
def test_numbers_are_counted_by_their_keys(numbers: list[float], shift: int) -> None:
    """The ways (near integers, far ones, doubles, anything) count alike."""
    some = [number for number in numbers if shift != 1 or isinstance(number, int)]
    some = [number for number in some if shift != 2 or abs(number) < 2**53]
    keys = [number_key(number) for number in some]
    found = count_numbers(
        np.array([k[0] for k in keys], np.int64), np.array([k[1] for k in keys], np.float64)
    )
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [
        (*key, times) for key, times in sorted(Counter(keys).items())
    ]


@given(
    st.lists(st.binary(max_size=20) | st.sampled_from([b"x" * LONG_TEXT_BYTES, b"x" * (LONG_TEXT_BYTES + 1)]))
)
def test_texts_have_one_hash_if_and_only_if_they_are_equal(texts: list[bytes]) -> None:
    end = np.cumsum([len(text) for text in texts], dtype=np.int64)
    start = end - np.array([len(text) for text in texts], np.int64)
    data = np.frombuffer(b"".join(texts), np.uint8)
    hashes = text_hashes(TextEntries(np.zeros(len(texts), np.int32), start, end, data)).tolist()
    by_text = dict(zip(texts, hashes, strict=True))
    assert [by_text[text] for text in texts] == hashes
    assert len(set(hashes)) == len(by_text)


@given(events=EVENTS, data=st.data())
def test_events_are_picked_in_the_order_in_which_they_are_asked_for(
    events: list[Event], data: st.DataObject
) -> None:
    raw = raw_batch(events)
    number = st.integers(0, max(len(events) - 1, 0))
    picked = data.draw(st.lists(number, max_size=6 if events else 0))
    found = pick_events(raw, np.array(picked, np.int64))
    expected = [event_values(raw, number) for number in picked]
    assert [event_values(found, number) for number in range(len(picked))] == expected
    joined = join_batches([found, raw, found])
    assert [event_values(joined, number) for number in range(joined.event_count)] == [
        *expected,
        *(event_values(raw, number) for number in range(len(events))),
        *expected,
    ]


def test_refused_events_are_not_counted() -> None:
    payload = payload_from_dicts([{"a": 1}, {"a": float("nan")}, {"a": 1}])
    raw = decode_payload(payload.header, payload.buffers)
    assert accepted_events(raw).tolist() == [0, 2]
    counter, sample = EventCounter(), EventSample()
    counter.add(raw, "", 0)
    assert counter.frequencies().event_count == 2 and sample.add(raw) == 2
    assert counter.frequencies().attributes["a"].totals.present == 2


def test_the_most_frequent_values_come_first() -> None:
    events: list[Event] = [{"a": (1, "x")}, {"a": (1, 2.5)}, {"a": (True, "x")}, {"a": (1,)}]
    mine = counted(events, CountLimits()).attributes["a"]
    assert most_frequent(mine, 3) == [(1, 3), ("x", 2), (True, 1)]
    assert most_frequent(counted(events, CountLimits(distinct=1)).attributes["a"], 3) == []


def test_frequencies_under_different_limits_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different limits"):
        merge([counted([]), counted([], CountLimits())])
    assert merge([]).event_count == 0


@settings(max_examples=60)
@given(events=EVENTS)
def test_frequencies_come_back_as_they_were_written(
    events: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("statistics") / "statistics.packed"
    for limits in (FEW, CountLimits()):
        found = counted(events, limits)
        assert plain(from_bytes(to_bytes(found))) == plain(found)
        write_frequencies(path, StoredFrequencies(found, {"closed": False}, {"files": 3}))
        stored = read_frequencies(path)
        assert plain(stored.frequencies) == plain(found) and stored.frequencies.limits == limits
        assert stored.schema == {"closed": False} and stored.about == {"files": 3}


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "statistics.packed"
    write_frequencies(path, StoredFrequencies(counted([{"a": (1, "x")}]), {}, {}))
    good = path.read_bytes()
    for at in range(64, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with contextlib.suppress(StoreError):  # it may lie between two columns
            assert plain(read_frequencies(path).frequencies) == plain(counted([{"a": (1, "x")}]))
    path.write_bytes(good[:-1])
    with pytest.raises(StoreError, match="cut short"):
        read_frequencies(path)
    monkeypatch.setattr(frequencies_file, "STATISTICS_FORMAT", 2)
    path.write_bytes(good)
    with pytest.raises(StoreError, match="another version"):
        read_frequencies(path)
