"""Reading subscriptions and events from files, with a client that records instead of sending."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from fake_cluster import FakeCluster
from test_language_subscription_lines import plainly

from pubsub_cluster.cli import load as load_module
from pubsub_cluster.cli.listing import described
from pubsub_cluster.cli.load import load_lines
from pubsub_cluster.cli.main import cli
from pubsub_cluster.cli.publish import read_batches
from pubsub_cluster.client import Client, Subscription
from pubsub_cluster.language.errors import (
    DuplicateIdError,
    EventError,
    LimitError,
    PubSubError,
    ReplyTimeoutError,
)

TAKEN_AHEAD = 3


class RecordingClient:
    """Answers like a client: an expression ``bad`` is refused."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []

    def __enter__(self) -> RecordingClient:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def has(self, item: dict[str, Any]) -> bool:
        """Say whether there is a subscription with the item's id already."""
        return bool(item["expr"] == "bad")

    def subscribe_stream(
        self, items: Iterable[dict[str, Any]], retained: int
    ) -> Iterator[Subscription | PubSubError]:
        assert retained == 0, "a bulk load does not ask for retained events"
        coming = iter(items)
        while some := [plainly(item) for item in islice(coming, TAKEN_AHEAD)]:
            yield from map(self.subscribed, some)

    def subscribe_many(
        self, items: Iterable[dict[str, Any]], retained: int
    ) -> list[Subscription | PubSubError]:
        return list(self.subscribe_stream(items, retained))

    def subscribed(self, item: dict[str, Any]) -> Subscription | PubSubError:
        """Take an item; return what became of it."""
        self.items.append(item)
        if self.has(item):
            return DuplicateIdError("this id exists", seen=item.get("id"))
        return Subscription(item.get("id", "x"), 1, 1, False)


def test_bad_lines_cost_only_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "RESULTS_PER_CHUNK", 2)
    client = RecordingClient()
    lines = [b"a = 1\n", b'{"expr"\n', b"\n", b"bad\n", b"b = 2\n", b"{]"]
    sizes: list[int] = []
    tally = load_lines(as_client(client), lines, None, lambda size, _: sizes.append(size))
    assert [item["expr"] for item in client.items] == ["a = 1", "bad", "b = 2"]
    assert (tally.loaded_count, tally.refused_count) == (2, 3)
    assert [number for number, _ in tally.errors] == [2, 4, 6]
    assert sum(sizes) == sum(map(len, lines))


def test_load_reports_lines_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub_cluster.cli.common.connect_client", lambda *_: RecordingClient())
    text = 'a = 1\n{"expr"\nbad\n'
    result = CliRunner().invoke(cli, ["load", "-"], input=text)
    assert result.exit_code == 1
    assert "Loaded 1 subscription in" in result.stdout
    assert "Line 2: the line is not JSON" in result.stderr
    assert "Line 3: this id exists." in result.stderr
    assert "Refused 2 lines; the others are loaded." in result.stderr


def test_load_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pubsub_cluster.cli.common.connect_client", lambda *_: RecordingClient())
    result = CliRunner().invoke(cli, ["load", "-", "--json"], input="a = 1\nbad\n")
    body = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (body["loaded"], body["refused"]) == (1, 1)
    assert body["errors"][0]["line"] == 2
    assert body["errors"][0]["error"]["code"] == "duplicate_id"


def test_batches_of_lines_keep_bad_ones_for_the_cluster() -> None:
    file = io.BytesIO(b'{"a": 1}\n\n{"a": \n{"a": 3}')
    assert list(read_batches(file, 2, 1_000)) == [(b'{"a": 1}\n{"a": \n', [1, 3]), (b'{"a": 3}\n', [4])]
    assert list(read_batches(io.BytesIO(b"\n"), 2, 1_000)) == []


def test_batches_of_an_array_keep_numbers_as_written() -> None:
    file = io.BytesIO(b'[{"a": 18446744073709551617},\n {"a": 1.50},\n {"b": [1, 2]}]')
    found = list(read_batches(file, 2, 1_000))
    assert found == [(b'[{"a": 18446744073709551617},{"a": 1.50}]', []), (b'[{"b": [1, 2]}]', [])]
    with pytest.raises(EventError, match="not a JSON array"):
        list(read_batches(io.BytesIO(b'[{"a": 1},\n'), 2, 1_000))


def test_large_events_are_cut_by_bytes() -> None:
    file = io.BytesIO(b'{"a": "12345678"}\n' * 3)
    assert [lines for _, lines in read_batches(file, 100, 20)] == [[1], [2], [3]]


@pytest.mark.parametrize("as_array", [False, True])
def test_whatever_a_file_holds_fits_the_cluster_and_an_event_that_cannot_is_refused_alone(
    tmp_data_dir: Path, as_array: bool
) -> None:
    small, large = ['{"a": "1234"}'] * 90, json.dumps({"a": "1" * 300})
    events = [*small[:50], large, *small[50:]]
    text = f"[{','.join(events)}]" if as_array else "\n".join(events)
    with FakeCluster(tmp_data_dir) as cluster:
        cluster.limits.update(events_per_batch_max=60, batch_size_bytes_max=300)
        command = ["publish", "-", "--counts", "--json", "--endpoint", cluster.endpoint]
        result = CliRunner().invoke(cli, command, input=text)
    assert result.exit_code == 1, result.stderr
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["event_index"] for record in records] == list(range(91))
    assert [record["event_index"] for record in records if "error" in record] == [50]
    assert records[50].get("line") == (None if as_array else 51)


def as_client(stand_in: RecordingClient) -> Client:
    """Return a stand-in as the client that `load_lines` takes; it has the methods that are called."""
    return cast(Client, stand_in)


class KeepingClient(RecordingClient):
    """Knows ids; one that exists is refused, and may be updated."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, dict[str, Any]] = {}

    def subscribed(self, item: dict[str, Any]) -> Subscription | PubSubError:
        if item["id"] in self.kept:
            return DuplicateIdError("this id exists", seen=item["id"])
        self.kept[item["id"]] = item
        return Subscription(item["id"], len(self.kept), 1, False)

    def update_many(self, items: list[dict[str, Any]]) -> list[Subscription | PubSubError]:
        for item in map(plainly, items):
            assert "owner" not in item
            self.kept[item["id"]] = {**self.kept[item["id"]], **item}
        return [Subscription(item["id"], 1, 1, False) for item in items]


def test_replace_updates_what_exists() -> None:
    client = KeepingClient()
    first = [b'{"id": "x", "expr": "a = 1", "owner": "ann"}\n', b'{"id": "y", "expr": "b = 1"}\n']
    assert load_lines(as_client(client), first, None, lambda *_: None).loaded_count == 2
    again = [b'{"id": "x", "expr": "a = 2", "owner": "bob"}\n', b'{"id": "z", "expr": "c = 1"}\n']
    refusing = load_lines(as_client(client), again[:1], None, lambda *_: None)
    assert (refusing.loaded_count, refusing.refused_count) == (0, 1)
    tally = load_lines(as_client(client), again, None, lambda *_: None, replace=True)
    assert (tally.loaded_count, tally.replaced_count, tally.refused_count) == (2, 1, 0)
    assert client.kept["x"] == {"id": "x", "expr": "a = 2", "owner": "ann"}


def test_a_later_line_replaces_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "RESULTS_PER_CHUNK", 2)
    client = KeepingClient()
    lines = [b'{"id": "%c", "expr": "a = %d"}' % (b"xyz"[number % 3], number) for number in range(10)]
    tally = load_lines(as_client(client), lines, None, lambda *_: None, replace=True)
    assert (tally.loaded_count, tally.replaced_count, tally.refused_count) == (10, 7, 0)
    assert {name: item["expr"] for name, item in client.kept.items()} == {
        "x": "a = 9",
        "y": "a = 7",
        "z": "a = 8",
    }


class Describing:
    """Tells of two subscriptions at a time, and of no more."""

    def describe_many(self, ids: list[str], *, expressions: bool) -> list[dict[str, Any] | PubSubError]:
        return [{"id": name} if i < 2 else LimitError("no room") for i, name in enumerate(ids)]


def test_a_listing_asks_again_for_what_had_no_room_beside_the_others() -> None:
    (found,) = described(cast(Client, Describing()), "abcd")
    assert found == [(name, {"id": name}) for name in "abcd"]


def test_a_load_that_is_broken_off_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad lines are told too, and an error before the first answer is told as one that loaded nothing."""
    monkeypatch.setattr(load_module, "RESULTS_PER_CHUNK", 2)

    class Dying(RecordingClient):
        def subscribed(self, item: dict[str, Any]) -> Subscription | PubSubError:
            if item["expr"] == "d = 4":
                raise ReplyTimeoutError("no answer to subscribe came in time")
            return super().subscribed(item)

    path = tmp_path / "lines"
    path.write_bytes(b"a = 1\n{]\nb = 2\nc = 3\nd = 4\n")

    @contextlib.contextmanager
    def connect() -> Iterator[Client]:
        yield as_client(Dying())

    with path.open("rb") as file, pytest.raises(ReplyTimeoutError):
        load_module._load_file(connect, file, None, False, False)
    told = capsys.readouterr().err
    assert "2 subscriptions of the lines up to 3 were loaded" in told and "Line 2" in told
    assert "the others are loaded" not in told
