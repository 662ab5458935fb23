"""What ``tune show`` says of a layout's tree."""

from __future__ import annotations

from typing import Any


def tree_in_words(layout: dict[str, Any]) -> dict[str, str]:
    """Return in words what a layout tells of its tree, and of why it has one or none."""
    from pubsub_cluster.cli.render import number

    words = {}
    if "tree_choice" in layout:
        choice = layout["tree_choice"]
        costs = [
            f"{number(choice[f'{name}_ns'])} ns for {'a tree' if name == 'tree' else name}"
            for name in ("tree", "tables")
            if f"{name}_ns" in choice
        ]
        told = f"{'used' if choice['is_used'] else 'not used'}: {choice['reason']}"
        words["tree_choice"] = told + (f" ({', '.join(costs)} expected)" if costs else "")
    if "tree" in layout:
        tree = layout["tree"]
        words["tree"] = (
            f"{number(tree['clauses'])} conjunctions by {', '.join(tree['attributes'])}"
            f" in {number(tree['nodes'])} nodes"
        )
        for kind in ("expected", "observed"):
            if f"{kind}_cost" in tree:
                nodes, leaves = (number(tree[f"{kind}_{name}"]) for name in ("nodes", "leaf_nodes"))
                cost = number(tree[f"{kind}_cost"])
                words[f"tree_{kind}"] = f"{cost} ns: {nodes} nodes, {leaves} leaf nodes per event"
    return words
