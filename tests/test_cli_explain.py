"""The command `explain` and the explanations behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.cli import explain_sources
from pubsub_cluster.cli.main import cli
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.explain import (
    Explained,
    atom_line,
    explain,
    miss_count,
    missed_predicates,
    nearest,
    tree_lines,
)
from pubsub_cluster.language.expression import And, Or
from pubsub_cluster.language.naive import holds
from pubsub_cluster.language.text_form import parse_text
from tests import strategies

EVENT = {"channel": "s", "n": 3, "path": "C:\\a.exe", "tags": ["x", "y"]}
VALUES = flatten_event(EVENT)


def explained(text: str, event: dict[str, Any] = EVENT) -> Explained:
    return explain(parse_text(text), flatten_event(event))


def test_the_tree_tells_the_truth_and_what_was_seen() -> None:
    found = explained('channel = "s" AND (n > 5 OR tags = "y") AND NOT (user = "me" OR EXISTS path)')
    assert tree_lines(found) == [
        "- AND  (2 of 3 hold)",
        '  + channel = "s"   [channel is "s"]',
        "  + OR  (1 of 2 hold)",
        "    - n > 5   [n is 3]",
        '    + tags = "y"   [tags is ["x", "y"]]',
        "  - NOT",
        "    + OR  (1 of 2 hold)",
        '      - user = "me"   [user is missing]',
        '      + EXISTS path   [path is "C:\\a.exe"]',
    ]
    assert found.misses == 1
    assert [atom_line(atom) for atom in missed_predicates(found)] == ['EXISTS path   [path is "C:\\a.exe"]']


@pytest.mark.parametrize(
    ("text", "misses"),
    [
        ('channel = "s"', 0),
        ('channel = "t" AND n = 4', 2),
        ('(channel = "t" AND n = 4) OR n = 5', 1),
        ('NOT (channel = "s" OR n = 3)', 2),
        ('NOT (channel = "s" AND n = 3)', 1),
        ("n = m", 1),
        ("TRUE", 0),
    ],
)
def test_misses_are_the_fewest_predicates_to_change(text: str, misses: int) -> None:
    found = explained(text)
    assert found.misses == misses == miss_count(parse_text(text), VALUES)
    assert len(missed_predicates(found)) == misses


def test_nothing_to_change_helps_an_empty_disjunction() -> None:
    assert not explain(Or(()), VALUES).holds
    assert missed_predicates(explain(Or(()), VALUES)) == []
    assert explain(And(()), VALUES).holds


def test_long_lists_show_what_decides() -> None:
    names = " OR ".join(f'path SUFFIX "{name}"' for name in "BCDEFGHIJKLMNOPQRSTUVWXYZ")
    lines = tree_lines(explained(f'{names} OR path SUFFIX "a.exe"'), shown_max=3)
    assert len(lines) == 5
    assert lines[0] == "+ OR  (1 of 26 hold)"
    assert 'SUFFIX "a.exe"' in lines[3]
    assert lines[4] == "    ... and 23 more"
    assert len(tree_lines(explained(names), shown_max=None)) == 26


def test_long_texts_keep_their_ends() -> None:
    texts = [f'path CONTAINS "{"x" * 200}{end}"' for end in ("one", "two")]
    lines = [atom_line(explained(text)).split("   [")[0] for text in texts]
    assert [line[-4:] for line in lines] == ['one"', 'two"'] and {len(line) for line in lines} == {100}


def test_the_nearest_come_first_and_those_that_hold_not_at_all() -> None:
    rules = [(i, parse_text(text)) for i, text in enumerate(["n = 4 AND n = 5", "n = 3", "n = 4", "n = 5"])]
    assert [near.subscription for near in nearest(rules, VALUES, 2)] == [2, 3]


def test_looking_ends_when_none_can_be_nearer() -> None:
    looked_at: list[int] = []

    def rules() -> Iterator[tuple[int, Any]]:
        for i, text in enumerate(texts):
            looked_at.append(i)
            yield i, parse_text(text)

    texts = ["n = 4 AND n = 5", "n = 4", "n = 3", "n = 5", "n = 6"]
    assert [near.subscription for near in nearest(rules(), VALUES, 2)] == [1, 3]
    assert looked_at == [0, 1, 2, 3]


@given(st.lists(strategies.expressions(), max_size=8), strategies.events(), st.integers(1, 4))
def test_the_nearest_are_those_of_a_plain_sort(rules: list[Any], event: Any, count: int) -> None:
    values = flatten_event(event)
    misses = [(explain(rule, values).misses, i) for i, rule in enumerate(rules)]
    wanted = sorted(entry for entry in misses if entry[0])[:count]
    assert [near.subscription for near in nearest(enumerate(rules), values, count)] == [i for _, i in wanted]


@given(strategies.expressions(), strategies.events())
def test_truth_is_that_of_the_naive_matcher(expression: Any, event: Any) -> None:
    values = flatten_event(event)
    found = explain(expression, values)
    assert found.holds is holds(expression, values)
    assert (found.misses == 0) is found.holds
    assert (found.excess == 0) is not found.holds
    assert miss_count(expression, values) == found.misses


# -- the command --------------------------------------------------------------------------------------------


@pytest.fixture
def event_file(tmp_path: Path) -> Path:
    path = tmp_path / "events.json"
    path.write_text("\n" + json.dumps(EVENT) + "\n" + json.dumps({"channel": "t"}) + "\n")
    return path


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.ndjson"
    path.write_text(
        '{"id": "one", "expr": "n = 3"}\n'
        '{"id": "two", "expr": "n = 4"}\n'
        '{"id": "three", "expr": "n = 4 AND m = 1"}\n'
    )
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)])


def test_an_expression_is_explained_on_the_first_event(event_file: Path) -> None:
    result = call("n > 5", "--event", event_file)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "- n > 5   [n is 3]",
        "does not hold: 1 predicate would have to come out otherwise",
    ]
    assert call('{"attr": "n", "op": "=", "value": 3}', "--event", event_file).stdout.endswith("holds\n")


def test_a_rule_is_found_by_its_id_and_an_event_by_its_line(event_file: Path, rules: Path) -> None:
    result = call("ONE", "--rules", rules, "--event", event_file, "--line", "3")
    assert result.stdout.splitlines()[:2] == ["one", "- n = 3   [n is missing]"]
    result = call("on", "--rules", rules, "--event", event_file)
    assert result.exit_code == 1
    assert "There are: one" in result.stderr
    for line in ("1", "9"):
        assert call("one", "--rules", rules, "--event", event_file, "--line", line).exit_code == 1


def test_the_nearest_rules_are_listed_with_what_they_miss(event_file: Path, rules: Path) -> None:
    result = call("--nearest", "2", "--rules", rules, "--event", event_file)
    assert result.stdout.splitlines() == [
        "  1  two",
        "       needs: n = 4   [n is 3]",
        "  2  three",
        "       needs: n = 4   [n is 3]",
        "       needs: m = 1   [m is missing]",
    ]


def test_json_has_the_whole_tree(event_file: Path, rules: Path) -> None:
    result = call("three", "--nearest", "1", "--rules", rules, "--event", event_file, "--json")
    assert json.loads(result.stdout) == {
        "line": 2,
        "title": "three",
        "rule_id": "three",
        "level": None,
        "valid_now": True,
        "holds": False,
        "misses": 2,
        "connective": "and",
        "children": [
            {"holds": False, "misses": 1, "predicate": "n = 4", "seen": {"n": [3]}},
            {"holds": False, "misses": 1, "predicate": "m = 1", "seen": {"m": []}},
        ],
        "nearest": [
            {
                "title": "two",
                "rule_id": "two",
                "level": None,
                "valid_now": True,
                "misses": 1,
                "missed": ["n = 4   [n is 3]"],
            }
        ],
    }


def test_what_holds_outside_its_window_does_not_match(event_file: Path, tmp_path: Path) -> None:
    rules = tmp_path / "windows.ndjson"
    rules.write_text(
        '{"id": "past", "expr": "n = 3", "valid_until": "2020-01-01T00:00:00Z"}\n'
        '{"id": "near", "expr": "n = 4", "valid_from": 4102444800000000}\n'
    )
    shown = call("past", "--nearest", "1", "--rules", rules, "--event", event_file).stdout.splitlines()
    assert shown[0] == "past  (not valid now)" and "2020-01-01T00:00:00Z" in shown[1]
    assert "holds, but does not match: it is not valid now" in shown
    assert "  1  near  (not valid now)" in shown
    told = json.loads(call("past", "--rules", rules, "--event", event_file, "--json").stdout)
    assert told["holds"] and not told["valid_now"]


def test_metadata_hide_nothing_that_the_cluster_knows() -> None:
    own = {"id": "m", "owner": "ops", "valid_from": None, "valid_until": 4102444800000000}
    told = explain_sources._subject(own | {"metadata": {"owner": "evil", "valid_from": "x", "team": "t"}})
    assert told.details == {
        "owner": "ops",
        "valid_until": "2100-01-01T00:00:00Z",
        "metadata owner": "evil",
        "metadata valid_from": "x",
        "team": "t",
    }
    assert told.is_valid and not explain_sources._subject(own | {"metadata": None, "valid_until": 5}).is_valid


def test_what_is_missing_on_the_command_line_is_said(event_file: Path, rules: Path) -> None:
    assert call("--event", event_file).exit_code == 2
    assert call("one", "--rules", rules, "--data", "x", "--event", event_file).exit_code == 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    result = call("n = 3", "--event", tmp_path / "none.ndjson")
    assert result.exit_code == 1
    assert f'seen:    "{tmp_path}/none.ndjson"' in result.stderr and "another file" in result.stderr


def test_an_id_needs_a_running_cluster_and_a_mistyped_expression_does_not(
    event_file: Path, tmp_path: Path
) -> None:
    for arguments in (("dear",), ("--nearest", "2"), ("n = 3",)):
        result = call(*arguments, "--data", tmp_path, "--event", event_file)
        assert result.exit_code == 1
        assert "no cluster is running" in result.stderr and "--rules PATH" in result.stderr
    result = call("n == 3", "--event", event_file)
    assert result.exit_code == 1 and "cluster" not in result.stderr
