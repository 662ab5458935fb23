"""Lines of files and pipes, as commands read them: packed ones, byte order marks, what comes slowly."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_cluster import FakeCluster, Frames
from test_cli_load import RecordingClient

from pubsub_cluster.cli.lines import read_lines, size_bytes_of
from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.publish import read_batches
from pubsub_cluster.language.errors import EventError, PoisonBatchError
from pubsub_cluster.language.protocol import Message, Op, error_frames

MARK = b"\xef\xbb\xbf"
PIPE_S_MAX = 30.0


@pytest.mark.parametrize("begin", [b"", MARK])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_are_those_of_a_plain_file(tmp_path: Path, begin: bytes, pack: type[bytes]) -> None:
    path = tmp_path / "lines"
    content = b"a\n\n" + MARK + b"b\r\nc"
    path.write_bytes(pack(begin + content))
    with path.open("rb") as file:
        assert size_bytes_of(file) == (len(begin + content) if pack is bytes else None)
        assert list(read_lines(file)) == [b"a\n", b"\n", MARK + b"b\r\n", b"c"]
    path.write_bytes(begin)
    with path.open("rb") as file:
        assert list(read_lines(file)) == []


def test_load_and_publish_read_packed_files_with_a_mark(
    tmp_path: Path, tmp_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(MARK + b'{"expr": "a = 1", "id": "x"}\n\na = 2\n'))
    client = RecordingClient()
    with monkeypatch.context() as patched:
        patched.setattr("pubsub_cluster.cli.common.connect_client", lambda *_: client)
        assert CliRunner().invoke(cli, ["load", str(path)]).exit_code == 0
    assert [item["expr"] for item in client.items] == ["a = 1", "a = 2"]
    path.write_bytes(gzip.compress(MARK + b'[{"a": 1}, {"a": 2}]'))
    with FakeCluster(tmp_data_dir) as cluster:
        result = CliRunner().invoke(cli, ["publish", str(path), "--counts", "--endpoint", cluster.endpoint])
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2), result.stderr


def test_a_torn_file_counts_up_to_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"a = 1\n" * 50_000)[:-8])
    client = RecordingClient()
    monkeypatch.setattr("pubsub_cluster.cli.common.connect_client", lambda *_: client)
    result = CliRunner().invoke(cli, ["load", str(path)])
    assert result.exit_code == 1
    assert f"Line {len(client.items) + 1}: the file cannot be read" in result.stderr
    with path.open("rb") as file:
        batches = read_batches(read_lines(file), len(client.items) + 1, 1 << 20)
        assert len(next(batches).lines) == len(client.items) > 0
        with pytest.raises(EventError, match="cannot be read"):
            next(batches)


def test_what_comes_through_a_pipe_does_not_wait_for_a_full_batch() -> None:
    read, write = os.pipe()
    given_up = threading.Timer(PIPE_S_MAX, os.close, [write])
    given_up.start()
    with open(read, "rb") as file:
        batches = read_batches(read_lines(file, with_pauses=True), 3, 1_000)
        os.write(write, MARK + b'{"a": 1}\n\n{"a": 2}\n{"a"')
        assert next(batches) == (b'{"a": 1}\n{"a": 2}\n', [1, 3])
        os.write(write, b': 3}\n{"a": 4}\n{"a": 5}\n{"a": 6}\n\n')
        assert next(batches) == (b'{"a": 3}\n{"a": 4}\n{"a": 5}\n', [4, 5, 6])
        assert next(batches) == (b'{"a": 6}\n', [7])
        assert given_up.is_alive()
        given_up.cancel()
        os.write(write, b'{"a": 7}')
        os.close(write)
        assert list(batches) == [(b'{"a": 7}\n', [9])]


def poisoned(cluster: FakeCluster, message: Message) -> Frames | None:
    """Refuse the second batch, as a cluster whose workers died of it does."""
    if message.op == Op.PUBLISH and cluster.ops().count(Op.PUBLISH) == 2:
        return error_frames(message.request, PoisonBatchError("the batch is poison"))
    return None


@pytest.mark.parametrize("as_array", [False, True])
def test_a_refused_batch_is_named(tmp_data_dir: Path, as_array: bool) -> None:
    text = '[{"a": 1}, {"a": 2}, {"a": 3}]' if as_array else '\n{"a": 1}\n{"a": 2}\n\n{"a": 3}\n{"a": 4}\n'
    with FakeCluster(tmp_data_dir, script=poisoned) as cluster:
        command = ["publish", "-", "--batch", "2", "--counts", "--json", "--endpoint", cluster.endpoint]
        result = CliRunner().invoke(cli, command, input=text)
    assert result.exit_code == 1
    *records, last = map(json.loads, result.stdout.splitlines())
    assert [record["event_index"] for record in records] == [0, 1]
    places = {"published_count": 2, "first_event": 2, "last_event": 2 if as_array else 3}
    if not as_array:
        places |= {"first_line": 5, "last_line": 6}
    assert last["error"] == {"code": "poison_batch", "condition": "the batch is poison", **places}
    where = "event 2" if as_array else "lines 5 to 6 (events 2 to 3)"
    assert f"without an answer: {where}; 2 events published before.\nError: the batch is" in result.stderr


def test_ids_to_remove_come_from_a_file(tmp_data_dir: Path) -> None:
    with FakeCluster(tmp_data_dir) as cluster:
        cluster.subscriptions.update(dict.fromkeys(["a", "b c", " d", "e"], "kept"))
        command = ["unsubscribe", "--endpoint", cluster.endpoint, "--json"]
        given = MARK + "b c\r\n\n d\nnö".encode()
        result = CliRunner().invoke(cli, [*command, "a", "--file", "-"], input=given)
        assert result.exit_code == 1
        told = json.loads(result.stdout)
        assert (told["removed"], list(told["refused"])) == (["a", "b c", " d"], ["nö"])
        assert CliRunner().invoke(cli, command).exit_code == 2
        result = CliRunner().invoke(cli, [*command, "--file", "-"], input=b"e\n\xff\n")
        assert "Error: line 2 is not UTF-8" in result.stderr and "nothing was removed" in result.stderr
        assert list(cluster.subscriptions) == ["e"]


def test_a_stream_without_a_file_below_it_is_read_too() -> None:
    assert size_bytes_of(io.BytesIO(b"a\n")) is None
    assert list(read_lines(io.BytesIO(b"a\nb"), with_pauses=True)) == [b"a\n", b"b"]
