"""The index of text ids against a dictionary."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pubsub_cluster.shm import id_index
from pubsub_cluster.shm.id_index import IdIndex

IDS = st.sampled_from([f"id{number}" for number in range(60)] + ["", "é", "x" * 300])


class IdIndexMachine(RuleBasedStateMachine):
    """Adds, moves and removes ids; they share tags and buckets as often as the patched sizes make them."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[bytes] = []
        self.index = IdIndex(lambda row: self.ids[row])
        self.expected: dict[str, int] = {}

    @rule(text_id=IDS)
    def add_or_move(self, text_id: str) -> None:
        row = len(self.ids)
        self.ids.append(text_id.encode())
        if text_id in self.expected:
            self.index.move(text_id, row)
        else:
            self.index.add(text_id, row)
        self.expected[text_id] = row

    @rule(text_ids=st.lists(IDS, unique=True, max_size=40))
    def add_many(self, text_ids: list[str]) -> None:
        new, first_row = [text_id for text_id in text_ids if text_id not in self.expected], len(self.ids)
        self.ids += [text_id.encode() for text_id in new]
        self.index.add_many(new, first_row)
        self.expected |= {text_id: row for row, text_id in enumerate(new, first_row)}

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        text_id = data.draw(st.sampled_from(sorted(self.expected)))
        assert self.index.remove(text_id) == self.expected.pop(text_id)

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def remove_many(self, data: st.DataObject) -> None:
        text_ids = data.draw(st.lists(st.sampled_from(sorted(self.expected)), unique=True, max_size=5))
        asked = [text_id.encode() for text_id in text_ids]
        rows = self.index.remove_many(text_ids, lambda rows: [self.ids[row] for row in rows] == asked)
        assert rows.tolist() == [self.expected.pop(text_id) for text_id in text_ids]

    @rule(text_ids=st.lists(IDS, max_size=5))
    def find_many(self, text_ids: list[str]) -> None:
        found = self.index.find_many(text_ids, self.texts_of)
        assert found == [self.expected.get(text_id, -1) for text_id in text_ids]

    def texts_of(self, rows: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], bytes]:
        texts = [self.ids[row] for row in rows]
        return np.cumsum([0, *map(len, texts)]), b"".join(texts)

    @rule()
    def renumber(self) -> None:
        kept = sorted(self.expected.values())
        new_row = np.full(len(self.ids), -1, np.int32)
        new_row[kept] = np.arange(len(kept), dtype=np.int32)[::-1]
        self.expected = {text_id: int(new_row[row]) for text_id, row in self.expected.items()}
        self.ids = [self.ids[row] for row in kept[::-1]]
        ids = self.ids  # the old ones stay what they are
        self.index.renumber(new_row, lambda row: ids[row])

    @rule()
    def settle(self) -> None:
        self.index.settle(1)

    @rule(text_id=IDS)
    def find(self, text_id: str) -> None:
        assert self.index.find(text_id) == self.expected.get(text_id, -1)

    @invariant()
    def there_are_as_many(self) -> None:
        assert len(self.index) == len(self.expected)

    @rule()
    def all_are_found(self) -> None:
        assert {text_id: self.index.find(text_id) for text_id in self.expected} == self.expected


@pytest.mark.parametrize(
    ("tag_mask", "slots", "load"),
    [
        (id_index._TAG_MASK, id_index.SLOTS, id_index.LOAD),
        (id_index._TAG_MASK, 4, 2),
        (0b1111, 2, 2),
        (0b11, 4, 8),
        (0, 2, 1),
    ],
)
def test_the_index_is_a_dictionary(
    tag_mask: int, slots: int, load: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_index, "_TAG_MASK", tag_mask)
    monkeypatch.setattr(id_index, "SLOTS", slots)
    monkeypatch.setattr(id_index, "LOAD", load)
    monkeypatch.setattr(id_index, "FIRST_BITS", 1)
    monkeypatch.setattr(id_index, "_FIRST_MASK", 1)
    monkeypatch.setattr(id_index, "MANY_IDS", 2)
    run = IdIndexMachine.TestCase
    run.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)
    run().runTest()


def test_many_ids_take_few_bytes() -> None:
    ids = [f"subscription {number}".encode() for number in range(100_000)]
    index = IdIndex(lambda row: ids[row])
    for row, text_id in enumerate(ids):
        index.add(text_id.decode(), row)
    assert index.size_bytes < 22 * len(ids)
    assert all(index.find(text_id.decode()) == row for row, text_id in enumerate(ids))
    for text_id in ids:
        index.remove(text_id.decode())
    assert len(index) == 0 and index.find("subscription 7") == -1
    index.renumber(np.zeros(len(ids), np.int32), lambda row: ids[row])
    while index.settle(64):
        pass
    assert index.size_bytes < 1 << 19
