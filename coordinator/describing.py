"""What the cluster tells of its subscriptions: of some by their ids, of all page by page.

An expression is told as its owner wrote it. It is read from the change table, where it is durable, and is
nowhere in memory. A page is small, so that whoever reads a catalogue of millions delays nobody else by more
than a few milliseconds at a time, and all pages of one reading show the catalogue as of one version.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import orjson

from pubsub_cluster.coordinator.registry import Registry
from pubsub_cluster.coordinator.store import ChangeStore
from pubsub_cluster.language.errors import ClusterError, LimitError, ProtocolError, PubSubError, StoreError
from pubsub_cluster.language.limits import INT64_MAX
from pubsub_cluster.language.protocol import (
    DESCRIBED_EXPRESSIONS_MAX,
    DESCRIBED_IDS_MAX,
    LISTED_MAX,
    LISTED_SIZE_BYTES_MAX,
)
from pubsub_cluster.shm.catalogue import CatalogueReader

ROWS_PER_EPOCH = 1 << 40  # a cursor is an epoch and a row of it
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
    size_bytes = 0
    results: list[dict[str, Any]] = []
    for subscription_id in ids:
        try:
            name, row, live = registry.live(subscription_id)
            metadata = None if live.metadata is None else msgspec.json.decode(live.metadata)
            result = {"ok": True, "id": name, **live._asdict(), "metadata": metadata}
            if with_expressions:
                version = registry.row_versions.version_of(row)
                expression = _written(store.expressions([version]), version, name)
                size_bytes += len(expression)
                _check_room(size_bytes, len(expression), registry.limits.batch_size_bytes_max)
                result["expr"] = orjson.Fragment(expression)
        except PubSubError as error:
            result = {"ok": False, "error": error.to_dict()}
        results.append(result)
    return results


def list_page(registry: Registry, store: ChangeStore, after: Any, version: Any) -> dict[str, Any]:
    """Return subscriptions that are live at a version, from a row of an epoch on, and where to go on.

    Parameters
    ----------
    after : int or None
        ``next`` of the page before; None for the first.
    version : int or None
        ``version`` of the first page; None: now.

    Raises
    ------
    ProtocolError
        One of them is no such number.
    ClusterError
        Rows were numbered anew since the first page.
    StoreError
        An expression cannot be read.
    """
    now, rows = registry.version, registry.catalogue.counts().rows
    at = _number("version", now if version is None else version, now)
    epoch, first = divmod(_number("after", after, INT64_MAX), ROWS_PER_EPOCH) if after is not None else (0, 0)
    if after is not None and epoch != registry.moves:
        raise ClusterError(
            "the catalogue was packed while it was being listed: rows have other numbers now",
            seen=epoch,
            limit=registry.moves,
            remedy="List it again from the start.",
        )
    first = _number("after", first, rows)
    reader = CatalogueReader.of(registry.catalogue)
    stop = min(rows, first + ROWS_PER_PAGE_MAX)
    removed = reader.columns.removed_version[first:stop]
    live = (first + np.flatnonzero((removed == 0) | (removed > at))).tolist()
    versions = {row: registry.row_versions.version_of(row) for row in live[:LISTED_MAX]}
    page = [row for row, made in versions.items() if made <= at]
    is_last = stop == rows or len(page) < len(versions)
    following: int | None = None if is_last else stop
    if len(live) > len(versions) and len(page) == len(versions):
        following = live[LISTED_MAX]
    written = store.expressions([versions[row] for row in page])
    items: list[dict[str, Any]] = []
    size_bytes = 0
    for row in page:
        name = reader.subscription_id(row)
        expression = _written(written, versions[row], name)
        size_bytes += len(expression) + len(name)
        if items and size_bytes > LISTED_SIZE_BYTES_MAX:
            following = row
            break
        handle = int(reader.columns.handle[row])
        items.append({"id": name, "handle": handle, "expr": orjson.Fragment(expression)})
    cursor = None if following is None else registry.moves * ROWS_PER_EPOCH + following
    return {"items": items, "next": cursor, "version": at}


def _number(name: str, value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ProtocolError(f"`{name}` is no number of a page before", seen=value, limit=f"0 to {most}")
    return value


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
