"""The command `match`: what it prints, what it refuses, its exit codes; the engine at work behind it."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pubsub_cluster.cli.main import cli

RULES = [
    {"id": "near", "expr": 'channel = "s" AND path SUFFIX "\\\\x.exe" IGNORE CASE'},
    {"id": "far", "expr": 'channel = "s" AND NOT (path CONTAINS "y" OR n > 3)'},
    {"id": "any", "expr": 'channel = "p" AND ANY ATTRIBUTE CONTAINS "needle" IGNORE CASE'},
]
EVENTS: list[dict[str, Any]] = [
    {"channel": "s", "path": "C:\\X.EXE", "time": 1},
    {"channel": "s", "path": "C:\\X.EXE", "time": 2, "n": 4},
    {"channel": "p", "note": "A Needle"},
    {"channel": "q"},
    {"channel": "s", "path": "C:\\y"},
]
SIGMA = """
title: {title}
id: 11111111-1111-4111-8111-1111111111{number:02d}
status: test
level: {level}
tags:
    - attack.execution
logsource:
    product: {product}
    category: process_creation
detection:
    selection:
        Image|endswith: '\\{image}.exe'
    condition: selection
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.ndjson"
    path.write_text("\n".join(map(json.dumps, RULES)) + "\n")
    return path


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.json"
    path.write_text("\n\n".join(map(json.dumps, EVENTS)) + "\n")
    return path


def call(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["match", *map(str, arguments)], input=stdin)


def records(result: Result) -> list[tuple[str, str, int]]:
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return [(each["rule_id"], each["file"], each["line"]) for each in found]


def test_the_table_has_a_line_per_rule(rules: Path, events: Path) -> None:
    result = call("--rules", rules, events)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["level", "events", "rule", "first", "in", "line"]
    assert lines[2:] == [
        ["-", "2", "near", "events.json", "1"],
        ["-", "1", "any", "events.json", "5"],
        ["-", "1", "far", "events.json", "1"],
    ]
    assert "4 detections of 3 rules; 5 events" in result.stderr
    assert "4 blank lines, 0 bad" in result.stderr
    assert "3 rules used, 0 refused, 0 for other logs." in result.stderr


def test_json_and_csv_have_a_line_per_detection(rules: Path, events: Path) -> None:
    expected = [("near", 1), ("far", 1), ("near", 3), ("any", 5)]
    result = call("--rules", rules, "--json", events)
    assert records(result) == [(name, "events.json", line) for name, line in expected]
    assert json.loads(result.stdout.splitlines()[0]) == {
        "rule_id": "near",
        "title": "near",
        "level": None,
        "tags": [],
        "file": "events.json",
        "line": 1,
    }
    rows = list(csv.DictReader(io.StringIO(call("--rules", rules, "--csv", events).stdout)))
    assert [(row["rule_id"], int(row["line"])) for row in rows] == expected


def test_events_come_through_a_pipe_and_packed(rules: Path, events: Path, tmp_path: Path) -> None:
    piped = call("--rules", rules, "--json", "-", stdin=events.read_bytes())
    packed = tmp_path / "events.json.gz"
    packed.write_bytes(gzip.compress(events.read_bytes()))
    assert next(place[1:] for place in records(piped)) == ("<stdin>", 1)
    assert len(records(piped)) == len(records(call("--rules", rules, "--json", packed))) == 4


def test_bad_lines_and_rules_are_reported_and_tell_in_the_exit_code(rules: Path, events: Path) -> None:
    events.write_bytes(b'{"channel": "s"\n' + events.read_bytes())
    result = call("--rules", rules, "--json", events)
    assert result.exit_code == 1
    assert "Error: events.json:1: the line is not JSON" in result.stderr
    assert len(records(result)) == 4
    rules.write_text(rules.read_text() + 'n > \n{"id": "near", "expr": "n = 1"}\n')
    result = call("--rules", rules, "--json", events)
    assert "Refused: rules.ndjson:4:" in result.stderr
    assert "Refused: rules.ndjson:5:" in result.stderr
    assert "3 rules used, 2 refused" in result.stderr


def test_fields_are_mapped(rules: Path, tmp_path: Path) -> None:
    event = json.dumps({"Event": {"Channel": "s", "Path": "x.exe"}}).encode()
    table = tmp_path / "map.toml"
    table.write_text('"Event.Channel" = "channel"\n"Event.Path" = "nothing"\n')
    mapped = call(
        "--rules", rules, "--json", "--map-file", table, "--map", "Event.Path=path", "-", stdin=event
    )
    assert [name for name, _, _ in records(mapped)] == ["far"]
    assert call("--rules", rules, "--map", "a", "-", stdin=event).exit_code == 2
    table.write_text("a = 1\n")
    assert call("--rules", rules, "--map-file", table, "-", stdin=event).exit_code == 2


def test_what_cannot_be_asked_together_is_refused(rules: Path, events: Path, tmp_path: Path) -> None:
    assert call("--rules", rules, "--csv", "--json", events).exit_code == 2
    assert call("--rules", tmp_path / "absent", events).exit_code == 2
    sigma = tmp_path / "rule.yml"
    sigma.write_text("title: x\n")
    result = call("--rules", rules, "--rules", sigma, events)
    assert result.exit_code == 1
    assert "cannot be matched in one run" in result.stderr


def test_an_empty_log_and_no_rules_are_no_error(rules: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    result = call("--rules", rules, empty)
    assert (result.exit_code, result.stdout) == (0, "No rule holds on any event.\n")
    assert call("--rules", empty, empty).exit_code == 0


def test_subscriptions_that_are_not_valid_now_match_nothing(tmp_path: Path, events: Path) -> None:
    path = tmp_path / "windows.ndjson"
    past, now = '"valid_until": "2020-01-01T00:00:00Z"', '"valid_from": 5'
    path.write_text("".join(f'{{"id": "r{number}", "expr": "TRUE", {window}}}\n' for number, window in
                            enumerate((past, now))))  # fmt: skip
    result = call("--rules", path, events, "--json")
    assert {json.loads(line)["rule_id"] for line in result.stdout.splitlines()} == {"r1"}
    assert "1 rule used, 0 refused, 0 for other logs, 1 not valid now." in result.stderr


def test_sigma_rules_are_sorted_by_level(tmp_path: Path) -> None:
    pytest.importorskip("sigma", reason="pySigma is not installed (the extra `sigma`)")
    folder = tmp_path / "rules"
    folder.mkdir()
    for number, (level, image, product) in enumerate(
        [
            ("low", "a", "windows"),
            ("critical", "b", "windows"),
            ("high", "a", "linux"),
            ("high", "c", "windows"),
        ]
    ):
        text = SIGMA.format(title=f"T{number}", number=number, level=level, image=image, product=product)
        (folder / f"{number}.yml").write_text(text)
    sysmon = {"Channel": "Microsoft-Windows-Sysmon/Operational", "EventID": 1}
    events = [{**sysmon, "Image": f"C:\\{name}.EXE"} for name in "aab"]
    events.append({"Channel": "Security", "EventID": "4688", "NewProcessName": "C:\\c.exe"})
    data = "\n".join(map(json.dumps, events)).encode()
    result = call("--rules", folder, "-", stdin=data)
    assert result.exit_code == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[2:]]
    assert rows == [
        ["critical", "1", "T1", "<stdin>", "3"],
        ["high", "1", "T3", "<stdin>", "4"],
        ["low", "2", "T0", "<stdin>", "1"],
    ]
    assert "3 rules used, 0 refused, 1 for other logs." in result.stderr
    result = call("--rules", folder, "--min-level", "high", "--json", "-", stdin=data)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["title"], each["level"], each["tags"]) for each in found] == [
        ("T1", "critical", ["attack.execution"]),
        ("T3", "high", ["attack.execution"]),
    ]
