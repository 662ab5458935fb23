"""docs/protocol.md says what the code does: ops, fields, error codes, limits, and an example that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import zmq
from fake_cluster import FakeCluster

from pubsub_cluster.coordinator import answers
from pubsub_cluster.language import errors, paths, protocol, together
from pubsub_cluster.language.limits import DEFAULT_LIMITS
from pubsub_cluster.language.payload_check import COLUMN_TYPES, FORMATS

PAGE = (Path(__file__).parent.parent / "docs" / "protocol.md").read_text()


def section(title: str) -> str:
    """Text from a heading to the next one of the same or a higher level."""
    level = title.split(" ")[0]
    body = PAGE.split(f"\n{title}\n")[1]
    return re.split(rf"\n#{{1,{len(level)}}} ", body)[0]


def table(text: str) -> list[list[str]]:
    """Rows of the first table in a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    first = text.splitlines().index(lines[0])
    rows = []
    for line in text.splitlines()[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows[2:]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_]+)`", cell))


def all_errors(kind: type[errors.PubSubError] = errors.PubSubError) -> dict[str, type[errors.PubSubError]]:
    found = {kind.code: kind}
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            found.update(all_errors(below))
    return found


def test_ops_and_their_fields_are_those_of_the_code() -> None:
    rows = {row[0].strip("`"): row for row in table(section("## Ops"))}
    assert list(rows) == [op.value for op in protocol.Op]
    for op in protocol.Op:
        required, reply = rows[op.value][1], rows[op.value][2]
        optional = set(re.findall(r"`([a-z_]+)`\?", required))
        assert optional == protocol.REQUEST_FIELDS[op].optional, op
        assert names(required) - optional == protocol.REQUEST_FIELDS[op].required, op
        assert names(reply) == protocol.REPLY_FIELDS[op], op


def test_item_fields_are_those_of_the_code() -> None:
    rows = table(section("### subscribe, update, unsubscribe"))
    listed = {name for row in rows for name in names(row[0])}
    subscribe, update = protocol.SUBSCRIBE_ITEM_FIELDS, protocol.UPDATE_ITEM_FIELDS
    assert listed == subscribe.required | subscribe.optional
    allowed = {name for row in rows if "not allowed" not in row[2] for name in names(row[0])}
    assert allowed == update.required | update.optional


def test_push_fields_are_those_of_the_code() -> None:
    rows = table(section("### listen, unlisten"))
    assert {name for row in rows for name in names(row[0])} == protocol.NOTIFY_FIELDS | {"op"}


def test_fields_of_an_invitation_are_those_of_the_code() -> None:
    rows = table(section("### records"))
    assert {name for row in rows for name in names(row[0])} == protocol.INVITE_FIELDS | {"op"}


def test_error_codes_are_those_of_the_code() -> None:
    rows = table(section("## Errors"))
    listed = {row[0].strip("`"): row[1] for row in rows}
    known = all_errors()
    assert set(listed) == set(known)
    assert {code: fault == "caller" for code, fault in listed.items()} == {
        code: kind.caller_fault for code, kind in known.items()
    }


def test_formats_and_answers_are_those_of_the_code() -> None:
    text = section("### publish")
    assert set(re.findall(r'"format": "([a-z]+)"', text)) == set(FORMATS)
    types_row = next(row for row in table(text.split("A column is")[1]) if row[0] == "values")
    text_row = next(row for row in table(text.split("A column is")[1]) if row[0] == "text")
    assert names(types_row[1]) | names(text_row[1]) == set(COLUMN_TYPES)
    answer_rows = table(text.split("Its buffers:\n")[-1])
    assert {row[0].strip("`") for row in answer_rows} == set(protocol.Answer)
    for action in protocol.TUNE_ACTIONS:
        assert f"`{action}`" in section("### status, tune, resize, stop")


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (protocol.FRAME_COUNT_MAX, "## Transport"),
        (protocol.FRAME_SLACK_BYTES, "## Transport"),
        (paths.SOCKET_PATH_SIZE_BYTES_MAX, "## Transport"),
        (together.REQUESTS_MAX, "## Messages"),
        (DEFAULT_LIMITS.name_size_bytes_max, "### publish"),
        (answers.REPLIES_MAX, "## Sending again"),
        (answers.REPLIES_SIZE_BYTES_MAX >> 20, "## Sending again"),
        (answers.REPLY_KEPT_SIZE_BYTES_MAX >> 20, "## Sending again"),
    ],
)
def test_numbers_are_those_of_the_code(number: int, where: str) -> None:
    assert re.search(rf"\b{number:,}\b", section(where))


def test_named_limits_exist() -> None:
    for name in re.findall(r"`([a-z_]+_max)`", PAGE):
        assert hasattr(DEFAULT_LIMITS, name), name


def test_the_example_runs(tmp_data_dir: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", section("## Example"), re.DOTALL)[0]
    with FakeCluster(tmp_data_dir) as cluster:
        scope: dict[str, Any] = {"ENDPOINT": cluster.endpoint}
        try:
            exec(compile(code, "docs/protocol.md", "exec"), scope)
        finally:
            scope["socket"].close(linger=0)
            zmq.Context.instance().term()
        assert scope["made"]["results"][0]["ok"] is True
        assert scope["answer"]["event_count"] == 1 and scope["matched"] == ()
        assert cluster.ops() == ["subscribe", "publish"]
