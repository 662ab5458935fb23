"""Small rules for the importer's tests: a rule around a detection, and its truth by the importer's tree."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import yaml

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.naive import holds
from pubsub_cluster.sigma_rules.events import normalise
from pubsub_cluster.sigma_rules.rules import Rule, RuleSet, load_rules

RULE_ID = "5f0b3b7e-3a0e-4f0e-9d5c-000000000001"
HEAD = """\
title: A rule
id: {id}
status: test
level: high
tags:
    - attack.execution
    - attack.t1059.001
logsource:
    product: windows
{source}detection:
{detection}
"""


def rule_text(detection: str, source: str = "", rule_id: str = RULE_ID) -> str:
    """A rule file with a detection section, and more lines of its log source."""
    return HEAD.format(
        id=rule_id,
        source="".join(f"    {line}\n" for line in source.splitlines()),
        detection=textwrap.indent(textwrap.dedent(detection).strip(), "    "),
    )


def load_text(text: str, folder: Path) -> RuleSet:
    """What becomes of one rule file."""
    path = folder / "rule.yml"
    path.write_text(text, encoding="utf-8")
    return load_rules([path])


def loaded(detection: str, folder: Path, source: str = "") -> Rule:
    """The rule of a detection; it must be loaded."""
    found = load_text(rule_text(detection, source), folder)
    assert not found.refused and not found.not_applicable, found
    (rule,) = found.rules
    return rule


def refusal(detection: str, folder: Path, source: str = "") -> str:
    """The reason for which a detection is refused; it must be."""
    found = load_text(rule_text(detection, source), folder)
    assert not found.rules and not found.not_applicable, found
    (refused,) = found.refused
    return refused.reason


def importer_says(rule: Rule, event: dict[str, Any]) -> bool:
    """The naive matcher's answer for a rule on a raw event."""
    return holds(rule.expression, flatten_event(normalise(event)))


def body_of(detection: str, source: str = "") -> dict[str, Any]:
    """The same rule as the oracle takes it."""
    body: dict[str, Any] = yaml.safe_load(rule_text(detection, source))
    return body
