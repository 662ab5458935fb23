"""Tables, numbers and nested results as text for a terminal; pure functions from values to lines."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

CELL_WIDTH_MAX = 120
COLUMN_WIDTH_MIN = 8
WIDTH_MIN = 40
WIDTH_UNKNOWN = 120
RIGHT = ">"
LEFT = "<"


def number(value: float) -> str:
    """Return a number with thousands separators; floats get at most three digits that matter."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, in the plural (`many`, by default with an s) unless it is 1."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size(size_bytes: float) -> str:
    """Return a size in binary units: ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def printable(line: str) -> str:
    """Return a line in which what would move the cursor or change the terminal is escaped."""
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def text(value: Any) -> str:
    """Return one cell."""
    if value is None:
        return "-"
    if isinstance(value, bool | int | float):
        return number(value)
    if isinstance(value, list | tuple):
        return ", ".join(text(item) for item in value) or "none"
    return printable(str(value))


def terminal_width() -> int:
    """Return the columns of the terminal; `WIDTH_MIN` where it is narrower, and a page's without one."""
    return max(WIDTH_MIN, shutil.get_terminal_size((WIDTH_UNKNOWN, 24)).columns)


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    indent: str = "  ",
    width_max: int | None = None,
) -> str:
    """Return rows under headers; columns of numbers are set to the right.

    Parameters
    ----------
    headers : sequence of str
    rows : sequence of sequences
        As many cells as headers each.
    width_max : int, optional
        Cells of text are shortened, the widest first, until a line fits into so many characters; where it
        does not all the same, each row becomes a block of lines, one for each column.
    """
    cells = [[shorten(text(cell), CELL_WIDTH_MAX) for cell in row] for row in rows]
    sides = [RIGHT if _is_numeric([row[i] for row in rows]) else LEFT for i in range(len(headers))]
    widths = [max(len(line[i]) for line in [list(headers), *cells]) for i in range(len(headers))]
    if width_max is not None:
        sum_max = width_max - len(indent) - 2 * (len(widths) - 1)
        widths = _narrowed(widths, sides, sum_max)
        if sum(widths) > sum_max and cells:
            return _stacked(headers, cells, indent, width_max)
        cells = [[shorten(cell, width) for cell, width in zip(line, widths, strict=True)] for line in cells]
        headers = [shorten(header, width) for header, width in zip(headers, widths, strict=True)]
    lines = [list(headers), ["-" * width for width in widths], *cells]
    return "\n".join(indent + _line(line, widths, sides) for line in lines)


def _narrowed(widths: list[int], sides: Sequence[str], sum_max: int) -> list[int]:
    """Return widths of columns whose sum fits, as far as columns of text can give something."""
    narrow = list(widths)
    while sum(narrow) > sum_max:
        able = [i for i, side in enumerate(sides) if side == LEFT and narrow[i] > COLUMN_WIDTH_MIN]
        if not able:
            break
        widest = max(able, key=lambda i: narrow[i])
        narrow[widest] -= 1
    return narrow


def _stacked(headers: Sequence[str], rows: Sequence[Sequence[str]], indent: str, width_max: int) -> str:
    """Return a block of lines for each row: the names of the columns, and beside them the cells."""
    width = max(map(len, headers))
    room = max(width_max - len(indent) - width - 2, COLUMN_WIDTH_MIN)
    blocks = [
        [f"{indent}{name:<{width}}  {shorten(cell, room)}" for name, cell in zip(headers, row, strict=True)]
        for row in rows
    ]
    return "\n\n".join(map("\n".join, blocks))


def shorten(line: str, width_max: int) -> str:
    """Cut a text that is too wide, visibly."""
    return line if len(line) <= width_max else line[: width_max - 3] + "..."


def fields(pairs: dict[str, Any], indent: str = "  ", are_words: bool = True) -> str:
    """Return ``name  value`` lines, the values in one column; names as words unless they are to be typed."""
    width = max((len(name) for name in pairs), default=0)
    return "\n".join(
        f"{indent}{label(name) if are_words else name:<{width}}  {text(_named(name, value))}"
        for name, value in pairs.items()
    )


def label(name: str) -> str:
    """Return a field name as words."""
    return name.replace("_", " ")


def nested(value: dict[str, Any], indent: str = "  ") -> str:
    """Return a nested result: plain fields first, then one block for each object or list of objects."""
    plain = {name: item for name, item in value.items() if not _is_block(item)}
    blocks = [fields(plain, indent)] if plain else []
    for name, item in value.items():
        if not _is_block(item) or not item:
            continue
        body = nested(item, indent + "  ") if isinstance(item, dict) else _records(item, indent + "  ")
        blocks.append(f"{indent}{label(name)}\n{body}")
    return "\n\n".join(blocks)


def _records(items: list[dict[str, Any]], indent: str) -> str:
    names = list(dict.fromkeys(name for item in items for name in item))
    rows = [[_named(name, item.get(name)) for name in names] for item in items]
    return table([label(name) for name in names], rows, indent, terminal_width())


def _named(name: str, value: Any) -> Any:
    """Return a value as it is to be shown: a process id is a name, not an amount."""
    if name == "pid" and value is not None:
        return str(value)
    if isinstance(value, dict):
        return " ".join(f"{name}={text(item)}" for name, item in value.items())
    return value


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    )


def _is_numeric(column: Sequence[Any]) -> bool:
    known = [cell for cell in column if cell is not None]
    return bool(known) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known)


def _line(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str]) -> str:
    return "  ".join(
        f"{cell:{side}{width}}" for cell, width, side in zip(cells, widths, sides, strict=True)
    ).rstrip()
