"""Tokens of the text form, and errors that point into the text.

One regular expression cuts the text; its alternatives are the lexical grammar, in order of preference. Bare
names hold letters, digits and ``_ . - $ @ :`` and begin with a letter or one of ``_ $ @``, so that numbers
and dates are never taken for names. Any name at all may be written in backquotes.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Final, NamedTuple

from pubsub_cluster.language.errors import TextSyntaxError
from pubsub_cluster.language.values import utf8_size_bytes

_SNIPPET_SIZE: Final = 72


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"  # a bare name or a keyword
    NAME = "name in backquotes"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"
    END = "end of the text"


class Token(NamedTuple):
    """One token.

    Attributes
    ----------
    kind : TokenKind
    value : str, int or float
        Word, name or sign as text; string and number by their value.
    position : int
        Index of its first character.
    keyword : str
        A word in upper case; empty for all other kinds.
    """

    kind: TokenKind
    value: Any
    position: int
    keyword: str = ""


BARE_NAME: Final = re.compile(r"[^\W\d][\w.$@:-]*|[$@][\w.$@:-]*")
_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.$@:-]))
    | (?P<infinity>-inf(?![\w.$@:-]))
    | (?P<word>{BARE_NAME.pattern})
    | (?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`)
    | (?P<sign><=|>=|!=|<>|[=<>()\[\],])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "`": "`"}
_INT_SIZE_MAX: Final = 20


def tokens_of(text: str) -> list[Token]:
    """Cut a text into tokens; the last one is of kind END.

    Raises
    ------
    TextSyntaxError
        A character, quote, escape or number that is none.
    """
    tokens: list[Token] = []
    position = 0
    while not tokens or tokens[-1].kind is not TokenKind.END:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _no_token(text, position)
        group = str(found.lastgroup)
        start = found.start(group)
        tokens.append(_token(text, group, found[group], start))
        position = found.end()
    return tokens


def error_at(
    text: str, position: int, condition: str, *, seen: Any = None, advice: str = ""
) -> TextSyntaxError:
    """Return an error whose ``picture`` is the line with a caret under `position`."""
    start = max(text.rfind("\n", 0, position) + 1, position - _SNIPPET_SIZE // 2)
    snippet = text[start : start + _SNIPPET_SIZE].partition("\n")[0]
    snippet = snippet.encode(errors="replace").decode()  # as wide as it was, and can be printed
    picture = f"{snippet}\n{' ' * (position - start)}^"
    return TextSyntaxError(condition, seen=seen, remedy=advice or None, position=position, picture=picture)


def check_unicode(text: str) -> None:
    """Raise `TextSyntaxError` for a lone surrogate, as which an argument's bytes arrive that are no UTF-8."""
    if utf8_size_bytes(text) < 0:
        position = next(at for at, char in enumerate(text) if "\ud800" <= char <= "\udfff")
        condition = "the expression is not valid Unicode: half of a character stands alone"
        raise error_at(text, position, condition, seen=text[position], advice="Send UTF-8.")


def quoted(text: str, quote: str = '"') -> str:
    """Return `text` in quotes, with the escapes that bring it back."""
    body = "".join(_escaped(char, quote) for char in text)
    return f"{quote}{body}{quote}"


def _token(text: str, group: str, lexeme: str, start: int) -> Token:
    if group == "number":
        return Token(TokenKind.NUMBER, _number(text, lexeme, start), start)
    if group == "infinity":
        return Token(TokenKind.NUMBER, float("-inf"), start)
    if group == "quoted":
        kind = TokenKind.NAME if lexeme[0] == "`" else TokenKind.STRING
        return Token(kind, _unquoted(text, lexeme, start), start)
    if group == "word":
        return Token(TokenKind.WORD, lexeme, start, lexeme.upper())
    return Token(TokenKind.SIGN if group == "sign" else TokenKind.END, lexeme, start)


def _number(text: str, lexeme: str, start: int) -> int | float:
    if lexeme.lstrip("-").isdigit():
        if len(lexeme) > _INT_SIZE_MAX:
            raise error_at(text, start, "an integer constant does not fit 64 bits", seen=lexeme)
        return int(lexeme)
    number = float(lexeme)
    if number in (float("inf"), float("-inf")):
        raise error_at(
            text, start, "a number is too large for a float", seen=lexeme, advice="Write inf if you mean it."
        )
    return number


def _unquoted(text: str, lexeme: str, start: int) -> str:
    if "\\" not in lexeme:
        return lexeme[1:-1]

    def replaced(escape: re.Match[str]) -> str:
        code_point = escape[1] or escape[2]
        if code_point is None:
            char = _ESCAPES.get(escape[3])
        else:
            char = chr(int(code_point, 16)) if int(code_point, 16) <= 0x10FFFF else None
        if char is None:
            raise error_at(
                text,
                start + 1 + escape.start(),
                "unknown escape in quotes",
                seen=escape[0],
                advice=r"Known are \\ \" \' \` \n \t \r \uXXXX \UXXXXXXXX; write \\ for a backslash.",
            )
        return char

    return _ESCAPE.sub(replaced, lexeme[1:-1])


def _escaped(char: str, quote: str) -> str:
    if char == quote or char == "\\":
        return f"\\{char}"
    if char.isprintable():
        return char
    names = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return names.get(char) or (f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")


def _no_token(text: str, position: int) -> TextSyntaxError:
    start = position + len(text[position:]) - len(text[position:].lstrip())
    char = text[start]
    if char in "\"'`":
        return error_at(
            text, start, "a quote is not closed", seen=char, advice="Close it, or write \\ before it."
        )
    if char.isdigit() or char in "-.+":
        return error_at(
            text,
            start,
            "not a number",
            seen=text[start : start + 24].split()[0],
            advice="Texts and dates go in quotes; names that begin like a number go in backquotes.",
        )
    from pubsub_cluster.language.text_hints import character_hint  # it is made of tokens, this makes them

    return error_at(text, start, "unexpected character", seen=char, advice=character_hint(char))
