"""What `stats` tells: counters of subscriptions, owners and groups since the coordinator started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.language.errors import ProtocolError, UnknownIdError
from pubsub_cluster.language.protocol import COUNTED_ITEMS, COUNTED_ITEMS_MAX, STATS_KINDS
from pubsub_cluster.shm.catalogue import CatalogueReader

if TYPE_CHECKING:
    from pubsub_cluster.coordinator.runtime import Coordinator

MICROSECONDS = 1_000_000


def stats(coordinator: Coordinator, header: dict[str, Any]) -> dict[str, Any]:
    """Return the counters of some subscriptions, owners or groups: named ones, or those with the most.

    Raises
    ------
    ProtocolError
        There is no such kind, or `names` and `top` are not as they must be.
    """
    kind, names, top = header["kind"], header.get("names"), header.get("top", COUNTED_ITEMS)
    if kind not in STATS_KINDS:
        raise ProtocolError("no such kind of counters", seen=kind, limit=list(STATS_KINDS))
    if type(top) is not int or not 0 < top <= COUNTED_ITEMS_MAX:
        raise ProtocolError("`top` is not a number of items", seen=top, limit=COUNTED_ITEMS_MAX)
    if names is not None and not (isinstance(names, list) and len(names) <= COUNTED_ITEMS_MAX):
        raise ProtocolError("`names` is not a list, or too long", seen=names, limit=COUNTED_ITEMS_MAX)
    named_by = int if kind == "group" else str
    if names is not None and any(type(name) is not named_by for name in names):
        what = "numbers" if kind == "group" else "texts"
        raise ProtocolError(f"the names of {kind}s are {what}", seen=names)
    told = {"subscription": _subscriptions, "owner": _owners, "group": _groups}[kind]
    return {"since": coordinator.started_us, "items": told(coordinator, names, top)}


def _subscriptions(coordinator: Coordinator, names: list[Any] | None, top: int) -> list[dict[str, Any]]:
    registry, matched = coordinator.registry, coordinator.matched
    if names is None:
        # Some of those that matched most are gone.
        found = _live(registry, matched.most(2 * top + COUNTED_ITEMS_MAX).tolist(), top)
    else:
        found = []
        for name in names:
            try:
                text, _, live = registry.live(name)
            except UnknownIdError:
                continue
            found.append((text, live.handle, live.owner))
    counts, last_s = matched.of(np.array([handle for _, handle, _ in found], np.uint64))
    return [
        {"id": name, "handle": handle, "owner": owner, "matches": count, "last_match": _instant(last)}
        for (name, handle, owner), count, last in zip(found, counts.tolist(), last_s.tolist(), strict=True)
    ]


def _live(registry: Registry, handles: list[int], count: int) -> list[tuple[str, int, str]]:
    """Return (id, handle, owner) of the first live subscriptions among some."""
    columns = registry.catalogue.columns
    handle_of = columns.handle[: registry.catalogue.counts().rows]
    while not registry.by_handle.follow(handle_of):
        pass
    reader = CatalogueReader.of(registry.catalogue)
    found: list[tuple[str, int, str]] = []
    for handle in handles:
        rows, _ = registry.by_handle.window(handle_of, handle, 1)
        rows = rows[(handle_of[rows] == np.uint64(handle)) & (columns.removed_version[rows] == 0)]
        if len(rows):
            row = int(rows[-1])
            found.append((reader.subscription_id(row), handle, reader.owner_name(int(columns.owner[row]))))
        if len(found) == count:
            break
    return found


def _owners(coordinator: Coordinator, names: list[Any] | None, top: int) -> list[dict[str, Any]]:
    sent = coordinator.delivery.counters
    items = []
    for name in sent.most(top) if names is None else names:
        handles = _handles_of(coordinator.registry, name)
        counts, last_s = coordinator.matched.of(handles)
        matches = {
            "owner": name,
            "subscriptions": len(handles),
            "matches": int(counts.sum()),
            "last_match": _instant(int(last_s.max(initial=0))),
        }
        items.append({**matches, **sent.of(name)._asdict()})
    return items


def _handles_of(registry: Registry, owner: Any) -> npt.NDArray[np.uint64]:
    """Return the handles of an owner's live subscriptions."""
    number = registry.catalogue.owner_number(owner) if isinstance(owner, str) else None
    if number is None:
        return np.zeros(0, np.uint64)
    columns, rows = registry.catalogue.columns, registry.catalogue.counts().rows
    mine = np.flatnonzero(columns.owner[:rows] == number)
    handles: npt.NDArray[np.uint64] = columns.handle[mine[columns.removed_version[mine] == 0]]
    return handles


def _groups(coordinator: Coordinator, names: list[Any] | None, top: int) -> list[dict[str, Any]]:
    groups = coordinator.delivery.counters.groups()
    if names is not None:
        return [{"group": group, **groups[group]} for group in groups if group in names]
    most = sorted(groups, key=lambda group: (-groups[group]["records"], group))[:top]
    return [{"group": group, **groups[group]} for group in most]


def _instant(seconds: int) -> int | None:
    return seconds * MICROSECONDS if seconds else None
