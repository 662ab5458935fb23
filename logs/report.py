"""What a run over log files found, rule by rule: the table that an analyst reads."""

from __future__ import annotations

from typing import NamedTuple

from pubsub_cluster.logs.rules import BookRule, level_rank


class RuleTotal(NamedTuple):
    """Detections of one rule.

    Attributes
    ----------
    rule : BookRule
    event_count : int
        Events.
    first_file : str
    first_line : int
        Where the first one is.
    """

    rule: BookRule
    event_count: int
    first_file: str
    first_line: int


class Totals:
    """Counts detections as they come.

    Parameters
    ----------
    rules : sequence of BookRule
    """

    def __init__(self, rules: list[BookRule]) -> None:
        self._rules = rules
        self._count: dict[int, int] = {}
        self._first: dict[int, tuple[str, int]] = {}

    def add(self, position: int, file: str, line: int) -> None:
        """Count a detection of the rule at a position."""
        self._count[position] = self._count.get(position, 0) + 1
        self._first.setdefault(position, (file, line))

    @property
    def detection_count(self) -> int:
        """(rule, event) pairs so far."""
        return sum(self._count.values())

    def sorted(self) -> list[RuleTotal]:
        """Return the rules with detections: by level, the most urgent first, then the most frequent first."""
        found = [
            RuleTotal(self._rules[position], count, *self._first[position])
            for position, count in self._count.items()
        ]
        found.sort(key=lambda total: (level_rank(total.rule.level), -total.event_count, total.rule.title))
        return found
