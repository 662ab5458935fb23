"""The 64-byte stamp at the front of every segment: stamp at create, refuse at attach.

A process that attaches a segment knows nothing but a name, and the name may be a leftover of another
version, another machine's copy or somebody else's file. So every segment starts with a stamp that says what
it is, and `check_stamp` refuses anything else, with what was expected and what was found. The magic is
written last: a stamp that is half written is no stamp.

    offset  0        8        12       16          24         32          40       56            64
            | magic  | layout | byte   | generation| owner    | owner     | kind   | payload     |
            | 8s     | u4     | u4     | i8        | pid i8   | start i8  | 16s    | bytes i8    |
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pubsub_cluster.language.errors import SegmentError

HEADER_SIZE_BYTES = 64
MAGIC = b"PSCSHM\x01\n"
LAYOUT_VERSION = 1
KIND_SIZE_BYTES_MAX = 16

_BYTE_ORDER_MARK = 0x01020304
# Native byte order on purpose: the mark tells a foreign one from ours. `=` forbids padding.
_STAMP = struct.Struct("=8sIIqqq16sq")
assert _STAMP.size == HEADER_SIZE_BYTES


class Stamp(NamedTuple):
    """What a segment says about itself.

    Attributes
    ----------
    kind : str
        What the segment holds; at most 16 ASCII characters.
    layout_version : int
        Version of the segment's columns; for a family of `shm.columns` a checksum of its table.
    generation : int
        Counts the segments of one kind of one owner.
    owner_pid, owner_start_ticks : int
        Process that answers for the segment: its pid and its start time (clock ticks since boot).
    payload_size_bytes : int
        Size of the segment without the stamp.
    """

    kind: str
    layout_version: int
    generation: int
    owner_pid: int
    owner_start_ticks: int
    payload_size_bytes: int


def write_stamp(buffer: memoryview, stamp: Stamp) -> None:
    """Write `stamp` into the first 64 bytes of `buffer` (writable, bytes), the magic last."""
    packed = _STAMP.pack(
        MAGIC,
        stamp.layout_version,
        _BYTE_ORDER_MARK,
        stamp.generation,
        stamp.owner_pid,
        stamp.owner_start_ticks,
        stamp.kind.encode("ascii"),
        stamp.payload_size_bytes,
    )
    buffer[len(MAGIC) : HEADER_SIZE_BYTES] = packed[len(MAGIC) :]
    buffer[: len(MAGIC)] = packed[: len(MAGIC)]


def read_stamp(buffer: memoryview, name: str) -> Stamp:
    """Return the stamp at the front of `buffer`.

    Raises
    ------
    SegmentError
        No stamp of ours, a foreign byte order, or a payload size that is not the segment's; `name` is for
        the message.
    """
    if len(buffer) < HEADER_SIZE_BYTES:
        raise SegmentError(
            f"segment {name} is too small for a stamp", seen=len(buffer), limit=HEADER_SIZE_BYTES
        )
    magic, layout, byte_order, generation, pid, start, kind, payload = _STAMP.unpack(
        buffer[:HEADER_SIZE_BYTES]
    )
    if magic != MAGIC:
        raise _refused(name, "magic", MAGIC, magic)
    if byte_order != _BYTE_ORDER_MARK:
        raise _refused(name, "byte order mark", hex(_BYTE_ORDER_MARK), hex(byte_order))
    if payload != len(buffer) - HEADER_SIZE_BYTES:
        raise _refused(name, "payload size in bytes", len(buffer) - HEADER_SIZE_BYTES, payload)
    text = kind.rstrip(b"\0").decode("ascii", "replace")
    return Stamp(text, layout, generation, pid, start, payload)


def check_stamp(found: Stamp, expected: Stamp, name: str) -> None:
    """Raise `SegmentError` naming the first field in which `found` is not `expected`."""
    for field, want, got in zip(Stamp._fields, expected, found, strict=True):
        if want != got:
            raise _refused(name, field.replace("_", " "), want, got)


def _refused(name: str, what: str, expected: object, found: object) -> SegmentError:
    return SegmentError(
        f"segment {name} has another {what}: expected {expected!r}, found {found!r}",
        remedy="It is damaged or of another version; stop all processes of the cluster and start again",
        expected=expected,
        found=found,
    )
