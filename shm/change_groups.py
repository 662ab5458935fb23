"""Changes of the catalogue as they are kept: in groups, each packed as MessagePack.

A group is a row of the change table, or a column of a packed file: of a backup, or of a layout folder that a
cluster may start from.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.shm.packed_file import PackedFile, PackedWriter

SUBSCRIBE, UPDATE, UNSUBSCRIBE = 1, 2, 3
GROUP_CHANGES = 1_000
"""Of a group that is written in one go: a few milliseconds for which other writers of a table wait."""
_GROUP = "changes-"


class Change(NamedTuple):
    """One change of the catalogue.

    Attributes
    ----------
    version : int
        Strictly increasing.
    operation : int
        SUBSCRIBE, UPDATE or UNSUBSCRIBE.
    handle : int
    subscription_id, owner : str
    expression : bytes or None
        JSON form (or a JSON string with the text form); None for UNSUBSCRIBE.
    valid_from, valid_until : int or None
        Microseconds since the epoch.
    metadata : bytes or None
        JSON; None also in tables from before there was any.
    """

    version: int
    operation: int
    handle: int
    subscription_id: str
    owner: str
    expression: bytes | None
    valid_from: int | None
    valid_until: int | None
    metadata: bytes | None = None


encode_changes = msgspec.msgpack.Encoder().encode
NO_CHANGES = encode_changes([])
_decode = msgspec.msgpack.Decoder(list[Change]).decode


def decode_changes(body: bytes, crc: int | None, path: Path) -> list[Change]:
    """Return a group's changes; `crc` is None in groups from before there was any.

    Raises
    ------
    StoreError
        They are not those that were written.
    """
    try:
        if crc is not None and zlib.crc32(body) != crc:
            raise ValueError(f"CRC-32 {zlib.crc32(body)}, written was {crc}")
        return _decode(body)
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreError(
            "a group of changes cannot be read",
            seen=f"{error} ({path})",
            remedy="The file is damaged: restore it from a backup.",
        ) from error


def write_groups(file: PackedWriter, groups: Iterable[list[Change]]) -> None:
    """Append groups of changes to a packed file."""
    for number, changes in enumerate(groups):
        file.add(f"{_GROUP}{number}", np.frombuffer(encode_changes(changes), np.uint8))


def read_groups(file: PackedFile) -> Iterator[tuple[bytes, list[Change]]]:
    """Yield the groups of a packed file, as bytes and as changes; raises `StoreError`."""
    for number in range(sum(name.startswith(_GROUP) for name in file.names())):
        body = file.column(f"{_GROUP}{number}").tobytes()
        yield body, decode_changes(body, None, file.path)
