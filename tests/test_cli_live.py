"""The commands against a real cluster: one session from ``start`` to ``stop``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.prometheus import METRICS, WORKER_METRICS

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60.0

pytestmark = pytest.mark.cluster


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pubsub_cluster.cli", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        check=False,
    )


def result_of(*arguments: str, text: str = "", exit_code: int = 0) -> Any:
    done = run(*arguments, "--json", text=text)
    assert done.returncode == exit_code, done.stderr
    return json.loads(done.stdout)


def lines_of(*arguments: str, text: str = "", exit_code: int = 0) -> tuple[list[dict[str, Any]], str]:
    """Return what a command prints as lines of JSON, and what it says; it runs in this process."""
    done = CliRunner().invoke(cli, list(arguments), input=text)
    assert done.exit_code == exit_code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def check_listing(*data: str) -> None:
    """What `list` prints can be loaded again: over what is there, or where there is nothing."""
    given = [
        {"id": "t1", "owner": "eva", "expr": "x  =  1", "metadata": {"tags": ["a", "ü"], "none": None}},
        {"id": "t2", "owner": "eva", "expr": {"attr": "x", "op": ">", "value": 1.5}, "valid_from": 5},
        {"id": "t0", "owner": "default", "expr": "x = 0", "valid_from": 0, "valid_until": 2**60},
    ]
    before, _ = lines_of("list", *data)
    lines_of("load", "-", "--json", *data, text="\n".join(map(json.dumps, given)))
    told = CliRunner().invoke(cli, ["list", *data]).stdout
    every = [json.loads(line) for line in told.splitlines()]
    assert every == before + given, "the oldest first"
    assert lines_of("list", "--owner", "eva", *data)[0] == given[:2]
    assert lines_of("list", "t0", "t2", "--owner", "eva", "--json", *data)[0] == given[1:2]
    found, said = lines_of("list", "t2", "no-such", "t1", *data, exit_code=1)
    assert found == [given[1], given[0]] and "Error: no-such: no subscription has this id." in said
    (_, error), _ = lines_of("list", "t2", "no-such", "--json", *data, exit_code=1)
    assert (error["id"], error["error"]["code"]) == ("no-such", "unknown_id")

    ((again,), _) = lines_of("load", "-", "--replace", "--json", *data, text=told)
    assert again["replaced"] == len(every) and lines_of("list", *data)[0] == every
    lines_of("unsubscribe", *(line["id"] for line in every), "--json", *data)
    assert lines_of("list", *data)[0] == []
    lines_of("load", "-", "--json", *data, text=told)
    assert CliRunner().invoke(cli, ["list", *data]).stdout == told
    lines_of("unsubscribe", *(line["id"] for line in given), "--json", *data)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="psc-") as folder:
        yield Path(folder) / "data"


def test_a_whole_session(data_dir: Path) -> None:
    data = ("--data", str(data_dir))
    started = result_of("start", "--detach", "--shards", "2", "--durability", "normal", *data)
    try:
        assert started["ready"] is True
        assert started["endpoint"] == f"ipc://{data_dir}/client.sock"
        assert set(started["pids"]) == {"coordinator", "tuner", "worker 0", "worker 1"}
        again = run("start", *data)
        assert again.returncode == 1
        assert "a cluster is already running on this data directory" in again.stderr

        made = result_of(
            "subscribe", 'origin = "JFK" AND delay > 60', "--id", "late", "--owner", "ann", *data
        )
        assert made == {"id": "late", "handle": made["handle"], "clauses": 1, "never": False}
        noted = run("subscribe", "origin = JFK", "--id", "two names", *data)
        assert 'compared with the attribute JFK; for a text write "JFK"' in noted.stderr
        assert result_of("unsubscribe", "two names", *data)["removed"] == ["two names"]
        wrong = run("subscribe", "origin = = 3", *data)
        assert wrong.returncode == 1
        assert "Error:" in wrong.stderr and "remedy:" in wrong.stderr

        lines = (
            '{"id": "lax", "expr": "dest = \\"LAX\\""}\nnot json (\n{"attr": "a", "op": "?", "value": 1}\n'
        )
        loaded = result_of("load", "-", *data, text=lines, exit_code=1)
        assert (loaded["loaded"], loaded["refused"]) == (1, 2)
        assert [entry["line"] for entry in loaded["errors"]] == [2, 3]

        events = '{"origin": "JFK", "dest": "LAX", "delay": 75}\n{"origin": \n{"dest": "LAX"}\n'
        published = run("publish", "-", "--json", *data, text=events)
        records = [json.loads(line) for line in published.stdout.splitlines()]
        assert published.returncode == 1
        assert [record.get("matches") for record in records] == [["late", "lax"], None, ["lax"]]
        assert records[1]["error"]["code"] == "bad_event"
        assert records[1]["line"] == 2 and "line" not in records[0]
        assert "event 1 (line 2)" in run("publish", "-", *data, text=events).stderr
        counted = run("publish", "-", "--counts", *data, text='{"dest": "LAX"}\n')
        assert counted.stdout == "event 0: 1 match\n"

        (data_dir / "event.json").write_text('{"origin": "JFK", "delay": 5}')
        about = ("--event", str(data_dir / "event.json"), *data)
        explained = result_of("explain", "late", "--nearest", "2", *about)
        assert (explained["misses"], explained["details"]) == (1, {"owner": "ann"})
        assert [near["rule_id"] for near in explained["nearest"]] == ["late", "lax"]
        unknown = run("explain", "nobody", *about)
        assert unknown.returncode == 1
        assert "Error: no subscription has this id." in unknown.stderr and "remedy:" in unknown.stderr

        changed = result_of("update", "late", "delay > 100", "--valid-until", "none", *data)
        assert changed["handle"] == made["handle"]
        again = result_of("load", "-", "--replace", *data, text=lines.splitlines()[0])
        assert (again["loaded"], again["replaced"]) == (1, 1)
        check_listing(*data)
        assert result_of("status", *data)["subscriptions"] == 2
        assert "subscriptions" in run("status", *data).stdout
        metrics = run("status", "--prometheus", *data).stdout
        assert metrics.count("\n# TYPE ") == len(METRICS) + len(WORKER_METRICS) + 2, "the status has them all"
        assert re.search(r'_memory_bytes\{process="coordinator"\} \d{7,}\n', metrics)
        built = result_of("tune", "now", *data)
        assert built["asked"] is True
        assert built["built"]["generation"] == built["generation"] >= 1
        assert result_of("tune", "now", "--no-wait", *data)["asked"] is True
        assert "subscriptions in 2 clusters" in run("tune", "now", *data).stdout
        shown = result_of("tune", "show", *data)
        assert "generation" in shown and shown["layout"]["decisions"] == []
        assert "No decision yet" in run("tune", "log", *data).stdout
        assert result_of("unsubscribe", "lax", "nobody", *data, exit_code=1)["removed"] == ["lax"]
    finally:
        stopped = result_of("stop", *data)
    assert stopped["stopped"] is True
    assert not (data_dir / "client.sock").exists()


def test_listen_prints_notifications_and_ends_with_ctrl_c(data_dir: Path) -> None:
    data = ("--data", str(data_dir))
    result_of("start", "--detach", "--workers", "1", *data)
    try:
        made = result_of("subscribe", "price > 10", "--id", "dear", "--owner", "ann", *data)
        listener = subprocess.Popen(
            [sys.executable, "-m", "pubsub_cluster.cli", "listen", "ann", "--json", *data],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert listener.stdout is not None and listener.stderr is not None
        assert "Listening for ann" in listener.stderr.readline()
        run("publish", "-", *data, text='{"price": 11}\n{"price": 9}\n')
        told = json.loads(listener.stdout.readline())
        assert (told["owner"], told["event_index"], told["event"]) == ("ann", 0, {"price": 11})
        assert (told["ids"], told["handles"], told["sequence"]) == (["dear"], [made["handle"]], 0)
        listener.send_signal(signal.SIGINT)
        out, err = listener.communicate(timeout=TIMEOUT_S)
        assert listener.returncode == 130
        assert (out, err) == ("", "Stopped.\n")
        durable = ("listen", "ann", "--durable", "mailer", "--idle", "0.1", "--json", *data)
        run(*durable)
        run("publish", "-", *data, text='{"price": 12}\n')
        one = ("listen", "ann", "--durable", "mailer", "--count", "1", "--json", *data)
        assert json.loads(run(*one).stdout)["event"] == {"price": 12}
        CliRunner().invoke(cli, ["publish", "-", *data], input='{"price": 13}\n')
        as_text = CliRunner().invoke(cli, [word for word in one if word != "--json"]).stdout
        assert as_text.endswith(f'[0] -> dear (handle {made["handle"]})  {{"price":13}}\n')
        assert run(*durable).stdout == "", "it was printed, and acknowledged"
        assert result_of("forget", "ann", "mailer", *data)["forgotten"] is True
        assert result_of("forget", "ann", "mailer", *data, exit_code=1)["forgotten"] is False
    finally:
        result_of("stop", *data)


def test_foreground_start_ends_with_ctrl_c(data_dir: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pubsub_cluster.cli", "start", "--workers", "1", "--data", str(data_dir)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    ready = [process.stdout.readline() for _ in range(5)]
    assert ready[0].startswith(f"READY  ipc://{data_dir}")
    assert [line.split()[0] for line in ready[1:4]] == ["shards", "pids", "next"]
    assert ready[4].strip() == "Ctrl-C stops it."
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    assert err.splitlines()[-1] == "Stopped."
    assert "Traceback" not in err
    assert not (data_dir / "client.sock").exists()


def test_refusal_to_start_is_the_same_in_the_background(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    os.chmod(data_dir, 0o755)
    for detach in ([], ["--detach"]):
        done = run("start", *detach, "--data", str(data_dir))
        assert done.returncode == 1
        assert "does not have the mode of a private directory" in done.stderr
        assert "chmod 700" in done.stderr
