"""S-tree: an unbalanced tree of boxes, packed top-down (Aggarwal et al. 1999; RIABOV section 3).

Idea. An event is a point, a subscription a box; a search goes down from the root, into every child whose
bounding box holds the point. How boxes are packed: `tuner.s_tree`, which layouts have their trees from, too.
Open ends count as the outermost finite ends of all boxes (`packed_tree.bounded`). The paper says nothing of
changes: `packed_tree.Forest` does.

Cost. A search opens few nodes if few boxes hold a point and boxes are small in all dimensions; with open
sides or many dimensions bounding boxes overlap, and it comes down to a scan. Limits: the language of
`algorithms.boxes`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pubsub_cluster.algorithms.riabov.packed_tree import Tree, bounded, make_tree
from pubsub_cluster.algorithms.riabov.spatial import BoxMatcher
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.tuner.s_tree import BRANCH, SKEW, pack_nodes


def pack(lo: Any, hi: Any, branch: int = BRANCH, skew: float = SKEW, bottom_up: bool = False) -> Tree:
    """Pack boxes into an S-tree.

    Parameters
    ----------
    lo, hi : T[dimensions, boxes]
        Closed; at least one box. Ends may be infinite.
    branch, skew, bottom_up
        As for `pack_nodes`.
    """
    nodes = pack_nodes(*bounded(lo.astype(np.float64), hi.astype(np.float64)), branch, skew, bottom_up)
    return make_tree(
        lo, hi, nodes.order, nodes.first_child, nodes.child_count, nodes.is_leaf.astype(np.uint8)
    )


class STree(BoxMatcher):
    """See the module; implements `interface.Matcher`.

    Parameters
    ----------
    schema : Schema
    branch, skew
        As for `pack`.
    """

    def __init__(self, schema: Schema = EMPTY_SCHEMA, branch: int = BRANCH, skew: float = SKEW) -> None:
        super().__init__("s-tree", partial(pack, branch=branch, skew=skew), schema)
