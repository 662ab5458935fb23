"""Write `docs/shm-layout.md` from the table of columns, or check that it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pubsub_cluster.shm.column_plan import length_symbols
from pubsub_cluster.shm.columns import FAMILIES, FRAMES, Column

PAGE_PATH = Path(__file__).resolve().parents[1] / "docs" / "shm-layout.md"

_HEAD = """# What lies where in shared memory

Generated from `shm/columns.py` by `python -m pubsub_cluster.shm.columns`; do not edit.

Every segment is called `pubsub-<cluster>-<pid>-<start>-<kind>-<generation>` and starts with a stamp of
64 bytes (`shm/header.py`): magic, layout version (a checksum of the tables below), byte order, generation,
owner's pid and start time, kind, payload size. Behind it lie the family's lengths, int64 each, in the order
given. Offsets follow from the lengths alone (`shm/column_plan.py`). Items are in native byte order.

Neither CPython nor Numba has a portable release store, so nothing here is published by a store: a reader
looks at what a message has told it of, and the column *ordered by* says which. Words that change in place
are single-writer hints of 8 aligned bytes.
"""


def render() -> str:
    """Return the page's text."""
    parts = [_HEAD]
    for family, columns in FAMILIES.items():
        frame = FRAMES[family]
        symbols = ", ".join(f"`{symbol}`" for symbol in length_symbols(family))
        cells = f"one cell of these columns for each of `{frame.cell_symbol}`, " if frame.cell_symbol else ""
        parts.append(
            f"\n## {family}\n\n{frame.doc} Lengths: {symbols}; "
            f"{cells}columns aligned to {frame.align_bytes} bytes.\n\n"
            "| column | dtype | length | unit | writer | readers | ordered by | |\n"
            "|---|---|---|---|---|---|---|---|\n"
        )
        parts.extend(_line(column) for column in columns)
    return "".join(parts)


def main(arguments: Sequence[str]) -> int:
    """Write the page; with ``--check`` only compare. Return the exit status."""
    text = render()
    if "--check" not in arguments:
        PAGE_PATH.write_text(text, encoding="utf-8")
        return 0
    found = PAGE_PATH.read_text(encoding="utf-8") if PAGE_PATH.exists() else None
    if found == text:
        return 0
    sys.stderr.write(f"{PAGE_PATH} is out of date: run python -m pubsub_cluster.shm.columns\n")
    return 1


def _line(column: Column) -> str:
    name, dtype, length, unit, writer, readers, ordered_by, doc = column
    return f"| `{name}` | {dtype} | {length} | {unit} | {writer} | {readers} | {ordered_by} | {doc} |\n"
