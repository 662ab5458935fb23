"""Tests of one text: each text predicate becomes a plain function from str to bool.

Every test takes time linear in the text. `like` is cut at its stars into pieces that are searched from
left to right (the earliest place for a piece is always the best one); only a pattern with both `*` and `?`
goes to RE2. `matches` is RE2 and nothing else: no exponential patterns, a bounded compiled size.
With `ignore_case` patterns are folded once, here, and the text on each call; RE2 folds by itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, TypeAlias

import re2

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.values import fold

TextTest: TypeAlias = Callable[[str], bool]

# RE2 holds the compiled pattern and its cache of states within this.
PATTERN_MEMORY_BYTES_MAX = 2 << 20

ANY_RUN = object()  # `*` of a like pattern
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
        A regular expression that RE2 refuses, a wildcard pattern that grows too large, or no CIDR network.
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
    ExpressionError
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
    """
    search = _compile_re2(pattern, pattern, ignore_case).search
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
    ExpressionError
        A pattern with both wildcards that is too large.
    """
    # Folding keeps the length of a text, so `?` stays one character, and nothing folds to a wildcard.
    pieces = parse_like(fold(pattern) if ignore_case else pattern)
    if len(pieces) == 1:
        test = _like_without_star(pieces[0])
    elif not any(part is ANY_CHARACTER for piece in pieces for part in piece):
        test = _like_without_question(["".join(str(part) for part in piece) for piece in pieces])
    else:
        test = _like_by_re2(pattern, pieces)
    if ignore_case:
        return lambda text: test(fold(text))
    return test


def _like_without_star(piece: list[object]) -> TextTest:
    size = 0
    literals: list[tuple[int, str]] = []
    for part in piece:
        if isinstance(part, str):
            literals.append((size, part))
            size += len(part)
        else:
            size += 1
    return lambda text: len(text) == size and all(text.startswith(part, at) for at, part in literals)


def _like_without_question(pieces: list[str]) -> TextTest:
    first, last = pieces[0], pieces[-1]
    middle = [piece for piece in pieces[1:-1] if piece]
    size_min = sum(map(len, pieces))

    def holds(text: str) -> bool:
        if len(text) < size_min or not text.startswith(first) or not text.endswith(last):
            return False
        at, stop = len(first), len(text) - len(last)
        for piece in middle:
            at = text.find(piece, at, stop)
            if at < 0:
                return False
            at += len(piece)
        return True

    return holds


def _like_by_re2(pattern: str, pieces: list[list[object]]) -> TextTest:
    spelt = "(?s:.*)".join(
        "".join(re2.escape(part) if isinstance(part, str) else "(?s:.)" for part in piece) for piece in pieces
    )
    fullmatch = _compile_re2(spelt, pattern, False).fullmatch
    return lambda text: fullmatch(text.encode()) is not None


def _compile_re2(spelt: str, pattern: str, ignore_case: bool) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.never_capture = True
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(spelt, options)
    except re2.error as refused:
        said = refused.args[0] if refused.args else ""
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise ExpressionError(
            f"the pattern does not compile: {reason}",
            seen=pattern,
            remedy="The syntax is RE2's: no back references, no look-around, bounded size.",
        ) from None
