"""Rule files: what is loaded, refused or not applicable, and what a hostile file can do."""

from __future__ import annotations

import time
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

from sigma_cases import RULE_ID, importer_says, load_text, loaded, refusal, rule_text

from pubsub_cluster.language.compile import Compiler
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.sigma_rules.documents import FILE_SIZE_BYTES_MAX
from pubsub_cluster.sigma_rules.logsources import LogSource, default_logsources
from pubsub_cluster.sigma_rules.rules import load_rules

DETECTION = "sel:\n    a: x\ncondition: sel"
OTHER_ID = "5f0b3b7e-3a0e-4f0e-9d5c-000000000002"


def test_a_rule_with_its_metadata(tmp_path: Path) -> None:
    rule = loaded(DETECTION, tmp_path, "category: image_load")
    assert (rule.id, rule.title, rule.level, rule.status) == (RULE_ID, "A rule", "high", "test")
    assert rule.tags == ("attack.execution", "attack.t1059.001")
    assert rule.logsource == LogSource("windows", "image_load")
    assert rule.where == str(tmp_path / "rule.yml")


def test_folders_archives_and_files(tmp_path: Path) -> None:
    folder = tmp_path / "rules" / "deep"
    folder.mkdir(parents=True)
    (folder / "one.yml").write_text(rule_text(DETECTION))
    (folder / "two.YAML").write_text(rule_text(DETECTION, rule_id=OTHER_ID))
    (folder / "readme.txt").write_text("no rule")
    found = load_rules([tmp_path / "rules"])
    assert [rule.id for rule in found.rules] == [RULE_ID, OTHER_ID]
    archive = tmp_path / "rules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(folder / "two.YAML", "r/two.yml")
        file.write(folder / "one.yml", "r/one.yml")
        file.writestr("__MACOSX/r/._one.yml", b"\x00\x05\x16\x07")
        file.writestr("r/notes.md", "no rule")
    found = load_rules([archive])
    assert [rule.id for rule in found.rules] == [RULE_ID, OTHER_ID] and not found.refused
    assert found.rules[0].where == f"{archive}:r/one.yml"
    odd = tmp_path / "rule.txt"
    odd.write_text(rule_text(DETECTION))
    assert len(load_rules([odd]).rules) == 1, "a file that is named is read"
    twice = load_rules([odd, odd])
    assert len(twice.rules) == 1 and "has this id" in twice.refused[0].reason
    with pytest.raises(FileNotFoundError):
        load_rules([tmp_path / "none.yml"])


def test_several_documents_in_a_file(tmp_path: Path) -> None:
    text = "\n---\n".join(
        [
            rule_text(DETECTION),
            rule_text(DETECTION),
            rule_text("sel:\n    a|hour: 1\ncondition: sel", rule_id=OTHER_ID),
            "just text",
            "title: c\ncorrelation: {type: event_count}",
            "",
            rule_text(DETECTION, rule_id=OTHER_ID).replace("product: windows", "product: linux"),
            "a: [",
        ]
    )
    found = load_text(text, tmp_path)
    assert [rule.id for rule in found.rules] == [RULE_ID]
    assert [each.logsource.product for each in found.not_applicable] == ["linux"]
    reasons = [each.reason for each in found.refused]
    for reason, said in zip(
        reasons, ["has this id", "no counterpart", "not a map", "several events", "not YAML"], strict=True
    ):
        assert said in reason
    assert found.refused[1].where.endswith("(document 3)") and found.refused[1].id == OTHER_ID


def test_a_rule_without_an_id_is_called_by_its_file(tmp_path: Path) -> None:
    (rule,) = load_text(rule_text(DETECTION).replace(f"id: {RULE_ID}", "author: x"), tmp_path).rules
    assert rule.id == rule.where


def test_a_users_log_source_makes_a_rule_applicable(tmp_path: Path) -> None:
    path, own = tmp_path / "rule.yml", tmp_path / "own.toml"
    path.write_text(rule_text(DETECTION).replace("product: windows", "category: proxy"))
    assert load_rules([path]).not_applicable[0].reason.endswith("category proxy")
    own.write_text('[[logsource]]\ncategory = "proxy"\nwhere = { kind = ["proxy", 7] }')
    (rule,) = load_rules([path], default_logsources().extended(own)).rules
    assert importer_says(rule, {"a": "x", "kind": "PROXY"}) and importer_says(rule, {"a": "x", "kind": 7})
    assert not importer_says(rule, {"a": "x"})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe\x00", "not YAML"),
        (b"a: \xc3", "not YAML"),
        (b"a: *b", "not YAML"),
        (b"a: 1\na: 2", "Duplicate key"),
        (b"[" * 100_000, "not YAML"),
        (b"{a: " * 900 + b"}" * 900, ""),
        (b"title: x", "log source"),
        (rule_text(DETECTION).replace("level: high", "level: worst").encode(), "worst"),
        (rule_text("sel: &s [*s]\ncondition: sel").encode(), ""),
        (rule_text("sel:\n    a: {b: c}\ncondition: sel").encode(), "Unsupported type"),
        (rule_text("sel: 5\ncondition: 5").encode(), ""),
        (rule_text(DETECTION).replace("detection:", "detection: x\nother:").encode(), ""),
        (b"x" * (FILE_SIZE_BYTES_MAX + 1), "too large"),
    ],
)
def test_bad_files_are_refused_with_a_reason(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_bytes(data)
    found = load_rules([path])
    assert not found.rules and len(found.refused) == 1
    assert found.refused[0].reason and said in found.refused[0].reason


def test_aliases_do_not_explode(tmp_path: Path) -> None:
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in pairwise(names)]
    assert "expand" in refusal("\n".join([*lines, "condition: a"]), tmp_path)


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 64 + "sel" + ")" * 64,
        "not " * 64 + "sel",
        "(sel and not " * 60 + "sel" + ")" * 60,
        "(sel or (not " * 31 + "sel" + "))" * 31,
    ],
)
def test_conditions_nested_deep(condition: str, tmp_path: Path) -> None:
    rule = loaded(f"sel:\n    a: x\ncondition: {condition}", tmp_path)
    assert isinstance(importer_says(rule, {"a": "x"}), bool)


@pytest.mark.parametrize("depth", [200, 1_000])
def test_conditions_nested_too_deep_are_refused(depth: int, tmp_path: Path) -> None:
    condition = f"{'(sel and not ' * depth}sel{')' * depth}"
    assert refusal(f"sel:\n    a: x\ncondition: {condition}", tmp_path)


@pytest.mark.parametrize("depth", [1_000, 5_000])
def test_parentheses_and_double_negations_are_no_nesting(depth: int, tmp_path: Path) -> None:
    found = load_text(rule_text(f"sel:\n    a: x\ncondition: {'(' * depth}sel{')' * depth}"), tmp_path)
    assert len(found.rules) + len(found.refused) == 1
    assert importer_says(loaded(f"sel:\n    a: x\ncondition: {'not ' * 100}sel", tmp_path), {"a": "x"})


def test_hostile_patterns_are_answered_or_refused(tmp_path: Path) -> None:
    begin = time.monotonic()
    stars = loaded(f"sel:\n    a: '{'x*' * 10_000}y'\ncondition: sel", tmp_path)
    assert not importer_says(stars, {"a": "x" * 100_000})
    assert importer_says(stars, {"a": "x" * 10_000 + "y"})
    mixed = loaded(f"sel:\n    a: '{'x*?' * 10_000}'\ncondition: sel", tmp_path)
    assert not importer_says(mixed, {"a": "x" * 100})
    slow = loaded("sel:\n    a|re: '(a+)+$'\n    b|re: '(x|x)*y'\ncondition: sel", tmp_path)
    assert not importer_says(slow, {"a": "a" * 50_000 + "b", "b": "x" * 50_000})
    names = loaded(f"{'a' * 200}: {{a: x}}\ncondition: 1 of {'*a' * 60}", tmp_path)
    assert importer_says(names, {"a": "x"})
    assert "does not compile" in refusal("sel:\n    a|re: '((a{900}){900}){900}'\ncondition: sel", tmp_path)
    assert time.monotonic() - begin < 60, "nothing here takes more than a moment"


def test_limits_of_the_language_hold(tmp_path: Path) -> None:
    path = tmp_path / "rule.yml"
    path.write_text(rule_text("sel:\n    a|contains: [x, y, z]\ncondition: sel"))
    found = load_rules([path], limits=Limits(nodes_per_subscription_max=3))
    assert "too many" in found.refused[0].reason


def test_a_rule_whose_clauses_would_be_billions_is_loaded(tmp_path: Path) -> None:
    filters = "\n".join(f"f_{n}: {{a{n}: [1, 2, x], b{n}|contains: [y, z]}}" for n in range(30))
    rule = loaded(f"s: {{c: 1}}\n{filters}\ncondition: s and not 1 of f_*", tmp_path)
    assert importer_says(rule, {"c": 1, "a3": 1}) and not importer_says(
        rule, {"c": "1", "a3": "X", "b3": "_Z"}
    )
    form = Compiler().normal_form(expression_to_json(rule.expression))
    assert form.clauses is None and len(form.predicates) < 250
