"""All rules of the archive: what is loaded; the importer against the oracle on made and on real events."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

import sigma.types as types
from sigma_oracle import Oracle, atoms, flat, raw_pattern

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.naive import Test, compile_expression
from pubsub_cluster.sigma_rules.documents import read_documents
from pubsub_cluster.sigma_rules.events import Normaliser
from pubsub_cluster.sigma_rules.rules import Rule
from tests.shared_data import SIGMA_RULES, event_lines, needs_events, needs_rules, sigma_rule_set

REAL_EVENT_STRIDE = 3_001
MADE_EVENTS_PER_RULE = 6

pytestmark = [needs_rules, pytest.mark.xdist_group("sigma")]


@cache
def matchers() -> tuple[tuple[Rule, Oracle, Test], ...]:
    bodies = {document.where: document.body for document in read_documents([SIGMA_RULES])}
    return tuple(
        (rule, Oracle(bodies[rule.where]), compile_expression(rule.expression))
        for rule in sigma_rule_set().rules
    )


def test_every_rule_that_is_for_windows_is_loaded() -> None:
    found = sigma_rule_set()
    assert not found.refused
    assert len(found.rules) == 2_399 and len(found.not_applicable) == 742
    products = Counter(rule.logsource.product for rule in found.rules)
    assert products == {"windows": 2_399}
    others = Counter(each.logsource.category for each in found.not_applicable if "windows" in each.reason)
    assert others == {"file_access": 7, "file_rename": 1}
    assert Counter(rule.level for rule in found.rules).keys() == {
        "informational", "low", "medium", "high", "critical",
    }  # fmt: skip
    assert all(rule.title and rule.tags is not None for rule in found.rules)


def made_event(oracle: Oracle, rng: random.Random) -> dict[str, Any]:
    """An event of the rule's log source with texts that fit some of the rule's own tests."""
    event: dict[str, Any] = {}
    share = rng.choice([0.3, 0.7, 1.0])
    for condition in oracle.conditions:
        for field, value in atoms(condition):
            if rng.random() < share:
                made = fitting(value, rng)
                name = field or rng.choice(["Message", "Text"])
                if isinstance(value, types.SigmaFieldReference):
                    event.setdefault(value.field, "Same")
                elif made is not None and name not in event:
                    event[name] = made
                elif made is not None and rng.random() < 0.8:  # a further value, for what has to hold as well
                    event[name] = [*(event[name] if isinstance(event[name], list) else [event[name]]), made]
    for where in oracle.where or []:
        for name, values in where.items():
            given = event.get(name)
            event[name] = rng.choice(values) if given is None else [given, rng.choice(values)]
    if "Image" in event and "Security" in str(event.get("Channel")) and "4688" in str(event.get("EventID")):
        event["NewProcessName"] = event.pop("Image")
    return event


def fitting(value: Any, rng: random.Random) -> Any:
    """A value for which a test may hold; None leaves the field out."""
    if isinstance(value, types.SigmaExpansion):
        return fitting(rng.choice(value.values), rng)
    if isinstance(value, types.SigmaString):
        filler = {types.SpecialChars.WILDCARD_MULTI: rng.choice(["", "\\", "x\n"])}
        text = "".join(part if isinstance(part, str) else filler.get(part, "q") for part in value.s)
        return rng.choice([text, text.upper(), text.lower(), text + rng.choice(["", " ", "z"])])
    if isinstance(value, types.SigmaNumber):
        return rng.choice([value.number, str(value.number), f"0{value.number}"])
    if isinstance(value, types.SigmaCIDRExpression):
        return rng.choice([str(value.network.network_address), "-", "203.0.113.9"])
    if isinstance(value, types.SigmaRegularExpression):
        return rng.choice([raw_pattern(value), "abcdefgh", "APT1", "a b-c_1.exe"])
    if isinstance(value, types.SigmaBool):
        return rng.choice([value.boolean, str(value.boolean), "other"])
    return rng.choice([None, "Same", "same"])


def test_made_events() -> None:
    """On each rule, events that are made of its own constants; it holds on many and fails on many."""
    rng, normaliser = random.Random(20_130), Normaliser()
    outcomes: Counter[bool] = Counter()
    fired = set()
    for rule, oracle, test in matchers():
        for _ in range(MADE_EVENTS_PER_RULE):
            event = made_event(oracle, rng)
            expected = oracle.holds(event)
            assert test(flatten_event(normaliser.normalise(event))) is expected, (rule.where, event)
            outcomes[expected] += 1
            if expected:
                fired.add(rule.id)
    assert len(fired) > 1_500 and outcomes[False] > 3_000, outcomes


@needs_events
@pytest.mark.timeout(600)
def test_real_events() -> None:
    """Every rule on a sample of recorded events; frozen answers for all of them are another test's."""
    normaliser = Normaliser()
    for number, (file, line_number, line) in enumerate(event_lines()):
        if number % REAL_EVENT_STRIDE:
            continue
        event = json.loads(line)
        raw, normal = flat(event), flatten_event(normaliser.normalise(event))
        expected = [rule.id for rule, oracle, _ in matchers() if oracle.holds_flat(raw)]
        found = [rule.id for rule, _, test in matchers() if test(normal)]
        assert found == expected, f"{file}:{line_number}"
