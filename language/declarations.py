"""Reading declarations: the parts that know nothing of attributes.

Members of JSON objects are checked strictly, and every error says whose declaration it is about and, where
one is near, which name may have been meant. A declared tree of paths is numbered here in pre-order.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pubsub_cluster.language.errors import CallerError


def number_tree(name: str, paths: tuple[str, ...]) -> tuple[Mapping[str, int], tuple[int, ...]]:
    """Number the nodes of a tree of paths in pre-order, children in the order of their first mention.

    Returns
    -------
    number : mapping of path to its number
    last : tuple of int
        For each number, the largest number in that node's subtree.
    """
    children: dict[str, list[str]] = {"": []}
    for path in paths:
        node = ""
        for step in path.split("/"):
            if not step:
                raise CallerError(f"attribute {name!r}: a path has an empty step", seen=path)
            parent, node = node, f"{node}/{step}" if node else step
            if node not in children:
                children[node] = []
                children[parent].append(node)
    number: dict[str, int] = {}
    last: list[int] = [0] * (len(children) - 1)
    pending = [(node, False) for node in reversed(children[""])]
    while pending:
        node, is_done = pending.pop()
        if is_done:
            last[number[node]] = len(number) - 1
            continue
        number[node] = len(number)
        pending.append((node, True))
        pending.extend((child, False) for child in reversed(children[node]))
    return number, tuple(last)


def flag(item: Mapping[str, Any], name: str, what: str) -> bool:
    """Return a member that is true or false; false without it."""
    value = item.get(name, False)
    if not isinstance(value, bool):
        raise CallerError(f"{what}: `{name}` is neither true nor false", seen=value)
    return value


def check_keys(obj: Any, allowed: set[str], what: str) -> None:
    """Raise `CallerError` when `obj` is no object or has a member that is not allowed."""
    if not isinstance(obj, dict):
        raise CallerError(f"{what} is not an object", seen=obj)
    unknown = sorted(str(key) for key in obj.keys() - allowed)
    if unknown:
        raise CallerError(
            f"{what} has unknown members",
            seen=unknown,
            limit=sorted(allowed),
            remedy=nearest(unknown[0], sorted(allowed)),
        )


def nearest(word: str, known: list[str]) -> str | None:
    """Return the remedy that names the known word most like `word`, if one is."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {near[0]!r}?" if near else None
