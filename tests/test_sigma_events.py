"""The normalised event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.language.errors import EventError, ExpressionError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.sigma_rules.events import Normaliser, normalise
from pubsub_cluster.sigma_rules.logsources import Alias, LogSource, default_logsources

OWN = """
[[logsource]]
product = "linux"
service = "auditd"
where = { type = ["EXECVE", 1300] }

[[logsource]]
product = "windows"
category = "process_creation"
where = { Channel = ["Mine"] }

[[alias]]
field = "Image"
from = "exe"
"""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("pqr"), inner)),
)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"a": "x", "b": None, "c": [], "d": [None], "e": {}}, {"a": "x"}),
        ({"a": 3, "b": 2**70, "c": True, "d": False}, {"a": "3", "b": f"{2**70}", "c": "true", "d": "false"}),
        ({"a": 3.0, "b": 1e22}, {"a": [3.0, "3.0"], "b": [1e22, "1e+22"]}),
        ({"a": ["x", 1, None, ["y"]]}, {"a": ["x", "1", "y"]}),
        ({"a": {"b": {"c": 1}, "d": [{"e": 1}, {"e": 2}]}}, {"a.b.c": "1", "a.d.e": ["1", "2"]}),
        ({"SourceName": "s", "Hostname": "h"},
         {"SourceName": "s", "Hostname": "h", "Provider_Name": "s", "Computer": "h"}),
        ({"Message": ["m", 5]}, {"Message": ["m", "5"], "Data": ["m", "5"]}),
        ({"SourceName": "s", "Provider_Name": "p"}, {"SourceName": "s", "Provider_Name": "p"}),
        ({"SourceName": "s", "Provider_Name": None}, {"SourceName": "s", "Provider_Name": "s"}),
        ({"SourceName": None}, {}),
        ({"Channel": "sEcurity", "EventID": 4688.0, "NewProcessName": "x"},
         {"Channel": "sEcurity", "EventID": [4688.0, "4688.0"], "NewProcessName": "x", "Image": "x"}),
        ({"Channel": "Security", "NewProcessName": "x"}, {"Channel": "Security", "NewProcessName": "x"}),
    ],
)  # fmt: skip
def test_normalised(event: dict[str, Any], expected: dict[str, Any]) -> None:
    found = normalise(event)
    assert found == expected
    assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"a.b": 1, "a": {"b": 2}}, "have the name"),
        ({"a": {"b": 2}, "a.b": "x"}, "have the name"),
        ({"a": {"b.c": 1, "b": {"c": 1}}}, "have the name"),
        ({"a": {1: 2}}, "no text"),
        ({"a": b"x"}, "none that JSON has"),
        ({"a": float("nan")}, "none that JSON has"),
    ],
)
def test_refused(event: dict[str, Any], said: str) -> None:
    with pytest.raises(EventError, match=said):
        normalise(event)


def test_deep_nesting_is_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(EventError, match="deep"):
        normalise({"a": value})
    for _ in range(100_000):
        value = value[0]  # taken apart step by step: its destructor would recurse


@given(st.dictionaries(st.sampled_from(["a", "b", "SourceName", "Provider_Name"]), nested))
def test_a_normalised_event_is_an_event_and_stays_as_it_is(event: dict[str, Any]) -> None:
    found = normalise(event)
    flat = flatten_event(found)
    assert set(flat) == set(found)
    assert all(isinstance(value, str | float) for values in flat.values() for value in values)
    texts = {name: [value for value in values if isinstance(value, str)] for name, values in flat.items()}
    assert all(texts.values()), "every value has its text"
    assert normalise(texts) == normalise(normalise(texts))


def test_only_the_fields_that_are_read() -> None:
    event = {"SourceName": "s", "Message": "m"}
    assert Normaliser(fields={"Provider_Name"}).normalise(event) == {**event, "Provider_Name": "s"}
    assert Normaliser(aliases=()).normalise(event) == event


def test_a_users_file_extends_the_table(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    table = default_logsources().extended(path)
    assert table.expression_of(LogSource("linux", service="auditd")) is not None
    assert table.where[LogSource("windows", "process_creation")] == {"Channel": ("Mine",)}
    assert table.where[LogSource("windows", "image_load")]
    assert table.aliases[0] == Alias("Image", "exe", {})
    event = {"exe": "e", "NewProcessName": "n", "Channel": "Security", "EventID": 4688}
    assert Normaliser(table.aliases).normalise(event)["Image"] == "e"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("[[logsource]", "not TOML"),
        ("[[sources]]", "unknown tables"),
        ("[logsource]\nproduct = 'x'", "not a list"),
        ("[[logsource]]\nproduct = 'x'", "bad"),
        ("[[logsource]]\nproduct = 1\nwhere = {}", "bad"),
        ("[[logsource]]\nwhere = { a = 'x' }", "lists of texts"),
        ("[[logsource]]\nwhere = { a = [] }", "lists of texts"),
        ("[[logsource]]\nwhere = { a = [true] }", "lists of texts"),
        ("[[alias]]\nfield = 'x'", "bad"),
    ],
)
def test_bad_files(document: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(document)
    with pytest.raises(ExpressionError, match=said):
        default_logsources().extended(path)
