"""The command line as a whole: help, errors, exit codes, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pubsub_cluster.cli import reference
from pubsub_cluster.cli.common import error_text
from pubsub_cluster.cli.main import cli
from pubsub_cluster.language.errors import EventError, LimitError

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = [(names, command) for names, command in reference.walk(cli) if names]
LEAVES = [(names, command) for names, command in COMMANDS if not isinstance(command, click.Group)]


def name_of(value: object) -> str | None:
    return " ".join(value) if isinstance(value, tuple) else None


@pytest.mark.parametrize(("names", "command"), COMMANDS, ids=name_of)
def test_every_command_has_help_with_an_example(names: tuple[str, ...], command: click.Command) -> None:
    result = CliRunner().invoke(cli, [*names, "--help"])
    assert result.exit_code == 0
    assert "Example:" in result.output
    assert f"pubsub-cluster {' '.join(names)}" in result.output


@pytest.mark.parametrize(("names", "command"), LEAVES, ids=name_of)
def test_every_command_takes_json(names: tuple[str, ...], command: click.Command) -> None:
    assert "--json" in {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize(("names", "command"), COMMANDS, ids=name_of)
def test_every_option_is_explained(names: tuple[str, ...], command: click.Command) -> None:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_all_commands_are_there() -> None:
    found = {" ".join(names) for names, _ in LEAVES}
    expected = ["start", "stop", "status", "subscribe", "unsubscribe", "load", "publish", "listen", "doctor"]
    assert found == {*expected, "bench", "tune show", "tune now", "demo flights"}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from pubsub_cluster.cli.main import cli\n"
        "result = CliRunner().invoke(cli, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "heavy = {'numba', 'numpy', 'matplotlib', 'zmq', 'pyspark'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


def test_reference_page_is_current() -> None:
    assert reference.main(["--check"]) == 0, "run python -m pubsub_cluster.cli.reference"


def test_unknown_command_suggests_a_known_one() -> None:
    result = CliRunner().invoke(cli, ["subcribe", "a = 1"])
    assert result.exit_code == 2
    assert "Did you mean 'subscribe'?" in result.output


def test_error_text_says_condition_seen_limit_and_remedy() -> None:
    error = LimitError("too many events", seen=70_000, limit=65_536, remedy="Split the batch.")
    assert error_text(error).splitlines() == [
        "Error: too many events.",
        "  seen:    70000",
        "  allowed: 65536",
        "  remedy:  Split the batch.",
    ]
    assert error_text(EventError("bad"), title="Line 3") == "Line 3: bad."


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["stop"], ["subscribe", "a = 1"], ["unsubscribe", "x"], ["listen", "me"], ["tune", "show"]],
    ids=name_of,
)
def test_no_running_cluster_is_said_at_once(arguments: list[str], tmp_path: Path) -> None:
    data = tmp_path / "nothing"
    result = CliRunner().invoke(cli, [*arguments, "--data", str(data)])
    assert result.exit_code == 1
    assert "Error: no cluster is running on this data directory." in result.stderr
    assert f"seen:    {data}" in result.stderr
    assert f"remedy:  Start one: pubsub-cluster start --data {data}" in result.stderr
    assert result.stdout == ""


def test_error_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["status", "--data", str(tmp_path), "--json"])
    assert result.exit_code == 1
    body = json.loads(result.stdout)
    assert body["error"]["code"] == "cluster_error"
    assert "Error:" in result.stderr


def test_socket_file_of_a_dead_cluster_counts_as_none(tmp_path: Path) -> None:
    import socket

    directory = tmp_path / "d"
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(directory / "client.sock"))
    result = CliRunner().invoke(cli, ["status", "--data", str(directory)])
    assert result.exit_code == 1
    assert "no cluster is running" in result.stderr


def test_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    from pubsub_cluster.cli import doctor_checks

    def interrupted(data_dir: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor_checks, "examine", interrupted)
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 130
    assert result.stderr == "Stopped.\n"
    assert result.stdout == ""
