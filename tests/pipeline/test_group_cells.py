"""What workers do for groups, on record batches without Spark: the same numbers as over owners at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from folders import write_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from owned_catalogue import owned_catalogue

pa = pytest.importorskip("pyarrow", reason="the extra `arrow` is not installed")

from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema  # noqa: E402
from pubsub_cluster.pipeline import group_cells  # noqa: E402
from pubsub_cluster.pipeline.group_cells import (  # noqa: E402
    OWNER_CELLS,
    REFUSED,
    Layout,
    count_batches,
    interest_batches,
    kept_batches,
    kept_members,
    member_batches,
    merge_batches,
    rectangle_batches,
    total_batches,
    totals_of,
)
from pubsub_cluster.shm.catalogue import CatalogueReader  # noqa: E402
from pubsub_cluster.tuner.grid import OUTSIDE, Dimension, make_grid  # noqa: E402
from pubsub_cluster.tuner.group_forming import form  # noqa: E402
from pubsub_cluster.tuner.groups import (  # noqa: E402
    GroupOptions,
    Interests,
    catalogue_interests,
    cell_members,
    cell_totals,
    form_groups,
    keep_cells,
    pack_bits,
)

GRID = make_grid([Dimension("x", np.array([1.0, 2.0, 4.0])), Dimension("kind", None, (b"a", b"b"))])


def owner_batches(interests: Interests, sizes: list[int]) -> list[pa.RecordBatch]:
    """Return rows of owners in batches of some sizes, the last one of what is left."""
    batches, first = [], 0
    for size in [*sizes, len(interests.owners)]:
        rows = slice(first, first + size)
        cells = [row.tobytes() for row in interests.cells[rows]]
        columns = [pa.array(interests.owners[rows], pa.string()), pa.array(cells, pa.binary())]
        batches.append(pa.record_batch(columns, schema=OWNER_CELLS))
        first += size
    return batches


@st.composite
def many_interests(draw: st.DrawFn) -> Interests:
    """Owners, more than a word of them, with few different interests."""
    count = draw(st.integers(0, 80))
    kinds = np.array(
        draw(st.lists(st.lists(st.booleans(), min_size=20, max_size=20), min_size=1, max_size=5))
    )
    kinds = np.resize(kinds, (len(kinds), GRID.cell_count))
    kind = np.random.default_rng(draw(st.integers(0, 9))).integers(0, len(kinds), count)
    cells = GRID.pack(kinds[kind].reshape(count, *GRID.shape)).reshape(count, GRID.word_count)
    return Interests(tuple(sorted(f"é{number}" for number in range(count))), cells)


@settings(max_examples=60)
@given(interests=many_interests(), sizes=st.lists(st.integers(0, 50), max_size=3), seed=st.integers(0, 9))
def test_workers_find_what_is_found_at_hand(interests: Interests, sizes: list[int], seed: int) -> None:
    """Every step from owners to members, over any batches, against `tuner.groups.form_groups`."""
    weight = np.random.default_rng(seed).integers(0, 4, GRID.cell_count).astype(np.float64)
    options = GroupOptions(3, 6)
    batches = owner_batches(interests, sizes)
    half = len(batches) // 2
    parts = [batch for some in (batches[:half], batches[half:]) for batch in total_batches(some, GRID)]
    totals, owner_count = totals_of(added(parts), GRID)
    expected = cell_totals(interests, GRID)
    assert owner_count == len(interests.owners)
    assert (totals.size.tolist(), totals.signature.tolist()) == (
        expected.size.tolist(),
        expected.signature.tolist(),
    )
    kept = keep_cells(weight, totals, options)
    rows = [batch for batch in kept_batches(batches, GRID, kept.cell)]
    bits = kept_members(pa.Table.from_batches(rows, OWNER_CELLS), len(kept.cell))
    here = cell_members(interests.cells, GRID, kept.cell)
    assert np.bitwise_count(bits).sum(axis=1).tolist() == np.bitwise_count(here).sum(axis=1).tolist()
    formed = form("forgy", kept.weight, bits, options.group_count)
    local = form_groups(interests, GRID, weight, float(weight.sum()) or 1.0, options)
    assert formed.group.tolist() == local.groups.formed.group.tolist()
    members: dict[int, list[str]] = {number: [] for number in set(formed.group.tolist())}
    for batch in member_batches(rows, formed.group):
        for group, owner in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            members[group].append(owner)
    assert {number: sorted(names) for number, names in members.items()} == {
        number: local.members_of(number) for number in members
    }


def added(parts: list[pa.RecordBatch]) -> pa.Table:
    """Add up totals by cell, as the job lets Spark do."""
    found: dict[int, tuple[int, int, int]] = {}
    for part in parts:
        for cell, size, low, high in zip(*(column.to_pylist() for column in part.columns), strict=True):
            before = found.get(cell, (0, 0, 0))
            found[cell] = (before[0] + size, before[1] ^ low, before[2] ^ high)
    rows = [(cell, *rest) for cell, rest in found.items()]
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    return pa.table([pa.array(column, pa.int64()) for column in columns], schema=group_cells.CELL_TOTALS)


def test_owners_in_several_parts_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_cells, "OWNERS_PER_BATCH", 2)
    bit = np.eye(6, GRID.cell_count, dtype=np.bool_).reshape(6, *GRID.shape)
    cells = GRID.pack(bit).reshape(6, GRID.word_count)
    rows = Interests(("a", "b", "b", "b", "c", "d"), cells)
    merged = pa.Table.from_batches(merge_batches(owner_batches(rows, [2, 1]), GRID))
    assert merged.column("owner").to_pylist() == ["a", "b", "c", "d"]
    found = group_cells.cells_of(merged.combine_chunks().to_batches()[0], GRID)
    assert found.tolist() == np.stack([cells[0], cells[1] | cells[2] | cells[3], cells[4], cells[5]]).tolist()


def test_events_are_counted_by_cell() -> None:
    """Outside the grid, and refused by the schema, are counts of their own."""
    schema = Schema.from_json({"attributes": [{"name": "x", "domain": "integer"}]})
    events = pa.table({"x": [1, 2, None, 2], "kind": ["a", "b", "a", "b"]}).to_batches()
    wrong = pa.table({"x": [1.5, 1.0], "kind": ["a", "a"]}).to_batches()
    (found,) = count_batches([*events, *wrong], GRID, schema)
    named = {
        GRID.cell_name(cell) if cell >= 0 else cell: count
        for cell, count in zip(*(column.to_pylist() for column in found.columns), strict=True)
    }
    assert named == {
        "kind a, x (-inf, 1]": 2, "kind b, x (1, 2]": 2, "kind a, x missing": 1, REFUSED: 1
    }  # fmt: skip
    (outside,) = count_batches(pa.table({"x": ["1"], "kind": ["a"]}).to_batches(), GRID, EMPTY_SCHEMA)
    assert outside.column("cell").to_pylist() == [OUTSIDE]


def test_rectangles_are_as_subscriptions() -> None:
    """Open below, closed above; null has no end; nobody's rectangles are left out."""
    grid = make_grid([Dimension("x", np.array([1.0, 2.0, 4.0])), Dimension("y", np.array([0.0]))])
    rows = [
        ("o", 1, 3, None, 0),
        ("o", None, 1, 0, None),
        ("p", None, None, None, None),
        ("q", 3, 3, 0, 1),
        (None, 0, 9, 0, 9),
    ]
    texts = [
        ("o", "x > 1 AND x <= 3 AND y <= 0"),
        ("o", "x <= 1 AND y > 0"),
        ("p", "NOT (x > 1 AND x < 1)"),
    ]
    names = ["owner", "x_lo", "x_hi", "y_lo", "y_hi"]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    types = [pa.string(), *[pa.int64()] * 4]
    kinds = dict(zip(names, types, strict=True))
    table = pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})
    found = pa.Table.from_batches(rectangle_batches(table.to_batches(), grid))
    writer = owned_catalogue(texts)
    expected = catalogue_interests(CatalogueReader.of(writer), writer.counts(), grid)
    assert found.column("owner").to_pylist() == list(expected.owners) == ["o", "p"]
    assert [row for row in found.column("cells").to_pylist()] == [row.tobytes() for row in expected.cells]


def test_layout_parts_are_read_by_shares(tmp_path: Path) -> None:
    subscriptions = [(f"o{n % 5}", f"x > {n % 4} AND kind = '{'ab'[n % 2]}'") for n in range(24)]
    root = tmp_path / "layout"
    write_folder(root, [{"owner": owner, "expr": text} for owner, text in subscriptions], parts=2)
    ids = pa.record_batch([pa.array(range(6))], names=["id"])
    rows = [
        row for batch in interest_batches([ids], Layout(str(root), 1, 3), GRID) for row in batch.to_pylist()
    ]
    assert sorted(row["owner"] for row in rows) == sorted([f"o{n}" for n in range(5)] * 2), "once per part"
    rows.sort(key=lambda row: row["owner"])
    batch = pa.RecordBatch.from_pylist(rows, OWNER_CELLS)
    merged = pa.Table.from_batches(merge_batches([batch], GRID)).to_pylist()
    writer = owned_catalogue(subscriptions)
    whole = catalogue_interests(CatalogueReader.of(writer), writer.counts(), GRID)
    assert [(row["owner"], row["cells"]) for row in merged] == [
        (owner, cells.tobytes()) for owner, cells in zip(whole.owners, whole.cells, strict=True)
    ]


def test_bitmaps_of_nothing() -> None:
    assert kept_members(pa.Table.from_batches([], OWNER_CELLS), 3).shape == (3, 0)
    none = np.zeros(0, np.int32)
    assert [
        *member_batches(owner_batches(Interests((), pack_bits(np.zeros((0, 0), np.bool_))), []), none)
    ] == []
