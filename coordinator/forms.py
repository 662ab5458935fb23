"""Forms of batches that are known: a publisher sends alike ones again and again.

A form is the header of a payload and the sizes of its buffers, as they came. It is read and checked once;
from then on a batch of that form has only its buffers checked. Columns that have a number for every event
may hold any bytes, so of such *dense* batches nothing is left to check but their size, their buffers are not
taken apart, and several of one form can stand in a chunk as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from pubsub_cluster.language.errors import ProtocolError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.payload_check import INTEGER_BYTES, check_buffers, check_header
from pubsub_cluster.language.protocol import Buffer, unpacked
from pubsub_cluster.shm.slab import ChunkHead, chunk_head

FORMS_MAX = 256
FORMS_SIZE_BYTES_MAX = 1 << 20
"""Of the texts of all that are kept: what is made of them takes ten times as much."""
FORM_KEPT_SIZE_BYTES_MAX = 1 << 16
HEADS_SIZE_BYTES_MAX = 1 << 18
"""Of the heads that a form keeps, one for each number of batches that went together."""
_ITEM_BYTES = {**INTEGER_BYTES, "float64": 8}


class Form:
    """A form of batches.

    Parameters
    ----------
    batch : dict
        Header of a payload, checked.
    sizes : list, optional
        Of its buffers, where they stand in one frame; checked when they are used.

    Attributes
    ----------
    batch_json : bytes
        The header, as JSON.
    event_count : int
    is_dense : bool
        A single frame of `frame_bytes` bytes is a batch of this form, whatever it holds: columns of one
        width, each filled up to a multiple of eight bytes.
    frame_bytes, part_bytes : int
        Of a dense batch, and of each column in it without what fills it up.
    value_count : int
        In all columns: what a worker makes of values does not depend on their width.
    """

    def __init__(self, batch: dict[str, Any], sizes: list[Any] | None = None) -> None:
        try:
            self.batch_json = orjson.dumps(batch)
        except orjson.JSONEncodeError as error:
            raise ProtocolError("the header of a batch has a value too large", seen=str(error)) from None
        self.batch = batch
        self.sizes = sizes
        self.event_count: int = batch["event_count"]
        self.format: str = batch["format"]
        columns = batch.get("columns", [])
        widths = {_width(column) for column in columns}
        self.part_bytes: int = self.event_count * max(widths, default=0)
        self.frame_bytes: int = len(columns) * ((self.part_bytes + 7) & ~7)
        self.value_count: int = len(columns) * self.event_count
        self.is_dense = (
            len(widths) == 1
            and self.part_bytes > 0
            and sizes == [self.part_bytes] * len(columns)
            and set(map(type, sizes)) == {int}
        )
        self._heads: dict[int, ChunkHead] = {}
        self._heads_size_bytes = 0

    def check(self, frames: Sequence[Buffer], limits: Limits) -> int:
        """Check the frames of a batch of this form; return the bytes of its buffers.

        Raises
        ------
        ProtocolError, LimitError
            They are not what the header says.
        """
        if self.is_dense and len(frames) == 1 and len(frames[0]) == self.frame_bytes:
            size_bytes = self.part_bytes * len(self.batch["columns"])
            if size_bytes <= limits.batch_size_bytes_max:
                return size_bytes
        return check_buffers(self.batch, self.buffers(frames), limits)

    def buffers(self, frames: Sequence[Buffer]) -> Sequence[Buffer]:
        """Return the buffers that stand in the frames."""
        return frames if self.sizes is None else unpacked(frames, self.sizes)

    def head(self, count: int) -> ChunkHead:
        """Return the head of a chunk with `count` dense batches of this form as one."""
        known = self._heads.get(count)
        if known is None:
            header_json = orjson.dumps({**self.batch, "event_count": count * self.event_count})
            known = chunk_head(header_json, [count * self.part_bytes] * len(self.batch["columns"]))
            self._heads_size_bytes += len(known.text)
            if self._heads_size_bytes > HEADS_SIZE_BYTES_MAX:
                self._heads.clear()
                self._heads_size_bytes = len(known.text)
            self._heads[count] = known
        return known


class Forms:
    """The forms that were seen lately.

    Parameters
    ----------
    limits : Limits
        That headers are checked against.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[tuple[bytes, bytes], Form] = {}
        self._size_bytes = 0

    def of(self, batch: msgspec.Raw, sizes: msgspec.Raw | msgspec.UnsetType) -> Form:
        """Return the form of a request, its fields ``batch`` and ``sizes`` as they came.

        Raises
        ------
        ProtocolError, LimitError
            The header is not as it must be.
        """
        key = bytes(batch), b"" if sizes is msgspec.UNSET else bytes(sizes)
        form = self._known.get(key)
        if form is None:
            header = _read(key[0])
            check_header(header, self._limits)
            given = _read(key[1]) if key[1] else None
            if key[1] and not isinstance(given, list):
                raise ProtocolError("`sizes` is not a list of sizes", seen=type(given).__name__)
            form = Form(header, given)
            self._keep(key, form)
        return form

    def _keep(self, key: tuple[bytes, bytes], form: Form) -> None:
        size_bytes = len(key[0]) + len(key[1])
        if size_bytes <= FORM_KEPT_SIZE_BYTES_MAX:
            if len(self._known) >= FORMS_MAX or self._size_bytes + size_bytes > FORMS_SIZE_BYTES_MAX:
                self._known.clear()
                self._size_bytes = 0
            self._known[key] = form
            self._size_bytes += size_bytes


def _read(field: bytes) -> Any:
    try:
        return msgspec.json.decode(field)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError("the header frame is not JSON", seen=str(error)) from None


def _width(column: dict[str, Any]) -> int:
    """Return the bytes of each value of a checked column whose buffer may hold any bytes at all, else 0."""
    anything = not column.get("valid") and not column.get("many")
    return _ITEM_BYTES.get(column["type"], 0) if anything else 0
