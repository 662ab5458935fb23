"""A running cluster checks itself: an event's answer against brute force over some subscriptions.

What the answer must be is worked out from the catalogue alone, in plain Python (`language.normal_truth`): no
layout, no delta, no kernel and no encoder has a part in it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from pubsub_cluster.language.normal_truth import Values, form_holds
from pubsub_cluster.shm.catalogue import CatalogueReader
from pubsub_cluster.shm.catalogue_rows import is_removed, window_of
from pubsub_cluster.tuner.messages import Check, Difference

DIFFERENCES_TOLD_MAX = 8
ROWS_AT_ONCE = 8
REST_S, RESTS_S_MAX = 0.002, 0.1
"""After so many rows, and for one event: who needs the processor meanwhile would wait for a whole turn of it,
though this process is behind all others, and an event is answered in less than that."""


def is_match(catalogue: CatalogueReader, row: int, values: Values, check: Check) -> bool:
    """Return whether an event matches a row as of (version, time) of the check."""
    columns = catalogue.columns
    if bool(is_removed(columns, slice(row, row + 1), check.version)[0]):
        return False
    window = window_of(columns, check.window_count, row)
    if window is not None and not window[0] <= check.now_us < window[1]:
        return False
    return form_holds(catalogue.normal_form(row), values)


def check_event(
    catalogue: CatalogueReader, values: Values, check: Check, random: np.random.Generator
) -> tuple[int, list[Difference]]:
    """Compare the answer that was given to an event with what it should be, for rows picked at random.

    Half of them are rows of the answer, as far as it has so many. Of a small catalogue all rows are compared.

    Parameters
    ----------
    catalogue : CatalogueReader
    values : mapping of str to tuple
        The event, as `event_values` gives it.
    check : Check
    random : numpy.random.Generator

    Returns
    -------
    tuple of (int, list of Difference)
        How many rows were compared, and the first `DIFFERENCES_TOLD_MAX` that are not as they should be.
    """
    answer = set(check.rows)
    differences: list[Difference] = []
    picked = _picked(check, random)
    rest_s = min(REST_S, RESTS_S_MAX * ROWS_AT_ONCE / max(len(picked), 1))
    for number, row in enumerate(picked, 1):
        if number % ROWS_AT_ONCE == 0:
            time.sleep(rest_s)
        expected = is_match(catalogue, row, values, check)
        if expected != (row in answer) and len(differences) < DIFFERENCES_TOLD_MAX:
            handle = int(catalogue.columns.handle[row])
            differences.append(Difference(catalogue.subscription_id(row), handle, expected, _shown(values)))
    return len(picked), differences


def _picked(check: Check, random: np.random.Generator) -> list[int]:
    if check.total_rows <= check.row_count:
        return list(range(check.total_rows))
    told = random.permutation(np.array(check.rows, np.int64))[: check.row_count // 2]
    others = random.integers(0, check.total_rows, check.row_count - len(told))
    picked: list[int] = np.unique(np.concatenate([told, others])).tolist()
    return picked


def _shown(values: Values) -> dict[str, Any]:
    return {name: list(found) for name, found in values.items()}
