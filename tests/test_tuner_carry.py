"""Layouts that take over from the last one answer as brute force, and as layouts that are packed whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import Case, raw_batch, rows_of_events
from strategies import cases

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import compile_expression
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema
from pubsub_cluster.shm import blob as form
from pubsub_cluster.shm import catalogue_rows
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner import carry, fronts, tables
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.carry import Carried, Carrier
from pubsub_cluster.tuner.configuration import BY_LABEL, Configuration, TableSchema
from pubsub_cluster.tuner.last_layout import LastLayout
from pubsub_cluster.tuner.sections import read_stretch
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.kernels.reference_match import unpack_sections

NAMES = ("a", "b", "c", "d")
FIXED = [(0, 1), (2, 3), (0, 1, 2)]

Event = dict[str, tuple[object, ...]]


def sample_of(events: Sequence[Event]) -> EventSample:
    """Return statistics of some events."""
    sample = EventSample()
    sample.add(raw_batch(events))
    return sample


def by_label(schemas: Sequence[tuple[int, ...]]) -> Configuration:
    """Return tables over these attributes of the layout."""
    return Configuration(tuple(TableSchema(one, (BY_LABEL,) * len(one)) for one in schemas), ())


class Rounds:
    """A catalogue that changes, and the layouts of it, each of which takes over from the one before."""

    def __init__(self, expressions: Sequence[Any], schemas: Sequence[tuple[int, ...]] = FIXED) -> None:
        self.case = Case(expressions)
        self.tests = [compile_expression(expression_from_json(one)) for one in expressions]
        self.live = list(range(len(expressions)))
        self.version = 1
        self.last = LastLayout()
        self.configuration = by_label(schemas)

    def change(self, new: Sequence[Any], gone: Sequence[int]) -> None:
        """Subscribe and unsubscribe."""
        self.version += 1
        first = len(self.tests)
        self.case.add(new)
        self.tests += [compile_expression(expression_from_json(one)) for one in new]
        for row in gone:
            self.case.writer.remove(row, self.version)
        self.live = [*(row for row in self.live if row not in set(gone)), *range(first, len(self.tests))]

    def build(self, sample: EventSample | None, last: LastLayout | None) -> LayoutArrays:
        """Build a layout; without `last` all of it is packed."""
        return build_layout(
            self.case.reader,
            self.case.writer.counts(),
            self.version,
            sample,
            1,
            configuration=self.configuration,
            last=last,
        )

    def next(self, sample: EventSample | None) -> LayoutArrays:
        """Build the next layout."""
        layout = self.build(sample, self.last)
        self.last.settle(layout)
        return layout

    def check(self, layout: LayoutArrays, events: Sequence[Event]) -> None:
        """Compare a layout's answers with brute force."""
        engine = MatchEngine(self.case.reader, self.case.schema)
        engine.attach_layout(1, layout)
        found = rows_of_events(engine.match(raw_batch(events), 1, self.case.writer.counts()))
        for event, rows in zip(events, found, strict=True):
            assert len(set(rows)) == len(rows), "a row is told once"
            assert set(rows) == {row for row in self.live if self.tests[row](event)}


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> list[Carried | None]:
    """Return what is carried over from now on."""
    seen: list[Carried | None] = []
    plain = Carrier._carry

    def noted(self: Carrier, *how: Any) -> Carried | None:
        seen.append(plain(self, *how))
        return seen[-1]

    monkeypatch.setattr(Carrier, "_carry", noted)
    monkeypatch.setattr(catalogue_rows, "BLOCK_ROWS", 7)
    return seen


def some(rng: random.Random, count: int, values: int) -> list[Any]:
    """Return conjunctions and alternatives of equalities, sets, ranges and negations."""

    def literal(name: str) -> dict[str, Any]:
        value, kind = rng.randrange(values), rng.random()
        if kind < 0.6:
            return {"attr": name, "op": "=", "value": value}
        if kind < 0.75:
            return {"attr": name, "op": "in", "value": [value, value + 1]}
        if kind < 0.9:
            return {"attr": name, "op": "between", "lo": value - 0.5, "hi": value + rng.choice((0.6, 1.4))}
        return {"not": {"attr": name, "op": rng.choice(("=", "<")), "value": value}}

    def conjunction() -> dict[str, Any]:
        return {"and": [literal(name) for name in rng.sample(NAMES, rng.randint(1, 4))]}

    return [
        {"or": [conjunction(), conjunction()]} if rng.random() < 0.2 else conjunction() for _ in range(count)
    ]


def events_of(rng: random.Random, count: int, values: int) -> list[Event]:
    """Return events, some with several values of an attribute."""
    events: list[Event] = []
    for _ in range(count):
        names = [name for name in NAMES if rng.random() < 0.9]
        events.append({name: tuple(rng.sample(range(values), rng.choice((1, 1, 1, 2)))) for name in names})
    return events


@pytest.mark.parametrize("direct", [16, 0], ids=["direct", "hashed"])
@pytest.mark.parametrize("seed", range(4))
def test_rounds_of_change(
    monkeypatch: pytest.MonkeyPatch, carried: list[Carried | None], seed: int, direct: int
) -> None:
    """Constants come and go, statistics change, and so do the tables there are."""
    monkeypatch.setattr(tables, "DIRECT_ENTRIES_PER_HASH_ENTRY", direct)
    rng = random.Random(seed)
    rounds = Rounds(some(rng, 400, 6))
    for turn in range(7):
        values = 6 + 3 * (turn // 2)
        events = events_of(rng, 40, values)
        rounds.check(rounds.next(sample_of(events) if turn % 3 else None), events)
        rounds.change(some(rng, 8, values), rng.sample(rounds.live, 12))
        if turn == 3:
            rounds.configuration = by_label([(0, 1), (1, 2, 3)])
    kept = [sum(len(one.sections.key) for one in carried[at : at + 4] if one) for at in range(0, 16, 4)]
    assert all(kept), "each round takes something over"


def test_equal_to_what_is_packed_whole(carried: list[Carried | None]) -> None:
    """Where constants and statistics stay, every clause is dealt as before, and the bytes are the same."""
    rng = random.Random(5)
    values = range(9)
    dictionary = [{"attr": name, "op": "=", "value": value} for name in NAMES for value in values]
    sample = sample_of([{name: (value,) for name in NAMES} for value in values for _ in range(value + 1)])

    def triples(count: int) -> list[Any]:
        return [
            {"and": [{"attr": n, "op": "=", "value": rng.choice(values)} for n in rng.sample(NAMES, 3)]}
            for _ in range(count)
        ]

    rounds = Rounds(dictionary + triples(900))
    for _ in range(4):
        layout = rounds.next(sample)
        for name, mine, whole in zip(layout._fields, layout, rounds.build(sample, None), strict=True):
            assert mine.tobytes() == whole.tobytes(), name
        gone = rng.sample([row for row in rounds.live if row >= len(dictionary)], 15)
        rounds.change(triples(20), gone)
    packed = [len(one.picked) for one in carried if one]
    assert len(packed) == 12 and sum(packed) < 900, "most clauses were taken over in each of three rounds"


@pytest.mark.parametrize("new_constant", [False, True])
def test_ranges_stay_where_their_labels_do(
    monkeypatch: pytest.MonkeyPatch, carried: list[Carried | None], new_constant: bool
) -> None:
    """Fronts, uniform columns, runs and intervals are copied; where labels have shifted they are packed."""
    monkeypatch.setattr(carry, "PACKED_PART_MAX", 1)
    monkeypatch.setattr(fronts, "FEW_IN", 10**6)
    rng = random.Random(2)
    names = [f"r{number}" for number in range(12)]

    def rule(key: int) -> dict[str, Any]:
        def between(name: str) -> dict[str, Any]:
            lo = rng.randint(0, 40)
            return {"attr": name, "op": "between", "lo": lo, "hi": lo + rng.randint(20, 59)}

        picked = rng.sample(names, 9) if key % 3 == 0 else sorted(rng.sample(names[:4], 2))
        more = [{"attr": "flag", "op": "=", "value": rng.randrange(3)}] if key % 3 == 2 else []
        return {"and": [{"attr": "key", "op": "=", "value": key}, *more, *map(between, picked)]}

    every = [{"attr": name, "op": ">=", "value": value} for name in names for value in range(100)]
    rounds = Rounds([*every, *(rule(rng.randrange(30)) for _ in range(1_500))], [])
    first = rounds.next(None)
    assert first.has_fronts
    heads = first.cluster_blob[first.cluster_start]
    assert (heads & form.HEAD_RUNS).any() and (
        heads[heads >= 0] >> form.UNIFORM_SHIFT & form.UNIFORM_MASK
    ).any()
    new = [rule(4), rule(9), rule(14)]
    if new_constant:
        new.append({"attr": "r1", "op": ">", "value": 17.5})
    rounds.change(new, [len(every) + 3, len(every) + 900])
    layout = rounds.next(None)
    kept = sum(len(one.sections.key) for one in carried if one)
    assert kept > (20 if not new_constant else 0)
    assert layout.has_fronts
    events: list[Event] = [
        {
            "key": (rng.randrange(30),),
            "flag": (rng.randrange(3),),
            **{n: (rng.randint(0, 99),) for n in names},
        }
        for _ in range(60)
    ]
    rounds.check(layout, [*events, {"r1": (17.6,)}])


def equal(name: str, value: float) -> dict[str, Any]:
    """Return an equality."""
    return {"attr": name, "op": "=", "value": value}


@pytest.mark.parametrize("schemas", [[], [(0, 1)]], ids=["slots", "table"])
def test_a_few_clusters_do_not_tell_whether_fronts_are_worth_it(schemas: list[tuple[int, ...]]) -> None:
    """What is packed anew alone may be all of a kind that is rare in the table."""
    names = [f"r{number}" for number in range(12)]

    def many_ranges(key: int) -> dict[str, Any]:
        ranges = [{"attr": name, "op": "between", "lo": at, "hi": at + 20} for at, name in enumerate(names)]
        return {"and": [*keyed(key)["and"], *ranges[key % 3 :][:9]]}

    def keyed(key: int) -> dict[str, Any]:
        return {"and": [equal("key", key), equal("lock", key)]}

    every = [{"attr": name, "op": ">=", "value": value} for name in names for value in range(300)]
    rounds = Rounds([*map(keyed, range(80)), many_ranges(0), *every], schemas)
    assert not rounds.next(None).has_fronts
    rounds.change([many_ranges(81), many_ranges(82)], [])
    assert rounds.build(None, None).has_fronts is False
    layout = rounds.next(None)
    assert rounds.last.taken_over > 0.9 and not layout.has_fronts
    rounds.check(layout, [{"key": (81,), "lock": (81,), **{n: (at + 5,) for at, n in enumerate(names)}}])


def test_who_is_looked_up_by_another_literal_now_is_taken_out_of_where_he_was(
    carried: list[Carried | None],
) -> None:
    """Of a clause with two equalities the rarer one is looked up, and which that is may change."""
    rules = [{"and": [equal("a", number % 50), equal("b", number % 60)]} for number in range(300)]
    rules += [equal("c", number) for number in range(50)]
    rounds = Rounds(rules, [])
    events: list[Event] = [{"a": (n % 50,), "b": (n % 60,), "c": (n % 50,)} for n in range(120)]
    rounds.check(rounds.next(sample_of(events)), events)
    rounds.change([equal("a", 0), equal("b", 0)], [7])
    often: list[Event] = [{**event, "b": (0,)} for event in events]
    rounds.check(rounds.next(sample_of(often)), [*events, *often])
    (slots,) = carried
    assert slots is not None and len(slots.target) > 200, "the others stayed"


@pytest.mark.parametrize("changed", [3, 30])
def test_where_most_clusters_are_concerned_all_are_packed(
    carried: list[Carried | None], changed: int
) -> None:
    """A change of few clusters is taken over from, one of most is not."""
    rounds = Rounds([equal("a", number % 50) for number in range(1_000)], [])
    rounds.next(None)
    rounds.change([equal("a", number) for number in range(changed)], [])
    rounds.check(rounds.next(None), [{"a": (value,)} for value in range(50)])
    (slots,) = carried
    assert (slots is None) == (changed == 30)
    assert (rounds.last.taken_over > 0.9) == (changed == 3)


def test_programs_are_numbered_anew_each_time() -> None:
    """What hangs off their slots is packed anew, and theirs are no rows."""
    many = {"and": [{"or": [equal(f"p{at}", 1), equal(f"q{at}", 1)]} for at in range(9)]}
    rounds = Rounds([equal("p0", 1), many, equal("a", 1), {"and": [many, equal("a", 2)]}], [])
    events: list[Event] = [{f"p{at}": (1,) for at in range(9)}, {f"q{at}": (1,) for at in range(9)}]
    events += [{**event, "a": (value,)} for event in events for value in (1, 2)]
    first = rounds.next(None)
    assert len(first.program_row) == 2
    rounds.check(first, events)
    rounds.change([equal("a", 2), {"and": [many, equal("a", 1)]}], [1])
    rounds.check(rounds.next(None), events)
    rounds.change([], [0])
    rounds.check(rounds.next(None), events)


def test_ranges_that_get_a_flag() -> None:
    """A test that is worth a flag by now has no labels in columns any more."""
    below = Atom("a", Operator.LT, value=0)
    itself = Atom("a", Operator.EQ, other="a")
    case, last = Case([below], Schema((Attribute("a", DomainKind.INTEGER),))), LastLayout()
    for turn in range(2):
        layout = build_layout(case.reader, case.writer.counts(), 1, None, 1, last=last)
        last.settle(layout)
        engine = MatchEngine(case.reader, case.schema)
        engine.attach_layout(1, layout)
        found = rows_of_events(engine.match(raw_batch([{"a": (-1,)}]), 1, case.writer.counts()))
        assert found == [[0, 1, 2] if turn else [0]]
        case.add([itself, itself])


def test_a_gap_that_is_divided(carried: list[Carried | None]) -> None:
    """An interval that held one label, and was looked up as a point, holds several later on."""
    gap = {"attr": "a", "op": "between", "lo": 4, "hi": 5, "lo_open": True, "hi_open": True}
    rules = [{"and": [gap, equal("b", value)]} for value in range(40)]
    rounds = Rounds([*rules, equal("a", 4), equal("a", 5)], [(0, 1)])
    events: list[Event] = [{"a": (a,), "b": (b,)} for a in (4, 4.2, 4.5, 5) for b in range(0, 40, 7)]
    rounds.check(rounds.next(None), events)
    rounds.change([{"and": [equal("a", 4.5), equal("b", 7)]}], [])
    rounds.check(rounds.next(None), events)
    rounds.change([], [len(rules) + 2])
    rounds.check(rounds.next(None), events)
    assert carried


@settings(max_examples=60)
@given(case=cases(max_expressions=12), data=st.data())
def test_any_expressions_in_any_rounds(case: Any, data: st.DataObject) -> None:
    """Programs, texts, comparisons and whatever else there is."""
    rounds = data.draw(st.lists(st.integers(0, len(case.expressions)), min_size=1, max_size=3).map(sorted))
    catalogue = Case(case.expressions[: rounds[0]], case.schema)
    tests = [compile_expression(expression, case.schema) for expression in case.expressions]
    flat = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    last, version, live = LastLayout(), 1, set(range(rounds[0]))
    for begin, stop in zip([*rounds, len(tests)], [*rounds[1:], len(tests), len(tests)], strict=True):
        sample = EventSample()
        sample.add(raw_batch(flat[: data.draw(st.integers(0, len(flat)))]))
        counts = catalogue.writer.counts()
        layout = build_layout(catalogue.reader, counts, version, sample, 1, last=last)
        last.settle(layout)
        engine = MatchEngine(catalogue.reader, case.schema)
        engine.attach_layout(1, layout)
        found = rows_of_events(engine.match(raw_batch(flat), 1, counts))
        assert [set(rows) for rows in found] == [{row for row in live if tests[row](event)} for event in flat]
        version += 1
        catalogue.add(case.expressions[begin:stop])
        live |= set(range(begin, stop))
        for row in sorted(live):
            if data.draw(st.booleans()):
                catalogue.writer.remove(row, version)
                live.discard(row)


def fronted(rng: random.Random) -> list[Any]:
    """Return conjunctions of two equalities and nine or ten ranges, so that chains have several fronts."""
    names = [f"r{number}" for number in range(12)]

    def between(name: str) -> dict[str, Any]:
        lo = rng.randint(0, 40)
        return {"attr": name, "op": "between", "lo": lo, "hi": lo + rng.randint(20, 59)}

    def rule() -> dict[str, Any]:
        ranges = map(between, rng.sample(names, rng.choice((9, 10))))
        return {"and": [equal("a", rng.randrange(3)), equal("b", rng.randrange(3)), *ranges]}

    every = [{"attr": name, "op": ">=", "value": value} for name in names for value in range(100)]
    return [*(rule() for _ in range(300)), *every]


@pytest.mark.parametrize("kind", ["many sorts", "fronts"])
def test_sections_are_read_back(kind: str) -> None:
    """Literals and targets are where the plain reader of sections finds them."""
    rng = random.Random(11)
    rounds = Rounds(some(rng, 600, 6)) if kind != "fronts" else Rounds(fronted(rng), [(0, 1)])
    layout = rounds.next(None)
    assert layout.has_fronts == (kind == "fronts")
    position = np.flatnonzero(layout.table_direct >= 0)
    assert len(position)
    head = np.sort(layout.table_direct[position]).astype(np.int64)
    for mine in (head, layout.cluster_start):
        stretch = read_stretch(layout.cluster_blob, mine, np.zeros(len(layout.attribute_catalogue), bool))
        words = layout.cluster_blob[stretch.first :][: len(stretch.is_target)]
        plain = [unpack_sections(layout.cluster_blob, int(start)) for start in mine]
        entries = [entry for chain in plain for _, section in chain for entry in section]
        assert words[stretch.is_target].tolist() == [target for target, _ in entries]
        assert len(stretch.size) == sum(map(len, plain)) and stretch.size.sum() == len(entries)
        literals = {one for _, residuals in entries for one in residuals if isinstance(one, int)}
        assert set(words[stretch.is_literal()].tolist()) == literals
