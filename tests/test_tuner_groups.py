"""Groups over a grid: who is interested in which cell, which cells are kept, who is in an event's group."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_cases import raw_batch
from owned_catalogue import owned_catalogue
from strategies import NAMES, cases

from pubsub_cluster.language.errors import CallerError, LimitError
from pubsub_cluster.language.events import flatten_event
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.naive import holds
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.tuner import interest
from pubsub_cluster.tuner.grid import CELLS_MAX, OUTSIDE, Dimension, Grid, grid_of_sample, make_grid
from pubsub_cluster.tuner.group_forming import METHODS
from pubsub_cluster.tuner.groups import (
    CATCH_ALL,
    FormedGroups,
    GroupOptions,
    Interests,
    catalogue_interests,
    cell_members,
    cell_totals,
    form_groups,
    keep_cells,
)
from pubsub_cluster.tuner.interest import owner_cells
from pubsub_cluster.tuner.owner_shares import Slice

CUTS = np.array([1.0, 2.0, 4.0])
SQUARE = make_grid([Dimension("x", CUTS), Dimension("y", np.array([0.0, 1.0]))])


def interests_of(writer: CatalogueWriter, grid: Grid) -> dict[str, set[int]]:
    """Return the cells of each owner."""
    found = catalogue_interests(CatalogueReader.of(writer), writer.counts(), grid)
    assert list(found.owners) == sorted(found.owners)
    return {
        owner: set(np.flatnonzero(grid.unpack(cells)).tolist())
        for owner, cells in zip(found.owners, found.cells, strict=True)
    }


def groups_of(writer: CatalogueWriter, grid: Grid, cell: np.ndarray, options: GroupOptions) -> FormedGroups:
    """Return the groups of a catalogue by the cells of some events."""
    interests = catalogue_interests(CatalogueReader.of(writer), writer.counts(), grid)
    weight = np.bincount(cell[cell >= 0], minlength=grid.cell_count).astype(np.float64)
    return form_groups(interests, grid, weight, len(cell), options)


# Where events lie


def test_cells_are_open_below_and_closed_above() -> None:
    """RIABOV section 1; the outermost have no end, so that all rectangles are covered (RIABOV-22)."""
    values = (-np.inf, 1.0, 1.5, 2, 2.0, 4, 5, 2**63 - 1, np.inf)
    batch = raw_batch([{"x": (value,)} for value in values])
    cells = Dimension("x", CUTS).locate(batch.attributes["x"], len(values))
    assert cells.tolist() == [1, 1, 2, 2, 2, 3, 4, 4, 4]


def test_an_event_that_is_no_point_lies_outside() -> None:
    grid = make_grid([Dimension("x", CUTS), Dimension("kind", None, (b"a", b"b"), True)])
    events: list[dict[str, tuple[Any, ...]]] = [
        {"x": (1,), "kind": ("a",)},
        {},
        {"x": (3,)},
        {"x": ("1",)},
        {"x": (1, 2)},
        {"x": (1,), "kind": (7,)},
        {"x": (1,), "kind": (True,)},
        {"x": (1,), "kind": ("c",), "other": (1, 2)},
    ]
    cells = grid.locate(raw_batch(events)).tolist()
    assert [None if cell == OUTSIDE else grid.cell_name(cell) for cell in cells] == [
        "x (-inf, 1], kind a",
        "x missing, kind missing",
        "x (2, 4], kind missing",
        None,
        None,
        None,
        "x (-inf, 1], kind true",
        "x (-inf, 1], kind other",
    ]


def test_a_grid_suits_its_sample() -> None:
    events: list[dict[str, tuple[Any, ...]]] = [
        {"n": (number**2,), "s": (text,), "b": (True,)} for number, text in enumerate("aaabbcddee")
    ]
    grid = grid_of_sample([raw_batch(events[:3]), raw_batch(events[3:])], ["s", "n", "b"], 4)
    by_name = {dimension.attribute: dimension for dimension in grid.dimensions}
    assert by_name["n"].cuts is not None and by_name["n"].cuts.tolist() == [4.0, 16.0, 49.0]
    assert by_name["s"].texts == (b"a", b"b", b"d"), "the commonest, ties by name"
    assert (by_name["b"].booleans, by_name["b"].cell_count) == (True, 3)
    equal = grid_of_sample([raw_batch(events)], ["n"], 3, "equal").dimensions[0].cuts
    assert equal is not None and equal.tolist() == [27.0, 54.0]
    assert all(
        (grid.unpack(grid.pack(cells.reshape(grid.shape)).reshape(-1)) == cells).all()
        for cells in (np.arange(grid.cell_count) % step == 0 for step in (1, 2, 5))
    )
    again = Grid.from_json(grid.to_json())
    assert again.locate(raw_batch(events)).tolist() == grid.locate(raw_batch(events)).tolist()


def test_a_grid_that_cannot_be_is_refused() -> None:
    with pytest.raises(CallerError, match="'z' has no value in the sampled events"):
        grid_of_sample([raw_batch([{"x": (1,)}])], ["z"])
    with pytest.raises(CallerError, match="each once"):
        make_grid([Dimension("x", CUTS), Dimension("x", CUTS)])
    cuts = np.arange(CELLS_MAX, dtype=np.float64)
    with pytest.raises(LimitError, match="too many cells"):
        make_grid([Dimension("x", cuts)])


# Who is interested in which cells


@given(
    rectangles=st.lists(
        st.tuples(
            st.sampled_from("ab"),
            *[st.tuples(st.sampled_from((-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 9.0)), st.floats(0.25, 6.0))]
            * 2,
        ),
        max_size=6,
    ),
    draw=st.data(),
)
def test_interests_of_rectangles_are_exact(rectangles: list[Any], draw: st.DataObject) -> None:
    """D-19: l(g) has exactly the subscribers one of whose rectangles, open below, meets g."""
    negated = draw.draw(st.booleans(), "written with NOT")
    form = "NOT ({0} <= {1} OR {0} > {2})" if negated else "{0} > {1} AND {0} <= {2}"
    grid = SQUARE
    ends = {"x": [-np.inf, *CUTS, np.inf], "y": [-np.inf, 0.0, 1.0, np.inf]}
    expected: dict[str, set[int]] = {}
    texts = []
    for owner, *sides in rectangles:
        boxes = dict(zip("xy", [(lo, lo + size) for lo, size in sides], strict=True))
        texts.append((owner, " AND ".join(form.format(name, *box) for name, box in boxes.items())))
        axes = [
            [
                cell
                for cell, (below, above) in enumerate(itertools.pairwise(ends[one.attribute]), 1)
                if max(below, boxes[one.attribute][0]) < min(above, boxes[one.attribute][1])
            ]
            + [0] * negated  # where the attribute is missing, NOT is true
            for one in grid.dimensions
        ]
        cells = {int(np.ravel_multi_index(place, grid.shape)) for place in itertools.product(*axes)}
        expected.setdefault(owner, set()).update(cells)
    assert interests_of(owned_catalogue(texts), grid) == expected


def test_what_one_literal_lets_through() -> None:
    grid = make_grid([Dimension("x", CUTS, (b"ab", b"b"), True)])
    rows = {
        "x exists": "1 2 3 4 ab b other false true",
        "x not exists": "missing",
        "x = 2": "2",
        "NOT x = 2": "missing 1 2 3 4 ab b other false true",
        "x > 2": "3 4",
        "x >= 2": "2 3 4",
        "NOT x > 2": "missing 1 2 ab b other false true",
        "x between 1 and 4": "1 2 3",
        "NOT x between 1 and 4": "missing 1 4 ab b other false true",
        "x in (3, 'b', 'c', true)": "3 b other true",
        "NOT x in (3, 'b')": "missing 1 2 3 4 ab other false true",
        "x != 'b'": "ab other",
        "NOT x != 'b'": "missing 1 2 3 4 b false true",
        "x != 3": "1 2 3 4",
        "NOT x != 3": "missing 3 ab b other false true",
        "x = 'b'": "b",
        "x = 'q'": "other",
        "x < 'b'": "ab other",
        "x prefix 'a'": "ab other",
        "NOT x prefix 'a'": "missing 1 2 3 4 b other false true",
        "x = true": "true",
        "NOT x = true": "missing 1 2 3 4 ab b other false",
        "x < y": "1 2 3 4 ab b other false true",
        "y > 7": "missing 1 2 3 4 ab b other false true",
        "x > 2 AND x < 1": "",
        "x > 4 OR x = 'b' AND y = 1": "4 b",
    }
    names = ["missing", "1", "2", "3", "4", "ab", "b", "other", "false", "true"]
    found = interests_of(owned_catalogue((text, text) for text in rows), grid)
    assert {text: " ".join(names[cell] for cell in sorted(found.get(text, ()))) for text in rows} == rows


@settings(max_examples=120)
@given(
    case=cases(max_events=12), draw=st.data(), limits=st.sampled_from((DEFAULT_LIMITS, Limits(clauses_max=0)))
)
def test_whoever_is_interested_in_an_event_is_in_its_group(
    case: Any, draw: st.DataObject, limits: Limits
) -> None:
    """RIABOV-11, for any expressions and events, rows stored as clauses or as programs, every method."""
    values = [flatten_event(event, case.schema, DEFAULT_LIMITS) for event in case.events]
    raw = raw_batch(values)
    usable = [name for name in NAMES if raw.attributes.get(name)]
    if not usable:
        return
    attributes = draw.draw(
        st.lists(st.sampled_from(usable), min_size=1, max_size=3, unique=True), "grid over"
    )
    grid = grid_of_sample([raw], attributes, draw.draw(st.integers(1, 4), "cells"))
    owners = [draw.draw(st.sampled_from("abc"), "owner") for _ in case.expressions]
    writer = owned_catalogue(zip(owners, case.expressions, strict=True), case.schema, limits)
    cell = grid.locate(raw)
    options = GroupOptions(draw.draw(st.integers(1, 3)), 4, draw.draw(st.sampled_from(METHODS)))
    formed = groups_of(writer, grid, cell, options)
    known = interests_of(writer, grid)
    for at, event in zip(cell.tolist(), values, strict=True):
        interested = {
            owner
            for owner, expression in zip(owners, case.expressions, strict=True)
            if holds(expression, event, case.schema)
        }
        if at == OUTSIDE:
            continue
        assert interested <= {owner for owner, cells in known.items() if at in cells}
        group = int(formed.groups.of_cell[at])
        assert group == CATCH_ALL or interested <= set(formed.members_of(group))


def test_an_owner_may_have_several_programs() -> None:
    texts = [("o", "x > 4 OR y > 1"), ("o", "x <= 1 AND y <= 0 OR x > 4"), ("p", "y > 1 OR x > 4")]
    programs = owned_catalogue(texts, limits=Limits(clauses_max=0))
    assert interests_of(programs, SQUARE) == interests_of(owned_catalogue(texts), SQUARE)


def test_numbers_that_doubles_cannot_tell_apart_are_in_one_cell() -> None:
    """The end of a range beyond 2**53 is not taken as exact: 2**53 + 1 is above it, and in the cell below."""
    grid = make_grid([Dimension("x", np.array([2.0**53]))])
    (cell,) = grid.locate(raw_batch([{"x": (2**53 + 1,)}])).tolist()
    texts = [("above", f"x > {2**53}"), ("not up to", f"NOT x <= {2**53}"), ("far", f"x > {2**60}")]
    assert {
        owner for owner, cells in interests_of(owned_catalogue(texts), grid).items() if cell in cells
    } == {
        "above",
        "not up to",
    }


def test_owners_may_be_divided_and_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed subscriptions and those without an owner are left out."""
    subscriptions = [(f"o{n % 7}", f"x > {n % 5} AND y <= {n % 3}") for n in range(40)]
    writer = owned_catalogue([*subscriptions, (None, "x > 0"), ("gone", "x > 0")])
    writer.remove(41, 5)
    reader, counts = CatalogueReader.of(writer), writer.counts()
    whole = list(owner_cells(reader, counts, SQUARE, 9))
    assert [reader.owner_name(owner) for owner in whole[0].owner.tolist()] == [f"o{n}" for n in range(7)]
    monkeypatch.setattr(interest, "BLOCK_WORDS", 2 * SQUARE.word_count)
    monkeypatch.setattr(interest, "BLOCK_CLAUSES", 3)
    shares = [block for n in range(3) for block in owner_cells(reader, counts, SQUARE, 9, Slice(n, 3))]
    assert len(shares) > 3
    owners = np.concatenate([block.owner for block in shares])
    cells = np.concatenate([block.cells for block in shares])
    assert np.sort(owners).tolist() == whole[0].owner.tolist()
    assert cells[np.argsort(owners)].tolist() == whole[0].cells.tolist()


# Which cells are grouped


def line(*cells: str) -> tuple[Interests, Grid]:
    """Return interests over a line of cells, each given by the names of those interested."""
    grid = make_grid([Dimension("x", np.arange(len(cells) - 2, dtype=np.float64))])
    owners = sorted(set("".join(cells)))
    is_in = np.array([[owner in cell for cell in cells] for owner in owners], np.bool_)
    is_in = is_in.reshape(-1, len(cells))
    return Interests(tuple(owners), grid.pack(is_in).reshape(len(owners), grid.word_count)), grid


def test_cells_of_the_same_members_are_one() -> None:
    interests, grid = line("", "ab", "b", "ab", "abc", "")
    weight = np.array([9.0, 1, 2, 3, 1, 9])
    totals = cell_totals(interests, grid)
    kept = keep_cells(weight, totals, GroupOptions())
    assert kept.of_cell.tolist() == [CATCH_ALL, 0, 2, 0, 1, CATCH_ALL], "8, 2 and 3 of p(g) * #l(g)"
    assert (kept.weight.tolist(), kept.size.tolist(), kept.cell.tolist()) == ([4, 1, 2], [2, 3, 1], [1, 4, 2])
    members = cell_members(interests.cells, grid, kept.cell)
    assert members[:, 0].tolist() == [0b011, 0b111, 0b010]
    alone = keep_cells(weight, totals, GroupOptions(hyper_cells=False))
    assert alone.of_cell.tolist() == [CATCH_ALL, 2, 3, 0, 1, CATCH_ALL], "as in the paper's appendix"


def test_what_is_not_kept_is_in_the_catch_all_set() -> None:
    """Step 0 of A.2: the T of greatest p(g) * #l(g); ties by cell."""
    interests, grid = line("", "ab", "b", "c", "abc", "a")
    kept = keep_cells(np.array([5.0, 1, 2, 2, 0, 3]), cell_totals(interests, grid), GroupOptions(2, 3))
    assert kept.of_cell.tolist() == [CATCH_ALL, 1, 2, CATCH_ALL, CATCH_ALL, 0]


def test_groups_say_what_they_cost() -> None:
    interests, grid = line("", "ab", "abc", "d", "")
    formed = form_groups(interests, grid, np.array([0.0, 3, 1, 4, 2]), 20, GroupOptions(2))
    groups = formed.groups
    assert groups.of_cell.tolist() == [CATCH_ALL, 0, 0, 1, CATCH_ALL]
    assert [formed.members_of(group) for group in range(2)] == [["a", "b", "c"], ["d"]]
    assert (groups.cell_count.tolist(), groups.size.tolist()) == ([2, 1], [3, 1])
    assert groups.probability.tolist() == [0.2, 0.2]
    assert groups.waste.tolist() == [0.75, 0.0], "c is not interested in three of four"
    assert groups.expected_waste == pytest.approx(0.15)
    assert groups.expected_receivers == pytest.approx(0.8)
    body = groups.to_json()
    assert body["catch_all_probability"] == pytest.approx(0.6)
    assert body["groups"][0] == {"cell_count": 2, "size": 3, "probability": 0.2, "waste": 0.75}


def test_nobody_makes_no_groups() -> None:
    interests, grid = line("", "", "")
    for method in METHODS:
        formed = form_groups(interests, grid, np.ones(3), 3, GroupOptions(2, 5, method))
        assert (len(formed.groups.size), set(formed.groups.of_cell.tolist())) == (0, {CATCH_ALL})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (GroupOptions(0), "out of range"),
        (GroupOptions(9, 8), "1 to 8"),
        (GroupOptions(1, 8, "k"), "no such way"),
    ],
)
def test_bad_options_are_refused(options: GroupOptions, message: str) -> None:
    interests, grid = line("", "a", "b")
    with pytest.raises(CallerError, match=message):
        form_groups(interests, grid, np.ones(3), 3, options)
