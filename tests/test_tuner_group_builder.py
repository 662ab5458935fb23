"""Groups for delivery: the grid is chosen by what it tells apart; whoever is interested is a member."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matching_cases import raw_batch
from owned_catalogue import owned_catalogue

from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.group_map import UNICAST, read_group_map
from pubsub_cluster.shm.owner import SegmentName, current_owner, list_segments, parse_name, unlink_segment
from pubsub_cluster.tuner import group_grid
from pubsub_cluster.tuner.grid import OUTSIDE, Dimension, Grid, make_grid
from pubsub_cluster.tuner.group_builder import (
    EVENTS_MIN,
    BuiltGroups,
    build_groups,
    cell_weights,
    form_group_map,
)
from pubsub_cluster.tuner.group_grid import choose_grid
from pubsub_cluster.tuner.groups import CATCH_ALL, GroupOptions
from pubsub_cluster.tuner.interest import owner_cells
from pubsub_cluster.tuner.messages import FormGroups
from pubsub_cluster.tuner.owner_shares import Chosen

CLUSTER = uuid.uuid4().hex[:8]  # other processes run these tests too
SIDE = 16
EVENTS = [{"x": (number % SIDE,), "y": (number // SIDE,), "z": (number % 3,)} for number in range(SIDE**2)]


def grid_of(writer: CatalogueWriter, events: list[dict[str, Any]], owners: list[int]) -> Grid | None:
    reader = CatalogueReader.of(writer)
    random = np.random.default_rng(1)
    return choose_grid(reader, writer.counts(), 0, np.array(owners, np.int32), raw_batch(events), random)


def built(writer: CatalogueWriter, owners: list[int], **options: Any) -> BuiltGroups | None:
    reader, sample = CatalogueReader.of(writer), raw_batch(EVENTS)
    chosen = np.array(owners, np.int32)
    return build_groups(reader, writer.counts(), 0, chosen, sample, GroupOptions(**options))


# The grid


def test_an_attribute_is_divided_by_if_it_tells_owners_apart() -> None:
    stripes = [(f"o{at}", f"x > {at - 1} AND x <= {at} AND z >= 0") for at in range(SIDE)]
    grid = grid_of(owned_catalogue(stripes), EVENTS, list(range(SIDE)))
    assert grid is not None
    assert [(one.attribute, one.cell_count) for one in grid.dimensions] == [("x", SIDE + 1)], (
        "everybody takes every z, and nobody asks for y"
    )


def test_attributes_are_divided_together() -> None:
    boxes = [(f"o{x}-{y}", f"x <= {4 * x} AND y <= {4 * y}") for x in range(4) for y in range(4)]
    grid = grid_of(owned_catalogue(boxes), EVENTS, list(range(16)))
    assert grid is not None and {one.attribute for one in grid.dimensions} == {"x", "y"}


def test_only_owners_who_are_listened_to_count() -> None:
    writer = owned_catalogue(
        [("a", "x < 4"), ("b", "x >= 12"), *[(f"o{at}", f"y = {at}") for at in range(SIDE)]]
    )
    grid = grid_of(writer, EVENTS, [0, 1])
    assert grid is not None and [one.attribute for one in grid.dimensions] == ["x"]


def test_cells_are_no_more_than_can_be_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_grid, "OCCUPIED_CELLS_MAX", 8)
    boxes = [(f"o{at}", f"x = {at} AND y = {at}") for at in range(SIDE)]
    grid = grid_of(owned_catalogue(boxes), EVENTS, list(range(SIDE)))
    assert grid is not None
    assert len(np.unique(grid.locate(raw_batch(EVENTS)))) <= 8


def test_there_is_no_grid_where_nothing_tells_owners_apart() -> None:
    everything = [(f"o{at}", "x >= 0") for at in range(4)]
    assert grid_of(owned_catalogue(everything), EVENTS, [0, 1, 2, 3]) is None
    unknown = [(f"o{at}", f"w = {at}") for at in range(4)]
    assert grid_of(owned_catalogue(unknown), EVENTS, [0, 1, 2, 3]) is None, "no event has w"


# Weights of cells


def test_cells_that_were_missed_by_chance_have_some_weight() -> None:
    grid = make_grid([Dimension("x", np.array([0.0])), Dimension("y", np.array([0.0]))])
    corner: dict[str, Any] = {"x": (0,), "y": (1,)}
    other: dict[str, Any] = {"x": (1,), "y": (0,)}
    weight, event_count = cell_weights(grid, raw_batch([corner] * 8 + [other] * 8 + [{"x": (1, 2)}] * 4))
    of_cell = dict(zip(map(grid.cell_name, range(grid.cell_count)), weight.tolist(), strict=True))
    assert of_cell["x (-inf, 0], y (0, inf]"] == 8 + 4 * 0.25, "the root of 16, independently"
    assert of_cell["x (0, inf], y (0, inf]"] == 4 * 0.25
    assert of_cell["x missing, y (0, inf]"] == 0.0
    assert weight.sum() == 16 + 4 and event_count == pytest.approx(20 * (16 + 4) / 16)


# Groups


@given(
    boxes=st.lists(
        st.tuples(st.sampled_from("abcdefgh"), *[st.tuples(st.integers(-1, SIDE), st.integers(1, 6))] * 2),
        min_size=2,
        max_size=16,
    ),
    chosen=st.sets(st.integers(0, 7), min_size=2),
    group_count=st.integers(1, 5),
)
def test_whoever_is_interested_is_a_member(
    boxes: list[tuple[str, tuple[int, int], tuple[int, int]]], chosen: set[int], group_count: int
) -> None:
    """RIABOV-11, for the owners that were asked for and no others."""
    writer = owned_catalogue(
        (owner, f"x > {x} AND x <= {x + width} AND y > {y} AND y <= {y + height}")
        for owner, (x, width), (y, height) in boxes
    )
    names = list(dict.fromkeys(owner for owner, *_ in boxes))
    owners = sorted(owner for owner in chosen if owner < len(names))
    found = built(writer, owners, group_count=group_count)
    if found is None:
        return
    assert found.owners.tolist() == owners
    members = [set(mine.tolist()) for mine in found.members()]
    assert len(members) <= group_count
    groups = found.formed.groups
    cell = groups.grid.locate(raw_batch(EVENTS))
    assert (cell != OUTSIDE).all()
    for event, group in zip(EVENTS, groups.of_cell[cell].tolist(), strict=True):
        (x,), (y,) = event["x"], event["y"]
        interested = {
            names.index(owner)
            for owner, (left, width), (low, height) in boxes
            if left < x <= left + width and low < y <= low + height
        } & set(owners)
        assert group != CATCH_ALL or not interested
        assert group == CATCH_ALL or interested <= members[group]


def test_interests_of_chosen_owners_are_theirs_among_all() -> None:
    forms = ["x > 1", "NOT (x > 3 OR y = 2)", "(x = 1 AND y = 2) OR (y = 4 AND z != 1)", "z = 2"]
    writer = owned_catalogue([(f"o{at % 5}", forms[at % len(forms)]) for at in range(20)] + [(None, "x = 1")])
    reader, counts = CatalogueReader.of(writer), writer.counts()
    grid = make_grid([Dimension(name, np.arange(5.0)) for name in "xyz"])
    (everybody,) = owner_cells(reader, counts, grid)
    (some,) = owner_cells(reader, counts, grid, share=Chosen.of(np.array([1, 4], np.int32), counts.owners))
    assert some.owner.tolist() == [1, 4]
    assert (some.cells == everybody.cells[[1, 4]]).all()


def test_groups_need_owners_and_events() -> None:
    writer = owned_catalogue([("a", "x < 4"), ("b", "x >= 12")])
    assert built(writer, [0, 1]) is not None
    assert built(writer, [0]) is None
    reader, owners = CatalogueReader.of(writer), np.array([0, 1], np.int32)
    few = raw_batch(EVENTS[: EVENTS_MIN - 1])
    assert build_groups(reader, writer.counts(), 0, owners, few) is None


# The coordinator's copy


def test_groups_reach_the_coordinator_by_places_among_the_owners_asked_for() -> None:
    quarters = [f"x > {4 * quarter - 1} AND x <= {4 * quarter + 3}" for quarter in range(4)]
    writer = owned_catalogue([(f"o{at}", quarters[at % 4]) for at in range(8)])
    counts = tuple(writer.counts())
    asked = [6, 1, 5, 2]
    request = FormGroups(3, counts, 0, "", asked, 10)
    me = current_owner(CLUSTER)
    name, summary = form_group_map(CatalogueReader.of(writer), request, raw_batch(EVENTS), me)
    try:
        found = read_group_map(name)
    finally:
        unlink_segment(name)
    assert parse_name(name) == SegmentName(me, "group_map", 3)
    grid = Grid.from_json(orjson.loads(found.grid_json))
    assert len(found.of_cell) == grid.cell_count
    group = found.of_cell[grid.locate(raw_batch(EVENTS))]
    for event, of_event in zip(EVENTS, group.tolist(), strict=True):
        interested = {at for at, owner in enumerate(asked) if owner % 4 == event["x"][0] // 4}
        members = set() if of_event == UNICAST else set(found.members[of_event - 1].tolist())
        assert members == interested, "there are groups enough for all hyper-cells"
    assert summary["groups"] == len(found.members) == 2
    assert summary["expected_waste"] == 0.0 and summary["owners"] == 4


def test_no_segment_is_made_where_there_is_nothing_to_form_groups_of() -> None:
    writer = owned_catalogue([("a", "x >= 0"), ("b", "x >= 0")])
    request = FormGroups(1, tuple(writer.counts()), 0, "", [0, 1], 10)
    me = current_owner(CLUSTER)
    assert form_group_map(CatalogueReader.of(writer), request, raw_batch(EVENTS), me)[0] == ""
    assert list_segments(CLUSTER) == []
