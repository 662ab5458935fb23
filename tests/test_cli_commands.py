"""The command line as a whole: help, errors, exit codes, and what it does not import."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pubsub_cluster.cli import reference
from pubsub_cluster.cli.common import error_text
from pubsub_cluster.cli.main import cli
from pubsub_cluster.client import Client
from pubsub_cluster.language.errors import CallerError, EventError, LimitError, WindowError

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


PREPARE = ("prepare events", "prepare subscriptions", "prepare flights")
PIPELINE = ("build", "match", "stream", "statistics", "groups", *PREPARE)
SCHEMA = ("show", "add-domain", "add-attribute", "extend-type", "add-type")
TUNE = ("import-statistics", "show", "now", "set", "freeze", "thaw", "log")


def test_all_commands_are_there() -> None:
    found = {" ".join(names) for names, _ in LEAVES}
    expected = [
        "bench",
        "reproduce",
        "start",
        "stop",
        "status",
        "stats",
        "subscribe",
        "update",
        "unsubscribe",
        "load",
        "list",
        "publish",
        "listen",
        "forget",
        "match",
        "explain",
        "doctor",
        "resize",
        "backup",
        "restore",
        "verify",
    ]
    expected += [f"schema {name}" for name in SCHEMA]
    expected += [f"tune {name}" for name in TUNE] + [f"pipeline {name}" for name in PIPELINE]
    assert found == {*expected, "demo flights"}


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
    assert f'seen:    "{data}"' in result.stderr
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


@pytest.mark.parametrize(
    ("arguments", "call", "what"),
    [
        (["backup", "b"], "backup", "backup"),
        (["restore", "b", "--yes"], "restore", "restore"),
        (["verify"], "verify", "verification"),
        (["resize", "--shards", "1"], "resize", "resize"),
        (["tune", "now"], "tune_now", "build"),
    ],
)
def test_an_interrupt_says_what_it_does_not_end(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], call: str, what: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, call, interrupted)
    result = CliRunner().invoke(cli, [*arguments, "--endpoint", "ipc:///nowhere/sock"])
    assert result.exit_code == 130
    told, stopped = result.stderr.splitlines()
    assert told.startswith(f"The {what} goes on") and stopped == "Stopped."


def test_texts_are_quoted_in_what_was_seen() -> None:
    assert '  seen:    "60"' in error_text(EventError("bad", seen="60")).splitlines()
    assert "  seen:    60" in error_text(EventError("bad", seen=60)).splitlines()
    assert '  seen:    true, "x", null' in error_text(EventError("bad", seen=[True, "x", None])).splitlines()
    assert str(EventError("bad", seen="60", limit=["a", "b"])) == 'bad; seen "60"; allowed a, b'


def test_instants_are_shown_as_people_write_them() -> None:
    error = WindowError("the window is empty", seen=[1_767_225_600_000_000, 1_500_000])
    assert "  seen:    2026-01-01T00:00:00Z, 1970-01-01T00:00:01.500000Z" in error_text(error).splitlines()
    assert "us since the epoch" in error_text(WindowError("far", seen=2**62))


@pytest.mark.parametrize("endpoint", ["nonsense", "http://x", "tcp://host", "tcp://127.0.0.1:notaport", ""])
def test_a_bad_endpoint_is_a_clean_error(endpoint: str) -> None:
    result = CliRunner().invoke(cli, ["status", "--endpoint", endpoint, "--timeout", "0.2"])
    assert result.exit_code == 1
    assert "Error: this is no endpoint" in result.stderr
    assert f'seen:    "{endpoint}"' in result.stderr


@pytest.mark.parametrize("arguments", [["doctor", "--json"], ["--help"]])
def test_output_that_cannot_be_written_is_an_error_and_no_traceback(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "pubsub_cluster.cli", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    first, seen, _ = done.stderr.splitlines()
    assert (done.returncode, first) == (1, "Error: the output cannot be written.")
    assert "No space left" in seen


@pytest.mark.parametrize("arguments", [["doctor"], ["--help"], ["start", "--help"], ["--version"]])
def test_a_reader_that_has_gone_ends_a_command_in_silence(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pubsub_cluster.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("delay_s", [0.12, 0.2, 0.3, 0.5])
def test_ctrl_c_at_any_time_ends_without_a_traceback(delay_s: float, tmp_path: Path) -> None:
    code = (
        "import runpy, sys, time; sys.argv = ['x', 'publish', '-', '--endpoint', 'ipc:///nowhere/sock'];"
        "print('up', flush=True); runpy.run_module('pubsub_cluster.cli', run_name='__main__')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode == 130, err
    assert err == "Stopped.\n"


def test_ctrl_c_in_a_callback_of_the_interpreter_is_not_lost() -> None:
    code = """
import signal, time, weakref
from pubsub_cluster.cli import __main__ as entry, main
class Module: pass
def run():
    module = Module()
    watched = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
    del module
    time.sleep(60)
    return 0
main.run = run
entry.main()
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "Stopped.\n")


def test_a_background_start_that_is_interrupted_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    children: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__([sys.executable, "-c", "import time; time.sleep(60)"], stdin=options["stdin"])
            children.append(self)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pubsub_cluster.cli.start.subprocess.Popen", Recorded)
    monkeypatch.setattr("pubsub_cluster.cli.start.select.select", interrupted)
    result = CliRunner().invoke(cli, ["start", "--detach", "--data", str(tmp_path / "data")])
    assert result.exit_code == 130
    assert children[0].wait(timeout=60) == -signal.SIGTERM


def test_a_long_start_says_why_only_when_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from pubsub_cluster.cli import start

    monkeypatch.setenv("PUBSUB_CLUSTER_CACHE", str(tmp_path))
    monkeypatch.setattr(start, "SLOW_START_S", 0.0)
    said: list[str] = []
    told = threading.Event()
    with start.saying_why_it_takes_long(lambda text: (said.append(text), told.set())):
        assert told.wait(timeout=60)
    assert said == [start.SLOW_START_NOTE]
    index = tmp_path / "kernel.nbi"
    index.touch()
    assert not start._is_compiling(index.stat().st_mtime + 1)
    assert start._is_compiling(index.stat().st_mtime)


def test_a_restore_without_anybody_to_ask_says_how(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["restore", "a.backup", "--data", str(tmp_path)], input="")
    assert result.exit_code != 0
    assert result.exit_code == 2 and "give --yes" in result.stderr


@pytest.mark.parametrize("arguments", [["backup", "-"], ["restore", "-", "--yes"]])
def test_a_backup_is_no_pipe(arguments: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*arguments, "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert "'-' is no file" in result.stderr and "Give it a name." in result.stderr


def test_an_error_shows_objects_and_empty_lists_as_json() -> None:
    text = error_text(CallerError("no", seen=[], limit={"name": "size", "ordered": True}))
    assert text.splitlines()[1:] == ["  seen:    []", '  allowed: {"name": "size", "ordered": true}']


def test_an_error_tells_all_names_that_are_allowed() -> None:
    names = [f"matcher-{number}" for number in range(40)]
    assert ", ".join(names) in error_text(CallerError("no", seen="x" * 5_000, limit=names))
    assert len(error_text(CallerError("no", seen="x" * 5_000))) < 300


def test_an_error_does_not_move_the_cursor() -> None:
    error = CallerError("no 'a\x1b[2J'", seen="\x9b1A", remedy="Do\nthis\b.", picture="a\x1b = 1\n^")
    assert all(line.isprintable() for line in error_text(error, title="x\x00").split("\n"))
    assert len(error_text(error).split("\n")) == 6
