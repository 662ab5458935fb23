"""What the cluster tells of its subscriptions: of some by their ids, of all page by page.

An expression is told as its owner wrote it. It is read from the change table, where it is durable, and is
nowhere in memory. A page is small, so that whoever reads a catalogue of millions delays nobody else by more
than a few milliseconds at a time. Pages follow the handles, which neither updates nor epochs nor restarts
alter.
"""

from __future__ import annotations

from typing import Any

import orjson

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import LimitError, ProtocolError, PubSubError, StoreError
from pubsub_cluster.language.limits import INT64_MAX
from pubsub_cluster.language.protocol import (
    DESCRIBED_EXPRESSIONS_MAX,
    DESCRIBED_IDS_MAX,
    LISTED_MAX,
    LISTED_SIZE_BYTES_MAX,
)
from pubsub_cluster.shm.catalogue import CatalogueReader

ROWS_PER_PAGE_MAX = 1 << 16
"""Rows that a page looks at; where most are removed ones it has few subscriptions, or none."""


def describe(
    registry: Registry, store: ChangeStore, ids: Any, with_expressions: bool = False
) -> list[dict[str, Any]]:
    """Return what is known of each of some subscriptions, or why nothing is.

    Raises
    ------
    ProtocolError
        `ids` is no list, or too long.
    """
    if not isinstance(ids, list):
        raise ProtocolError("`ids` is not a list of texts", seen=type(ids).__name__)
    limit = DESCRIBED_EXPRESSIONS_MAX if with_expressions else DESCRIBED_IDS_MAX
    if len(ids) > limit:
        raise ProtocolError("too many ids in one request", seen=len(ids), limit=limit)
    found = [_live(registry, subscription_id) for subscription_id in ids]
    results = [told for _, told in found]
    if not with_expressions:
        return results
    versions = [version for version, _ in found if version is not None]
    try:
        # Read together: subscriptions that were made together are one record of the table.
        written = store.expressions(versions)
    except StoreError:  # a damaged record is not to hide what the others say
        written = {}
    size_bytes = 0
    for i, (version, told) in enumerate(found):
        if version is None:
            continue
        try:
            here = written or store.expressions([version])
            expression = _written(here, version, told["id"])
            size_bytes += len(expression)
            _check_room(size_bytes, len(expression), registry.limits.batch_size_bytes_max)
            told["expr"] = orjson.Fragment(expression)
        except PubSubError as error:
            results[i] = _refused(error)
    return results


def _live(registry: Registry, subscription_id: Any) -> tuple[int | None, dict[str, Any]]:
    """Return the version of a subscription and what memory has of it; None, and why there is nothing."""
    try:
        name, row, live = registry.live(subscription_id)
    except PubSubError as error:
        return None, _refused(error)
    # As it was stored: an older version took numbers and depths that cannot be written once more.
    metadata = None if live.metadata is None else orjson.Fragment(live.metadata)
    told = {"ok": True, "id": name, **live._asdict(), "metadata": metadata}
    return registry.row_versions.version_of(row), told


def _refused(error: PubSubError) -> dict[str, Any]:
    return {"ok": False, "error": error.to_dict()}


def list_page(registry: Registry, store: ChangeStore, after: Any) -> dict[str, Any]:
    """Return live subscriptions by their handles, from one on, and where to go on.

    Parameters
    ----------
    after : int or None
        ``next`` of the page before; None for the first.

    Raises
    ------
    ProtocolError
        It is no such number.
    StoreError
        An expression cannot be read.
    """
    first = 0 if after is None else after
    if type(first) is not int or not 0 <= first <= INT64_MAX:
        raise ProtocolError("`after` is the `next` of a page before", seen=after, limit=INT64_MAX)
    columns, version = registry.catalogue.columns, registry.version
    handle = columns.handle[: registry.catalogue.counts().rows]
    if not registry.by_handle.follow(handle):
        return {"items": [], "next": first, "version": version}
    rows, following = registry.by_handle.window(handle, first, ROWS_PER_PAGE_MAX)
    page = rows[columns.removed_version[rows] == 0].tolist()
    if len(page) > LISTED_MAX:
        following = int(handle[page[LISTED_MAX]])
        del page[LISTED_MAX:]
    reader, row_versions = CatalogueReader.of(registry.catalogue), registry.row_versions
    versions = [row_versions.version_of(row) for row in page]
    written = store.expressions(versions)
    items: list[dict[str, Any]] = []
    size_bytes = 0
    for row, made in zip(page, versions, strict=True):
        name = reader.subscription_id(row)
        expression = _written(written, made, name)
        size_bytes += len(expression) + len(name)
        if items and size_bytes > LISTED_SIZE_BYTES_MAX:
            following = int(handle[row])
            break
        items.append({"id": name, "handle": int(handle[row]), "expr": orjson.Fragment(expression)})
    return {"items": items, "next": following, "version": version}


def _written(expressions: dict[int, bytes], version: int, name: str) -> bytes:
    if version not in expressions:
        raise StoreError(
            "the change table has no expression for this subscription",
            seen=name,
            remedy="The file was changed by another program: restore it from a backup.",
        )
    return expressions[version]


def _check_room(size_bytes: int, own_size_bytes: int, limit: int) -> None:
    if size_bytes > max(limit, own_size_bytes):
        raise LimitError(
            "the expressions together are larger than an answer may be",
            seen=size_bytes,
            limit=limit,
            remedy="Ask for fewer ids at a time.",
            limit_name="batch_size_bytes_max",
        )
