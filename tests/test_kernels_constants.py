"""The timed kernels find what plain NumPy finds: a step that is not done cannot be timed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pubsub_cluster.shm import blob as form
from pubsub_cluster.workers.kernels import constants as kernels
from pubsub_cluster.workers.kernels.tables import Facts, Kept, blobs_of
from pubsub_cluster.workers.kernels.tables import Tests as LabelTests

WAYS, TABLES, EVENTS = 6, 4, 5


@pytest.fixture
def random() -> np.random.Generator:
    """Return the same numbers each time."""
    return np.random.default_rng(7)


def parts(random: np.random.Generator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tables of `width` ways each."""
    code = np.concatenate([random.choice(WAYS, width, replace=False) for _ in range(TABLES)])
    return np.arange(0, width * TABLES + 1, width, dtype=np.int32), code.astype(np.int32)


def test_skip_tables(random: np.random.Generator) -> None:
    """Parts are looked at up to the first missing one."""
    part, code = parts(random, 3)
    digit = random.integers(-1, 3, (EVENTS, WAYS)).astype(np.int32)
    held = (digit[:, code].reshape(EVENTS, TABLES, 3) >= 0).astype(int)
    expected = int(np.cumprod(held, axis=2).sum())
    assert kernels.skip_tables(digit.reshape(-1), WAYS, part, code) == expected > 0


def test_probe_tables(random: np.random.Generator) -> None:
    """Keys are sums of digits times multipliers, cut to the table's area."""
    part, code = parts(random, 2)
    digit = random.integers(0, 9, (EVENTS, WAYS)).astype(np.int32)
    multiplier = random.integers(1, 50, len(code))
    area = random.integers(-1, 1, 16 * TABLES).astype(np.int32)
    expected = 0
    for row in digit:
        for table in range(TABLES):
            own = slice(part[table], part[table + 1])
            key = int((row[code[own]] * multiplier[own]).sum())
            expected += bool(area[16 * table + key % 16] >= 0)
    pending = np.zeros(TABLES, np.int64)
    found = kernels.probe_tables(digit.reshape(-1), WAYS, part, code, multiplier, area, pending)
    assert found == expected > 0


def test_probe_cells(random: np.random.Generator) -> None:
    """All combinations of the two cells of each part are probed."""
    digit = random.integers(1, 5, (TABLES, 2)).astype(np.int32)
    multiplier = np.array([1, 5])
    area = random.integers(-1, 1, 64).astype(np.int32)
    expected = 0
    for table, row in enumerate(digit):
        for cells in itertools.product(*((upper - 1, upper) for upper in row)):
            key = 2 * table + int((np.array(cells) * multiplier).sum())
            expected += bool(area[key % 64] >= 0)
    assert kernels.probe_cells(digit.reshape(-1), 2, multiplier, area, np.zeros(4, np.int64)) == expected > 0


def test_visit_clusters(random: np.random.Generator) -> None:
    """A cluster counts when it has entries and its literal's flag is set."""
    blob = random.integers(0, 8, 256).astype(np.int32)
    start = random.integers(0, 255, 24)
    flag = random.integers(0, 2, 8).astype(np.uint8)
    expected = int(((blob[start] > 0) & (flag[blob[start + 1]] != 0)).sum())
    assert kernels.visit_clusters(start, blob, flag, 8) == expected > 0


@pytest.mark.parametrize("column_count", [1, 3])
def test_check_columns(random: np.random.Generator, column_count: int) -> None:
    """Entries survive whose literals all hold, in order."""
    blob = random.integers(0, 8, (column_count, 40)).astype(np.int32)
    flag = random.integers(0, 2, 8).astype(np.uint8)
    expected = np.flatnonzero((flag[blob] != 0).all(axis=0))
    survivor = np.zeros(40, np.int32)
    count = kernels.check_columns(column_count, blob.reshape(-1), flag, survivor)
    assert survivor[:count].tolist() == expected.tolist() != []


def test_check_sections(random: np.random.Generator) -> None:
    """Entries survive whose interval holds the label, mixed (or does not, when negated) or in a column."""
    lo = random.integers(0, 50, 40)
    code = random.integers(0, 2 * WAYS, 40)
    label = random.integers(0, 70, WAYS).astype(np.int32)
    mixed = np.concatenate(
        ([40 | 1 << form.INTERVAL_SHIFT], np.stack((code, lo, lo + 20), axis=1).reshape(-1))
    )
    inside = (lo <= label[code >> 1]) & (label[code >> 1] <= lo + 20)
    expected = np.count_nonzero(inside != (code & 1 == 1))
    assert check(mixed.astype(np.int32), label) == expected > 0
    last = np.sort(form.BYTE_MAX - lo).astype(np.uint8)
    least = int(np.argmin(label))
    for kind in (form.COLUMN_LAST, form.COLUMN_LAST | form.COLUMN_SORTED):
        head = np.array([40 | 1 << form.UNIFORM_SHIFT, least << form.COLUMN_SHIFT | kind, 1], np.int32)
        assert (
            check(np.concatenate((head, last.view(np.int32))), label)
            == np.count_nonzero(label[least] <= lo)
            > 0
        )


def check(word: np.ndarray, label: np.ndarray) -> int:
    """Check one section; return how many entries hold."""
    none, mark = np.zeros(0, np.int32), np.zeros(8, np.int64)
    blobs = blobs_of(word)
    given = (
        LabelTests(none, np.zeros(1, np.int32), none),
        Facts(label, np.zeros(2 * WAYS, np.int64), np.zeros(0, np.uint8)),
        none,
    )
    kept = Kept(np.zeros(48, np.int32), mark.view(np.uint8), mark)
    return int(kernels.check_sections(np.zeros(1, np.int64), 1, blobs, given, kept))
