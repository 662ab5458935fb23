"""The builder's choice of tables: from the catalogue to the greedy, into the layout and its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matching_cases import Case, raw_batch

from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner import constants as constants_module
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS, CostConstants, Measurement
from pubsub_cluster.tuner.report import summarise
from pubsub_cluster.tuner.statistics import EventSample

CHEAP_PROBES = DEFAULT_CONSTANTS._replace(table_ns=0.01, probe_ns=0.01, probe_attribute_ns=0.01, cell_ns=0.01)


def eq(name: str, value: object) -> dict[str, object]:
    return {"attr": name, "op": "=", "value": value}


@pytest.fixture(scope="module")
def catalogue() -> Case:
    """400 equalities on two attributes, 400 narrow ranges with an equality, a set, and a text predicate."""
    pairs: list[Any] = [{"and": [eq("a", n % 20), eq("b", n // 20)]} for n in range(400)]
    ranges: list[Any] = [
        {"and": [{"attr": "x", "op": "between", "lo": n, "hi": n + 4}, eq("b", n % 20)]} for n in range(400)
    ]
    others: list[Any] = [
        {"attr": "a", "op": "in", "value": [1, 2, 3]},
        {"attr": "t", "op": "contains", "value": "y"},
    ]
    return Case([*pairs, *ranges, *others])


def build(catalogue: Case, sample: EventSample | None = None, **options: Any) -> LayoutArrays:
    return build_layout(catalogue.reader, catalogue.writer.counts(), 1, sample, 1, **options)


def shown(catalogue: Case, layout: LayoutArrays) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(summarise(layout, catalogue.reader.attribute_name)))
    return found


def test_cheap_probes_make_tables_and_dear_ones_none(catalogue: Case) -> None:
    cheap = shown(catalogue, build(catalogue, constants=CHEAP_PROBES))
    assert {tuple(sorted(table["attributes"])) for table in cheap["tables"]} >= {("a", "b")}
    assert sum(table["clauses"] for table in cheap["tables"]) >= 400
    assert all(0 < table["clusters"] <= table["clauses"] for table in cheap["tables"])
    dear = build(catalogue, constants=DEFAULT_CONSTANTS._replace(probe_ns=1e6))
    assert shown(catalogue, dear)["tables"] == []


def test_no_space_no_tables(catalogue: Case) -> None:
    assert shown(catalogue, build(catalogue, constants=CHEAP_PROBES, max_bytes=0))["table_count"] == 0


def test_expected_costs_add_up(catalogue: Case) -> None:
    found = shown(catalogue, build(catalogue, constants=CHEAP_PROBES))
    tables = sum(table["expected_cost"] for table in found["tables"])
    assert tables + found["expected_cost_of_slots"] == pytest.approx(
        found["expected_cost_per_event"], abs=0.1
    )


def test_labels_of_sampled_events_are_kept() -> None:
    case = Case([eq("a", 1), eq("b", 2)])
    sample = EventSample()
    sample.add(raw_batch([{"a": (1,)}, {"b": (2,)}, {"a": (0, 1), "b": (3,)}]))
    layout = build(case)
    names = [case.reader.attribute_name(int(a)) for a in layout.attribute_catalogue]
    events = sample.statistics(layout.spaces, names).events
    assert (events > 0).tolist() == [[name in event for name in names] for event in ("a", "b", "ab")]


def test_measurement_that_fails_leaves_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    def says(text: str) -> Measurement:
        monkeypatch.setattr(constants_module.sys, "executable", "/bin/echo")
        monkeypatch.setattr(constants_module, "MEASURE_MODULE", text)
        return Measurement()

    assert says("{}nonsense").result() == DEFAULT_CONSTANTS
    monkeypatch.setattr(constants_module.sys, "executable", "/nowhere/python")
    assert Measurement().is_done()
    assert Measurement().result() == DEFAULT_CONSTANTS
    assert np.all(np.array(CostConstants()) > 0.0)


def test_measurement_is_taken_from_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = DEFAULT_CONSTANTS._replace(entry_ns=7.0)
    script = tmp_path / "measure"
    script.write_text(f"#!/bin/sh\necho '{json.dumps(known._asdict())}'\n")
    script.chmod(0o700)
    monkeypatch.setattr(constants_module.sys, "executable", str(script))
    assert Measurement().result() == known


def test_measurement_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script, go_on = tmp_path / "measure", tmp_path / "go_on"
    script.write_text(f"#!/bin/sh\nuntil [ -e {go_on} ]; do sleep 0.01; done\n")
    script.chmod(0o700)
    monkeypatch.setattr(constants_module.sys, "executable", str(script))
    made = Measurement()
    assert not made.is_done()
    assert not made.is_done(wait_s=0.01)
    go_on.touch()
    assert made.is_done(wait_s=60.0)
    assert made.result() == DEFAULT_CONSTANTS
