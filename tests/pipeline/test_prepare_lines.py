"""Lines as events and as subscriptions, without Spark: the same verdicts as the language's own."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pubsub_cluster.language.errors import EventError  # noqa: E402
from pubsub_cluster.language.events import EventReader  # noqa: E402
from pubsub_cluster.language.json_form import expression_from_json  # noqa: E402
from pubsub_cluster.language.limits import Limits  # noqa: E402
from pubsub_cluster.language.normalise import normalise  # noqa: E402
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema  # noqa: E402
from pubsub_cluster.language.text_form import parse_text  # noqa: E402
from pubsub_cluster.pipeline.lines import INEXACT, LineReader  # noqa: E402
from pubsub_cluster.pipeline.raw import without_bad_files  # noqa: E402
from pubsub_cluster.pipeline.subscriptions import SubscriptionPreparer  # noqa: E402

SCHEMA = Schema(
    (
        Attribute("count", DomainKind.INTEGER),
        Attribute("price", DomainKind.FLOAT),
        Attribute("name", DomainKind.STRING, unique=True),
        Attribute("is_new", DomainKind.BOOLEAN),
        Attribute("seen", DomainKind.TIMESTAMP),
        Attribute("size", DomainKind.ENUMERATED, ("small", "large"), ordered=True),
        Attribute("kind", DomainKind.HIERARCHICAL, ("a/b", "c")),
    )
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(
        ["small", "large", "a", "a/b", "c", "2013-01-01T00:00:00Z", "0000-02-29 23:59:60.5z", 2**53 + 1]
    ),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2))


def batch_of(lines: list[bytes]) -> Any:
    count = len(lines)
    return pa.RecordBatch.from_pydict(
        {
            "line": pa.array(lines, pa.binary()),
            "_file": pa.array(["/raw/a.ndjson"] * count, pa.string()),
            "_block": pa.array([0] * count, pa.int64()),
            "_index": pa.array(range(count), pa.int64()),
            "_row": pa.array(range(1, count + 1), pa.int64()),
        }
    )


def verdict(name: str, value: Any) -> tuple[str | None, Any]:
    """What the language says of one value: a reason, or its canonical values."""
    try:
        flat = EventReader(SCHEMA).flatten({name: value})
    except EventError as error:
        return error.condition, None
    return None, flat.get(name, ())


@given(st.dictionaries(st.sampled_from(SCHEMA.names), VALUES))
def test_events_of_lines_are_judged_as_the_language_judges_values(event: dict[str, Any]) -> None:
    if any(isinstance(value, float) and math.isinf(value) for value in _scalars(event)):
        return  # JSON cannot spell them
    values, problems = LineReader(SCHEMA).read(json.dumps(event).encode())
    reasons = {name: reason for name, reason, _ in problems}
    if any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in _scalars(event)):
        assert problems and not values
        return
    for name, value in event.items():
        reason, canonical = verdict(name, value)
        if reason is None and len(canonical) <= 1:
            if name == "price" and canonical and float(canonical[0]) != canonical[0]:
                assert reasons[name].endswith(INEXACT)
            elif not problems:
                found = values.get(name)
                assert canonical == (() if found is None else verdict(name, found)[1])
            else:
                assert name not in reasons
        elif reason is not None and not isinstance(value, list):
            assert reasons[name] == reason
        else:
            assert name in reasons
    assert bool(values) <= (not problems)


def _scalars(event: dict[str, Any]) -> list[Any]:
    return [one for value in event.values() for one in (value if isinstance(value, list) else [value])]


def test_a_table_of_lines_says_what_is_wrong_and_where() -> None:
    lines = [
        b'{"payload": {"n": 5}, "id": "x1", "other": [1, 2]}',
        b"",
        b'{"payload": {"n": "5"}, "size": "huge"}',
        b'{"name": ["a", "b"]}\r',
        b"[1]",
        b"{",
        b'{"payload": {"n": 1}, "count": 2}',
    ]
    reader = LineReader(SCHEMA, mapping={"payload.n": "count", "id": "event_id"}, id_name="event_id")
    table = reader.table(batch_of(lines)).to_pylist()
    assert [row["_index"] for row in table] == [0, 2, 3, 4, 5, 6]
    assert (table[0]["count"], table[0]["event_id"], table[0]["_problems"]) == (5, "x1", [])
    found = [sorted((one["column"] or "", one["value"]) for one in row["_problems"]) for row in table[1:]]
    assert found[0] == [("count", "5"), ("size", "huge")]
    assert found[1] == [("name", '["a","b"]')]
    assert [len(each) for each in found[2:]] == [1, 1, 1]
    assert "not an object" in table[3]["_problems"][0]["reason"]
    assert "no json document" in table[4]["_problems"][0]["reason"]
    assert "two fields" in table[5]["_problems"][0]["reason"]
    assert all(row["count"] is None for row in table[1:])


def prepared(lines: list[bytes], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = SubscriptionPreparer(SCHEMA, **options).lines(batch_of(lines)).to_pylist()
    return found


def test_lines_of_every_form_become_rows_with_expressions_in_json() -> None:
    atom = {"attr": "count", "op": "=", "value": 5}
    found = prepared(
        [
            b'{"id": "a", "expr": "count = 5", "owner": "ann", "metadata": {"x": [1]}, "valid_until": 9}',
            json.dumps(atom).encode(),
            b"\n",
            b'"count = 5"',
            b"count = 5\r\n",
        ],
        owner="bob",
    )
    assert [row["code"] for row in found] == [None] * 4
    assert [json.loads(row["expr"]) for row in found] == [atom] * 4
    assert [row["id"] for row in found] == ["a", "a.ndjson:2", "a.ndjson:4", "a.ndjson:5"]
    assert [row["owner"] for row in found] == ["ann", "bob", "bob", "bob"]
    assert (found[0]["valid_from"], found[0]["valid_until"], found[0]["metadata"]) == (None, 9, '{"x":[1]}')


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"expr": ', "bad_expression"),
        (b"count = ", "bad_text"),
        (b"count = 'x'", "bad_domain"),
        (b'{"expr": "count = 5", "valid_from": 9, "valid_until": 9}', "bad_window"),
        (b'{"expr": "count = 5", "valid_from": "soon"}', "bad_window"),
        (b'{"expr": "count = 5", "metadata": 3}', "bad_expression"),
        (b'{"expr": "count = 5", "id": ""}', "bad_expression"),
        (b"name = 'aaaaaaaaa'", "limit"),
        (b"\xff", "bad_expression"),
    ],
)
def test_what_cannot_stand_is_kept_with_its_error(line: bytes, code: str) -> None:
    good, bad = prepared([b"count = 5", line], limits=Limits(string_size_bytes_max=8))
    assert good["code"] is None
    assert (bad["code"], bad["_row"], bad["_file"]) == (code, 2, "/raw/a.ndjson")
    assert bad["error"] and bad["line"] == line.decode(errors="replace")
    assert bad["id"] is bad["expr"] is None


@given(st.integers(-5, 5), st.sampled_from(["=", "<", ">="]), st.booleans())
def test_a_normalised_expression_means_what_the_text_meant(number: int, operator: str, negated: bool) -> None:
    text = f"{'NOT ' if negated else ''}(count {operator} {number} OR name IN ['a', 'b'])"
    (row,) = prepared([text.encode()])
    again = expression_from_json(json.loads(row["expr"]))
    assert normalise(again, SCHEMA) == normalise(parse_text(text), SCHEMA)
    (twice,) = prepared([row["expr"].encode()])
    assert twice["expr"] == row["expr"]


def test_rows_of_a_table_are_read_like_lines() -> None:
    table = pa.RecordBatch.from_pylist(
        [
            {"expr": "count = 5", "id": "a", "valid_from": 1_000_000, "metadata": '{"x": 1}'},
            {"expr": '{"attr": "count", "op": "=", "value": 5}', "id": None},
            {"expr": None, "id": "c"},
            {"expr": '{"expr": "count = 5", "id": "d"}', "id": "d"},
            {"expr": "count = 5", "id": "e", "metadata": "{"},
        ],
        schema=pa.schema(
            [
                ("expr", pa.string()), ("id", pa.string()), ("valid_from", pa.timestamp("us", "UTC")),
                ("metadata", pa.string()),
            ]
        ),
    )  # fmt: skip
    table = table.append_column("_file", pa.array(["/raw/s.parquet"] * 5))
    table = table.append_column("_row", pa.array([1, 2, 3, 4, 5], pa.int64()))
    found = SubscriptionPreparer(SCHEMA).rows(table).to_pylist()
    assert [row["id"] for row in found] == ["a", "s.parquet:2", None, None, None]
    assert [row["code"] for row in found] == [None, None, *["bad_expression"] * 3]
    assert found[0]["valid_from"] == 1_000_000
    assert found[0]["metadata"] == '{"x":1}'


def failing(file: str, cause: str) -> Exception:
    """Return an error as Spark words it."""
    return RuntimeError(
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{file}.  SQLSTATE: KD001\n"
        f"\tat a.b.C(D.scala:1)\nCaused by: java.io.SomeException: {cause}\n\tat e.f"
    )


def test_files_of_another_header_are_tried_again_without_the_file_that_had_it() -> None:
    headers = {"/a b.csv": "x", "/b.csv": "y", "/c.csv": "y", "/d.csv": "z"}
    tried: list[list[str]] = []

    def run(files: list[str]) -> str:
        tried.append(files)
        for file in files:
            if headers[file] != headers[files[0]]:
                raise failing(
                    file.replace(" ", "%20"), f"CSV header does not conform to the schema of {files[0]}"
                )
        if "/a b.csv" in files:
            raise failing("/a%20b.csv", "Unexpected end of input stream")
        return "done"

    found, bad = without_bad_files(list(headers), run)
    assert found == "done" and tried[-1] == ["/b.csv", "/c.csv"]
    assert [(each.file, each.cause) for each in bad] == [
        ("/a b.csv", "Unexpected end of input stream"),
        ("/d.csv", "CSV header does not conform to the schema of /b.csv"),
    ]


def test_other_errors_are_not_swallowed() -> None:
    def run(files: list[str]) -> None:
        raise KeyError("something else")

    with pytest.raises(KeyError):
        without_bad_files(["/a.csv"], run)

    def about_another(files: list[str]) -> None:
        raise failing("/elsewhere.csv", "gone")

    with pytest.raises(RuntimeError, match="elsewhere"):
        without_bad_files(["/a.csv"], about_another)
