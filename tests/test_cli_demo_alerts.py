"""Alerts of the demonstration: drawn by seed, sensible, and said in English as they are meant."""

from __future__ import annotations

from typing import Any

import pytest
from demo_flights import invented_flights

from pubsub_cluster.cli.demo import parts
from pubsub_cluster.cli.demo.alerts import KINDS, Alert, draw_alerts
from pubsub_cluster.language.json_form import expression_from_json
from pubsub_cluster.language.normalise import normalise

FLIGHTS = invented_flights()


@pytest.fixture(scope="module")
def alerts() -> list[Alert]:
    return draw_alerts(FLIGHTS, 2_000, seed=1)


def test_equal_seeds_give_equal_alerts(alerts: list[Alert]) -> None:
    assert draw_alerts(FLIGHTS, 2_000, seed=1) == alerts
    assert draw_alerts(FLIGHTS, 2_000, seed=2) != alerts


def test_ids_and_owners(alerts: list[Alert]) -> None:
    assert [alert.id for alert in alerts[:2]] == ["alert-000000", "alert-000001"]
    assert len({alert.id for alert in alerts}) == 2_000
    assert {alert.owner.split("-")[0] for alert in alerts} == {owner for _, owner, _ in KINDS}
    assert alerts[0].item() == {"id": alerts[0].id, "expr": alerts[0].expr, "owner": alerts[0].owner}


@pytest.mark.parametrize("count", [1, 2, 17])
def test_few_alerts(count: int) -> None:
    assert len(draw_alerts(FLIGHTS, count, seed=1)) == count


def test_one_in_five_has_not_or_or(alerts: list[Alert]) -> None:
    twisted = sum("'not'" in str(alert.expr) or "'or'" in str(alert.expr) for alert in alerts)
    assert 0.15 < twisted / len(alerts) < 0.25
    assert any("'not'" in str(alert.expr) for alert in alerts)
    assert any("'or'" in str(alert.expr) for alert in alerts)


def test_every_alert_is_a_good_subscription(alerts: list[Alert]) -> None:
    schema = FLIGHTS.schema()
    for alert in alerts:
        form = normalise(expression_from_json(alert.expr), schema)
        assert form.clauses is not None
        assert len(form.clauses) >= 1


def test_sentences_say_what_is_asked(alerts: list[Alert]) -> None:
    for alert in alerts:
        assert alert.sentence.startswith("Flights ")
        assert "None" not in alert.sentence
        for atom in atoms_of(alert.expr):
            if atom["attr"] in ("origin", "dest", "tailnum") and isinstance(atom["value"], str):
                assert atom["value"] in alert.sentence
            if atom["attr"] in ("dep_delay", "arr_delay") and "value" in atom:
                assert str(abs(atom["value"])) in alert.sentence
        assert ("but not" in alert.sentence) == ("'not'" in str(alert.expr))
        assert ("either" in alert.sentence) == ("'or'" in str(alert.expr))


def atoms_of(expression: dict[str, Any]) -> list[dict[str, Any]]:
    if "attr" in expression:
        return [expression]
    if "not" in expression:
        return atoms_of(expression["not"])
    below = expression.get("and", expression.get("or", []))
    return [atom for child in below for atom in atoms_of(child)]


def test_a_whole_sentence() -> None:
    found = [
        parts.either(parts.route("JFK", "LAX"), parts.route("JFK", "SFO")),
        parts.leaving_late(60),
        parts.unless(parts.operated_by("UA", "United Air Lines Inc.")),
    ]
    assert parts.sentence(found) == (
        "Flights either from JFK to LAX or from JFK to SFO, leaving more than 60 minutes late, "
        "but not by United Air Lines Inc."
    )
    assert parts.expression(found) == {
        "and": [
            {
                "or": [
                    {"and": [_equals("origin", "JFK"), _equals("dest", "LAX")]},
                    {"and": [_equals("origin", "JFK"), _equals("dest", "SFO")]},
                ]
            },
            {"attr": "dep_delay", "op": ">", "value": 60},
            {"not": _equals("carrier", "UA")},
        ]
    }


def _equals(attribute: str, value: str) -> dict[str, Any]:
    return {"attr": attribute, "op": "=", "value": value}
