"""Results as text: numbers, tables, nested results and the progress line."""

from __future__ import annotations

import pytest

from pubsub_cluster.cli import render
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.status import page


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1234567, "1,234,567"),
        (True, "yes"),
        (0.12345, "0.123"),
        (1234.5, "1,234"),
        (None, "-"),
        ([1, 2], "1, 2"),
        ([], "none"),
        (float("inf"), "inf"),
    ],
)
def test_cells(value: object, expected: str) -> None:
    assert render.text(value) == expected


def test_sizes() -> None:
    assert [render.size(n) for n in (0, 1023, 1024, 3 << 20, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "3.0 MiB",
        "5.0 TiB",
    ]


def test_table_sets_numbers_to_the_right() -> None:
    assert render.table(("name", "count"), [("a", 5), ("bcdefg", 12_000)], indent="").splitlines() == [
        "name     count",
        "------  ------",
        "a            5",
        "bcdefg  12,000",
    ]


def test_status_page_shows_what_it_does_not_know() -> None:
    found = {
        "pid": 12345,
        "generation": 3,
        "workers": [{"worker": 0, "pid": 12346, "ready": True}],
        "tuner": {"pid": 12347, "building": None},
        "segments": {"slab-1": 1 << 20, "catalogue-1": 1 << 20},
        "something_new": {"deep": {"er": 1000}},
    }
    text = page(found)
    for piece in ("12345", "12346", "12347", "shared memory  2.0 MiB", "something new", "1,000", "slab-1"):
        assert piece in text
    assert "12,34" not in text


def test_progress_line_says_share_rate_and_remark() -> None:
    bar = Progress("Loading", 200, "alerts")
    bar.advance(50, "12 matches")
    line = bar.line(bar._started_s + 2.0)
    assert line.startswith("  Loading")
    assert " 25 %" in line
    assert line.endswith("50 alerts  25/s  12 matches")
    unknown = Progress("Loading", None, "B")
    unknown.advance(2048)
    assert "2.0 KiB" in unknown.line(unknown._started_s + 1.0)
