"""The JSON form: everything it can say comes back, everything else is refused with its name."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.errors import CallerError, ExpressionError, LimitError
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.language.json_form import expression_from_any, expression_from_json, expression_to_json
from pubsub_cluster.language.limits import INT64_MAX, INT64_MIN, Limits
from pubsub_cluster.language.wellformed import check_tree

INF = float("inf")
EQ = Operator.EQ


def atom(value: Any, op: str = "=") -> dict[str, Any]:
    return {"attr": "a", "op": op, "value": value}


def same(left: Expression, right: Expression) -> bool:
    """Equal with types: dataclasses hold 1, 1.0 and True to be equal, and both zeros."""
    return left == right and repr(left) == repr(right)


@given(strategies.schemas().flatmap(strategies.expressions))
@settings(max_examples=100)
def test_round_trip(expression: Expression) -> None:
    text = json.dumps(expression_to_json(expression), allow_nan=False)
    assert same(expression_from_json(json.loads(text)), expression)
    check_tree(expression)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"and": []}, And(())),
        ({"or": [atom(1), {"not": atom("x")}]}, Or((Atom("a", EQ, 1), Not(Atom("a", EQ, "x"))))),
        (atom(True), Atom("a", EQ, True)),
        (atom(-0.0), Atom("a", EQ, -0.0)),
        (atom("\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")), Atom("a", EQ, "😀")),
        ({"attr": "ä", "op": "exists"}, Atom("ä", Operator.EXISTS)),
        ({"attr": "a", "op": "not exists"}, Atom("a", Operator.NOT_EXISTS)),
        (
            {"attr": "a", "op": "between", "lo": 1, "hi": "z", "lo_open": True, "hi_open": False},
            Atom("a", Operator.BETWEEN, lo=1, hi="z", lo_open=True),
        ),
        (atom([], "in"), Atom("a", Operator.IN, ())),
        (atom([1, 1, "x", {"$float": "Infinity"}], "not in"), Atom("a", Operator.NOT_IN, (1, 1, "x", INF))),
        ({**atom("x"), "ignore_case": True}, Atom("a", EQ, "x", ignore_case=True)),
        ({**atom("x"), "ignore_case": False}, Atom("a", EQ, "x")),
        ({"any": True, "op": "contains", "value": "x"}, Atom(None, Operator.CONTAINS, "x")),
        ({"attr": None, "any": True, "op": "like", "value": "*"}, Atom(None, Operator.LIKE, "*")),
        (atom({"$attr": "b"}, "<"), Atom("a", Operator.LT, other="b")),
        (atom({"$int": "-9223372036854775808"}), Atom("a", EQ, INT64_MIN)),
        (atom({"$float": "-0.0"}), Atom("a", EQ, -0.0)),
        (atom({"$float": "3.5e1"}), Atom("a", EQ, 35.0)),
        (atom({"$float": "-Infinity"}), Atom("a", EQ, -INF)),
        (atom({"$str": [["ab", 3], ["c", 1], ["d", 0]]}), Atom("a", EQ, "abababc")),
        (atom({"$seq": {"from": 0, "count": 3, "step": 2}}, "in"), Atom("a", Operator.IN, (0, 2, 4))),
        (atom({"$seq": {"from": 7, "count": 2, "step": 0}}, "in"), Atom("a", Operator.IN, (7, 7))),
        (atom({"$seq": {"from": 0, "count": 0, "step": 1}}, "in"), Atom("a", Operator.IN, ())),
    ],
)
def test_reading(obj: Any, expected: Expression) -> None:
    before = copy.deepcopy(obj)
    assert same(expression_from_json(obj), expected)
    assert obj == before


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (None, "is not an object"),
        ([], "is not an object"),
        ("a = 1", "is not an object"),
        ({}, "neither a connective nor a predicate"),
        ({"and": [], "or": []}, "neither"),
        ({"nand": []}, "unknown connective"),
        ({"and": {}}, "takes a list"),
        ({"and": [5]}, "is not an object"),
        ({"not": [atom(1)]}, "is not an object"),
        ({"attr": "a", "value": 1}, "neither"),
        ({"op": "=", "value": 1}, "has no attribute"),
        ({"attr": None, "op": "=", "value": 1}, "has no attribute"),
        ({"any": False, "op": "contains", "value": "x"}, "has no attribute"),
        ({"any": 1, "op": "contains", "value": "x"}, "neither true nor false"),
        ({"any": True, "op": "=", "value": 1}, "needs the name of an attribute"),
        ({"attr": "a", "any": True, "op": "contains", "value": "x"}, "both"),
        ({"attr": "", "op": "=", "value": 1}, "is empty"),
        ({"attr": 5, "op": "=", "value": 1}, "not text"),
        ({"attr": "\ud800", "op": "=", "value": 1}, "not valid Unicode"),
        (atom(1, "=="), "unknown operator.*Did you mean"),
        (atom("x", "contians"), "unknown operator.*Did you mean 'contains'"),
        (atom(1, "IN"), "unknown operator.*Did you mean 'in'"),
        (atom(1, []), "unknown operator"),  # type: ignore[arg-type]
        (atom(1, None), "unknown operator"),  # type: ignore[arg-type]
        ({**atom(1), "valeu": 2}, "unknown members.*valeu"),
        ({"attr": "a", "op": "exists", "value": None}, "unknown members"),
        ({"attr": "a", "op": "="}, "needs `value`"),
        ({"attr": "a", "op": "between", "lo": 1}, "needs `hi`"),
        ({"attr": "a", "op": "between", "lo": None, "hi": 1}, "null"),
        ({"attr": "a", "op": "between", "lo": 1, "hi": 2, "hi_open": "no"}, "neither true nor false"),
        ({"attr": "a", "op": "between", "lo": False, "hi": 2}, "no order"),
        (atom(None), "null is not a constant"),
        (atom([None], "in"), "null is not a constant"),
        (atom(float("nan")), "NaN"),
        (atom(INT64_MAX + 1), "64 bits.*9223372036854775808"),
        (atom(INT64_MIN - 1), "64 bits"),
        (atom("\ud800"), "not valid Unicode"),
        (atom(["x"]), "of no kind"),
        (atom({"a": 1}), "not a constant"),
        (atom({"$int": "1", "$float": "1"}), "exactly one member"),
        (atom({"$int": 5}), "not a constant"),
        (atom({"$int": "1_0"}), "not a constant"),
        (atom({"$int": "9223372036854775808"}), "64 bits"),
        (atom({"$int": "9" * 10_000}), "not a constant"),
        (atom({"$float": "NaN"}), "NaN"),
        (atom({"$float": "1e400"}), "too large"),
        (atom({"$float": "inf"}), "not a constant"),
        (atom({"$float": " 1"}), "not a constant"),
        (atom({"$float": 1.5}), "not a constant"),
        (atom({"$str": "x"}), "not a constant"),
        (atom({"$str": [["a", -1]]}), "piece"),
        (atom({"$str": [["a", True]]}), "piece"),
        (atom({"$seq": {"from": 0, "count": 2, "step": 1}}), "not a constant"),
        (atom({"$seq": {"from": 0, "count": -2, "step": 1}}, "in"), "negative"),
        (atom({"$seq": {"from": 0, "count": 2}}, "in"), "needs integers"),
        (atom({"$seq": {"from": 0, "count": 2, "step": 1.0}}, "in"), "needs integers"),
        (atom({"$seq": {"from": INT64_MAX, "count": 2, "step": 1}}, "in"), "64 bits"),
        (atom("xy", "in"), "takes a list"),
        (atom(1, "prefix"), "takes a string"),
        (atom(True, "<"), "no order"),
        (atom({"$attr": ""}), "is empty"),
        (atom({"$attr": 5}), "not text"),
        (atom({"$attr": None}), "needs the name"),
        (atom({"$attr": "b"}, "in"), "cannot compare two attributes"),
        (atom({"$attr": "b"}, "prefix"), "cannot compare two attributes"),
        ({**atom({"$attr": "b"}, "<"), "ignore_case": True}, "cannot ignore case"),
        ({**atom(5), "ignore_case": True}, "only strings"),
        ({**atom(["x", 5], "in"), "ignore_case": True}, "only strings"),
        ({**atom("x", "<"), "ignore_case": True}, "cannot ignore case"),
        ({**atom("10.0.0.0/8", "in_network"), "ignore_case": True}, "cannot ignore case"),
    ],
)
def test_refusals_say_what_was_seen(obj: Any, said: str) -> None:
    with pytest.raises(ExpressionError, match=said) as refused:
        expression_from_json(obj)
    assert refused.value.caller_fault


# -- limits


def limit_name(obj: Any, limits: Limits) -> Any:
    with pytest.raises(LimitError) as refused:
        expression_from_json(obj, limits)
    return refused.value.fields["limit_name"]


def test_nodes_are_counted_before_they_are_read() -> None:
    limits = Limits(nodes_per_subscription_max=10)
    good = {"and": [atom(1)] * 9}
    assert expression_from_json(good, limits) == And((Atom("a", EQ, 1),) * 9)
    assert limit_name({"and": [atom(1)] * 10}, limits) == "nodes_per_subscription_max"
    assert limit_name({"and": [atom(1)] * 8 + [{"not": atom(1)}]}, limits) == "nodes_per_subscription_max"
    assert limit_name({"and": [None] * 10}, limits) == "nodes_per_subscription_max"


def test_list_members_count_as_nodes() -> None:
    limits = Limits(nodes_per_subscription_max=10)
    assert expression_from_json(atom(list(range(10)), "in"), limits).value == tuple(range(10))  # type: ignore[union-attr]
    assert limit_name(atom(list(range(11)), "in"), limits) == "nodes_per_subscription_max"
    huge = {"$seq": {"from": 0, "count": 10**15, "step": 1}}
    assert limit_name(atom(huge, "in"), limits) == "nodes_per_subscription_max"
    check_tree(expression_from_json(atom(list(range(10)), "in")), limits)
    with pytest.raises(LimitError):
        check_tree(expression_from_json(atom(list(range(11)), "in")), limits)


def test_nesting_is_limited() -> None:
    obj = atom(1)
    for _ in range(128):
        obj = {"not": obj}
    check_tree(expression_from_json(obj))
    assert limit_name({"not": obj}, Limits()) == "nesting_depth_max"
    with pytest.raises(LimitError):
        check_tree(Not(expression_from_json(obj)))
    for _ in range(100_000):
        obj = {"and": [obj]}
    assert limit_name(obj, Limits()) == "nesting_depth_max"


def test_sizes_are_limited_in_bytes() -> None:
    limits = Limits(string_size_bytes_max=4, name_size_bytes_max=4)
    assert expression_from_json(atom("éé"), limits) == Atom("a", EQ, "éé")
    for value in ("ééa", "abcde", {"$str": [["a", 5]]}, {"$str": [["a", 10**15]]}, {"$str": [["é", 3]]}):
        assert limit_name(atom(value), limits) == "string_size_bytes_max"
    for name in ("abcde", "ééa"):
        assert limit_name({"attr": name, "op": "=", "value": 1}, limits) == "name_size_bytes_max"
        assert limit_name(atom({"$attr": name}), limits) == "name_size_bytes_max"


# -- robustness

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["a", "=", "in"]),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "and",
                    "or",
                    "not",
                    "attr",
                    "op",
                    "value",
                    "lo",
                    "hi",
                    "any",
                    "ignore_case",
                    "$int",
                    "$float",
                    "$str",
                    "$seq",
                    "$attr",
                ]
            ),
            children,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(json_values)
@settings(max_examples=200)
def test_garbage_is_refused_in_our_own_words(obj: Any) -> None:
    try:
        expression = expression_from_json(obj)
    except CallerError:
        return
    check_tree(expression)
    assert same(expression_from_json(expression_to_json(expression)), expression)


def test_text_or_json() -> None:
    assert expression_from_any("a = 1") == expression_from_any(atom(1)) == Atom("a", EQ, 1)


@pytest.mark.parametrize(
    ("operator", "meant"),
    [("=>", ">="), ("=<", "<="), ("==", "="), ("<>", "!="), ("startswith", "prefix"), ("betwen", "between")],
)
def test_an_unknown_operator_suggests_the_one_that_is_meant(operator: str, meant: str) -> None:
    with pytest.raises(ExpressionError, match="unknown operator") as refused:
        expression_from_json({"attr": "a", "op": operator, "value": 1})
    assert refused.value.remedy == f"Did you mean {meant!r}?"
