"""The truth table of `docs/semantics.md` is what the naive matcher and the engine answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pubsub_cluster import Engine
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.language.text_form import parse_text

PAGE = Path(__file__).parent.parent / "docs" / "semantics.md"


def test_the_truth_table_is_true() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith("| expression |"))
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    columns = [[None, []] if "missing" in name else [json.loads(name.split("=")[1])] for name in header[1:]]
    rows = [line for line in lines[start + 2 :] if line.startswith("| `")]
    assert len(rows) >= 7
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        text = cells[0].strip("`")
        naive, engine = NaiveMatcher(), Engine(rows_max=64)
        naive.subscribe("s", parse_text(text))
        engine.subscribe(text, id="s")
        for values, expected in zip(columns, cells[1:], strict=True):
            for value in values:
                found = naive.match({"a": value})
                assert bool(found) == (expected == "true"), f"{text} with {value!r}"
                assert engine.publish([{"a": value}], ids=True).ids_of(0) == found
        assert bool(naive.match({})) == (cells[1] == "true")


def test_every_vector_is_named() -> None:
    text = PAGE.read_text()
    named = {f"p{number:02d}" for number in map(int, re.findall(r"\bp(\d\d)\b", text))}
    for first, last in re.findall(r"p(\d\d) to p(\d\d)", text):
        named |= {f"p{number:02d}" for number in range(int(first), int(last) + 1)}
    vectors = json.loads((PAGE.parent.parent / "tests" / "vectors" / "public.json").read_text())
    known = {vector["id"][:3] for vector in vectors}
    assert named <= known, sorted(named - known)
