"""Lines of files and pipes for `load` and `publish`: packed ones, byte order marks."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_cluster import FakeCluster
from test_cli_load import RecordingClient

from pubsub_cluster.cli.lines import read_lines, size_bytes_of
from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.publish import read_batches
from pubsub_cluster.language.errors import EventError

MARK = b"\xef\xbb\xbf"


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


def test_a_stream_without_a_file_below_it_is_read_too() -> None:
    assert size_bytes_of(io.BytesIO(b"a\n")) is None
    assert list(read_lines(io.BytesIO(b"a\nb"))) == [b"a\n", b"b"]
