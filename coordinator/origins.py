"""Which request a group of changes came from: told beside the group, in its row of the change table.

A client whose request was made durable, but not answered before the coordinator died, sends it again. The
next life finds the request here and answers what was answered, or would have been, instead of doing it twice.
What an answer says of a good item follows from its change; only refusals are kept as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from pubsub_cluster.coordinator.store import NO_ORIGIN, ChangeStore, Origin
from pubsub_cluster.shm.change_groups import Change, decode_changes

REQUEST_SIZE_BYTES_MAX = 1_024
RECALLED_GROUPS_MAX = 4_096
RECALLED_SIZE_BYTES_MAX = 32 << 20  # of their changes, which a start steps over
_RECENT = """
SELECT request, first_item, refused, first_version, length(body) FROM changes
WHERE request IS NOT NULL ORDER BY first_version DESC LIMIT ?
"""
_GROUP = "SELECT body, crc FROM changes WHERE first_version = ? AND request = ?"


def origin_of(op: str, request: str, first_item: int, results: list[dict[str, Any]], is_good: bool) -> Origin:
    """Return the origin of a group of changes from the results of all its items; `is_good` if all are."""
    if len(request) > REQUEST_SIZE_BYTES_MAX:
        return NO_ORIGIN
    if is_good:
        return Origin(f"{op} {request}", first_item, None)
    refused = {str(idx): result["error"] for idx, result in enumerate(results) if not result["ok"]}
    return Origin(f"{op} {request}", first_item, orjson.dumps(refused))


class Recalled:
    """The requests whose changes are the last in a change table, as of a start.

    Parameters
    ----------
    store : ChangeStore
    answer : callable
        Returns what is answered for the item that a change was made for.

    Raises
    ------
    StoreError
        The table cannot be read.
    """

    def __init__(self, store: ChangeStore, answer: Callable[[Change], dict[str, Any]]) -> None:
        self._store = store
        self._answer = answer
        self._groups: dict[str, dict[int, tuple[int, bytes | None]]] = {}  # by request and first item
        size_bytes = 0
        with store.reading() as connection:
            for request, first, refused, version, size in connection.execute(_RECENT, (RECALLED_GROUPS_MAX,)):
                self._groups.setdefault(request, {}).setdefault(first, (version, refused))
                size_bytes += size
                if size_bytes > RECALLED_SIZE_BYTES_MAX:
                    return

    def results(self, op: str, request: str, first_item: int) -> list[dict[str, Any]] | None:
        """Return what is answered for the items of a request from one on; None when that is not known.

        Raises
        ------
        PubSubError
            The group is damaged, or the present schema or limits do not allow what is in it.
        """
        if not self._groups:
            return None
        name = f"{op} {request}"
        version, refused = self._groups.get(name, {}).get(first_item, (0, None))
        if not version:
            return None
        with self._store.reading() as connection:
            row = connection.execute(_GROUP, (version, name)).fetchone()
        if row is None:  # compacted since
            return None
        body, crc = row
        changes = decode_changes(body, crc, self._store.path)
        errors = orjson.loads(refused or b"{}")
        good = iter(changes)
        return [
            {"ok": False, "error": errors[str(idx)]} if str(idx) in errors else self._answer(next(good))
            for idx in range(len(changes) + len(errors))
        ]

    def stop_before_known(self, op: str, request: str, first_item: int, stop: int) -> int:
        """Return where a slice of a request ends: at `stop`, or where a group begins that is known.

        Slices of which every item was refused are not in the table, and those of this life have other sizes.
        """
        known = self._groups.get(f"{op} {request}", {}) if self._groups else {}
        return min([stop, *(first for first in known if first > first_item)])
