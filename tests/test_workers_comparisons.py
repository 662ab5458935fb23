"""Comparing two attributes of an event, against a look at all pairs."""

from __future__ import annotations

import operator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from matching_cases import raw_batch

from pubsub_cluster.language.raw_batch import AttributeEntries
from pubsub_cluster.workers.text_bits import compared_events

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
VALUES = st.sampled_from(
    [
        0,
        1,
        2,
        2**53,
        2**53 + 1,
        0.5,
        2.0**53,
        float("inf"),
        float("-inf"),
        "",
        "a",
        "A",
        "b",
        "é",
        "É",
        True,
        False,
    ]
)


def kind(value: Any) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(VALUES, min_size=1, max_size=4).map(tuple))
    ),
    st.sampled_from(sorted(OPERATORS)),
    st.booleans(),
)
def test_like_all_pairs(events: list[dict[str, tuple[Any, ...]]], name: str, folded: bool) -> None:
    folded = folded and name in ("=", "!=")

    def prepared(value: Any) -> Any:
        return value.lower() if folded and isinstance(value, str) else value

    expected = [
        idx
        for idx, event in enumerate(events)
        if any(
            kind(x) is kind(y)
            and (kind(x) is not bool or name in ("=", "!="))
            and OPERATORS[name](prepared(x), prepared(y))
            for x in event.get("a", ())
            for y in event.get("b", ())
        )
    ]
    values = raw_batch(events).attributes
    sides = [values.get(side, AttributeEntries()) for side in "ab"]
    found = compared_events(sides[0], sides[1], name, folded)
    assert sorted(set(found.tolist())) == expected
