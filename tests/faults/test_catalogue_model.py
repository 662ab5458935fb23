"""The judge of the fault runs: it must see what is lost, undone, wrong or repeated, and excuse only doubt."""

from __future__ import annotations

import numpy as np
import pytest
from catalogue_model import Answer, CatalogueModel

TRUTH = np.array([[True, False], [False, True], [True, True]])  # [expression, event]


def answer(version: int, rows: dict[str, str], handles: dict[str, int] | None = None) -> Answer:
    """Return the answer to both events: by id, which of them it is said to match, such as "10"."""
    handles = handles or {name: number for number, name in enumerate(sorted(rows), 1)}
    by_event = [
        sorted((handles[name], name) for name, row in rows.items() if row[event] == "1") for event in (0, 1)
    ]
    offsets = np.cumsum([0, *map(len, by_event)])
    flat = [pair for pairs in by_event for pair in pairs]
    numbers = np.array([handle for handle, _ in flat], np.uint64)
    ids = [name for _, name in flat]
    return Answer("p", "b", np.array([0, 1]), version, offsets, numbers, ids, False)


@pytest.fixture
def model() -> CatalogueModel:
    """Return a model in which `a` was made at version 1, replaced at 2, and removed at 3."""
    model = CatalogueModel(TRUTH)
    for version, expression in ((1, 0), (2, 1), (3, None)):
        model.acknowledged(model.begin("a", expression), version)
    return model


@pytest.mark.parametrize(
    ("version", "rows", "right"),
    [
        (0, {}, True),
        (0, {"a": "10"}, False),
        (1, {"a": "10"}, True),
        (1, {}, False),
        (2, {"a": "01"}, True),
        (2, {"a": "10"}, False),
        (2, {"a": "11"}, False),
        (3, {}, True),
        (3, {"a": "01"}, False),
        (3, {"b": "01"}, False),
    ],
)
def test_what_is_certain_is_judged(
    model: CatalogueModel, version: int, rows: dict[str, str], right: bool
) -> None:
    model.judge(answer(version, rows))
    assert (not model.breaches) is right


def test_doubt_is_excused_once_and_then_narrowed(model: CatalogueModel) -> None:
    model.saw(10)
    model.begin("c", 2)
    model.judge(answer(15, {}))
    model.judge(answer(20, {"c": "11"}))
    assert not model.breaches
    assert model.in_doubt == 2
    model.judge(answer(21, {}))
    assert len(model.breaches) == 1, "seen at version 20, so not gone at 21"
    model.judge(answer(14, {"c": "11"}))
    assert len(model.breaches) == 2, "not there at version 15, so not at 14"
    model.judge(answer(16, {"c": "10"}))
    assert len(model.breaches) == 3, "neither as before nor as after"


def test_a_change_that_was_refused_must_not_be_seen(model: CatalogueModel) -> None:
    change = model.begin("c", 2)
    model.refused("c", change)
    model.judge(answer(9, {"c": "11"}))
    assert len(model.breaches) == 1


def test_an_acknowledgement_comes_with_a_new_version(model: CatalogueModel) -> None:
    model.acknowledged(model.begin("c", 2), 3)
    assert len(model.breaches) == 1


def test_handles_name_one_subscription(model: CatalogueModel) -> None:
    model.handle_given("a", 1)
    model.handle_given("c", 1)
    assert len(model.breaches) == 1
    model.judge(answer(1, {"a": "10"}, {"a": 7}))
    model.acknowledged(model.begin("c", 2), 4)
    model.judge(answer(4, {"c": "11"}, {"c": 7}))
    assert len(model.breaches) == 3, "told for each event"


def test_answers_wait_while_a_change_is_under_way(model: CatalogueModel) -> None:
    assert model.settled_version() > 1_000
    change = model.begin("c", 2)
    assert model.settled_version() == 3
    model.acknowledged(change, 4)
    assert model.settled_version() > 1_000
    assert model.live() == ["c"] and model.gone() == ["a"]
