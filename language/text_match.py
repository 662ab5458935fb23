"""Tests of one text: each text predicate becomes a plain function from str to bool.

Every test takes time linear in the text. `like` is cut at its stars into pieces that are searched from
left to right (the earliest place for a piece is always the best one); a run of `*` and `?` is a least number
of characters. A piece with `?` among its characters takes up to `LIKE_SEGMENT_MAX` steps for each character
of a text, so a longer one is refused. `matches` is RE2 and nothing else: no exponential patterns, and a
compiled size of at most `PATTERN_STEPS_MAX`: what a character of a text costs at worst.
With `ignore_case` patterns are folded once, here, and the text on each call; RE2 folds by itself.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import re2

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.limits import (
    LIKE_SEGMENT_MAX,
    LIKE_SEGMENTS_MAX,
    PATTERN_MEMORY_BYTES_MAX,
    PATTERN_STEPS_MAX,
    check_limit,
)
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.values import fold

TextTest: TypeAlias = Callable[[str], bool]

_ESCAPE = re.compile(r"\\(?:x\{0*([0-9A-Fa-f]{3,})\}|.)", re.DOTALL)

ANY_CHARACTER = object()  # `?` of a like pattern


def compile_text(predicate: Predicate) -> TextTest:
    """Return the test of a canonical text predicate.

    Parameters
    ----------
    predicate : Predicate
        Of kind TEXT; its attribute is not looked at.

    Returns
    -------
    callable of str to bool
        Never raises, for any valid Unicode text.

    Raises
    ------
    ExpressionError
        A regular expression that RE2 refuses, or no CIDR network.
    LimitError
        A regular expression or a wildcard pattern is too large.
    """
    if predicate.kind is not PredicateKind.TEXT:
        raise ValueError(f"not a text predicate: {predicate}")
    patterns = tuple(
        constant.decode() if isinstance(constant, bytes) else "" for _, constant in predicate.constants
    )
    only_texts = all(kind is ValueKind.TEXT for kind, _ in predicate.constants)
    operator, ignore_case = predicate.text_operator, predicate.ignore_case
    if operator in ("in", "not in", "=", "!="):
        texts = {
            text
            for text, (kind, _) in zip(patterns, predicate.constants, strict=True)
            if kind is ValueKind.TEXT
        }
        if operator in ("in", "="):
            return compile_member(texts, ignore_case)
        # A text differs from a constant of another kind by kind alone, which is no difference: never true.
        return compile_not_member(texts, ignore_case) if only_texts else lambda text: False
    return compile_operator(operator, patterns[0], ignore_case)


def compile_operator(operator: str, pattern: str, ignore_case: bool = False) -> TextTest:
    """Return the test of ``prefix suffix contains like matches in_network`` with `pattern`.

    Raises
    ------
    ExpressionError, LimitError
        As `compile_text`.
    """
    if operator == "prefix":
        return _compile_prefix(pattern, ignore_case)
    if operator == "suffix":
        return _compile_suffix(pattern, ignore_case)
    if operator == "contains":
        return _compile_contains(pattern, ignore_case)
    if operator == "like":
        return compile_like(pattern, ignore_case)
    if operator == "matches":
        return compile_matches(pattern, ignore_case)
    if operator == "in_network":
        return compile_in_network(pattern)
    raise ValueError(f"not a text operator: {operator!r}")


def compile_member(texts: set[str], ignore_case: bool) -> TextTest:
    """Return the test that a text is one of `texts`."""
    if not ignore_case:
        return texts.__contains__
    folded = {fold(text) for text in texts}
    return lambda text: fold(text) in folded


def compile_not_member(texts: set[str], ignore_case: bool) -> TextTest:
    """Return the test that a text is none of `texts`."""
    if not ignore_case:
        return lambda text: text not in texts
    folded = {fold(text) for text in texts}
    return lambda text: fold(text) not in folded


def _compile_prefix(pattern: str, ignore_case: bool) -> TextTest:
    if ignore_case:
        folded = fold(pattern)
        return lambda text: fold(text).startswith(folded)
    return lambda text: text.startswith(pattern)


def _compile_suffix(pattern: str, ignore_case: bool) -> TextTest:
    if ignore_case:
        folded = fold(pattern)
        return lambda text: fold(text).endswith(folded)
    return lambda text: text.endswith(pattern)


def _compile_contains(pattern: str, ignore_case: bool) -> TextTest:
    if ignore_case:
        folded = fold(pattern)
        return lambda text: folded in fold(text)
    return lambda text: pattern in text


def compile_matches(pattern: str, ignore_case: bool = False) -> TextTest:
    """Return the unanchored search of an RE2 pattern.

    Raises
    ------
    ExpressionError
        RE2 refuses the pattern: its syntax, or a compiled size beyond `PATTERN_MEMORY_BYTES_MAX`.
    LimitError
        It has more than `PATTERN_STEPS_MAX` steps.
    """
    search = _compile_re2(pattern, ignore_case).search
    return lambda text: search(text.encode()) is not None


def compile_in_network(network_text: str) -> TextTest:
    """Return the test that a text is an IP address inside a CIDR network.

    Host bits in the network are ignored. An IPv4-mapped IPv6 address is an IPv6 address; any text that is no
    address is outside.

    Raises
    ------
    ExpressionError
        `network_text` is no network.
    """
    try:
        network = ipaddress.ip_network(network_text, strict=False)
    except ValueError:
        raise ExpressionError(
            "the constant of in_network is no CIDR network",
            seen=network_text,
            remedy='Write it as "10.0.0.0/8" or "2001:db8::/32".',
        ) from None
    version = network.version
    prefix, host_bits = int(network.network_address), network.max_prefixlen - network.prefixlen
    prefix >>= host_bits

    def inside(text: str) -> bool:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return False
        return address.version == version and int(address) >> host_bits == prefix

    return inside


def parse_like(pattern: str) -> list[list[object]]:
    """Cut a wildcard pattern at its stars into pieces; a piece is a list of texts and `ANY_CHARACTER`.

    A backslash takes the next character literally; a backslash at the very end is itself.
    """
    pieces: list[list[object]] = [[]]
    literal: list[str] = []

    def end_literal() -> None:
        if literal:
            pieces[-1].append("".join(literal))
            literal.clear()

    chars = iter(pattern)
    for char in chars:
        if char == "\\":
            literal.append(next(chars, "\\"))
        elif char == "*":
            end_literal()
            pieces.append([])
        elif char == "?":
            end_literal()
            pieces[-1].append(ANY_CHARACTER)
        else:
            literal.append(char)
    end_literal()
    return pieces


def compile_like(pattern: str, ignore_case: bool = False) -> TextTest:
    """Return the test of a wildcard pattern against the whole text.

    Raises
    ------
    LimitError
        More characters than `LIKE_SEGMENT_MAX` between two stars, or than `LIKE_SEGMENTS_MAX` in all, where
        a ``?`` stands within.
    """
    # Folding keeps the length of a text, so `?` stays one character, and nothing folds to a wildcard.
    pieces = parse_like(fold(pattern) if ignore_case else pattern)
    test = _like_with_stars(_Like.of(pieces)) if len(pieces) > 1 else _like_without_star(pieces[0])
    if ignore_case:
        return lambda text: test(fold(text))
    return test


def _placed(piece: list[object]) -> tuple[int, list[tuple[int, str]]]:
    """Return the characters that a piece takes, and its texts with their places."""
    size = 0
    literals: list[tuple[int, str]] = []
    for part in piece:
        if isinstance(part, str):
            literals.append((size, part))
            size += len(part)
        else:
            size += 1
    return size, literals


def _like_without_star(piece: list[object]) -> TextTest:
    size, literals = _placed(piece)
    return lambda text: len(text) == size and all(text.startswith(part, at) for at, part in literals)


class _Segment(NamedTuple):
    """What stands between two stars: at least `gap` characters, then a text or a pattern of `size`."""

    gap: int
    needle: str | re.Pattern[str]
    size: int


class _Like(NamedTuple):
    """A pattern with stars; a run of stars and question marks is a least number of characters."""

    head: list[object]
    segments: list[_Segment]
    last_gap: int
    tail: list[object]

    @classmethod
    def of(cls, pieces: list[list[object]]) -> _Like:
        segments: list[_Segment] = []
        gap = patterns_size = 0
        for piece in pieces[1:-1]:
            texts = [i for i, part in enumerate(piece) if isinstance(part, str)]
            if not texts:
                gap += len(piece)
                continue
            inner = piece[texts[0] : texts[-1] + 1]
            size, literals = _placed(inner)
            needle: str | re.Pattern[str] = literals[0][1]
            if len(inner) > 1:
                patterns_size += size
                _check_segments(size, LIKE_SEGMENT_MAX, "between two stars with a ? among them")
                _check_segments(patterns_size, LIKE_SEGMENTS_MAX, "between stars with a ? among them, in all")
                # Without alternatives and repeats there is nothing that could backtrack.
                spelt = "".join(re.escape(part) if isinstance(part, str) else "." for part in inner)
                needle = re.compile(spelt, re.DOTALL)
            segments.append(_Segment(gap + texts[0], needle, size))
            gap = len(piece) - texts[-1] - 1
        return cls(pieces[0], segments, gap, pieces[-1])


def _check_segments(size: int, limit: int, where: str) -> None:
    check_limit(
        "like_segment_max",
        size,
        limit,
        f"characters of a LIKE pattern {where}",
        "Shorten the pattern, or join several by AND.",
    )


def _like_with_stars(like: _Like) -> TextTest:
    head_size, head = _placed(like.head)
    tail_size, tail = _placed(like.tail)
    segments, last_gap = like.segments, like.last_gap
    size_min = head_size + tail_size + last_gap + sum(segment.gap + segment.size for segment in segments)

    def holds(text: str) -> bool:
        stop = len(text) - tail_size
        if len(text) < size_min:
            return False
        if not all(text.startswith(part, at) for at, part in head):
            return False
        if not all(text.startswith(part, stop + at) for at, part in tail):
            return False
        at = head_size
        for gap, needle, size in segments:
            if isinstance(needle, str):
                at = text.find(needle, at + gap, stop)
            else:
                found = needle.search(text, at + gap, stop)
                at = found.start() if found else -1
            if at < 0:
                return False
            at += size
        return at + last_gap <= stop

    return holds


def _compile_re2(pattern: str, ignore_case: bool) -> Any:
    try:
        compiled = re2.compile(pattern, _re2_options(ignore_case))
    except re2.error as refused:
        said = refused.args[0] if refused.args else ""
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ExpressionError(
            f"the pattern does not compile: {reason}",
            seen=pattern,
            remedy="The syntax is RE2's: no back references, no look-around, bounded size.",
        ) from None
    check_limit(
        "pattern_steps_max",
        _steps(compiled, pattern, ignore_case),
        PATTERN_STEPS_MAX,
        "steps of a regular expression",
        "Shorten it: counted repeats take the most.",
    )
    return compiled


def _re2_options(ignore_case: bool) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.never_capture = True
    options.case_sensitive = not ignore_case
    return options


def _steps(compiled: Any, pattern: str, ignore_case: bool) -> int:
    """Return the steps of a pattern, a class of characters being one.

    In UTF-8 a class of letters takes hundreds, at one of which a match is at a time; in Latin-1 it is one.
    """
    steps: int = compiled.programsize
    if steps <= PATTERN_STEPS_MAX:
        return steps
    options = _re2_options(ignore_case)
    options.encoding = re2.Options.Encoding.LATIN1
    try:
        return int(re2.compile(_ESCAPE.sub(_in_latin_1, pattern).encode(), options).programsize)
    except re2.error:
        return steps


def _in_latin_1(escape: re.Match[str]) -> str:
    return r"\xff" if escape[1] else escape[0]
