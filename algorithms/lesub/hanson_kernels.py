"""Kernels of Hanson's interval binary search trees: AVL trees over the ends of intervals, with marks.

A node has three lists of marks: of the intervals that hold everything below its key that a search may bring
there, everything above it likewise, and its key. An interval is marked only where it is not marked further
up, so the lists on the path of a search are disjoint, and together they are the intervals that hold the
value. A mark is in two lists, its node's and its interval's, both doubly linked: so it can be taken out from
either side. All is in arrays; -1 is none. Source: Hanson, Chaabouni, Kim, Wang, "A Predicate Matching
Algorithm for Database Rule Systems", SIGMOD 1990. Rotations leave marks where an insertion would put them.

All trees of a matcher are a `forest`, (nodes, marks, heads, own, seen, sizes):

nodes : (float64[...], int32[..., 2], int8[...])
    Keys, children on either side, heights.
marks : (int32[...], ...)
    Six columns: a mark's interval (-1: it is free), its list, the next and the previous one of the list, the
    next and the previous one of the interval.
heads : int32[...]
    The first mark of each list; node i has the lists 3 i (below), 3 i + 1 (above) and 3 i + 2 (at).
own : int32[...]
    The first mark of each interval.
seen : (int32[intervals], int32[intervals])
    Scratch of rotations.
sizes : int64[4]
    Numbers of nodes and of marks that were ever used, the first free mark, the number of live marks.
"""

from __future__ import annotations

import math
from typing import Any

from pubsub_cluster.algorithms.lesub.counting_kernels import holds
from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine

BELOW, ABOVE, AT = 0, 1, 2
INFINITY = math.inf
DEPTH_MAX = 64
"""Of an AVL tree with fewer than 2**44 nodes."""
PLACE_MARKS_MAX = 4 * DEPTH_MAX
"""An interval has at most two marks in each of two paths; more than this are never needed for one."""


@leaf
def _link(mark: Any, slot: Any, marks: Any, heads: Any) -> None:
    """Put a mark at the head of a node's list."""
    _, slot_of, after, before, _, _ = marks
    slot_of[mark], before[mark], after[mark] = slot, -1, heads[slot]
    if heads[slot] >= 0:
        before[heads[slot]] = mark
    heads[slot] = mark


@leaf
def _add(interval: Any, slot: Any, marks: Any, heads: Any, own: Any, sizes: Any) -> None:
    """Mark an interval at a node; there is room."""
    interval_of, _, _, _, own_after, own_before = marks
    mark = sizes[2]
    if mark >= 0:
        sizes[2] = own_after[mark]
    else:
        mark = sizes[1]
        sizes[1] += 1
    sizes[3] += 1
    interval_of[mark], own_before[mark], own_after[mark] = interval, -1, own[interval]
    if own[interval] >= 0:
        own_before[own[interval]] = mark
    own[interval] = mark
    _link(mark, slot, marks, heads)


@leaf
def _drop(mark: Any, marks: Any, heads: Any, own: Any, sizes: Any) -> None:
    """Take a mark away; free ones are linked by the link of their intervals."""
    interval_of, slot_of, after, before, own_after, own_before = marks
    if before[mark] >= 0:
        after[before[mark]] = after[mark]
    else:
        heads[slot_of[mark]] = after[mark]
    if after[mark] >= 0:
        before[after[mark]] = before[mark]
    if own_before[mark] >= 0:
        own_after[own_before[mark]] = own_after[mark]
    else:
        own[interval_of[mark]] = own_after[mark]
    if own_after[mark] >= 0:
        own_before[own_after[mark]] = own_before[mark]
    interval_of[mark], own_after[mark], sizes[2] = -1, sizes[2], mark
    sizes[3] -= 1


@leaf
def _note(slot: Any, marks: Any, heads: Any, seen: Any) -> None:
    """Note the mark of each interval of a list."""
    mark = heads[slot]
    while mark >= 0:
        seen[marks[0][mark]] = mark
        mark = marks[2][mark]


@leaf
def _is_in(interval: Any, slot: Any, marks: Any, seen: Any) -> Any:
    """Return whether an interval is in a list; what was noted earlier may be free, or elsewhere, by now."""
    mark = seen[interval]
    return mark >= 0 and marks[0][mark] == interval and marks[1][mark] == slot


@leaf
def _measure(node: Any, nodes: Any) -> None:
    """Set the height of a node by those of its children."""
    _, children, height = nodes
    most = 0
    for side in range(2):
        if children[node, side] >= 0 and height[children[node, side]] > most:
            most = height[children[node, side]]
    height[node] = most + 1


@leaf
def _lean(node: Any, nodes: Any) -> Any:
    """Return by how many levels the side below is deeper."""
    _, children, height = nodes
    below, above = children[node, BELOW], children[node, ABOVE]
    return (height[below] if below >= 0 else 0) - (height[above] if above >= 0 else 0)


@routine
def _rotate(top: Any, side: Any, forest: Any) -> Any:
    """Lift the child of `top` on one side above it; return the child, or -1 if marks may run out.

    With side `BELOW` let x be that child. What `top` had below it holds all that comes to x: it gets marks
    below x and at x, and keeps the one below `top`, where only (x, top) comes from now on. What x had above
    it holds (x, top) alone, and goes there too. But whatever holds (x, top), top itself and all above `top`
    holds all that is above x, and has one mark there instead.
    """
    nodes, marks, heads, own, seen, sizes = forest
    child, far = nodes[1][top, side], 1 - side
    outer, at, beyond = 3 * top + side, 3 * top + AT, 3 * top + far
    need, mark = 0, heads[outer]
    while mark >= 0:
        need, mark = need + 2, marks[2][mark]
    if sizes[3] + need > marks[0].shape[0]:
        return -1
    _note(at, marks, heads, seen[0])
    _note(beyond, marks, heads, seen[1])
    rest = heads[outer]
    mark = heads[3 * child + far]
    heads[3 * child + far] = heads[outer] = -1
    for turn in range(2):
        while mark >= 0:
            following, interval = marks[2][mark], marks[0][mark]
            is_all = _is_in(interval, at, marks, seen[0]) and _is_in(interval, beyond, marks, seen[1])
            if is_all:
                _drop(seen[0][interval], marks, heads, own, sizes)
                _drop(seen[1][interval], marks, heads, own, sizes)
            _link(mark, 3 * child + far if is_all else outer, marks, heads)
            if turn == 1:
                _add(interval, 3 * child + side, marks, heads, own, sizes)
                _add(interval, 3 * child + AT, marks, heads, own, sizes)
            mark = following
        if turn == 0:
            mark = rest
    nodes[1][top, side] = nodes[1][child, far]
    nodes[1][child, far] = top
    _measure(top, nodes)
    _measure(child, nodes)
    return child


@routine
def _balance(node: Any, forest: Any) -> Any:
    """Rotate if one side is two levels deeper; return what is on top then, or -1 if marks may run out."""
    nodes = forest[0]
    lean = _lean(node, nodes)
    if -2 < lean < 2:
        _measure(node, nodes)
        return node
    side = BELOW if lean > 0 else ABOVE
    child = nodes[1][node, side]
    child_lean = _lean(child, nodes)
    if (side == BELOW and child_lean < 0) or (side == ABOVE and child_lean > 0):
        child = _rotate(child, 1 - side, forest)
        if child < 0:
            return -1
        nodes[1][node, side] = child
    return _rotate(node, side, forest)


@routine
def _add_key(tree: Any, at: Any, roots: Any, path: Any, forest: Any) -> Any:
    """Add a key if it is not there, and balance its path; return whether that is done.

    If marks ran out, the key is there and the path is not balanced yet: the next call goes on.
    """
    nodes, _, heads, _, _, sizes = forest
    key, children, height = nodes
    depth, node = 0, roots[tree]
    while node >= 0 and key[node] != at:
        path[depth] = node
        depth += 1
        node = children[node, ABOVE if at > key[node] else BELOW]
    if node < 0:
        node = sizes[0]
        sizes[0] += 1
        key[node], height[node] = at, 1
        children[node, BELOW] = children[node, ABOVE] = -1
        for kind in range(3):
            heads[3 * node + kind] = -1
        if depth:
            children[path[depth - 1], ABOVE if at > key[path[depth - 1]] else BELOW] = node
        else:
            roots[tree] = node
    while depth:
        depth -= 1
        top = _balance(path[depth], forest)
        if top < 0:
            return False
        if depth:
            children[path[depth - 1], ABOVE if at > key[path[depth - 1]] else BELOW] = top
        else:
            roots[tree] = top
    return True


@routine
def _place(interval: Any, lo: Any, hi: Any, root: Any, work: Any, forest: Any) -> None:
    """Mark an interval, whose ends are keys, at the topmost places where it holds all.

    A node's values lie between two keys of its ancestors; without one, an infinity itself is among them.
    """
    nodes, marks, heads, own, _, sizes = forest
    path, ends = work
    key, children, _ = nodes
    path[0], ends[0, 0], ends[1, 0] = root, -INFINITY, INFINITY
    top = 1
    while top:
        top -= 1
        node, left, right = path[top], ends[0, top], ends[1, top]
        at = key[node]
        if lo <= at <= hi:
            _add(interval, 3 * node + AT, marks, heads, own, sizes)
        if lo < at:
            if lo <= left and hi >= at:
                _add(interval, 3 * node + BELOW, marks, heads, own, sizes)
            elif (hi > left or left == -INFINITY) and children[node, BELOW] >= 0:
                path[top], ends[0, top], ends[1, top] = children[node, BELOW], left, at
                top += 1
        if hi > at:
            if hi >= right and lo <= at:
                _add(interval, 3 * node + ABOVE, marks, heads, own, sizes)
            elif (lo < right or right == INFINITY) and children[node, ABOVE] >= 0:
                path[top], ends[0, top], ends[1, top] = children[node, ABOVE], at, right
                top += 1


@kernel
def insert(begin: Any, intervals: Any, roots: Any, work: Any, forest: Any) -> Any:
    """Take intervals [begin, n) into their trees; return how many are done, n or fewer if marks ran out.

    Parameters
    ----------
    begin : int
    intervals : (int64[n], int32[n], float64[n], float64[n])
        Numbers, trees, and both ends, closed.
    roots : int32[trees]
    work : (int32[DEPTH_MAX], float64[2, DEPTH_MAX])
        Scratch.
    forest
        See the module.
    """
    number, tree_of, lo, hi = intervals
    path = work[0]
    marks, sizes = forest[1], forest[5]
    for at in range(begin, number.shape[0]):
        tree = tree_of[at]
        has_lo, has_hi = lo[at] > -INFINITY, hi[at] < INFINITY
        is_done = True
        if has_lo:
            is_done = _add_key(tree, lo[at], roots, path, forest)
        if is_done and has_hi and (hi[at] != lo[at] or not has_lo):
            is_done = _add_key(tree, hi[at], roots, path, forest)
        if roots[tree] < 0:  # an interval without ends is marked at some node, whichever it is
            is_done = _add_key(tree, 0.0, roots, path, forest)
        if not is_done:
            return at
        if sizes[3] + PLACE_MARKS_MAX > marks[0].shape[0]:
            return at
        _place(number[at], lo[at], hi[at], roots[tree], work, forest)
    return number.shape[0]


@kernel
def remove(begin: Any, end: Any, forest: Any) -> None:
    """Take the marks of intervals [begin, end) away; keys stay."""
    _, marks, heads, own, _, sizes = forest
    for interval in range(begin, end):
        while own[interval] >= 0:
            _drop(own[interval], marks, heads, own, sizes)


@kernel
def search(
    values: Any, trees: Any, forest: Any, store: Any, begin: Any, stops: Any, found: Any, work: Any
) -> Any:
    """Find the conjunctions whose intervals hold the values of each event, and evaluate the rest of them.

    Parameters
    ----------
    values : float64[n, attributes]
    trees : (int32[trees], int32[trees])
        Attributes and roots.
    forest
        See the module; intervals have the numbers of their conjunctions.
    store : (int64[...], int64[...], int32[...], int8[...], float64[...])
        Conjunction i has the predicates [first[i], stops[i + 1]) beside its interval; then attributes,
        comparisons, constants.
    begin, stops, found
        See `gather.Search`.
    work : int64[n, 3]
        Keys compared, candidates, predicates evaluated for them (out).
    """
    nodes, marks, heads = forest[:3]
    key, children, _ = nodes
    first, ends, attribute, comparison, constant = store
    for event in range(begin, values.shape[0]):
        total, steps, candidates, evaluated = stops[event], 0, 0, 0
        for tree in range(trees[0].shape[0]):
            value = values[event, trees[0][tree]]
            node = trees[1][tree] if value == value else -1
            while node >= 0:
                steps += 1
                side = AT if value == key[node] else (ABOVE if value > key[node] else BELOW)
                mark = heads[3 * node + side]
                node = -1 if side == AT else children[node, side]
                while mark >= 0:
                    place = marks[0][mark]
                    mark = marks[2][mark]
                    candidates += 1
                    is_match = True
                    for one in range(first[place], ends[place + 1]):
                        evaluated += 1
                        if not holds(values[event, attribute[one]], comparison[one], constant[one]):
                            is_match = False
                            break
                    if is_match:
                        if total == found.shape[0]:
                            return event
                        found[total] = place
                        total += 1
        stops[event + 1] = total
        work[event, 0] = steps
        work[event, 1] = candidates
        work[event, 2] = evaluated
    return values.shape[0]
