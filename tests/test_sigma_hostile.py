"""What a hostile rule or log can do: it is answered or refused, within bounded memory and work.

Nothing here is timed: what is not bounded would take minutes or gigabytes, and is cut off by the runner.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

from sigma_cases import RULE_ID, importer_says, load_text, loaded, refusal, rule_text

from pubsub_cluster.cli.main import cli
from pubsub_cluster.embedded import Engine
from pubsub_cluster.language.expression import Atom, Operator
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.naive import holds
from pubsub_cluster.logs.files import LINE_SIZE_BYTES_MAX
from pubsub_cluster.sigma_rules.documents import FILE_SIZE_BYTES_MAX
from pubsub_cluster.sigma_rules.rules import load_rules

PLAIN = "sel:\n  Image: x\ncondition: sel"
MEGABYTE = DEFAULT_LIMITS.string_size_bytes_max


def bomb(link: Callable[[int], str], depth: int) -> str:
    """A rule with a field that is `depth` aliases deep, each ten of the one before."""
    links = "".join(f"x{i}: &x{i} {link(i - 1)}\n" for i in range(1, depth))
    return f"x0: &x0 {{q: z}}\n{links}" + rule_text(f"sel: *x{depth - 1}\ncondition: sel")


@pytest.mark.parametrize(
    "text",
    [
        bomb(lambda i: f"[{', '.join([f'*x{i}'] * 10)}]", 10),
        bomb(lambda i: f"{{a: *x{i}, b: *x{i}, c: *x{i}}}", 30),
        bomb(lambda i: f"{{<<: [*x{i}, *x{i}], k{i}: 1}}", 30),
        rule_text("sel: &s\n  - *s\ncondition: sel"),
        rule_text(f"sel: {'[' * 100_000}a{']' * 100_000}\ncondition: sel"),
        rule_text("sel:\n  a: 1" + ":59" * 20_000 + "\ncondition: sel"),
        rule_text("sel:\n  a: " + "9" * 20_000 + "\ncondition: sel"),
        rule_text("sel: {a: !!python/object/apply:os.getcwd []}\ncondition: sel"),
    ],
    ids=["lists", "maps", "merged", "cycle", "deep", "sexagesimal", "digits", "object"],
)
def test_yaml_that_explodes_is_refused(text: str, tmp_path: Path) -> None:
    found = load_text(text, tmp_path)
    assert not found.rules and found.refused


def test_a_bomb_beside_good_rules_costs_itself_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rules.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.yml", b"# " + b" " * (64 << 20))
        archive.writestr("b.yml", rule_text(PLAIN))
        archive.writestr("c.yml", bomb(lambda i: f"[{', '.join([f'*x{i}'] * 10)}]", 10))
    found = load_rules([tmp_path / "rules.zip"])
    assert [rule.id for rule in found.rules] == [RULE_ID]
    assert f"allowed {FILE_SIZE_BYTES_MAX:,}" in found.refused[0].reason
    assert "aliases" in found.refused[1].reason


def test_an_archive_that_lies_or_is_torn_is_refused_by_member(tmp_path: Path) -> None:
    path = tmp_path / "rules.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.yml", rule_text(PLAIN) * 50)
        archive.writestr("b.yml", rule_text(PLAIN))
    data = bytearray(path.read_bytes())
    torn = bytearray(data)
    torn[45:60] = b"\xff" * 15
    path.write_bytes(torn)
    assert [rule.id for rule in load_rules([path]).rules] == [RULE_ID]
    # The directory says that the first member has 10 bytes: no more of it is unpacked.
    size_at = data.index(b"PK\x01\x02") + 24
    data[size_at : size_at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    found = load_rules([path])
    assert [rule.id for rule in found.rules] == [RULE_ID] and "cannot give it" in found.refused[0].reason


@pytest.mark.parametrize(
    ("detection", "said"),
    [
        (f"sel:\n  a: '{'*a?b' * 10_000}'\ncondition: sel", "LIKE pattern"),
        ("sel:\n  a|re: 'a{999999999}'\ncondition: sel", "repetition size"),
        (f"sel:\n  a|re: '{'|'.join(f'.{{1,900}}{c}' for c in 'abcdefghij')}'\ncondition: sel", "steps"),
        (f"sel:\n  a|base64offset|contains: '{'a' * MEGABYTE}'\ncondition: sel", "UTF-8 bytes"),
        (f"sel:\n  a|windash: '{' -a' * 5_000}'\ncondition: sel", "dash"),
    ],
)
def test_patterns_that_multiply_are_refused(detection: str, said: str, tmp_path: Path) -> None:
    assert said in refusal(detection, tmp_path)


@pytest.mark.parametrize(
    ("value", "holds_on", "fails_on"),
    [
        (f"a: '{'*?' * 10_000}'", "x" * 10_000, "x" * 9_999),
        (f"a: '{'*a' * 10_000}*b'", "a" * 100_000 + "b", "a" * 100_000),
        (f"a|contains: '{'x' * 1_000_000}'", "-" + "X" * 1_000_000, "x" * 999_999),
        (f"a|startswith: '{'x' * 1_000_000}'", "X" * 1_000_001, "-" + "x" * 1_000_000),
        ("a|re: '^(a+)+$'", "a" * 100_000, "a" * 100_000 + "!"),
        ("a|re: '(x+x+)+y'", "x" * 100_000 + "y", "x" * 100_000),
    ],
)
def test_large_patterns_are_answered(value: str, holds_on: str, fails_on: str, tmp_path: Path) -> None:
    rule = loaded(f"sel:\n  {value}\ncondition: sel", tmp_path)
    assert importer_says(rule, {"a": holds_on}) is True
    assert importer_says(rule, {"a": fails_on}) is False


@pytest.mark.parametrize("opened", ["(", "not ("])
def test_conditions_are_nested_64_deep(opened: str, tmp_path: Path) -> None:
    rule = loaded(f"sel:\n  a: x\ncondition: {opened * 64}sel{')' * 64}", tmp_path)
    assert importer_says(rule, {"a": "x"}) is True


def test_the_engine_holds_long_texts_by_a_part_of_them() -> None:
    """Ten thousand long needles and megabytes of text: the same answers as one by one."""
    engine = Engine()
    held = {f"n{i}": Atom("b", Operator.CONTAINS, f"{i}{'z' * 900}{i}") for i in range(0, 10_000, 5)}
    for operator in (Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS, Operator.LIKE, Operator.EQ):
        held[operator] = Atom("a", operator, "x" * 1_000_000)
        held[f"{operator} folded"] = Atom("a", operator, "x" * 1_000_000, ignore_case=True)
    held["in"] = Atom("a", Operator.IN, tuple(f"{i}{'y' * 900}" for i in range(2_000)))
    for name, expression in held.items():
        engine.subscribe(expression, id=name)
    engine.rebuild()
    events = [
        {"a": "x" * 1_000_000},
        {"a": "X" * 1_000_000},
        {"a": "x" * 999_999},
        {"a": "17" + "y" * 900},
        {"b": "15" + "z" * 900 + "15"},
        {"b": "z" * 1_000_000},
    ]
    found = engine.publish(events, ids=True)
    assert not found.refused and found.ids is not None
    offsets = found.offsets.tolist()
    for number, event in enumerate(events):
        values = {name: [text] for name, text in event.items()}
        expected = {name for name, expression in held.items() if holds(expression, values)}
        assert set(found.ids[offsets[number] : offsets[number + 1]]) == expected


def match(tmp_path: Path, *events: Path) -> Result:
    """The command `match` with one rule."""
    rule = tmp_path / "rule.yml"
    rule.write_text(rule_text("sel:\n  EventID: 1\ncondition: sel"))
    return CliRunner().invoke(cli, ["match", "--rules", str(rule), "--json", *map(str, events)])


def test_hostile_events_are_reported_and_the_others_matched(tmp_path: Path) -> None:
    good = json.dumps({"EventID": 1})
    lines = [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "[" * 100_000,
        '{"EventID": 1, "a": ' + "[" * 500 + "1" + "]" * 500 + "}",
        '{"EventID": 1, "a": ' + "9" * 5_000 + "}",
        '{"EventID": 1, "a": "\\ud800"}',
        '{"EventID": 1, "x": "' + "y" * (LINE_SIZE_BYTES_MAX + 1) + '"}',
        "\x00" * 1_000,
        good,
    ]
    plain = tmp_path / "events.json"
    plain.write_text("\n".join(lines) + "\n")
    packed = tmp_path / "zeros.gz"
    packed.write_bytes(gzip.compress(b"\0" * (64 << 20) + b"\n" + good.encode()))
    torn = tmp_path / "torn.zip"
    torn.write_bytes(b"PK\x03\x04 no archive")
    result = match(tmp_path, plain, packed, torn)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    places = [(each["file"], each["line"]) for each in found]
    assert ("events.json", len(lines)) in places and ("zeros", 2) in places
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert "too long" in result.stderr and "torn.zip" in result.stderr


def test_no_rules_are_no_clean_log(tmp_path: Path) -> None:
    """Nothing found because there was nothing to look for is said, and a torn archive is an error."""
    torn, events = tmp_path / "rules.zip", tmp_path / "events.json"
    torn.write_bytes(b"PK\x03\x04 no archive")
    events.write_text("{}\n")
    result = CliRunner().invoke(cli, ["match", "--rules", str(torn), str(events)])
    assert result.exit_code == 1
    assert "no zip archive" in result.stderr and "no rule to match with" in result.stderr
