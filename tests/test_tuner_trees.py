"""The choice between tables and a tree, and the plan of a tree."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from matching_cases import Case

from pubsub_cluster.benchmarks.workloads import Workload
from pubsub_cluster.benchmarks.workloads.htree import HTree
from pubsub_cluster.benchmarks.workloads.stock import Stock
from pubsub_cluster.shm.catalogue import CatalogueReader, CatalogueWriter
from pubsub_cluster.shm.layout import LayoutArrays
from pubsub_cluster.tuner.builder import build_layout
from pubsub_cluster.tuner.configuration import EMPTY_CONFIGURATION
from pubsub_cluster.tuner.constants import DEFAULT_CONSTANTS
from pubsub_cluster.tuner.report import summarise
from pubsub_cluster.tuner.statistics import EventSample
from pubsub_cluster.tuner.trees import EVENTS_LEAST, TreeChoice, find_boxes, plan_tree
from pubsub_cluster.tuner.work import prepare

NARROW = HTree("narrow", 3_000, attributes=4, constrained=4, width=0.05)


def built(
    workload: Workload, choice: TreeChoice, events: int = 512, **options: Any
) -> tuple[LayoutArrays, CatalogueReader]:
    rules = workload.rules()
    writer = CatalogueWriter.in_memory(max(rules.size, len(rules.literal)))
    writer.append_columns(rules.columns())
    sample = EventSample()
    for first in range(0, events, 128):
        sample.add(workload.events(min(128, events - first), first=first).raw())
    reader = CatalogueReader.of(writer)
    return build_layout(reader, writer.counts(), 1, sample, 1, 8, trees=choice, **options), reader


def test_a_tree_is_taken_where_it_is_expected_to_be_cheaper() -> None:
    choice = TreeChoice()
    layout, reader = built(NARROW, choice)
    assert choice.weighed.is_used and layout.tree_entries.tolist() == [3_000]
    assert choice.weighed.tree_ns is not None and choice.weighed.tables_ns is not None
    assert choice.weighed.tree_ns < choice.weighed.tables_ns
    assert not len(layout.table_mode)
    found = json.loads(json.dumps(summarise(layout, reader.attribute_name)))
    assert found["tree"]["attributes"] == ["a0", "a1", "a2", "a3"]
    assert found["tree"]["expected_cost"] == pytest.approx(choice.weighed.tree_ns, abs=0.01)
    assert found["expected_cost_of_slots"] == pytest.approx(0.0, abs=0.1)
    assert found["expected_cost_per_event"] == pytest.approx(found["tree"]["expected_cost"], abs=0.1)


DEAR = DEFAULT_CONSTANTS._replace(node_ns=1e6)


@pytest.mark.parametrize(
    ("workload", "setting", "options", "reason"),
    [
        (Stock(subscriptions=3_000), None, {}, "tables are as cheap"),
        (NARROW, None, {"constants": DEAR}, "tables are as cheap"),
        (NARROW, None, {"events": EVENTS_LEAST - 1}, "too few events"),
        (NARROW, False, {}, "forbidden"),
    ],
)
def test_and_tables_elsewhere(
    workload: Workload, setting: bool | None, options: dict[str, Any], reason: str
) -> None:
    choice = TreeChoice(setting)
    layout, reader = built(workload, choice, **options)
    assert not choice.weighed.is_used and reason in choice.weighed.reason
    assert not len(layout.tree_first) and len(layout.table_mode)
    assert (layout.attribute_dimension == -1).all()
    assert "tree" not in summarise(layout, reader.attribute_name)


def test_a_forced_tree_is_taken_whatever_it_costs() -> None:
    choice = TreeChoice(True)
    layout, _ = built(NARROW, choice, events=0, constants=DEAR)
    assert choice.weighed.is_used and len(layout.tree_cost) == 1
    none = TreeChoice(True)
    case = Case([{"attr": "a", "op": "in", "value": [1, 2]}])
    layout = build_layout(case.reader, case.writer.counts(), 1, None, 1, trees=none)
    assert not none.weighed.is_used and not len(layout.tree_cost)


def test_tables_that_are_given_stay_unless_a_tree_is_forced() -> None:
    for setting, trees in ((None, 0), (True, 1)):
        layout, _ = built(NARROW, TreeChoice(setting), configuration=EMPTY_CONFIGURATION)
        assert len(layout.tree_cost) == trees


def test_boxes_are_what_conjunctions_of_ranges_say() -> None:
    def between(name: str, lo: int, hi: int) -> dict[str, Any]:
        return {"attr": name, "op": "between", "lo": lo, "hi": hi}

    case = Case(
        [
            {"and": [between("a", 1, 5), between("b", 2, 3)]},
            {"not": between("a", 1, 5)},
            {"attr": "b", "op": "=", "value": 7},
        ]
    )
    work = prepare(case.reader, case.writer.counts(), 1, None)
    boxes = find_boxes(work)
    assert boxes.clause.tolist() == [0, 2] and len(boxes.attribute) == 2
    names = [work.attribute_names[attribute] for attribute in boxes.attribute.tolist()]
    a, b = names.index("a"), names.index("b")
    assert boxes.lo[a, 0] > 0 and boxes.lo[a, 1] == 0, "without a bound, a value may be missing"
    assert boxes.hi[a, 1] == work.predicates.label_count[boxes.attribute[a]] - 1
    assert boxes.lo[b, 1] == boxes.hi[b, 1] > boxes.hi[b, 0] > boxes.lo[b, 0]


def test_nodes_hold_their_children_and_chances_are_shares_of_events() -> None:
    workload = HTree("boxes", 500, attributes=3, constrained=3, width=0.2)
    rules = workload.rules()
    writer = CatalogueWriter.in_memory(len(rules.literal))
    writer.append_columns(rules.columns())
    sample = EventSample()
    sample.add(workload.events(100).raw())
    work = prepare(CatalogueReader.of(writer), writer.counts(), 1, sample)
    boxes, events = find_boxes(work), work.statistics.events
    plan = plan_tree(boxes, events, DEFAULT_CONSTANTS)
    leaf_nodes = np.flatnonzero(plan.child_count == 0)
    assert sorted(plan.first_child[leaf_nodes].tolist()) == list(range(len(leaf_nodes)))
    for box, leaf in enumerate(plan.leaf.tolist()):
        node = leaf_nodes[plan.first_child[leaf_nodes] == leaf][0]
        assert (plan.node_lo[:, node] <= boxes.lo[:, box]).all()
        assert (plan.node_hi[:, node] >= boxes.hi[:, box]).all()
    parent = np.full(len(plan.first_child), -1)
    for node in np.flatnonzero(plan.child_count).tolist():
        children = slice(plan.first_child[node], plan.first_child[node] + plan.child_count[node])
        assert (parent[children] == -1).all()
        parent[children] = node
        assert (plan.node_lo[:, node] == plan.node_lo[:, children].min(axis=1)).all()
        assert (plan.node_hi[:, node] == plan.node_hi[:, children].max(axis=1)).all()
    assert parent[0] == -1 and (parent[1:] >= 0).all()
    labels = events[:, boxes.attribute].T[:, :, None]
    opens = (plan.node_lo[:, None] <= labels) & (labels <= plan.node_hi[:, None])
    shares = opens.all(axis=0).mean(axis=0)
    assert np.abs(plan.chance - shares)[1:].max() < 2 / len(events) and plan.chance[0] == 1.0
    free = DEFAULT_CONSTANTS._replace(node_ns=0.0, node_attribute_ns=0.0, node_doubling_ns=0.0)
    is_leaf = plan.child_count == 0
    leaves_ns = float(plan.chance[is_leaf].sum()) * DEFAULT_CONSTANTS.leaf_of(3)
    assert plan_tree(boxes, events, free).cost == pytest.approx(leaves_ns)
    node_ns = DEFAULT_CONSTANTS.node_of(3, len(is_leaf))
    assert plan.cost == pytest.approx(leaves_ns + plan.chance[~is_leaf].sum() * node_ns)
