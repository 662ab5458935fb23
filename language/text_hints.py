"""What a text that does not parse may have meant: advice for people who come from other languages.

The parser says what it expected and where; this module looks at the tokens around that place and says what to
write instead. Nothing here changes what parses. The JSON form asks here about its operators too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from pubsub_cluster.language.expression import Operator
from pubsub_cluster.language.text_lexer import Token, TokenKind, quoted, tokens_of

OPERATORS_TEXT: Final = (
    "Operators: = != < <= > >= IN NOT IN BETWEEN EXISTS NOT EXISTS PREFIX SUFFIX CONTAINS LIKE MATCHES UNDER "
    "IN_NETWORK (docs/language.md)."
)
_COMPARISONS: Final = frozenset({"=", "!=", "<>", "<", "<=", ">", ">="})
_CONSTANT_WORDS: Final = frozenset({"TRUE", "FALSE", "INF"})
_WORDS: Final = {
    "IS": "Write EXISTS name or NOT EXISTS name; there is no null.",
    "STARTSWITH": "Write PREFIX.", "STARTS": "Write PREFIX.", "STARTS_WITH": "Write PREFIX.",
    "BEGINSWITH": "Write PREFIX.", "BEGINS": "Write PREFIX.",
    "ENDSWITH": "Write SUFFIX.", "ENDS": "Write SUFFIX.", "ENDS_WITH": "Write SUFFIX.",
    "HAS": "Write CONTAINS.", "INCLUDES": "Write CONTAINS.",
    "ILIKE": "Write LIKE ... IGNORE CASE.", "GLOB": "Write LIKE.",
    "REGEX": "Write MATCHES.", "REGEXP": "Write MATCHES.", "RLIKE": "Write MATCHES.",
    "EQ": "Write =.", "NE": "Write !=.", "LT": "Write <.", "LE": "Write <=.",
    "GT": "Write >.", "GE": "Write >=.",
}  # fmt: skip
_PAIRS: Final = {
    ("=", "="): "Write = once.",
    ("!=", "="): "Write !=.",
    ("=", ">"): "Write >=.",
    ("=", "<"): "Write <=.",
    ("<>", "="): "Write !=.",
}
_CHARACTERS: Final = {
    "&": "Write AND.",
    "|": "Write OR.",
    "!": "Write NOT in front of the predicate, or != for a comparison.",
    "~": "Write MATCHES for a regular expression, NOT for a negation.",
    "%": "In a LIKE pattern, in quotes, * is any run of characters.",
    "*": "Patterns go in quotes after LIKE.",
    ";": "An expression ends without a sign.",
    "{": "An expression in JSON begins with a brace, one in text form has none.",
    "\u201c": 'Use plain quotes: ".',
    "\u201d": 'Use plain quotes: ".',
    "\u2018": "Use plain quotes: '.",
    "\u2019": "Use plain quotes: '.",
}
_JSON_SYNONYMS: Final = {
    "=>": ">=", "=<": "<=", "==": "=", "===": "=", "<>": "!=", "!==": "!=", "eq": "=", "ne": "!=", "lt": "<",
    "le": "<=", "lte": "<=", "gt": ">", "ge": ">=", "gte": ">=", "nin": "not in", "not_in": "not in",
    "startswith": "prefix", "starts_with": "prefix", "endswith": "suffix", "ends_with": "suffix",
    "regex": "matches", "regexp": "matches", "is null": "not exists", "is not null": "exists",
}  # fmt: skip


def hint(tokens: Sequence[Token], cursor: int) -> str:
    """Return advice about the token at `cursor`, which the parser did not expect; empty without any."""
    token, before = tokens[cursor], tokens[cursor - 1] if cursor else None
    if token.kind is TokenKind.SIGN and before is not None:
        return _PAIRS.get((str(before.value), str(token.value)), "")
    if token.kind is TokenKind.STRING and before is not None and before.kind is TokenKind.STRING:
        return "Quotes are not doubled: write a backslash before a quote inside, or use the other quote."
    if token.kind is TokenKind.WORD:
        return _WORDS.get(token.keyword, "")
    return ""


def character_hint(char: str) -> str:
    """Return advice about a character that begins no token; empty without any."""
    return _CHARACTERS.get(char, "")


def operator_hint(token: Token, keywords: Iterable[str]) -> str:
    """Return what to write where an operator was expected."""
    known = _WORDS.get(token.keyword)
    if known:
        return known
    near = difflib.get_close_matches(token.keyword, list(keywords), n=1) if token.keyword else []
    return f"Did you mean {near[0]}? {OPERATORS_TEXT}" if near else OPERATORS_TEXT


def json_operator_hint(operator: object) -> str | None:
    """Return the remedy for an operator of the JSON form that is none."""
    if not isinstance(operator, str):
        return None
    word = operator.strip().lower()
    near = [_JSON_SYNONYMS[word]] if word in _JSON_SYNONYMS else []
    near = near or difflib.get_close_matches(word, [known.value for known in Operator], n=1)
    return f"Did you mean {near[0]!r}?" if near else None


def text_instead(name: str) -> str:
    """Return the hint for a bare name on the right of a comparison."""
    return f"This compares two attributes; for a text write {quoted(name)}."


def bare_right_sides(text: str) -> list[tuple[str, str]]:
    """Return the left and the right name of comparisons whose right side is a name without backquotes.

    The text must parse.
    """
    tokens = tokens_of(text)
    return [
        (str(left.value), str(right.value))
        for left, sign, right in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if sign.kind is TokenKind.SIGN
        and sign.value in _COMPARISONS
        and right.kind is TokenKind.WORD
        and right.keyword not in _CONSTANT_WORDS
    ]
