"""The judge of durable delivery sees what it must see."""

from __future__ import annotations

import pytest
from receipts_model import Key, Line, judge

SENT = {Key("p", "b1", 0): 10, Key("p", "b1", 2): 12, Key("p", "b2", 0): 20}
FIRST, SECOND, THIRD = SENT
GOOD = [Line("one", 1, FIRST, 10, 0), Line("one", 2, SECOND, 12, 0), Line("two", 2, SECOND, 12, 0)]


def test_repeats_after_a_death_are_no_breach() -> None:
    counts, breaches = judge(SENT, {FIRST, SECOND}, GOOD, deaths=1)
    assert not breaches
    assert counts == {"notifications": 3, "repeated": 1, "lost": 0}


@pytest.mark.parametrize(
    ("heard", "deaths", "said"),
    [
        (GOOD, 0, "nobody died"),
        (GOOD[:1], 1, "is lost"),
        ([*GOOD, Line("two", 3, Key("p", "b1", 1), 11, 0)], 1, "never published"),
        ([*GOOD, Line("two", 3, THIRD, 21, 0)], 1, "has the value 21"),
        ([*GOOD, Line("two", 1, THIRD, 20, 0)], 1, "sequence 1 after 2"),
        ([*GOOD, Line("two", 4, THIRD, 20, 1)], 1, "are said to be lost"),
    ],
)
def test_what_must_not_be_is_seen(heard: list[Line], deaths: int, said: str) -> None:
    _, breaches = judge(SENT, {FIRST, SECOND}, heard, deaths)
    assert len(breaches) == 1 and said in breaches[0]
