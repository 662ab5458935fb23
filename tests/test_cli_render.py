"""Results as text: numbers, tables, nested results and the progress line."""

from __future__ import annotations

import pytest

from pubsub_cluster.cli import render, tune
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
        ("an id\x1b[2J\x00\nnext \x9b1A\u202e", r"an id\x1b[2J\x00\nnext \x9b1A\u202e"),
        ("Zürich 東京 🛫", "Zürich 東京 🛫"),
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


def test_a_table_fits_the_width() -> None:
    rows = [(12, "ann and 30 more", "a long sentence " * 8), (7, "bob", "short")]
    text = render.table(("flights", "owners", "alert"), rows, "    ", 60)
    assert max(map(len, text.splitlines())) == 60
    assert "..." in text and "short" in text and "12" in text


def test_a_table_with_too_many_columns_becomes_blocks_of_lines() -> None:
    headers = [f"a rather long name {n}" for n in range(4)]
    assert render.table(headers, [(1, 2, 3, 4)], width_max=120).count("\n") == 2
    text = render.table(headers, [(1, 2, 3, 4), (5, 6, 7, "long " * 20)], width_max=60)
    assert max(map(len, text.splitlines())) <= 60
    first, second = text.split("\n\n")
    assert first.splitlines()[1] == "  a rather long name 1  2" and second.count("\n") == 3


def test_a_narrow_terminal_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert render.terminal_width() == 60
    assert max(map(len, tune.page(TUNING).splitlines())) <= 60


def test_a_progress_line_fits_the_width() -> None:
    bar = Progress("Publishing", 336_776, "flights")
    bar.advance(336_776, "9,160,000 matches, generation 12")
    line = bar.line(bar._started_s + 12.0, 79)
    assert len(line) <= 79
    assert "336,776 flights" in line


def test_no_progress_line_in_a_pipe_nor_for_a_moment(capsys: pytest.CaptureFixture[str]) -> None:
    for on_terminal in (False, True):
        with Progress("Loading", 10, "B") as bar:
            bar._shown = on_terminal
            bar.advance(10)
    assert capsys.readouterr().err == ""


def test_one_is_singular() -> None:
    assert render.counted(1, "match", "matches") == "1 match"
    assert render.counted(0, "match", "matches") == "0 matches"
    assert render.counted(2_000, "line") == "2,000 lines"


TUNING = {
    "generation": 2, "pending": None, "in_use": {"2": 0}, "base_rows": 3, "delta_rows": 1,
    "kernel_us_per_task": 12.5, "partitions_per_shard": {"0": 2, "1": 62}, "something_new": 5,
    "layout": {"generation": 2, "reason": "asked for", "seconds": 0.005, "size_bytes": 2048, "build_ms": 3},
    "history": [{"generation": g, "reason": "asked for", "seconds": 0.5, "subscriptions": 1_000_000,
                 "clusters": 100_000, "size_bytes": 5 << 30} for g in (1, 2)],
}  # fmt: skip


def test_tuning_is_shown_in_words_with_units_and_fits() -> None:
    text = tune.page(TUNING)
    for piece in (
        "12.5 us",
        "0.005 s",
        "2.0 KiB",
        "3 ms",
        "0: 2, 1: 62",
        "something new",
        "generation to come",
    ):
        assert piece in text
    assert "_" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert tune.sentence({"generation": 3, **TUNING["layout"], "subscriptions": 1, "clusters": 1}) == (
        "Generation 2 answers: 1 subscription in 1 cluster, 2.0 KiB, built in 0.005 s."
    )


def test_settings_have_the_names_that_are_to_be_typed() -> None:
    text = tune.page({**TUNING, "settings": {"bm_max": None, "dynamic": True}})
    assert "\n    bm_max   " in text and "bm max" not in text


def test_a_tree_is_shown_with_its_costs_and_why_there_is_one() -> None:
    choice = {"is_used": True, "reason": "cheaper than tables", "tree_ns": 147.3, "tables_ns": 196.0}
    tree = {
        "attributes": ["x", "y"], "clauses": 10_000, "nodes": 1_231, "leaf_nodes": 1_150,
        "expected_nodes": 2.9, "expected_leaf_nodes": 0.7, "expected_cost": 147.3,
        "observed_nodes": 3.1, "observed_leaf_nodes": 0.8, "observed_cost": 151.0,
    }  # fmt: skip
    text = tune.page({**TUNING, "layout": {**TUNING["layout"], "tree_choice": choice, "tree": tree}})
    for piece in (
        "used: cheaper than tables (147",
        "196 ns for tables",
        "by x, y in 1,231 nodes",
        "151 ns: 3.1",
    ):
        assert piece in text, text
    assert "_" not in text
    choice = {"is_used": False, "reason": "forbidden"}
    assert "not used: forbidden" in tune.page({**TUNING, "layout": {"tree_choice": choice}})


def test_decisions_are_told_with_the_figures_that_led_to_them() -> None:
    decision = {
        "generation": 4,
        "kind": "table created",
        "attributes": ["price", "size"],
        "power": 1_234.0,
        "power_min": 987.5,
        "moved": 1_200,
    }
    text = tune.decision_page([decision])
    for part in ("4", "table created", "price, size", "1,200", "power 1,234", "power min 988"):
        assert part in text
    assert "No decision" in tune.decision_page([])
