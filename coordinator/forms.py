"""Forms of batches that are known: dense columns of numbers, which a publisher sends alike again and again.

A form is the header of a payload and the sizes of its buffers. Columns that have a number for every event
may hold any bytes, so a batch of a form that was checked once is as good as that one: its header is not read
again, its buffers are not taken apart, and several of one form can stand in a chunk as one batch.
"""

from __future__ import annotations

from typing import Any

import msgspec
import orjson

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.payload_check import INTEGER_BYTES
from pubsub_cluster.shm.slab import ChunkHead, chunk_head

FORMS_MAX = 256
_NUMBERS = frozenset({*INTEGER_BYTES, "float64"})
Key = tuple[bytes, bytes, int]
"""The fields ``batch`` and ``sizes`` of a request as they came, and the size of its one frame."""


class Form:
    """A form of dense columns.

    Parameters
    ----------
    batch : dict
        Header of a checked payload.
    batch_json : bytes
        The same, as JSON.
    sizes : list of int
        Of its buffers, all alike.

    Attributes
    ----------
    value_count : int
        In all columns: what a worker makes of values does not depend on their width.
    """

    def __init__(self, batch: dict[str, Any], batch_json: bytes, sizes: list[int]) -> None:
        self.batch = batch
        self.batch_json = batch_json
        self.sizes = sizes
        self.value_count: int = batch["event_count"] * len(sizes)
        self.size_bytes = sum(sizes)
        self._heads: dict[int, ChunkHead] = {}

    def head(self, count: int) -> ChunkHead:
        """Return the head of a chunk with `count` batches of this form as one."""
        known = self._heads.get(count)
        if known is None:
            header = {**self.batch, "event_count": count * self.batch["event_count"]}
            known = chunk_head(orjson.dumps(header), [count * size for size in self.sizes])
            self._heads[count] = known
        return known


class Forms:
    """The forms that were seen lately."""

    def __init__(self) -> None:
        self._known: dict[Key, Form] = {}

    def get(self, key: Key) -> Form | None:
        """Return the form of a batch, if it is known."""
        return self._known.get(key)

    def keep(self, key: Key, batch: dict[str, Any], batch_json: bytes, sizes: list[int]) -> Form | None:
        """Keep the form of a checked batch and return it; None when its buffers may not hold any bytes."""
        if not (batch["format"] == "columns" and batch["event_count"] and sizes):
            return None
        if not all(map(_is_dense_number, batch["columns"])) or len(set(sizes)) > 1:
            return None
        if len(self._known) >= FORMS_MAX:
            self._known.clear()
        form = self._known[key] = Form(batch, batch_json, sizes)
        return form


def as_came(value: Any) -> bytes:
    """Return a field of a request as it came; empty when it was not there, or is read already."""
    return bytes(value) if isinstance(value, msgspec.Raw) else b""


def as_read(value: Any) -> Any:
    """Return what a field of a request says.

    Raises
    ------
    ProtocolError
        It is no JSON.
    """
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("the header frame is not JSON", seen=str(error)) from None


def _is_dense_number(column: dict[str, Any]) -> bool:
    """Say whether the buffer of a checked column may hold any bytes at all."""
    return column["type"] in _NUMBERS and not column.get("valid") and not column.get("many")
