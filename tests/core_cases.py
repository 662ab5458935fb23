"""Cases for the cores of matchers: random conjunctions and rows, and the comparison with brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pubsub_cluster.algorithms.conjunctions import (
    ABSENT,
    Comparison,
    Conjunctions,
    Core,
    Triple,
    brute_force,
    shortened,
)

INTEGERS = st.integers(-2, 6).map(float)
NUMBERS = st.one_of(INTEGERS, st.sampled_from([0.5, 2.5, -np.inf, np.inf, 1e300]))


def conjunctions_of(owned: list[tuple[int, tuple[Triple, ...]]]) -> Conjunctions:
    """Return (owner, predicates) in columns."""
    triples = [triple for _, mine in owned for triple in mine]
    return Conjunctions(
        np.array([owner for owner, _ in owned], np.int64),
        np.concatenate(([0], np.cumsum([len(mine) for _, mine in owned]))).astype(np.int64),
        np.array([one[0] for one in triples], np.int32),
        np.array([one[1] for one in triples], np.int8),
        np.array([one[2] for one in triples], np.float64),
    )


@st.composite
def catalogues(
    draw: st.DrawFn,
    attributes: int = 4,
    constants: st.SearchStrategy[float] = INTEGERS,
    comparisons: tuple[Comparison, ...] = tuple(Comparison),
    one_per_attribute: bool = False,
) -> list[list[tuple[Triple, ...]]]:
    """For each of some owners: its conjunctions, in shortest form; a few have none."""
    triple = st.tuples(st.integers(0, attributes - 1), st.sampled_from(comparisons), constants)
    key = (lambda one: one[0]) if one_per_attribute else None
    conjunction = st.lists(triple, max_size=5, unique_by=key)
    drawn = draw(st.lists(st.lists(conjunction, min_size=1, max_size=2), max_size=12))
    short = [[shortened(mine) for mine in owner] for owner in drawn]
    return [list(dict.fromkeys(mine for mine in owner if mine is not None)) for owner in short]


def rows(
    attributes: int = 4, numbers: st.SearchStrategy[float] = NUMBERS
) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Rows of numbers, some absent."""
    row = st.lists(st.one_of(numbers, st.just(ABSENT)), min_size=attributes, max_size=attributes)
    return st.lists(row, min_size=1, max_size=8).map(lambda found: np.array(found, np.float64))


def check_core(
    make: Callable[[], Core], catalogue: list[list[tuple[Triple, ...]]], values: Any, data: st.DataObject
) -> None:
    """Build with some owners, insert the others, delete some; compare with brute force each time."""
    core = make()
    built = data.draw(st.integers(0, len(catalogue)), "built")
    live = {owner: mine for owner, mine in enumerate(catalogue) if owner < built}

    def check() -> None:
        event, owner = core.match(values)
        found = sorted(set(zip(event.tolist(), owner.tolist(), strict=True)))
        everything = conjunctions_of([(owner, one) for owner, mine in live.items() for one in mine])
        assert found == list(zip(*(part.tolist() for part in brute_force(everything, values)), strict=True))
        assert core.bytes >= 0

    core.build(conjunctions_of([(owner, one) for owner, mine in live.items() for one in mine]))
    check()
    for owner in range(built, len(catalogue)):
        live[owner] = catalogue[owner]
        core.insert(conjunctions_of([(owner, one) for one in catalogue[owner]]))
    check()
    gone = data.draw(st.lists(st.sampled_from(sorted(live)), unique=True) if live else st.just([]), "deleted")
    for owner in gone:
        core.delete(owner)
        del live[owner]
    check()
