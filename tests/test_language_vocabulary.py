"""What is read from the bytes of a conjunction is what the long way gives, or nothing."""

from __future__ import annotations

import json

import msgspec
import orjson
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from vectors import load_vectors

from pubsub_cluster.language import vocabulary
from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.vocabulary import UNNUMBERED, Conjunctions

SMALL = Limits(nodes_per_subscription_max=90, string_size_bytes_max=3, name_size_bytes_max=3)
A, B = b'{"attr":"a","op":"=","value":1}', b'{"attr":"b","op":"<","value":"x"}'
UNIQUE = Schema.from_json({"attributes": [{"name": "a", "domain": "integer", "unique": True}]})


def check(conjunctions: Conjunctions, data: bytes, schema: Schema, limits: Limits) -> bool:
    """Say whether `data` was read; what was read must be what the compiler makes of the same bytes."""
    found = conjunctions.read(data)
    if found is None:
        return False
    expected = Compiler(schema, limits).normal_form(msgspec.json.decode(data))
    form = found.normal_form()
    assert form == expected
    kinds = [[type(part) for part in predicate] for predicate in form.predicates]
    assert kinds == [[type(part) for part in predicate] for predicate in expected.predicates]
    return True


@settings(max_examples=40)
@given(st.data(), st.sampled_from([DEFAULT_LIMITS, SMALL]))
def test_like_the_long_way(data: st.DataObject, limits: Limits) -> None:
    schema = data.draw(st.one_of(st.just(EMPTY_SCHEMA), strategies.schemas()))
    conjunctions = Conjunctions(schema, limits)
    trees = data.draw(st.lists(strategies.expressions(schema), min_size=1, max_size=2))
    parts = [expression_to_json(tree) for tree in trees]
    for obj in (parts[0], {"and": parts}):
        for spelt in (msgspec.json.encode(obj), json.dumps(obj).encode()):
            check(conjunctions, spelt, schema, limits)
            check(conjunctions, spelt, schema, limits)


def test_like_the_long_way_on_the_vectors() -> None:
    conjunctions = Conjunctions()
    read = [
        check(conjunctions, orjson.dumps(step["expr"]), EMPTY_SCHEMA, DEFAULT_LIMITS)
        for vector in load_vectors()
        for step in vector["steps"]
        if "expr" in step
    ]
    assert sum(read) > 20


@pytest.mark.parametrize("blank", [b"", b" "])
def test_the_usual_conjunctions_are_read(blank: bytes) -> None:
    def spelt(*parts: bytes) -> bytes:
        return b'{"and":%b[%b]}' % (blank, (b"," + blank).join(parts))

    conjunctions = Conjunctions()
    first, again, other = (conjunctions.read(spelt(*parts)) for parts in ((A, B), (A, B), (B,)))
    assert first is not None and again is not None and other is not None
    assert (first.numbers, again.numbers, other.numbers) == ([0, 1], [0, 1], [1])
    # The cut falls into a text.
    assert conjunctions.read(spelt(A, b'{"attr":"c","op":"in","value":["},%b{","y"]}' % blank)) is None
    assert conjunctions.read(A) is not None


@pytest.mark.parametrize(
    "data",
    [
        b'{"and":[]}',
        b'{"and":[%b,%b]}' % (A, A),
        b'{"and":[%b,%b]' % (A, B),
        b'{"and":[%b,%b]}]}' % (A, B),
        b'{"and":[%b,{"not":%b}]}' % (A, B),
        b'{"and":[%b,{"and":[%b]}]}' % (A, B),
        b'{"and":[%b,{"attr":"b","op":"<","value":"\xff"}]}' % A,
        b'{"and":[%b,{"attr":"b","op":"<","value":01}]}' % A,
        b'{"and":[%b,{"attr":"b","op":"<","value":{"$int":"1"}}]}' % A,
        b'{"and":[%b,{"attr":"b","op":"not exists"}]}' % A,
        b'{"and":[%b,{"attr":"b","op":"in","value":[]}]}' % A,
        b'{"and":[%b],"and":[%b]}' % (A, B),
        b'{"and":[%b,{"attr":"b","op":"="}]}' % A,
        b'{"and":[{},{}]}',
        b'{"or":[%b,%b]}' % (A, B),
        b'"a = 1"',
        b"",
        A[:-1],
    ],
)
def test_everything_else_is_left_alone(data: bytes) -> None:
    conjunctions = Conjunctions()
    conjunctions.read(b'{"and":[%b,%b]}' % (A, B))
    assert conjunctions.read(data) is None


def test_what_may_have_too_many_nodes_is_left_alone() -> None:
    data = b'{"and":[%b,%b]}' % (A, B)
    assert Conjunctions(EMPTY_SCHEMA, Limits(nodes_per_subscription_max=len(data))).read(data) is not None
    assert Conjunctions(EMPTY_SCHEMA, Limits(nodes_per_subscription_max=len(data) - 1)).read(data) is None
    assert Conjunctions(EMPTY_SCHEMA, Limits(nesting_depth_max=0)).read(data) is None


def test_ranges_of_a_unique_attribute_are_left_to_be_intersected() -> None:
    data = b'{"and":[{"attr":"a","op":">","value":1},{"attr":"a","op":"<","value":9}]}'
    assert Conjunctions(UNIQUE).read(data) is None
    assert Conjunctions().read(data) is not None


def test_a_full_vocabulary_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "SPELLINGS_MAX", 4)
    conjunctions = Conjunctions()
    found = [
        conjunctions.read(b'{"and":[%b,{"attr":"c","op":"=","value":%d}]}' % (A, number))
        for number in range(9)
    ]
    for number, one in enumerate(found):
        assert one is not None and one.normal_form().predicates[1].lo == number
    assert len({id(one.vocabulary) for one in found if one is not None}) == 5


def test_numbers_belong_to_the_one_who_gave_them() -> None:
    found = Conjunctions().read(A)
    assert found is not None
    one, other = object(), object()
    found.vocabulary.literals(one)[0] = 6
    assert found.vocabulary.literals(one) == [6]
    assert found.vocabulary.literals(other) == [UNNUMBERED]
    found.vocabulary.literals(other)[0] = 8
    found.vocabulary.forget_literals()
    assert found.vocabulary.literals(other) == [UNNUMBERED]
