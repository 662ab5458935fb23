"""The naive matcher over log files: what the engine's answers are compared with, and a baseline of its speed.

    python -m pubsub_cluster.benchmarks.sigma_naive SIGMA-RULES EVENTS... > ANSWERS

Written apart from `pubsub_cluster.logs`: archives are read whole, lines are decoded by the standard
library, every event is normalised by `sigma_rules.events.normalise` and every rule of its log source is
evaluated by `language.naive` on the whole event. Nothing is remembered between events. Answers are small
text, one line per rule and file: id, file, and the lines of the file as distances from one to the next.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.naive import Test, Values, compile_expression
from pubsub_cluster.sigma_rules.events import normalise
from pubsub_cluster.sigma_rules.logsources import LogSource, default_logsources
from pubsub_cluster.sigma_rules.rules import Rule, load_rules

Answers = dict[tuple[str, str], list[int]]
"""Line numbers by rule id and file."""


class NaiveRules:
    """Rules behind one test per log source.

    Parameters
    ----------
    rules : sequence of Rule
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        groups: dict[LogSource, list[tuple[str, Test]]] = {}
        for rule in rules:
            groups.setdefault(rule.logsource, []).append((rule.id, compile_expression(rule.expression)))
        self._groups: list[tuple[Test, list[tuple[str, Test]]]] = []
        for source, tests in groups.items():
            gate = default_logsources().expression_of(source)
            assert gate is not None, "a loaded rule has a log source of the table"
            self._groups.append((compile_expression(gate), tests))

    def match(self, values: Values) -> list[str]:
        """Return the ids of the rules that hold on an event."""
        return [
            rule_id for gate, tests in self._groups if gate(values) for rule_id, test in tests if test(values)
        ]


class NumberedEvent(NamedTuple):
    """One event of a file, `line` from 1, as rules see it."""

    file: str
    line: int
    values: Values


def read_events(archives: Iterable[Path]) -> Iterator[NumberedEvent]:
    """Return the events of archives of NDJSON."""
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if member.startswith("__MACOSX/") or member.endswith("/"):
                    continue
                text = archive.read(member).decode()
                for line, body in enumerate(text.split("\n"), start=1):
                    if body.strip():
                        name = member.rpartition("/")[2]
                        yield NumberedEvent(name, line, flatten_event(normalise(json.loads(body))))


def answers_of(rules: Sequence[Rule], events: Iterable[NumberedEvent]) -> Answers:
    """Return what matches what."""
    naive = NaiveRules(rules)
    found: Answers = {}
    for event in events:
        for rule_id in naive.match(event.values):
            found.setdefault((rule_id, event.file), []).append(event.line)
    return found


def to_text(answers: Answers) -> str:
    """Return answers as text, in the order of rules and files."""
    lines = []
    for (rule_id, file), numbers in sorted(answers.items()):
        steps = [after - before for before, after in zip([0, *numbers], numbers, strict=False)]
        lines.append(f"{rule_id} {file} {' '.join(map(str, steps))}\n")
    return "".join(lines)


def from_text(text: str) -> Answers:
    """Return the answers of `to_text`."""
    found: Answers = {}
    for entry in text.splitlines():
        rule_id, file, *steps = entry.split(" ")
        numbers: list[int] = []
        for step in steps:
            numbers.append(int(step) + (numbers[-1] if numbers else 0))
        found[rule_id, file] = numbers
    return found


def main() -> None:
    """Print the answers of the rules and archives on the command line."""
    rules = load_rules([sys.argv[1]]).rules
    sys.stdout.write(to_text(answers_of(rules, read_events(map(Path, sys.argv[2:])))))


if __name__ == "__main__":
    main()
