"""The judge of retained events sees what is wrong, what is missing, and a loss that no death explains."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from catalogue_model import CatalogueModel
from retained_model import RetainedModel

TRUTH = np.array([[True, False], [True, True]])


def judged(told: dict[str, Any] | None, lives_after: int = 0, expression: int = 0) -> list[str]:
    """Return the breaches when a subscription is told this; events 0 and 1 are retained."""
    lives = [0]
    catalogue = CatalogueModel(TRUTH)
    model = RetainedModel(catalogue, lambda *_: None, lambda: lives[0])
    model.about_to_publish("p", "b", np.array([0, 1]), int((time.time() + 60.0) * 1e6))
    model.answered("p", "b")
    asked = model.moment()
    lives[0] = lives_after
    model.judge(expression, told, asked)
    model.settle(after_s=0.0)
    return catalogue.breaches


def told(*event_idxs: int) -> dict[str, Any]:
    events = [{"publisher": "p", "batch_id": "b", "event_index": idx} for idx in event_idxs]
    return {"count": len(events), "events": events}


def test_what_is_right_is_no_breach() -> None:
    assert not judged(told(0))
    assert not judged(told(0, 1), expression=1)


def test_a_wrong_event_a_missing_one_and_a_needless_loss_are_breaches() -> None:
    assert judged(told(0, 1))
    assert judged(None)
    assert judged(told(0), expression=1)
    assert judged({"error": {"condition": "lost"}})


def test_a_death_explains_what_is_missing_and_nothing_else() -> None:
    assert not judged(None, lives_after=1)
    assert not judged({"error": {"condition": "lost"}}, lives_after=1)
    assert judged(told(1), lives_after=1)


def test_a_batch_whose_answer_was_read_after_a_death_need_not_be_told_of() -> None:
    lives = [0]
    model = RetainedModel(CatalogueModel(TRUTH), lambda *_: None, lambda: lives[0])
    valid_until = int((time.time() + 60.0) * 1e6)
    model.about_to_publish("p", "b", np.array([0, 1]), valid_until)
    lives[0] = 1
    model.answered("p", "b")
    model.about_to_publish("p", "c", np.array([0]), valid_until)
    model.answered("p", "c")
    assert [batch.events.tolist() for batch in model.moment().answered] == [[0]]
