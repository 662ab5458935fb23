r"""Regular expressions as Sigma means them (Python's `re.search`), spelt for RE2.

The two syntaxes agree but for a few spellings that mean different things, or nothing, in RE2; those are
rewritten here, token by token:

==========================  ==================================================================================
``$``                       also before a line break at the very end; RE2's is the very end alone
``\Z``                      RE2's ``\z``
``\d \w \s`` and negations  Unicode's, in RE2 ASCII's alone
``{,n}``                    from none to n; RE2 takes it for text
``[`` within a class        itself; in RE2 ``[[:alpha:]]`` is something else
``\uXXXX \UXXXXXXXX``       ``\x{...}``
``(?#...)``                 a comment, left out
==========================  ==================================================================================

What only backtracking can do (back-references, look-around, atomic groups) RE2 refuses, and so the rule
is refused. ``\b`` knows ASCII's word characters only: RE2 has no other.
"""

from __future__ import annotations

import re
from typing import Final

from pubsub_cluster.language.errors import ExpressionError

_SPACES: Final = (
    (0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip


def _ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)


def _others(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), 0x10FFFF]
    return tuple(zip(starts, ends, strict=True))


# Members of a class: what a class escape stands for within brackets.
_MEMBERS: Final = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": r"\p{L}\p{N}_",
    "s": _ranges(_SPACES),
    "S": _ranges(_others(_SPACES)),
}
_HEX_SIZE: Final = {"u": 4, "U": 8}
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(-[a-zA-Z]+)?([:)])")
_OPEN_REPEAT: Final = re.compile(r"\{,([0-9]+)\}")


def to_re2(pattern: str, multiline: bool = False) -> str:
    """Return RE2's spelling of a pattern that Python's `re` compiles.

    Parameters
    ----------
    pattern : str
    multiline : bool
        The flag m is set: ``$`` is the end of any line.

    Raises
    ------
    ExpressionError
        Something that RE2 would take for something else: ``$`` that something follows, flags within.
    """
    return _Spelling(pattern, multiline).spelt()


class _Spelling:
    """One walk over a pattern."""

    def __init__(self, pattern: str, multiline: bool) -> None:
        self.pattern = pattern
        self.multiline = multiline
        self.at = 0
        self.out: list[str] = []

    def spelt(self) -> str:
        pattern = self.pattern
        while self.at < len(pattern):
            char = pattern[self.at]
            if char == "\\":
                self.escape(in_class=False)
            elif char == "[":
                self.character_class()
            elif char == "$":
                self.end_of_text()
            elif pattern.startswith("(?", self.at):
                self.group()
            elif repeat := _OPEN_REPEAT.match(pattern, self.at):
                self.take(len(repeat[0]), f"{{0,{repeat[1]}}}")
            else:
                self.take(1, char)
        return "".join(self.out)

    def take(self, size: int, spelt: str) -> None:
        """Go on by `size` characters, which are spelt so."""
        self.at += size
        self.out.append(spelt)

    def escape(self, in_class: bool) -> None:
        name = self.pattern[self.at + 1]
        if name in _MEMBERS:
            self.take(2, _MEMBERS[name] if in_class else f"[{_MEMBERS[name]}]")
        elif name == "W" and not in_class:
            self.take(2, f"[^{_MEMBERS['w']}]")
        elif name == "W":
            raise self.refused("a negated class of word characters within brackets")
        elif name == "Z" and not in_class:
            self.take(2, r"\z")
        elif name == "b" and in_class:
            self.take(2, r"\x08")
        elif name in _HEX_SIZE:
            size = _HEX_SIZE[name]
            self.take(2 + size, f"\\x{{{self.pattern[self.at + 2 : self.at + 2 + size]}}}")
        else:
            self.take(2, self.pattern[self.at : self.at + 2])

    def character_class(self) -> None:
        self.take(1, "[")
        if self.pattern.startswith("^", self.at):
            self.take(1, "^")
        if self.pattern.startswith("]", self.at):
            self.take(1, r"\]")
        while (char := self.pattern[self.at]) != "]":
            if char == "\\":
                self.escape(in_class=True)
            else:
                self.take(1, r"\[" if char == "[" else char)
        self.take(1, "]")

    def end_of_text(self) -> None:
        after = self.pattern[self.at + 1 : self.at + 2]
        if self.multiline:
            self.take(1, "$")
        elif after in ("", ")", "|"):
            self.take(1, r"(?:\n?\z)")
        else:
            raise self.refused("`$` with something behind it")

    def group(self) -> None:
        flags = _FLAGS.match(self.pattern, self.at)
        if self.pattern.startswith("(?#", self.at):
            self.at = self.pattern.index(")", self.at) + 1
        elif flags is None or not flags[1] + (flags[2] or ""):
            self.take(2, "(?")
        else:
            if "m" in flags[1] + (flags[2] or ""):
                if flags[3] == ":":
                    raise self.refused("the flag m for a part of the pattern")
                self.multiline = True
            self.take(len(flags[0]), flags[0])

    def refused(self, what: str) -> ExpressionError:
        return ExpressionError(f"a regular expression has {what}", seen=self.pattern)
