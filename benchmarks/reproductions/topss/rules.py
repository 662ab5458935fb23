"""Claims of TOPSS on predicates that no clock decides: slices, numbers, the bit vector, the model of data."""

from __future__ import annotations

import random

import numpy as np

from pubsub_cluster.algorithms.conjunctions import Comparison, Conjunctions, truth
from pubsub_cluster.algorithms.registry import make_matcher
from pubsub_cluster.algorithms.topss.bit_matrix import BitMatrix
from pubsub_cluster.algorithms.topss.counting import Counting
from pubsub_cluster.algorithms.topss.ordered_lists import OrderedLists
from pubsub_cluster.algorithms.topss.predicate_book import Predicates
from pubsub_cluster.algorithms.topss.predicate_table import PredicateTable
from pubsub_cluster.benchmarks.reproductions.outcome import Verdict, decided
from pubsub_cluster.benchmarks.reproductions.topss.measures import part
from pubsub_cluster.benchmarks.workloads.topss import OPERATORS, T4
from pubsub_cluster.language.errors import PubSubError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.raw_batch import AttributeEntries, NumberEntries, RawBatch
from pubsub_cluster.language.schema import Schema

DOMAIN = (1, 250)
STEPS = 5_000


def verdicts() -> list[Verdict]:
    """Return those on TOPSS-10 to -13 and -33."""
    return [_slices(), *_numbers(), _model()]


def _alone(attribute: list[int], comparison: list[int], constant: list[float]) -> Conjunctions:
    """Return predicates, each a conjunction."""
    count = len(attribute)
    columns = np.array(attribute, np.int32), np.array(comparison, np.int8), np.array(constant, np.float64)
    return Conjunctions(np.arange(count), np.arange(count + 1), *columns)


def _slices() -> Verdict:
    """All constants of a domain under all operators, for every value, and one step out of bounds."""
    low, high = DOMAIN
    every = [(int(op), float(constant)) for op in OPERATORS for constant in range(low, high + 1)]
    values = np.arange(low - 1.0, high + 2.0)
    is_exact = True
    structures: list[Predicates] = [PredicateTable(np.array([DOMAIN])), OrderedLists()]
    for predicates in structures:
        operators, constants = [one[0] for one in every], [one[1] for one in every]
        numbers = predicates.build(_alone([0] * len(every), operators, constants))
        bits = np.unpackbits(predicates.bits(values[:, None]), axis=1, bitorder="little")
        for number, (comparison, constant) in zip(numbers.tolist(), every, strict=True):
            is_exact &= np.array_equal(bits[:, number], truth(values, comparison, constant))
        greater = [
            number for number, one in zip(numbers.tolist(), every, strict=True) if one[0] == Comparison.GT
        ]
        is_exact &= bool((np.diff(bits[:, greater].astype(np.int8), axis=1) <= 0).all())
    ours = f"{len(every):,} predicates, {len(values)} values of [{low}, {high}] and one step beyond"
    return decided("TOPSS-10", is_exact, ours, "the slices are not those of the comparison")


def _numbers() -> list[Verdict]:
    """Insert and delete at random; look at every number."""
    draw = random.Random(11)
    same = again = packed = True
    structures: list[Predicates] = [PredicateTable(), OrderedLists()]
    for predicates in structures:
        same_here, again_here, packed_here = _one_story(draw, predicates)
        same, again, packed = same and same_here, again and again_here, packed and packed_here
    again &= _subscription_ids(draw)
    ours = f"{STEPS:,} random insertions and deletions in both structures"
    return [
        decided("TOPSS-11", same, ours, "a predicate has two numbers, or two have one"),
        decided(
            "TOPSS-12", again, f"{ours}; {STEPS:,} of subscriptions", "a new number came before a free one"
        ),
        decided("TOPSS-13", packed, f"{ours}; ceil(n / 8) bytes", "the vector is longer"),
    ]


def _one_story(draw: random.Random, predicates: Predicates) -> tuple[bool, bool, bool]:
    held: list[tuple[int, tuple[int, int, float]]] = []
    live: dict[tuple[int, int, float], int] = {}
    same = again = packed = True
    peak = 0
    for step in range(STEPS):
        if held and draw.random() < 0.5:
            number, one = held.pop(draw.randrange(len(held)))
            predicates.remove(np.array([number], np.int32))
            live[one] -= 1
            if live[one] == 0:
                del live[one]
        else:
            one = (draw.randrange(10), int(draw.choice(OPERATORS.tolist())), float(draw.randrange(1, 11)))
            bound, was_free = predicates.bound, predicates.count < predicates.bound
            number = int(predicates.add(_alone([one[0]], [one[1]], [one[2]]))[0])
            again &= predicates.bound == bound or not was_free
            held.append((number, one))
            live[one] = live.get(one, 0) + 1
        peak = max(peak, len(live))
        again &= predicates.bound <= peak
        if step % 100 == 0:
            same &= len({number for number, _ in held}) == len(live) == len(set(held)) == predicates.count
            packed &= predicates.bits(np.ones((1, 10))).shape[1] == -(-predicates.bound // 8)
    return same, again, packed


def _subscription_ids(draw: random.Random) -> bool:
    core, peak, again = Counting(PredicateTable(), BitMatrix()), 0, True
    live: list[int] = []
    drawn = T4.conjunctions(STEPS)
    for owner in range(STEPS):
        if live and draw.random() < 0.5:
            core.delete(live.pop(draw.randrange(len(live))))
        else:
            bound, was_free = core.ids.bound, core.ids.count < core.ids.bound
            core.insert(part(drawn, owner, owner + 1))
            again &= core.ids.bound == bound or not was_free
            live.append(owner)
        peak = max(peak, len(live))
        again &= core.ids.bound <= peak and core.ids.count == len(live)
    return again


def _model() -> Verdict:
    """An event may leave attributes out; a value outside an attribute's domain is refused."""
    schema = Schema.from_json({"attributes": [{"name": "a", "domain": "integer"}]})
    refused = []
    for bad in ({"a": "x"}, {"a": True}):
        try:
            flatten_event(bad, schema, DEFAULT_LIMITS)
        except PubSubError as error:
            refused.append(error)
    holds = len(refused) == 2
    for name in ("bit-matrix", "list-ordered", "sql-grouping-sqlite"):
        matcher = make_matcher(name, schema)
        matcher.build([(0, Atom("a", Operator.NE, 7)), (1, Atom("b", Operator.LT, 7))])
        event = np.array([0], np.int32)
        numbers = AttributeEntries(NumberEntries(event, np.array([5], np.int64), np.zeros(1)))
        holds &= matcher.match(RawBatch(2, {"a": numbers}, {})).handles.tolist() == [0]
    ours = "left-out attributes satisfy nothing, `!=` neither; no text or truth value is an integer"
    return decided("TOPSS-33", holds, ours, "an event is not treated so")
