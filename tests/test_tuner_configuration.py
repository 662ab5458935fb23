"""Configurations: what is refused, and the map from labels to slices."""

from __future__ import annotations

import pytest

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.tuner.configuration import (
    BY_CELL,
    BY_LABEL,
    EMPTY_CONFIGURATION,
    Configuration,
    TableSchema,
    check_configuration,
)

LABEL_COUNT = [10, 10, 10]
TWO = TableSchema((0, 1), (BY_LABEL, BY_LABEL))


def test_slices_cover_all_labels() -> None:
    configuration = Configuration((), ((), (0, 4, 7)))
    assert configuration.slice_of_label(1, 10).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert configuration.slice_of_label(0, 3).tolist() == [0, 0, 0]
    assert configuration.slice_of_label(5, 2).tolist() == [0, 0]


def test_sound_configurations_pass() -> None:
    check_configuration(EMPTY_CONFIGURATION, [])
    tables = (TWO, TableSchema((0,), (BY_CELL,)), TableSchema((0, 2), (BY_CELL, BY_LABEL)))
    check_configuration(Configuration(tables, ((0, 3),)), LABEL_COUNT)


@pytest.mark.parametrize(
    ("tables", "slices"),
    [
        ((TableSchema((), ()),), ()),
        ((TableSchema((0, 1), (BY_LABEL,)),), ()),
        ((TableSchema((1, 0), (BY_LABEL, BY_LABEL)),), ()),
        ((TableSchema((1, 3), (BY_LABEL, BY_LABEL)),), ()),
        ((TableSchema((1,), (BY_LABEL,)),), ()),
        ((TableSchema((1,), (BY_CELL,)),), ((), (0,))),
        ((TWO, TWO), ()),
        ((), ((1, 4),)),
        ((), ((0, 4, 4),)),
    ],
)
def test_impossible_configurations_are_refused(
    tables: tuple[TableSchema, ...], slices: tuple[tuple[int, ...], ...]
) -> None:
    with pytest.raises(LimitError):
        check_configuration(Configuration(tables, slices), LABEL_COUNT)
