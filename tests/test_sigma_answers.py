"""All shared rules over all shared events: the run that `match` makes, against what the naive matcher found.

`tests/data/sigma-matches.txt` is what ``python -m pubsub_cluster.benchmarks.sigma_naive`` prints for the same
rules and events; neither rules nor events are in this repository.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pubsub_cluster.benchmarks.sigma_naive import NaiveRules, NumberedEvent, answers_of, from_text, to_text
from pubsub_cluster.embedded import Engine
from pubsub_cluster.language.naive import holds
from pubsub_cluster.logs.detector import Detector
from pubsub_cluster.logs.files import BadLine, read_blocks
from pubsub_cluster.logs.matching import EngineMatcher
from pubsub_cluster.logs.rules import RuleBook, read_book
from tests.shared_data import SIGMA_RULES, WINDOWS_EVENTS, needs_events, needs_rules, sigma_rule_set

pytestmark = pytest.mark.xdist_group("sigma")
Triple = tuple[str, str, int]


def frozen() -> set[Triple]:
    text = (Path(__file__).parent / "data" / "sigma-matches.txt").read_text()
    return {(rule, file, line) for (rule, file), lines in from_text(text).items() for line in lines}


def book() -> RuleBook:
    pytest.importorskip("sigma", reason="pySigma is not installed (the extra `sigma`)")
    return read_book([SIGMA_RULES])


def detected(rules: RuleBook, archives: list[Path]) -> set[Triple]:
    """What the engine finds in the events of some archives."""
    bad: list[BadLine] = []
    detector = Detector(rules.expressions, EngineMatcher(Engine(), rules), bad.append, rules.form({}))
    found: set[Triple] = set()
    for block in read_blocks(map(str, archives), bad.append):
        for line, positions in detector.matches_of(block):
            found |= {(rules.rules[position].id, block.file, line) for position in positions}
    assert not bad
    return found


def test_answers_are_written_as_they_are_read() -> None:
    answers = {("a", "x.json"): [1, 2, 70], ("a", "y.json"): [5], ("b", "x.json"): [3]}
    assert to_text(answers) == "a x.json 1 1 68\na y.json 5\nb x.json 3\n"
    assert from_text(to_text(answers)) == answers


@needs_rules
@needs_events
@pytest.mark.timeout(1_800)
def test_all_events_match_as_they_are_frozen() -> None:
    rules = book()
    assert len(rules.rules) >= 0.995 * 2_399
    assert len(rules.rules) + len(rules.refused) + len(rules.not_applicable) == 3_141
    assert detected(rules, sorted(WINDOWS_EVENTS.glob("*.zip"))) == frozen()


@needs_rules
def test_the_naive_run_leaves_out_no_rule_by_its_log_source() -> None:
    pytest.importorskip("sigma", reason="pySigma is not installed (the extra `sigma`)")
    rules = sigma_rule_set().rules[::20]
    values = {
        "Channel": ("security",),
        "EventID": ("4688",),
        "Image": ("C:\\Users\\x\\Downloads\\powershell.exe",),
        "CommandLine": ("powershell -enc AAAA http://x vssadmin delete shadows",),
    }
    found = NaiveRules(rules).match(values)
    assert sorted(found) == sorted(rule.id for rule in rules if holds(rule.expression, values))
    assert answers_of(rules, [NumberedEvent("f", 1, values)]).keys() == {(name, "f") for name in found}
