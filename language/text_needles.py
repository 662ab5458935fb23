"""What must be found in a text before a text predicate can hold: its needles.

All needles of all predicates of an attribute are searched in one pass (`workers.text_search`). A predicate
is either *decided* by its needles (`contains`, `prefix`, `suffix`, `=`, `in`) or only *prompted* by them
(`like`, `matches`, texts beyond `NEEDLE_LENGTH_MAX`): then its own test has the last word, on the few texts
that have the needle. What has no needle is tested on every text; what every text satisfies is told apart too.

A needle is bytes of UTF-8, between `TEXT_START` and `TEXT_STOP` where it is bound to an end of the text:
bytes that UTF-8 does not have, so one search serves all. Needles of predicates that ignore case are folded
and searched in the folded text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pubsub_cluster.language.predicate import Predicate, ValueKind
from pubsub_cluster.language.text_match import parse_like
from pubsub_cluster.language.values import fold

TEXT_START = b"\xfe"
TEXT_STOP = b"\xff"

NEEDLE_LENGTH_MAX = 256
"""Characters of a needle, which takes some 40 times its size. A longer text is prompted by its last ones:
paths and addresses differ at their ends."""

_QUANTIFIER = re.compile(r"\{(\d+)(,\d*)?\}")
_ENDS_GROUP_FLAGS = re.compile(r"\(\?[a-zA-Z-]*[:)]|\(\?P?<[^>]*>|\(")
_SINGLE_ESCAPES = frozenset("aAbBdDfnrsStvwWz")
"""Letters that with their backslash are one place, or none, of a text; others may take what follows along."""


class Needles(NamedTuple):
    """What to search for on behalf of one predicate.

    Attributes
    ----------
    needles : tuple of bytes
        The predicate can hold only if one of them is found; empty: on any text.
    is_folded : bool
        They are folded, and to be found in the folded text.
    is_decided : bool
        Finding one of them is enough; without needles: the predicate holds for every text.
    """

    needles: tuple[bytes, ...]
    is_folded: bool
    is_decided: bool


def needles_of(predicate: Predicate) -> Needles:
    """Return the needles of a canonical text predicate that compiles.

    Parameters
    ----------
    predicate : Predicate
        Of kind TEXT.
    """
    operator, is_folded = predicate.text_operator, predicate.ignore_case
    patterns = [
        constant.decode()
        for kind, constant in predicate.constants
        if kind is ValueKind.TEXT and isinstance(constant, bytes)
    ]
    if is_folded and operator != "matches":
        patterns = [fold(pattern) for pattern in patterns]
    if operator in ("=", "in"):
        if not patterns:
            return Needles((), is_folded, False)
        is_decided = max(map(len, patterns)) <= NEEDLE_LENGTH_MAX
        return Needles(tuple(dict.fromkeys(map(_whole, patterns))), is_folded, is_decided)
    if operator in ("prefix", "suffix", "contains"):
        text = patterns[0]
        if not text:
            return Needles((), is_folded, True)
        is_decided = len(text) <= NEEDLE_LENGTH_MAX
        first = TEXT_START if operator == "prefix" and is_decided else b""
        last = TEXT_STOP if operator == "suffix" else b""
        return Needles((first + text[-NEEDLE_LENGTH_MAX:].encode() + last,), is_folded, is_decided)
    if operator == "like":
        return Needles(_one(_longest_of_like(patterns[0])), is_folded, False)
    if operator == "matches":
        return _needles_of_regex(patterns[0], is_folded)
    return Needles((), is_folded, False)


def _whole(text: str) -> bytes:
    first = TEXT_START if len(text) <= NEEDLE_LENGTH_MAX else b""
    return first + text[-NEEDLE_LENGTH_MAX:].encode() + TEXT_STOP


def _one(literal: str) -> tuple[bytes, ...]:
    return (literal[-NEEDLE_LENGTH_MAX:].encode(),) if literal else ()


def _longest_of_like(pattern: str) -> str:
    parts = [part for piece in parse_like(pattern) for part in piece if isinstance(part, str)]
    return max(parts, key=len, default="")


def _needles_of_regex(pattern: str, ignore_case: bool) -> Needles:
    """Return the longest literal that every match contains; none if the pattern is not simple.

    RE2 folds by itself, differently beyond ASCII; but what it takes for an ASCII letter folds to the letter.
    """
    is_folded = ignore_case or "(?" in pattern
    pieces = _required_literals(pattern)
    if is_folded:
        pieces = [piece for literal in pieces for piece in re.split(r"[^\x00-\x7f]+", fold(literal))]
    return Needles(_one(max(pieces, key=len, default="")), is_folded, False)


def _required_literals(pattern: str) -> list[str]:
    """Return texts that are in every match of an RE2 pattern, as far as its outermost level tells.

    What is not known for certain gives nothing: alternatives, escapes that take several characters along.
    """
    found: list[str] = []
    run: list[str] = []
    at = 0
    while at < len(pattern):
        stop, literal = _read_item(pattern, at)
        if stop < 0:
            return []
        stop, least = _read_quantifier(pattern, stop)
        if literal and least > 0:
            run.append(literal)
        if run and (not literal or stop > at + len(_spelt(pattern, at, literal))):
            found.append("".join(run))
            run.clear()
        at = stop
    return [*found, "".join(run)]


def _spelt(pattern: str, at: int, literal: str) -> str:
    return pattern[at : at + 2] if pattern[at] == "\\" and literal else pattern[at : at + 1]


def _read_item(pattern: str, at: int) -> tuple[int, str]:
    """Return where the item at `at` stops, and what it stands for if that is one character; -1: not known."""
    char = pattern[at]
    if char == "|":
        return -1, ""
    if char == "\\":
        escaped = pattern[at + 1 : at + 2]
        if escaped in _SINGLE_ESCAPES:
            return at + 2, ""
        # Letters and digits may be of any length (\x41, \pN, \Q...\E), other characters mean themselves.
        is_plain = bool(escaped) and not escaped.isalnum() and escaped != "_"
        return (at + 2, escaped) if is_plain else (-1, "")
    if char == "[":
        return _skip_class(pattern, at), ""
    if char == "(":
        return _skip_group(pattern, at), ""
    if char in ".^$":
        return at + 1, ""
    if char in "*+?)":
        return -1, ""
    return at + 1, char


def _read_quantifier(pattern: str, at: int) -> tuple[int, int]:
    """Return where the quantifier at `at` stops, if there is one, and the least number of repeats."""
    least, stop = 1, at
    while stop < len(pattern):
        counted = _QUANTIFIER.match(pattern, stop)
        if counted is not None:
            least *= int(counted[1])
            stop = counted.end()
        elif pattern[stop] in "*?+":
            least *= pattern[stop] == "+" or (stop > at and pattern[stop] == "?")  # "a+?" is lazy
            stop += 1
        else:
            break
    return stop, least


def _skip_class(pattern: str, at: int) -> int:
    """Return where the class at `at` stops; -1 if that is not certain."""
    at += 1
    if pattern[at : at + 1] == "^":
        at += 1
    first = at
    while at < len(pattern):
        if pattern[at] == "]" and at > first:
            return at + 1
        if pattern[at] == "\\":
            if pattern[at + 1 : at + 2] == "Q":
                return -1
            at += 2
        elif pattern.startswith("[:", at):
            stop = pattern.find(":]", at)
            at = stop + 2 if stop >= 0 else at + 1
        else:
            at += 1
    return -1


def _skip_group(pattern: str, at: int) -> int:
    """Return where the group at `at` stops; -1 if that is not certain."""
    depth = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            if pattern[at + 1 : at + 2] == "Q":
                return -1
            at += 2
            continue
        if char == "[":
            at = _skip_class(pattern, at)
            if at < 0:
                return -1
            continue
        if char == "(":
            depth += 1
            opened = _ENDS_GROUP_FLAGS.match(pattern, at)
            assert opened is not None
            at = opened.end()
            if opened[0].endswith(")"):
                depth -= 1  # flags alone
        else:
            depth -= char == ")"
            at += 1
        if depth == 0:
            return at
    return -1
