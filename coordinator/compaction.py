"""The change table's live part: which of its changes still say something, and a table of those alone.

Of a subscription only the last change counts, and after its removal none: handles are never given twice, so
this is a matter of the last version of each handle. Compaction takes the others out, group by group, in the
order of versions and in a transaction each. Whatever is killed in between, what is left gives the same
catalogue: a change goes after all that came before it, so no removal goes before what it removes. A snapshot
is read together with the changes after it, so these stay as they are: whoever compacts goes no further than
the oldest snapshot that is kept.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pubsub_cluster.coordinator.store_format import INSERT_GROUP
from pubsub_cluster.shm.change_groups import (
    GROUP_CHANGES,
    UNSUBSCRIBE,
    Change,
    decode_changes,
    encode_changes,
)
from pubsub_cluster.shm.code_space import I8, U8
from pubsub_cluster.shm.fault_points import fault_point

DEAD_SHARE_LEAST = 0.2
DEAD_LEAST = 1_000
PAUSE_S = 0.01
_GROUPS = "SELECT first_version, last_version, body, crc FROM changes WHERE last_version <= ? ORDER BY 1"
_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


class LiveChanges(NamedTuple):
    """What counts of a table's changes up to a version.

    Attributes
    ----------
    version : int
        Up to which it was read.
    last_version : int
        The last one that was ever given, as far as the table tells.
    total : int
        Changes in the table.
    live : int64[n]
        Versions of those that count, ascending.
    handles : int64[n]
        Their handles.
    next_handle : int
    metadata : dict of str to bytes
        By id, of live subscriptions that have any.
    """

    version: int
    last_version: int
    total: int
    live: I8
    handles: I8
    next_handle: int
    metadata: dict[str, bytes]

    def version_of(self, handle: U8) -> I8:
        """Return the version of the last change of each of these handles, all of which are live."""
        order = np.argsort(self.handles)
        found: I8 = self.live[order[np.searchsorted(self.handles, handle, sorter=order)]]
        return found


def groups(connection: sqlite3.Connection, path: Path, version: int) -> Iterator[tuple[int, list[Change]]]:
    """Yield first version and changes of each group that ends at `version` at the latest."""
    for first, _, body, crc in connection.execute(_GROUPS, (version,)):
        yield first, decode_changes(body, crc, path)


def live_changes(connection: sqlite3.Connection, path: Path, version: int) -> LiveChanges:
    """Read the table up to a version; say what of it counts.

    Raises
    ------
    StoreError
        A group is damaged.
    """
    facts: list[int] = []
    metadata: dict[str, tuple[int, bytes]] = {}
    for _, changes in groups(connection, path, version):
        for change in changes:
            facts += (change.handle, change.version, change.operation)
            if change.metadata is not None:
                metadata[change.subscription_id] = (change.version, change.metadata)
    handle, number, operation = np.array(facts, np.int64).reshape(-1, 3).T
    order = np.lexsort((number, handle))
    ordered = handle[order]
    last = order[np.append(ordered[1:] != ordered[:-1], True)] if len(order) else order
    live = np.sort(last[operation[last] != UNSUBSCRIBE])
    versions = number[live]
    alive = set(versions[np.isin(versions, [at for at, _ in metadata.values()])].tolist())
    return LiveChanges(
        version,
        max(int(number.max(initial=0)), _meta(connection, "version")),
        len(handle),
        versions,
        handle[live],
        max(int(handle.max(initial=0)), _meta(connection, "handle")) + 1,
        {name: data for name, (at, data) in metadata.items() if at in alive},
    )


def _meta(connection: sqlite3.Connection, key: str) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return int(row[0]) if row else 0


def kept_groups(connection: sqlite3.Connection, path: Path, found: LiveChanges) -> Iterator[list[Change]]:
    """Yield the live changes in groups of `GROUP_CHANGES`, in version order."""
    waiting: list[Change] = []
    for _, changes in groups(connection, path, found.version):
        waiting += _kept(changes, found)
        if len(waiting) >= GROUP_CHANGES:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _kept(changes: list[Change], found: LiveChanges) -> list[Change]:
    versions = np.fromiter((change.version for change in changes), np.int64, len(changes))
    at = np.searchsorted(found.live, versions)
    is_live = found.live[np.minimum(at, len(found.live) - 1)] == versions if len(found.live) else versions < 0
    return [changes[idx] for idx in np.flatnonzero(is_live)]


def compact(connection: sqlite3.Connection, path: Path, found: LiveChanges) -> int:
    """Take what does not count out of the table, unless that is little; return how many changes went."""
    dead = found.total - len(found.live)
    if dead < max(DEAD_LEAST, DEAD_SHARE_LEAST * found.total):
        return 0
    connection.execute("PRAGMA synchronous = NORMAL")  # nobody waits for it, and its order is kept
    connection.isolation_level = None
    firsts: list[int] = []
    waiting: list[Change] = []
    for first, changes in list_of_firsts(connection, path, found):
        kept = _kept(changes, found)
        if len(kept) == len(changes) and not waiting and len(kept) >= GROUP_CHANGES // 2:
            continue  # as it should be
        firsts.append(first)
        waiting += kept
        if len(waiting) >= GROUP_CHANGES or len(firsts) >= GROUP_CHANGES:
            _rewrite(connection, firsts, waiting, found)
            firsts, waiting = [], []
            time.sleep(PAUSE_S)
    if firsts:
        _rewrite(connection, firsts, waiting, found)
    return dead


def list_of_firsts(
    connection: sqlite3.Connection, path: Path, found: LiveChanges
) -> Iterator[tuple[int, list[Change]]]:
    """Yield groups as `groups` does, each read by itself: the table changes meanwhile."""
    listed = connection.execute(
        "SELECT first_version FROM changes WHERE last_version <= ? ORDER BY 1", (found.version,)
    ).fetchall()
    for (first,) in listed:
        body, crc = connection.execute(
            "SELECT body, crc FROM changes WHERE first_version = ?", (first,)
        ).fetchone()
        yield first, decode_changes(body, crc, path)


@fault_point("compaction.write")
def _rewrite(
    connection: sqlite3.Connection, firsts: list[int], kept: list[Change], found: LiveChanges
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        _replace(connection, firsts, kept, found)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


@fault_point("compaction.replace")
def _replace(
    connection: sqlite3.Connection, firsts: list[int], kept: list[Change], found: LiveChanges
) -> None:
    # What no change tells any more: neither a version nor a handle is ever given twice.
    connection.executemany(
        _META, [("version", str(found.last_version)), ("handle", str(found.next_handle - 1))]
    )
    connection.executemany("DELETE FROM changes WHERE first_version = ?", [(first,) for first in firsts])
    if kept:
        body = encode_changes(kept)
        connection.execute(INSERT_GROUP, (kept[0].version, kept[-1].version, body, zlib.crc32(body)))
