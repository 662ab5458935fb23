"""Programs as steps: the truth of the postfix code, no literal looked at twice, the decisive ones first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.shm.blob import PROGRAM_HOLDS
from pubsub_cluster.tuner.programs import step_programs
from pubsub_cluster.workers.kernels.reference import evaluate

PREDICATES = 6


@st.composite
def programs(draw: st.DrawFn, depth: int = 4) -> list[int]:
    """Postfix code over a few predicates; connectives of one operand among them."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return [draw(st.integers(0, 2 * PREDICATES - 1))]
    operands = draw(st.lists(programs(depth - 1), min_size=1, max_size=4))
    connective = -2 * len(operands) - draw(st.integers(0, 1))
    return [code for operand in operands for code in operand] + [connective]


def run(steps: list[list[int]], truth: list[int]) -> tuple[bool, list[int]]:
    """Return what a program says, and the literals it looks at."""
    at, seen = 0, []
    while at >= 0:
        literal, if_true, if_false = steps[at]
        seen.append(at)
        following = if_true if truth[literal >> 1] != literal & 1 else if_false
        assert following < 0 or following > at, "jumps go forward"
        at = following
    return at == PROGRAM_HOLDS, seen


@given(
    codes=st.lists(programs(), min_size=1, max_size=3),
    truth=st.lists(st.integers(0, 1), min_size=PREDICATES, max_size=PREDICATES),
    likely=st.lists(st.floats(0.0, 1.0), min_size=PREDICATES, max_size=PREDICATES),
)
def test_steps_say_what_the_code_says(codes: list[list[int]], truth: list[int], likely: list[float]) -> None:
    """Whatever the order, for several programs one behind the other."""
    start = np.cumsum([0, *map(len, codes)])
    code = np.array([item for one in codes for item in one], np.int32)
    starts, steps = step_programs(code, start, np.array(likely))
    for number, one in enumerate(codes):
        mine = steps[starts[number] : starts[number + 1]].reshape(-1, 3).tolist()
        assert sorted(literal for literal, _, _ in mine) == sorted(item for item in one if item >= 0)
        holds, _ = run(mine, truth)
        assert holds == bool(evaluate(one, dict(enumerate(truth)), 1))


@pytest.mark.parametrize(("connective", "likely"), [(-6, [0.9, 0.5, 0.1]), (-7, [0.1, 0.5, 0.9])])
def test_what_decides_comes_first(connective: int, likely: list[float]) -> None:
    """The least likely operand of a conjunction, the likeliest of a disjunction."""
    code = np.array([0, 2, 4, connective], np.int32)
    _, steps = step_programs(code, np.array([0, 4]), np.array(likely))
    assert steps[::3].tolist() == [4, 2, 0]
    assert len(run(steps.reshape(-1, 3).tolist(), [0, 0, 0] if connective == -6 else [1, 1, 1])[1]) == 1
