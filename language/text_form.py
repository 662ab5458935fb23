"""The text form of expressions, for people: a precedence parser, and the writer that is its inverse.

::

    origin = "JFK" AND dest IN ("LAX", "SFO") AND dep_delay > 60 AND NOT carrier = "UA"

Grammar, weakest binding first; keywords in any case::

    or      = and {OR and}
    and     = unary {AND unary}
    unary   = {NOT} (atom | "(" or ")" | TRUE | FALSE | (AND | OR) "(" [or {"," or}] ")")
    atom    = [NOT] EXISTS name | name [NOT] EXISTS | subject test [IGNORE CASE]
    subject = name | ANY ATTRIBUTE
    test    = ("=" | "!=" | "<>" | "<" | "<=" | ">" | ">=") (constant | name)
            | [NOT] IN "(" [constant {"," constant}] ")"
            | BETWEEN constant AND constant
            | IN ("[" | "]" | "(") constant "," constant ("]" | "[" | ")")
            | (PREFIX | SUFFIX | CONTAINS | LIKE | MATCHES | UNDER | IN_NETWORK) string

An interval's bracket that faces outwards excludes its end: ``x IN [1, 5)`` and ``x IN [1, 5[`` hold for 1 but
not for 5. With two parentheses it is a list, so the open interval is ``]1, 5[``. ``TRUE`` and ``FALSE`` in an
expression's place are the empty conjunction and disjunction. ``AND (x)`` is the connective with exactly these
operands; the writer uses it for connectives of one operand.
"""

from __future__ import annotations

import math
from typing import Any, Final

from pubsub_cluster.language.errors import DomainError, ExpressionError, TextSyntaxError
from pubsub_cluster.language.expression import And, Atom, Constant, Expression, Not, Operator, Or
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.language.text_hints import hint, operator_hint, text_instead
from pubsub_cluster.language.text_lexer import (
    BARE_NAME,
    Token,
    TokenKind,
    check_unicode,
    error_at,
    quoted,
    tokens_of,
)
from pubsub_cluster.language.wellformed import WITH_LIST, WITH_TEXT, check_atom, check_depth, check_tree

_COMPARISON_SIGNS: Final = {
    "=": Operator.EQ,
    "!=": Operator.NE,
    "<>": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_TEXT_KEYWORDS: Final = {operator.name: operator for operator in WITH_TEXT}
_TEST_KEYWORDS: Final = [*_TEXT_KEYWORDS, "BETWEEN", "EXISTS", "IN"]
# Words that cannot be bare names. NULL and NAN are here to be refused with an explanation.
_RESERVED: Final = frozenset({*_TEST_KEYWORDS, "AND", "OR", "NOT", "TRUE", "FALSE", "INF", "NULL", "NAN"})
_CONSTANT_WORDS: Final[dict[str, Constant]] = {"TRUE": True, "FALSE": False, "INF": math.inf}


def parse_text(text: str, schema: Schema | None = None, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """Read the text form.

    Parameters
    ----------
    text : str
    schema : Schema, optional
        Refuse bare names that look like a misspelt declared attribute; in a closed schema all unknown names.
        An undeclared name may always be written in backquotes when the schema is open.
    limits : Limits

    Returns
    -------
    Expression
        A well-formed tree (`pubsub_cluster.language.wellformed`).

    Raises
    ------
    TextSyntaxError
        The text does not parse; `fields` has ``position``, the remedy shows the place.
    LimitError
        Too many nodes, nested too deep, or a name or string too long.
    """
    check_unicode(text)
    parser = _Parser(text, schema or EMPTY_SCHEMA, limits)
    expression = parser.disjunction()
    parser.expect_end()
    check_tree(expression, limits)
    return expression


class _Parser:
    """One reading of one text: a cursor over its tokens, one method per rule of the grammar."""

    def __init__(self, text: str, schema: Schema, limits: Limits) -> None:
        self.text = text
        self.schema = schema
        self.limits = limits
        self.tokens = tokens_of(text)
        self.tokens.append(self.tokens[-1])  # one token may be looked at beyond the end
        self.cursor = 0
        self.depth = 0

    # -- connectives

    def disjunction(self) -> Expression:
        operands = [self.conjunction()]
        while self.accept_word("OR"):
            operands.append(self.conjunction())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def conjunction(self) -> Expression:
        operands = [self.unary()]
        while self.accept_word("AND"):
            operands.append(self.unary())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def unary(self) -> Expression:
        negation_count = 0
        while self.sees_word("NOT") and not self.sees_word("EXISTS", ahead=1):
            self.cursor += 1
            negation_count += 1
        # Bounds the recursion; `check_tree` counts the levels of the tree exactly, afterwards.
        self.depth += 1
        check_depth(self.depth + negation_count - 1, self.limits)
        expression = self.operand()
        self.depth -= 1
        for _ in range(negation_count):
            expression = Not(expression)
        return expression

    def operand(self) -> Expression:
        if self.accept_sign("("):
            expression = self.disjunction()
            self.expect_sign(")", "a parenthesis is not closed")
            return expression
        if self.accept_word("TRUE"):
            return And(())
        if self.accept_word("FALSE"):
            return Or(())
        for keyword, connective in (("AND", And), ("OR", Or)):
            if self.sees_word(keyword) and self.sees_sign("(", ahead=1):
                self.cursor += 2
                return connective(tuple(self.operands()))
        return self.atom()

    def operands(self) -> list[Expression]:
        """Read the operands of a connective in front, up to the closing parenthesis."""
        operands: list[Expression] = []
        while not self.accept_sign(")"):
            if operands:
                self.expect_sign(",", "expected a comma or a closing parenthesis")
            operands.append(self.disjunction())
        return operands

    # -- predicates

    def atom(self) -> Atom:
        start = self.peek()
        atom = self.unchecked_atom()
        try:
            check_atom(atom, self.limits)
        except ExpressionError as refused:
            raise error_at(self.text, start.position, refused.condition, seen=refused.seen) from None
        return atom

    def unchecked_atom(self) -> Atom:
        if self.sees_word("NOT") or self.sees_word("EXISTS"):
            return Atom(operator=self.existence(), attribute=self.name())
        subject = self.subject()
        if self.sees_word("EXISTS") or (self.sees_word("NOT") and self.sees_word("EXISTS", ahead=1)):
            return Atom(subject, self.existence())
        token = self.peek()
        operator = _COMPARISON_SIGNS.get(token.value) if token.kind is TokenKind.SIGN else None
        if operator is not None:
            self.cursor += 1
            if self.sees_name():
                return Atom(subject, operator, other=self.name(on_right=True), ignore_case=self.ignore_case())
            return Atom(subject, operator, self.constant(), ignore_case=self.ignore_case())
        if self.accept_word("BETWEEN"):
            lo = self.constant()
            if not self.accept_word("AND"):
                raise self.unexpected("BETWEEN needs AND between its two ends")
            return Atom(subject, Operator.BETWEEN, lo=lo, hi=self.constant())
        if self.accept_word("IN"):
            return self.membership(subject)
        if self.sees_word("NOT") and self.sees_word("IN", ahead=1):
            self.cursor += 2
            self.expect_sign("(", "NOT IN needs a list in parentheses")
            return Atom(subject, Operator.NOT_IN, self.constants(), ignore_case=self.ignore_case())
        text_operator = _TEXT_KEYWORDS.get(token.keyword)
        if text_operator is not None:
            self.cursor += 1
            return Atom(subject, text_operator, self.constant(), ignore_case=self.ignore_case())
        raise self.no_operator()

    def existence(self) -> Operator:
        negated = self.accept_word("NOT")
        self.cursor += 1
        return Operator.NOT_EXISTS if negated else Operator.EXISTS

    def subject(self) -> str | None:
        if self.sees_word("ANY") and self.sees_word("ATTRIBUTE", ahead=1):
            self.cursor += 2
            return None
        return self.name()

    def membership(self, subject: str | None) -> Atom:
        """Read what follows IN: a list or an interval."""
        opening = self.peek()
        if self.accept_sign("("):
            constants = self.constants(closings=")][")
            if self.tokens[self.cursor - 1].value == ")":
                return Atom(subject, Operator.IN, constants, ignore_case=self.ignore_case())
        elif self.accept_sign("[") or self.accept_sign("]"):
            constants = self.constants(closings=")][")
        else:
            raise self.unexpected("IN needs a list in parentheses or an interval in brackets")
        if len(constants) != 2:
            raise error_at(
                self.text,
                opening.position,
                "an interval has two ends",
                advice="A list is written in parentheses.",
            )
        return Atom(
            subject,
            Operator.BETWEEN,
            lo=constants[0],
            hi=constants[1],
            lo_open=opening.value != "[",
            hi_open=self.tokens[self.cursor - 1].value != "]",
        )

    def ignore_case(self) -> bool:
        if self.sees_word("IGNORE") and self.sees_word("CASE", ahead=1):
            self.cursor += 2
            return True
        return False

    # -- constants and names

    def constants(self, closings: str = ")") -> tuple[Constant, ...]:
        """Read constants up to one of the closing signs, which is read too."""
        constants: list[Constant] = []
        while not any(self.accept_sign(sign) for sign in closings):
            if constants:
                self.expect_sign(",", "expected a comma or the end of the list")
            constants.append(self.constant())
        return tuple(constants)

    def constant(self) -> Constant:
        token = self.peek()
        if token.kind is TokenKind.STRING or token.kind is TokenKind.NUMBER:
            self.cursor += 1
            return token.value  # type: ignore[no-any-return]
        if token.kind is TokenKind.WORD:
            if token.keyword in _CONSTANT_WORDS:
                self.cursor += 1
                return _CONSTANT_WORDS[token.keyword]
            if token.keyword in ("NULL", "NAN"):
                raise self.unexpected(f"{token.keyword} is not a constant", "Use EXISTS or NOT EXISTS.")
            raise self.unexpected("expected a constant", f"A text goes in quotes: {quoted(token.value)}.")
        raise self.unexpected("expected a constant")

    def name(self, on_right: bool = False) -> str:
        """Read the name of an attribute."""
        token = self.peek()
        if not self.sees_name():
            is_word = token.kind is TokenKind.WORD
            advice = "Reserved words go in backquotes as names." if is_word else ""
            raise self.unexpected("expected the name of an attribute", advice)
        name = str(token.value)
        if self.schema.get(name) is None:
            self.check_undeclared(name, token, text_instead(name) if on_right else "")
        self.cursor += 1
        return name

    def check_undeclared(self, name: str, token: Token, otherwise: str) -> None:
        try:
            self.schema.resolve(name)
        except DomainError as refused:
            advice = f"{refused.remedy or ''} {otherwise}".strip()
            raise error_at(self.text, token.position, refused.condition, seen=name, advice=advice) from None
        near = self.schema.suggestion(name) if token.kind is TokenKind.WORD else None
        if near is not None:
            raise error_at(
                self.text,
                token.position,
                "this looks like a misspelt attribute",
                seen=name,
                advice=f"Did you mean {near!r}? Write {quoted(name, '`')} to mean it. {otherwise}".strip(),
            )

    # -- tokens

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.cursor + ahead]

    def sees_word(self, keyword: str, ahead: int = 0) -> bool:
        return self.tokens[self.cursor + ahead].keyword == keyword

    def sees_sign(self, sign: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind is TokenKind.SIGN and token.value == sign

    def sees_name(self) -> bool:
        token = self.peek()
        is_bare = token.kind is TokenKind.WORD and token.keyword not in _RESERVED
        return is_bare or token.kind is TokenKind.NAME

    def accept_word(self, keyword: str) -> bool:
        seen = self.sees_word(keyword)
        self.cursor += seen
        return seen

    def accept_sign(self, sign: str) -> bool:
        seen = self.sees_sign(sign)
        self.cursor += seen
        return seen

    def expect_sign(self, sign: str, otherwise: str) -> None:
        if not self.accept_sign(sign):
            raise self.unexpected(otherwise)

    def expect_end(self) -> None:
        if self.peek().kind is not TokenKind.END:
            raise self.unexpected("expected AND, OR or the end of the text")

    def unexpected(self, condition: str, advice: str = "") -> TextSyntaxError:
        token = self.peek()
        seen = None if token.kind is TokenKind.END else token.value
        advice = hint(self.tokens, self.cursor) or advice
        return error_at(self.text, token.position, condition, seen=seen, advice=advice)

    def no_operator(self) -> TextSyntaxError:
        if self.sees_word("NOT"):
            return self.unexpected("only IN and EXISTS take NOT here", "Write NOT in front of the predicate.")
        return self.unexpected("expected an operator", operator_hint(self.peek(), _TEST_KEYWORDS))


def format_text(expression: Expression) -> str:
    """Return the text form; `parse_text` reads an equal tree from it."""
    if isinstance(expression, Atom):
        return _format_atom(expression)
    if isinstance(expression, Not):
        child = expression.child
        if isinstance(child, Atom) and child.operator is Operator.EXISTS:
            # With EXISTS in front it would read as the operator NOT EXISTS.
            return f"NOT {_format_name(child.attribute)} EXISTS"
        return f"NOT {_format_operand(child)}"
    keyword, alone = ("AND", "TRUE") if isinstance(expression, And) else ("OR", "FALSE")
    if len(expression.children) == 1:
        return f"{keyword} ({format_text(expression.children[0])})"
    return f" {keyword} ".join(_format_operand(child) for child in expression.children) or alone


def _format_operand(expression: Expression) -> str:
    # More parentheses than precedence asks for: they keep `a AND (b AND c)` apart from `a AND b AND c`.
    needs_parentheses = isinstance(expression, And | Or) and len(expression.children) >= 2
    text = format_text(expression)
    return f"({text})" if needs_parentheses else text


def _format_atom(atom: Atom) -> str:
    operator = atom.operator
    name = _format_name(atom.attribute)
    if operator is Operator.EXISTS or operator is Operator.NOT_EXISTS:
        return f"{operator.value.upper()} {name}"
    if operator is Operator.BETWEEN:
        lo, hi = _format_constant(atom.lo), _format_constant(atom.hi)
        if not atom.lo_open and not atom.hi_open:
            return f"{name} BETWEEN {lo} AND {hi}"
        return f"{name} IN {']' if atom.lo_open else '['}{lo}, {hi}{'[' if atom.hi_open else ']'}"
    if atom.other is not None:
        right = _format_name(atom.other)
    elif operator in WITH_LIST and isinstance(atom.value, tuple):
        right = f"({', '.join(map(_format_constant, atom.value))})"
    else:
        right = _format_constant(atom.value)
    return f"{name} {operator.value.upper()} {right}{' IGNORE CASE' if atom.ignore_case else ''}"


def _format_name(name: str | None) -> str:
    if name is None:
        return "ANY ATTRIBUTE"
    is_bare = BARE_NAME.fullmatch(name) and name.upper() not in _RESERVED
    return name if is_bare else quoted(name, "`")


def _format_constant(constant: Any) -> str:
    if isinstance(constant, str):
        return quoted(constant)
    if isinstance(constant, bool):
        return "TRUE" if constant else "FALSE"
    return repr(constant)  # of a float the shortest digits that bring it back; infinities as inf
