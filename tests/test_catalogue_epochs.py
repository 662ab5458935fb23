"""Epochs without processes: copies against a fresh load, changes and moves against a dictionary."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.errors import DuplicateIdError, LimitError
from pubsub_cluster.language.json_form import expression_to_json
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA
from pubsub_cluster.shm import catalogue_move, catalogue_rows
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter, NewRow
from pubsub_cluster.shm.catalogue_copy import GONE, Renumbered, copy_live_rows
from pubsub_cluster.shm.catalogue_move import CatalogueMove, Copy
from pubsub_cluster.shm.catalogue_rows import is_removed, window_of
from pubsub_cluster.shm.catalogue_store import CatalogueStore
from pubsub_cluster.shm.change_groups import SUBSCRIBE, Change
from tests.strategies import expressions
from tests.test_shm_catalogue import forms, meaning

ROWS_MAX = 512
IDS = st.sampled_from([f"id{number}" for number in range(12)])
OWNERS = st.sampled_from(["ann", "bo", "é", "default"])


def told(reader: CatalogueReader, windows: int, rows: Iterable[int]) -> list[Any]:
    """Return all that rows say, without numbers."""
    return [
        (
            int(reader.columns.handle[row]),
            reader.subscription_id(row),
            None if reader.columns.owner[row] < 0 else reader.owner_name(int(reader.columns.owner[row])),
            window_of(reader.columns, windows, row),
            meaning(reader.normal_form(row)),
        )
        for row in rows
    ]


@st.composite
def loads(draw: st.DrawFn) -> list[tuple[NewRow, bool]]:
    """Rows with handles in any order, each with whether it is removed."""
    kept = draw(st.lists(st.tuples(forms(), st.booleans()), max_size=10))
    handles = draw(st.permutations(range(1, len(kept) + 1)))
    rows = []
    for handle, (form, is_dead) in zip(handles, kept, strict=True):
        owner = draw(st.none() | OWNERS)
        until = draw(st.none() | st.integers(2, 9))
        rows.append((NewRow(handle, f"i{handle}", owner, form, draw(st.none() | st.just(1)), until), is_dead))
    return rows


@settings(max_examples=60, deadline=None)
@given(loads(), st.integers(0, 10))
def test_a_copy_is_what_a_fresh_load_would_be(load: list[tuple[NewRow, bool]], now_us: int) -> None:
    writer = CatalogueWriter.in_memory(ROWS_MAX)
    writer.append_many([row for row, _ in load])
    for idx, (_, is_dead) in enumerate(load):
        if is_dead:
            writer.remove(idx, 7)
    store = CatalogueStore.private(ROWS_MAX)
    counts, numbers = copy_live_rows(writer.columns, writer.counts(), 7, store, now_us)

    def without_what_is_over(row: NewRow) -> NewRow:
        is_over = row.valid_until is not None and row.valid_until <= now_us
        return row._replace(form=row.form._replace(clauses=(), program=())) if is_over else row

    live = sorted((row for row, is_dead in load if not is_dead), key=itemgetter(0))
    live = [without_what_is_over(row) for row in live]
    over = [row for row in live if row.valid_until is not None and row.valid_until <= now_us]
    fresh = CatalogueWriter.in_memory(ROWS_MAX)
    fresh.append_many(
        [row._replace(form=row.form._replace(predicates=())) if row in over else row for row in live]
    )
    copied = CatalogueWriter(store, counts)
    rows = range(len(live))
    assert told(CatalogueReader.of(copied), counts.windows, rows) == told(
        CatalogueReader.of(fresh), fresh.counts().windows, rows
    )
    used = {predicate for row in live if row not in over for predicate in used_predicates(row)}
    names = {name for p in used for name in (p.attribute, p.other) if name is not None}
    assert counts.predicates == len(used) and counts.attributes == len(names)
    assert counts.owners == len({row.owner for row in live if row.owner is not None})
    assert counts[:3] == fresh.counts()[:3]  # rows, windows, bytes of ids
    assert not store.columns.removed_version[: counts.rows].any()
    for old, (row, is_dead) in enumerate(load):
        new = int(numbers.rows[old])
        assert (new == GONE) == is_dead
        assert is_dead or store.columns.handle[new] == row.handle


def used_predicates(row: NewRow) -> list[Any]:
    form = row.form
    codes = form.program if form.clauses is None else [code for clause in form.clauses for code in clause]
    return [form.predicates[code >> 1] for code in codes if code >= 0]


class EpochMachine(RuleBasedStateMachine):
    """Changes, copies and moves in any order; the model is a dictionary by id."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry(CatalogueWriter.in_memory(ROWS_MAX), EMPTY_SCHEMA, DEFAULT_LIMITS)
        self.model: dict[str, tuple[Any, ...]] = {}
        self.versions: dict[str, int] = {}  # of the last change under an id
        self.staged: list[tuple[str, tuple[Any, ...] | None]] = []
        self.copy: Copy | None = None
        self.move: CatalogueMove | None = None
        # A batch that is not answered: reader, counts, version, what it must see.
        self.batch: tuple[CatalogueReader, Any, int, list[Any]] | None = None

    def expected(self) -> dict[str, tuple[Any, ...] | None]:
        return {**self.model, **dict(self.staged)}

    @rule(
        text_id=IDS,
        owner=OWNERS,
        expression=expressions(max_leaves=4),
        until=st.none() | st.integers(1, 9),
        lasts=st.booleans(),
    )
    def change(self, text_id: str, owner: str, expression: Any, until: int | None, lasts: bool) -> None:
        known = self.expected().get(text_id)
        item = {"id": text_id, "expr": expression_to_json(expression), "valid_until": until}
        if known is None:
            _, answer = self.registry.stage_subscribe({**item, "owner": owner})
        else:
            with pytest.raises(DuplicateIdError):
                self.registry.stage_subscribe(item)
            owner = known[1]
            _, answer = self.registry.stage_update(item)
        reference = CatalogueWriter.in_memory(1)
        form = self.registry._staging.expressions.normalised(item["expr"])
        reference.append(answer["handle"], text_id, owner, form, None, until)
        (said,) = told(CatalogueReader.of(reference), reference.counts().windows, [0])
        self.staged.append((text_id, (answer["handle"], owner, said)))
        if lasts:
            self.apply(len(self.staged))

    @precondition(lambda self: any(self.expected().values()))
    @rule(data=st.data(), lasts=st.booleans())
    def unsubscribe(self, data: st.DataObject, lasts: bool) -> None:
        text_id = data.draw(st.sampled_from(sorted(key for key, value in self.expected().items() if value)))
        self.registry.stage_unsubscribe(text_id)
        self.staged.append((text_id, None))
        if lasts:
            self.apply(len(self.staged))

    @precondition(lambda self: self.staged)
    @rule(data=st.data())
    def durable(self, data: st.DataObject) -> None:
        self.apply(data.draw(st.integers(1, len(self.staged))))

    def apply(self, count: int) -> None:
        self.registry.apply(count)
        for version, (text_id, value) in enumerate(self.staged[:count], self.registry.version - count + 1):
            self.versions[text_id] = version
            self.model.pop(text_id, None)
            if value is not None:
                self.model[text_id] = value
        del self.staged[:count]

    @precondition(lambda self: self.staged)
    @rule()
    def disk_refuses(self) -> None:
        self.registry.rollback()
        self.staged.clear()

    @precondition(lambda self: self.copy is None and self.move is None)
    @rule(spare=st.integers(0, 4))
    def copy_begins_and_ends(self, spare: int) -> None:
        catalogue, store = self.registry.catalogue, CatalogueStore.private(ROWS_MAX)
        counts, numbers = copy_live_rows(catalogue.columns, catalogue.counts(), self.registry.version, store)
        rooms = Renumbered(*(np.concatenate((known, np.zeros(spare, np.int32))) for known in numbers))
        known = Renumbered(*(room[: len(room) - spare] for room in rooms))
        self.copy = Copy(store, counts, known, self.registry.version, rooms)

    @precondition(lambda self: self.copy is not None)
    @rule()
    def begin(self) -> None:
        assert self.copy is not None
        self.move, self.copy = self.registry.begin_move(self.copy), None

    @precondition(lambda self: self.move is not None)
    @rule()
    def step(self) -> None:
        assert self.move is not None
        self.move.step()

    @precondition(lambda self: self.move is not None)
    @rule(is_given_up=st.booleans())
    def end(self, is_given_up: bool) -> None:
        assert self.move is not None
        if not is_given_up:
            before = self.registry.catalogue
            self.registry.finish_move(self.move)
            before.take_dictionaries()
        else:
            self.move.give_up()
        self.move = None

    @rule()
    def settle(self) -> None:
        self.registry.settle(1)

    @rule()
    def accept(self) -> None:
        catalogue = self.registry.catalogue
        seen = sorted(said for _, _, said in self.model.values())
        self.batch = (CatalogueReader.of(catalogue), catalogue.counts(), self.registry.version, seen)

    @invariant()
    def what_is_live_is_told(self) -> None:
        catalogue = self.registry.catalogue
        assert self.registry.live_count == len(self.model)
        assert self.registry.dead_count == catalogue.counts().rows - len(self.model)
        assert seen_by(CatalogueReader.of(catalogue), catalogue.counts(), self.registry.version) == sorted(
            said for _, _, said in self.model.values()
        )
        for text_id, (handle, owner, _) in self.model.items():
            _, row, described = self.registry.live(text_id)
            assert self.registry.row_versions.version_of(row) == self.versions[text_id]
            assert (described.handle, described.owner) == (handle, owner)

    @invariant()
    def a_batch_sees_its_moment(self) -> None:
        if self.batch is not None:
            reader, counts, version, seen = self.batch
            assert seen_by(reader, counts, version) == seen


def seen_by(reader: CatalogueReader, counts: Any, version: int) -> list[Any]:
    live = np.flatnonzero(~is_removed(reader.columns, slice(0, counts.rows), version))
    return sorted(told(reader, counts.windows, live.tolist()))


EpochMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)


@pytest.mark.timeout(120)
class TestEpochs(EpochMachine.TestCase):
    @pytest.fixture(autouse=True)
    def small_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(catalogue_move, "SLICE_PREDICATES", 2)
        monkeypatch.setattr(catalogue_move, "SLICE_ROWS", 2)
        monkeypatch.setattr(catalogue_move, "SLICE_REMOVALS", 2)
        monkeypatch.setattr(catalogue_rows, "BLOCK_ROWS", 3)


def test_what_changes_while_a_copy_is_made_is_carried_over() -> None:
    registry = Registry(CatalogueWriter.in_memory(64), EMPTY_SCHEMA, DEFAULT_LIMITS)
    for name in ("kept", "removed", "changed", "dead"):
        registry.stage_subscribe({"id": name, "expr": f"{name} = 1", "owner": name})
    registry.stage_unsubscribe("dead")
    registry.apply(5)
    old, store = registry.catalogue, CatalogueStore.private(64)
    version = registry.version
    made = copy_live_rows(old.columns, old.counts(), version, store)
    registry.stage_unsubscribe("removed")
    registry.stage_update({"id": "changed", "expr": "kept = 1 and new = 'x'"})
    registry.stage_subscribe({"id": "added", "expr": "dead = 1", "owner": "late"})
    registry.stage_subscribe({"id": "gone", "expr": "gone = 1"})
    registry.stage_unsubscribe("gone")
    registry.apply(5)
    registry.finish_move(registry.begin_move(Copy(store, *made, version)))
    reader, counts = CatalogueReader.of(registry.catalogue), registry.catalogue.counts()
    live = np.flatnonzero(~is_removed(reader.columns, slice(0, counts.rows), registry.version)).tolist()
    assert [reader.subscription_id(row) for row in live] == ["kept", "changed", "added"]
    assert [registry.live(name)[1] for name in ("kept", "changed", "added")] == live
    assert registry.dead_count == 2  # one was removed, of another there is a newer row
    names = [reader.attribute_name(idx) for idx in range(counts.attributes)]
    assert "gone" not in names and {"kept", "new", "dead"} <= set(names)
    assert registry.live("added")[2].owner == "late"


def test_only_live_subscriptions_count() -> None:
    registry = Registry(CatalogueWriter.in_memory(64), EMPTY_SCHEMA, Limits(subscriptions_max=2))
    for number in range(5):
        registry.stage_subscribe({"id": f"x{number}", "expr": "a = 1"})
        registry.stage_unsubscribe(f"x{number}")
        registry.apply(2)
    registry.stage_subscribe({"id": "y", "expr": "a = 1"})
    registry.apply(1)
    registry.stage_subscribe({"id": "z", "expr": "a = 1"})
    with pytest.raises(LimitError) as caught:
        registry.stage_subscribe({"id": "w", "expr": "a = 1"})
    assert caught.value.fields["limit_name"] == "subscriptions_max"
    registry.rollback()
    registry.stage_subscribe({"id": "w", "expr": "a = 1"})


def test_subscriptions_of_an_earlier_life_count() -> None:
    changes = [
        Change(number, SUBSCRIBE, number, f"x{number}", "o", b'"a = 1"', None, None) for number in (1, 2)
    ]
    registry = Registry(CatalogueWriter.in_memory(64), EMPTY_SCHEMA, Limits(subscriptions_max=2))
    registry.replay(lambda: changes)
    with pytest.raises(LimitError):
        registry.stage_subscribe({"id": "y", "expr": "a = 1"})
