"""Kernels of Hanson's interval binary search trees: AVL trees over the ends of intervals, with marks.

A node has three lists of marks: of the intervals that hold everything below its key that a search may bring
there, everything above it likewise, and its key. An interval is marked only where it is not marked further
up, so the lists on the path of a search are disjoint, and together they are the intervals that hold the
value. A mark is in two lists, its node's and its interval's, both doubly linked: so it can be taken out from
either side. All is in arrays; -1 is none. Source: Hanson, Chaabouni, Kim, Wang, "A Predicate Matching
Algorithm for Database Rule Systems", SIGMOD 1990. Rotations leave marks where an insertion would put them.

All trees of a matcher are a `forest`, (keys, links, heads, marks, own, seen, sizes):

keys : float64[...]
links : int32[..., 6]
    Of each node: its children below and above; the first marks of its lists, below, above and at; its height.
heads : int32[...]
    `links` as one row, for the lists: `_slot`.
marks : int32[..., 6]
    Of each mark: its interval (-1: it is free), its list, the next and the previous one of the list, the next
    and the previous one of the interval. What is used together stands together: a list costs a cache miss a
    mark.
own : int32[...]
    The first mark of each interval.
seen : (int32[intervals], int32[intervals])
    Scratch of rotations.
sizes : int64[5]
    Numbers of nodes and of marks that were ever used, the first free mark, the number of live marks, and the
    node whose path is not balanced yet.
"""

from __future__ import annotations

import math
from typing import Any

from pubsub_cluster.algorithms.lesub.counting_kernels import holds
from pubsub_cluster.workers.kernels._jit import kernel, leaf, routine

BELOW, ABOVE, AT = 0, 1, 2
LINKS, HEIGHT = 6, 5
INTERVAL, SLOT, NEXT, BEFORE, OWN_NEXT, OWN_BEFORE = range(6)
INFINITY = math.inf
DEPTH_MAX = 64
"""Of an AVL tree with fewer than 2**44 nodes."""
PLACE_MARKS_MAX = 4 * DEPTH_MAX
"""An interval has at most two marks in each of two paths; more than this are never needed for one."""


@leaf
def _slot(node: Any, kind: Any) -> Any:
    """Return the place of a node's list in `heads`."""
    return LINKS * node + 2 + kind


@leaf
def _link(mark: Any, slot: Any, marks: Any, heads: Any) -> None:
    """Put a mark at the head of a node's list."""
    head = heads[slot]
    marks[mark, SLOT], marks[mark, NEXT], marks[mark, BEFORE] = slot, head, -1
    if head >= 0:
        marks[head, BEFORE] = mark
    heads[slot] = mark


@leaf
def _add(interval: Any, slot: Any, marks: Any, heads: Any, own: Any, sizes: Any) -> None:
    """Mark an interval at a node; there is room."""
    mark, first = sizes[2], own[interval]
    if mark >= 0:
        sizes[2] = marks[mark, OWN_NEXT]
    else:
        mark = sizes[1]
        sizes[1] += 1
    sizes[3] += 1
    marks[mark, INTERVAL], marks[mark, OWN_NEXT], marks[mark, OWN_BEFORE] = interval, first, -1
    if first >= 0:
        marks[first, OWN_BEFORE] = mark
    own[interval] = mark
    _link(mark, slot, marks, heads)


@leaf
def _drop(mark: Any, marks: Any, heads: Any, own: Any, sizes: Any) -> None:
    """Take a mark away; free ones are linked by the link of their intervals."""
    before, after = marks[mark, BEFORE], marks[mark, NEXT]
    if before >= 0:
        marks[before, NEXT] = after
    else:
        heads[marks[mark, SLOT]] = after
    if after >= 0:
        marks[after, BEFORE] = before
    before, after = marks[mark, OWN_BEFORE], marks[mark, OWN_NEXT]
    if before >= 0:
        marks[before, OWN_NEXT] = after
    else:
        own[marks[mark, INTERVAL]] = after
    if after >= 0:
        marks[after, OWN_BEFORE] = before
    marks[mark, INTERVAL], marks[mark, OWN_NEXT], sizes[2] = -1, sizes[2], mark
    sizes[3] -= 1


@leaf
def _note(slot: Any, marks: Any, heads: Any, seen: Any) -> None:
    """Note the mark of each interval of a list."""
    mark = heads[slot]
    while mark >= 0:
        seen[marks[mark, INTERVAL]] = mark
        mark = marks[mark, NEXT]


@leaf
def _is_in(interval: Any, slot: Any, marks: Any, seen: Any) -> Any:
    """Return whether an interval is in a list; what was noted earlier may be free, or elsewhere, by now."""
    mark = seen[interval]
    return mark >= 0 and marks[mark, INTERVAL] == interval and marks[mark, SLOT] == slot


@leaf
def _height(node: Any, links: Any) -> Any:
    return links[node, HEIGHT] if node >= 0 else 0


@leaf
def _measure(node: Any, links: Any) -> None:
    """Set the height of a node by those of its children."""
    below, above = _height(links[node, BELOW], links), _height(links[node, ABOVE], links)
    links[node, HEIGHT] = 1 + max(below, above)


@leaf
def _lean(node: Any, links: Any) -> Any:
    """Return by how many levels the side below is deeper."""
    return _height(links[node, BELOW], links) - _height(links[node, ABOVE], links)


@routine
def _rotate(top: Any, side: Any, forest: Any) -> Any:
    """Lift the child of `top` on one side above it; return the child, or -1 if marks may run out.

    With side `BELOW` let x be that child. What `top` had below it holds all that comes to x: it gets marks
    below x and at x, and keeps the one below `top`, where only (x, top) comes from now on. What x had above
    it holds (x, top) alone, and goes there too. But whatever holds (x, top), top itself and all above `top`
    holds all that is above x, and has one mark there instead.
    """
    _, links, heads, marks, own, seen, sizes = forest
    child, far = links[top, side], 1 - side
    outer, at, beyond = _slot(top, side), _slot(top, AT), _slot(top, far)
    inner = _slot(child, far)
    need, mark = 0, heads[outer]
    while mark >= 0:
        need, mark = need + 2, marks[mark, NEXT]
    if sizes[3] + need > marks.shape[0]:
        return -1
    _note(at, marks, heads, seen[0])
    _note(beyond, marks, heads, seen[1])
    mark, rest = heads[inner], heads[outer]
    heads[inner] = heads[outer] = -1
    for turn in range(2):
        while mark >= 0:
            following, interval = marks[mark, NEXT], marks[mark, INTERVAL]
            is_all = _is_in(interval, at, marks, seen[0]) and _is_in(interval, beyond, marks, seen[1])
            if is_all:
                _drop(seen[0][interval], marks, heads, own, sizes)
                _drop(seen[1][interval], marks, heads, own, sizes)
            _link(mark, inner if is_all else outer, marks, heads)
            if turn == 1:
                _add(interval, _slot(child, side), marks, heads, own, sizes)
                _add(interval, _slot(child, AT), marks, heads, own, sizes)
            mark = following
        if turn == 0:
            mark = rest
    links[top, side] = links[child, far]
    links[child, far] = top
    _measure(top, links)
    _measure(child, links)
    return child


@routine
def _balance(node: Any, forest: Any) -> Any:
    """Rotate if one side is two levels deeper; return what is on top then, or -1 if marks may run out."""
    links = forest[1]
    lean = _lean(node, links)
    if -2 < lean < 2:
        _measure(node, links)
        return node
    side = BELOW if lean > 0 else ABOVE
    child = links[node, side]
    child_lean = _lean(child, links)
    if (side == BELOW and child_lean < 0) or (side == ABOVE and child_lean > 0):
        child = _rotate(child, 1 - side, forest)
        if child < 0:
            return -1
        links[node, side] = child
    return _rotate(node, side, forest)


@routine
def _add_key(tree: Any, at: Any, roots: Any, path: Any, forest: Any) -> Any:
    """Add a key if it is not there, and balance its path; return whether that is done.

    If marks ran out, the key is there and the path is not balanced yet: the next call goes on.
    """
    keys, links, sizes = forest[0], forest[1], forest[6]
    depth, node = 0, roots[tree]
    while node >= 0 and keys[node] != at:
        path[depth] = node
        depth += 1
        node = links[node, ABOVE if at > keys[node] else BELOW]
    if node < 0:
        node = sizes[0]
        sizes[0] += 1
        keys[node] = at
        links[node, :HEIGHT] = -1
        links[node, HEIGHT] = 1
        if depth:
            links[path[depth - 1], ABOVE if at > keys[path[depth - 1]] else BELOW] = node
        else:
            roots[tree] = node
    elif node != sizes[4]:
        return True
    stopped, sizes[4] = sizes[4], -1
    while depth:
        depth -= 1
        height = links[path[depth], HEIGHT]
        top = _balance(path[depth], forest)
        if top < 0:
            sizes[4] = node
            return False
        if depth:
            links[path[depth - 1], ABOVE if at > keys[path[depth - 1]] else BELOW] = top
        else:
            roots[tree] = top
        if links[top, HEIGHT] == height and node != stopped:
            break  # nothing has changed for those above
    return True


@routine
def _place(interval: Any, lo: Any, hi: Any, root: Any, work: Any, forest: Any) -> None:
    """Mark an interval, whose ends are keys, at the topmost places where it holds all.

    A node's values lie between two keys of its ancestors; without one, an infinity itself is among them.
    """
    keys, links, heads, marks, own, _, sizes = forest
    path, ends = work
    path[0], ends[0, 0], ends[1, 0] = root, -INFINITY, INFINITY
    top = 1
    while top:
        top -= 1
        node, left, right = path[top], ends[0, top], ends[1, top]
        at = keys[node]
        if lo <= at <= hi:
            _add(interval, _slot(node, AT), marks, heads, own, sizes)
        if lo < at:
            if lo <= left and hi >= at:
                _add(interval, _slot(node, BELOW), marks, heads, own, sizes)
            elif (hi > left or left == -INFINITY) and links[node, BELOW] >= 0:
                path[top], ends[0, top], ends[1, top] = links[node, BELOW], left, at
                top += 1
        if hi > at:
            if hi >= right and lo <= at:
                _add(interval, _slot(node, ABOVE), marks, heads, own, sizes)
            elif (lo < right or right == INFINITY) and links[node, ABOVE] >= 0:
                path[top], ends[0, top], ends[1, top] = links[node, ABOVE], at, right
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
    marks, sizes = forest[3], forest[6]
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
        if sizes[3] + PLACE_MARKS_MAX > marks.shape[0]:
            return at
        _place(number[at], lo[at], hi[at], roots[tree], work, forest)
    return number.shape[0]


@kernel
def remove(begin: Any, end: Any, forest: Any) -> None:
    """Take the marks of intervals [begin, end) away; keys stay."""
    _, _, heads, marks, own, _, sizes = forest
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
    keys, links, _, marks = forest[:4]
    first, ends, attribute, comparison, constant = store
    for event in range(begin, values.shape[0]):
        total, steps, candidates, evaluated = stops[event], 0, 0, 0
        for tree in range(trees[0].shape[0]):
            value = values[event, trees[0][tree]]
            node = trees[1][tree] if value == value else -1
            while node >= 0:
                steps += 1
                side = AT if value == keys[node] else (ABOVE if value > keys[node] else BELOW)
                mark = links[node, 2 + side]
                node = -1 if side == AT else links[node, side]
                while mark >= 0:
                    place = marks[mark, INTERVAL]
                    mark = marks[mark, NEXT]
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
