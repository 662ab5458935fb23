"""Boolean programs as the matching kernel runs them: one step per literal, with a jump for each outcome.

The catalogue keeps postfix code. Here it becomes steps (literal, next step if it holds, next step if not), as
positions within the program; `PROGRAM_HOLDS` and `PROGRAM_FAILS` end it. All jumps go forward: a literal is
looked at once at most. What is likely to decide its connective at little cost comes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.shm.blob import PROGRAM_FAILS, PROGRAM_HOLDS
from pubsub_cluster.shm.code_space import F8, I4, I8

_LEAST = 1e-9


class _Node(NamedTuple):
    """A literal, or a connective over nodes.

    Attributes
    ----------
    literal : int
        -1: a connective.
    is_and : bool
    operands : tuple of _Node
        In the order of evaluation.
    probability : float
        That it holds.
    cost : float
        Literals that are looked at, on average.
    size : int
        Literals.
    """

    literal: int
    is_and: bool
    operands: tuple[_Node, ...]
    probability: float
    cost: float
    size: int


def step_programs(code: I4, start: I8, probability: F8) -> tuple[I4, I4]:
    """Return all programs as steps.

    Parameters
    ----------
    code : int32[]
        Postfix, as in `language.predicate.NormalForm`, over predicates of the layout.
    start : int64[G+1]
        Programs in `code`.
    probability : float64[P]
        That a predicate holds; predicates are taken as independent.

    Returns
    -------
    start : int32[G+1]
    steps : int32[]
        Three numbers a step.
    """
    starts = [0]
    steps: list[int] = []
    codes, likely = code.tolist(), probability.tolist()
    for first, stop in itertools.pairwise(start.tolist()):
        _write_steps(_parse(codes[first:stop], likely), 0, PROGRAM_HOLDS, PROGRAM_FAILS, steps)
        starts.append(len(steps))
    return np.array(starts, np.int32), np.array(steps, np.int32)


def literals_looked_at(code: I4, start: I8, probability: F8) -> F8:
    """Return how many literals of each program are looked at on average; parameters as `step_programs`."""
    codes, likely = code.tolist(), probability.tolist()
    bounds = itertools.pairwise(start.tolist())
    return np.array([_parse(codes[first:stop], likely).cost for first, stop in bounds], np.float64)


def _parse(code: Sequence[int], probability: Sequence[float]) -> _Node:
    stack: list[_Node] = []
    for item in code:
        if item >= 0:
            holds = probability[item >> 1]
            stack.append(_Node(item, False, (), 1.0 - holds if item & 1 else holds, 1.0, 1))
            continue
        operand_count = -item >> 1
        operands = stack[len(stack) - operand_count :]
        del stack[len(stack) - operand_count :]
        stack.append(_connective(item & 1 == 0, operands))
    return stack[0]


def _connective(is_and: bool, operands: list[_Node]) -> _Node:
    """Return a connective whose operands stand in the order that is cheapest if they are independent."""

    def decides(node: _Node) -> float:
        return 1.0 - node.probability if is_and else node.probability

    ordered = sorted(operands, key=lambda node: node.cost / max(decides(node), _LEAST))
    undecided, cost = 1.0, 0.0
    for node in ordered:
        cost += undecided * node.cost
        undecided *= 1.0 - decides(node)
    holds = undecided if is_and else 1.0 - undecided
    return _Node(-1, is_and, tuple(ordered), holds, cost, sum(node.size for node in ordered))


def _write_steps(node: _Node, first: int, on_true: int, on_false: int, steps: list[int]) -> None:
    """Append the steps of a node, the first of which is step `first` of its program."""
    if node.literal >= 0:
        steps += (node.literal, on_true, on_false)
        return
    for at, operand in enumerate(node.operands):
        following = first + operand.size
        is_last = at == len(node.operands) - 1
        after_true = following if node.is_and and not is_last else on_true
        after_false = following if not node.is_and and not is_last else on_false
        _write_steps(operand, first, after_true, after_false, steps)
        first = following
