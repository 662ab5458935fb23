"""``load --format sigma``: the table of a dry run, and what is sent, with a client that records."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sigma.rule", reason="pySigma is not installed")

from click.testing import CliRunner
from sigma_cases import RULE_ID, rule_text
from test_cli_load import RecordingClient

from pubsub_cluster.cli import common
from pubsub_cluster.cli.explain_sources import sigma_form
from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.publish import normalised_lines
from pubsub_cluster.client import Subscription
from pubsub_cluster.language.errors import EventError, PubSubError
from pubsub_cluster.sigma_rules.events import normalise
from pubsub_cluster.sigma_rules.rules import load_rules

DETECTION = "sel:\n    a|contains: [x, y]\ncondition: sel"
SECOND_ID = RULE_ID[:-1] + "2"


class SigmaClient(RecordingClient):
    """Answers like a client that has the second rule already."""

    def __init__(self) -> None:
        super().__init__()
        self.updated: list[dict[str, Any]] = []

    def has(self, item: dict[str, Any]) -> bool:
        return bool(item["id"] == SECOND_ID)

    def update_many(self, items: list[dict[str, Any]]) -> list[Subscription | PubSubError]:
        self.updated += items
        return [Subscription(item["id"], 1, 1, False) for item in items]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good rules, one of another product, one that is refused."""
    rules = {
        "one": rule_text(DETECTION),
        "two": rule_text(DETECTION, rule_id=SECOND_ID),
        "three": rule_text(DETECTION, rule_id=RULE_ID[:-1] + "3").replace("windows", "linux"),
        "four": rule_text("sel:\n    a|hour: 3\ncondition: sel", rule_id=RULE_ID[:-1] + "4"),
    }
    for name, text in rules.items():
        (tmp_path / f"{name}.yml").write_text(text)
    return tmp_path


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> SigmaClient:
    found = SigmaClient()
    monkeypatch.setattr(common, "connect_client", lambda *_: found)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["load", "--format", "sigma", *arguments])


def test_dry_run(folder: Path) -> None:
    result = run(str(folder), "--dry-run")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == ["loaded", "loaded", "not applicable", "refused"]
    assert "parts of a time" in lines[-1] or "no counterpart" in lines[-1]
    assert "no mapping names its log source: product linux" in lines[-2]
    assert "Would load 2 of 4 rules; refused 1, not applicable 1." in result.stderr
    assert "2 high" in result.stderr and "Predicates: 4" in result.stderr


def test_dry_run_as_json(folder: Path) -> None:
    body = json.loads(run(str(folder), "--dry-run", "--json").stdout)
    assert (body["loaded"], body["refused"], body["not_applicable"]) == (2, 1, 1)
    assert body["rules"][0]["id"] == RULE_ID and body["rules"][0]["clauses"] == 2
    assert body["rules"][0]["tags"] == ["attack.execution", "attack.t1059.001"]
    assert body["refusals"][0]["where"].endswith("four.yml") and body["others"][0]["reason"]


def test_a_dry_run_prices_rules_by_a_sample(folder: Path, tmp_path: Path) -> None:
    (folder / "two.yml").write_text(rule_text("sel:\n    b: z\ncondition: sel", rule_id=SECOND_ID))
    log = tmp_path / "log.ndjson"
    log.write_text('{"b": "z"}\n' * 50 + "not json\n\n" + '{"a": "none"}\n')
    body = json.loads(run(str(folder), "--dry-run", "--json", "--sample", str(log)).stdout)
    assert [rule["id"] for rule in body["rules"]] == [SECOND_ID, RULE_ID]
    assert body["rules"][0]["expected_cost_ns"] > body["rules"][1]["expected_cost_ns"] > 0
    assert body["sampled_events"] == 51
    result = run(str(folder), "--dry-run", "--sample", str(log))
    assert "an even sample of 51 events" in result.stderr and "1 line of the sample" in result.stderr
    assert "Statistics: none" in run(str(folder), "--dry-run").stderr
    assert run(str(folder), "--sample", str(log)).exit_code == 2
    (folder / "empty").mkdir()  # such as the other files of `--sample logs/*.zip`
    assert "no rule in" in run(str(folder), str(folder / "empty"), "--dry-run").stderr


def test_a_users_table(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[logsource]]\nproduct = "linux"\nwhere = { os = ["linux"] }')
    body = json.loads(run(str(folder), "--dry-run", "--json", "--logsources", str(own)).stdout)
    assert (body["loaded"], body["not_applicable"]) == (3, 0)
    own.write_text("[[sources]]")
    assert "unknown tables" in run(str(folder), "--dry-run", "--logsources", str(own)).stderr


def test_rules_are_sent_with_their_ids(folder: Path, client: SigmaClient) -> None:
    result = run(str(folder), "--owner", "soc")
    assert result.exit_code == 1
    assert [item["id"] for item in client.items] == [RULE_ID, SECOND_ID]
    assert {item["owner"] for item in client.items} == {"soc"}
    assert client.items[0]["expr"] == load_rules([folder / "one.yml"]).rules[0].expression
    assert client.items[0]["metadata"] == {
        "title": "A rule",
        "level": "high",
        "status": "test",
        "tags": ["attack.execution", "attack.t1059.001"],
        "logsource": "product windows",
    }
    assert "Loaded 1 of 4 rules; refused 2, not applicable 1." in result.stdout
    assert "four.yml" in result.stderr and "this id exists" in result.stderr
    assert "1 rule of product linux" in result.stderr


def test_replace(folder: Path, client: SigmaClient) -> None:
    (folder / "four.yml").unlink()
    result = run(str(folder), "--replace", "--json")
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    assert (body["loaded"], body["replaced"], body["refused"]) == (2, 1, 0)
    assert [item["id"] for item in client.updated] == [SECOND_ID]


def test_what_does_not_go_together(folder: Path) -> None:
    one = str(folder / "one.yml")
    assert run(str(folder / "none")).exit_code == 2
    lines = CliRunner().invoke(cli, ["load", "--dry-run", one])
    assert lines.exit_code == 2 and "--format sigma" in lines.stderr
    several = CliRunner().invoke(cli, ["load", one, one])
    assert several.exit_code == 2 and "one file" in several.stderr
    assert CliRunner().invoke(cli, ["load", str(folder / "none")]).exit_code == 2


def test_without_the_parser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "sigma":
            raise ImportError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    result = run(str(folder), "--dry-run")
    assert result.exit_code == 2 and "pubsub-cluster[sigma]" in result.stderr


def test_a_log_is_published_as_match_reads_it(tmp_path: Path) -> None:
    extra = tmp_path / "more.toml"
    form = sigma_form({"eid": "EventID"}, None)
    lines = [
        b'{"EventID": 4688, "Data": {"Ok": true, "List": [1, 2]}, "Channel": "Security"}\r\n',
        b"\n",
        b'{"eid": 4688, "NewProcessName": "C:\\\\a.exe", "Channel": "Security"}\n',
        b"no event\n",
        b'{"a": {"b": 1}, "a.b": 2}',
    ]
    sent = list(normalised_lines(lines, form))
    assert sent[1] == lines[1] and sent[3:] == lines[3:], "the cluster refuses them"
    assert json.loads(sent[0]) == normalise(json.loads(lines[0]))
    assert json.loads(sent[2]) == normalise(
        {"EventID": 4688, **{k: v for k, v in json.loads(lines[2]).items() if k != "eid"}}
    )
    assert json.loads(sent[2])["EventID"] == "4688" and "eid" not in json.loads(sent[2])
    assert "Image" in json.loads(sent[2]), "the package's aliases are there"
    with pytest.raises(EventError, match="object") as caught:
        list(normalised_lines([b"\n", b'[{"EventID": 1}]'], form))
    assert "one JSON object a line" in (caught.value.remedy or "")
    extra.write_text("{}\n")
    wrong = CliRunner().invoke(cli, ["publish", str(extra), "--map", "a=b"])
    assert wrong.exit_code == 2 and "go with --sigma" in wrong.output
