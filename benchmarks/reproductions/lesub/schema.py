"""LESUB's event model: the furniture example, random sequences of the extension rules, types and hierarchies.

Everything is asked of the language itself (`language/event_types.py`, `language/schema_rules.py`, the naive
matcher); nothing is timed. The paper's text has lost the names of its first type and most symbols: here it is
``period_item``, and the annotations are those of claims.md.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pubsub_cluster.benchmarks.reproductions.outcome import (
    Note,
    Outcome,
    Scale,
    Verdict,
    canvas,
    decided,
    save,
)
from pubsub_cluster.language.errors import CallerError, EventError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.schema_rules import RULES, extended
from pubsub_cluster.language.text_form import parse_text

SEQUENCES: dict[Scale, int] = {"small": 200, "paper": 2_000}
RULES_PER_SEQUENCE, EVENTS_PER_SEQUENCE = 30, 20
CATEGORIES = [f"{room}/{piece}" for room in ("bedroom", "dining", "outdoor") for piece in ("table", "chair")]
FURNITURE = Schema.from_json(
    {
        "domains": [
            {"name": "category", "domain": "hierarchical", "values": [*CATEGORIES, "dining/table/round"]}
        ],
        "attributes": [
            {"name": "price", "domain": "float"},
            {"name": "period", "domain": "string"},
            {"name": "quantity", "domain": "integer"},
            {"name": "furniture_category", "domain": "category"},
            {"name": "material", "domain": "string"},
        ],
        "types": [
            {
                "name": "period_item",
                "attributes": [{"name": name} for name in ("price", "period", "quantity")],
            },
            {
                "name": "furniture",
                "attributes": [
                    *({"name": name} for name in ("price", "quantity", "furniture_category")),
                    {"name": "material", "optional": True},
                ],
            },
        ],
    }
)
EVENT = {
    "event_type": ["period_item", "furniture"],
    "price": 120.0,
    "quantity": 1,
    "period": "xv",
    "furniture_category": "dining/table",
}
NAMES = ("price", "period", "quantity", "furniture_category", "material", "colour", "weight", "size")
TYPES = ("period_item", "furniture", "boat", "car")
VALUES: tuple[Any, ...] = (1.5, 3, "xv", "dining/table", ["a", "b"], [1.5, 2.5])


def refusal(schema: Schema, event: dict[str, Any]) -> EventError | None:
    """Return why an event is refused; None: it is valid."""
    try:
        flatten_event(event, schema)
    except EventError as error:
        return error
    return None


def furniture_verdict() -> Verdict:
    """Decide LESUB-31."""
    without = {name: value for name, value in EVENT.items() if name != "furniture_category"}
    valid, refused = refusal(FURNITURE, EVENT), refusal(FURNITURE, without)
    named = refused is not None and refused.fields.get("attribute") == "furniture_category"
    ours = f"with the category: {'valid' if valid is None else valid.condition}; without: "
    why = "an event is judged otherwise than the paper does"
    return decided(
        "LESUB-31", valid is None and named, ours + (refused.condition if refused else "valid"), why
    )


def a_rule(random: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Return a random rule and its definition, which may conflict."""

    def one(of: tuple[str, ...]) -> str:
        return of[int(random.integers(len(of)))]

    def flag() -> bool:
        return bool(random.integers(2))

    rule = one(tuple(RULES))
    if rule == "add_domain":
        return rule, {
            "name": one(("category", "d1", "d2", "d3")),
            "domain": "hierarchical",
            "values": CATEGORIES,
        }
    if rule == "add_attribute":
        domain = one(("float", "string", "category", "d1"))
        return rule, {"name": one(NAMES), "domain": domain, "unique": flag()}
    if rule == "extend_type":
        return rule, {"type": one(TYPES), "name": one(NAMES), "optional": flag(), "multiple": flag()}
    names = random.permutation(NAMES)[: int(random.integers(4))].tolist()
    attributes = [{"name": name, "optional": flag(), "multiple": flag()} for name in names]
    return rule, {"name": one(TYPES), "attributes": attributes}


def an_event(random: np.random.Generator) -> dict[str, Any]:
    """Return an event that is valid now and then."""
    event: dict[str, Any] = dict(EVENT) if random.random() < 0.5 else {}
    event["event_type"] = random.permutation(TYPES)[: int(random.integers(1, 3))].tolist()
    for name in random.permutation(NAMES)[: int(random.integers(4))].tolist():
        event[name] = VALUES[int(random.integers(len(VALUES)))]
    return event


class Sequences:
    """What random sequences of rules came to.

    Attributes
    ----------
    done : Counter
        By rule and what became of it.
    lost : int
        Valid events that an extension made invalid.
    gained : int
        Events that an extension made valid.
    wrongly_taken : int
        Mandatory or present attributes by which a type was extended all the same.
    """

    def __init__(self) -> None:
        self.done: Counter[tuple[str, str]] = Counter()
        self.lost = self.gained = self.wrongly_taken = self.repeated_domains = 0

    def run(self, seed: int) -> None:
        """Apply one sequence, and look at the same events after each rule."""
        random = np.random.default_rng(seed)
        schema, events = FURNITURE, [an_event(random) for _ in range(EVENTS_PER_SEQUENCE)] + [EVENT]
        valid = [refusal(schema, event) is None for event in events]
        for _ in range(RULES_PER_SEQUENCE):
            rule, definition = a_rule(random)
            try:
                found = extended(schema, rule, definition)
            except CallerError:
                self.done[rule, "refused"] += 1
                continue
            self.done[rule, "applied"] += 1
            self._look_at(schema, rule, definition)
            schema = found
            now = [refusal(schema, event) is None for event in events]
            self.lost += sum(before and not after for before, after in zip(valid, now, strict=True))
            self.gained += sum(after and not before for before, after in zip(valid, now, strict=True))
            valid = now

    def _look_at(self, schema: Schema, rule: str, definition: dict[str, Any]) -> None:
        if rule == "extend_type" and schema.types is not None:
            known = schema.types.get(definition["type"])
            has_it = known is not None and definition["name"] in known.names
            self.wrongly_taken += has_it or not definition["optional"]
        elif rule == "add_domain":
            self.repeated_domains += any(list(each.values) == CATEGORIES for each in schema.domains)

    def verdict(self, count: int) -> Verdict:
        """Decide LESUB-32."""
        applied = sum(number for (_, what), number in self.done.items() if what == "applied")
        holds = not self.lost and not self.wrongly_taken and self.repeated_domains > 0
        return decided(
            "LESUB-32",
            holds,
            f"{count:,} sequences, {applied:,} extensions: {self.lost} valid events lost, {self.gained:,} "
            "gained; "
            f"{self.wrongly_taken} mandatory or present attributes accepted; "
            f"{self.repeated_domains:,} domains repeat another's values",
            "an extension broke a rule",
        )


def language_verdict() -> Verdict:
    """Decide LESUB-33."""
    matcher = NaiveMatcher(FURNITURE)
    expression = 'event_type = "furniture" AND furniture_category UNDER "dining/table"'
    matcher.subscribe("dining tables", parse_text(expression, FURNITURE))
    expected = {"dining/table": True, "dining/table/round": True, "bedroom/table": False, "dining": False}
    found = {path: bool(list(matcher.match({**EVENT, "furniture_category": path}))) for path in expected}
    other = {name: value for name, value in EVENT.items() if name != "furniture_category"}
    without = bool(list(matcher.match({**other, "event_type": "period_item"})))
    ours = ", ".join(f"{path}: {'matches' if is_match else 'no match'}" for path, is_match in found.items())
    holds = found == expected and not without
    return decided(
        "LESUB-33", holds, f"{ours}; without a category: {without}", "an event is matched otherwise"
    )


def run(scale: Scale, note: Note) -> Outcome:
    """Judge the example, apply the rules, match."""
    sequences = Sequences()
    for seed in range(SEQUENCES[scale]):
        sequences.run(seed)
    note(f"{SEQUENCES[scale]:,} sequences of rules")
    lines = [
        {"rule": rule, **{what: sequences.done[rule, what] for what in ("applied", "refused")}}
        for rule in RULES
    ]
    verdicts = [furniture_verdict(), sequences.verdict(SEQUENCES[scale]), language_verdict()]
    return Outcome(lines, verdicts, partial(_draw, lines))


def _draw(lines: list[dict[str, Any]], path: Path) -> None:
    pyplot, figure, axes = canvas(1, 1, "Random extensions of the schema (LESUB)")
    bottom = [0] * len(lines)
    for what in ("applied", "refused"):
        height = [line[what] for line in lines]
        axes[0, 0].bar([line["rule"].replace("_", "\n") for line in lines], height, bottom=bottom, label=what)
        bottom = [low + high for low, high in zip(bottom, height, strict=True)]
    axes[0, 0].set(xlabel="rule", ylabel="rules (number)")
    axes[0, 0].legend(loc="lower right")
    save(pyplot, figure, path)
