"""A rule's detections and conditions as an expression over normalised events.

The tree is kept as the rule has it: nothing is multiplied out, and negations stay where they are. Only what
is one test in the language becomes one: alternatives of whole values of one field are one ``in``.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.modifiers import SigmaEndswithModifier, SigmaStartswithModifier
from sigma.policy import SigmaPolicy
from sigma.policy.regex_engine import PythonRegexEngine, RE2RegexEngine, RegexPattern
from sigma.rule import SigmaRule
from sigma.rule.detection import SigmaDetection, SigmaDetectionItem
from sigma.types import (
    SigmaBool,
    SigmaCasedString,
    SigmaCIDRExpression,
    SigmaCompareExpression,
    SigmaExists,
    SigmaExpansion,
    SigmaFieldReference,
    SigmaNull,
    SigmaNumber,
    SigmaRegularExpression,
    SigmaRegularExpressionFlag,
    SigmaString,
    SigmaTimestampPart,
    SpecialChars,
)

from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.expression import And, Atom, Expression, Not, Operator, Or
from pubsub_cluster.sigma_rules.decimals import decimal_pattern
from pubsub_cluster.sigma_rules.logsources import number_atom, text_atom
from pubsub_cluster.sigma_rules.regexes import to_re2

ANY_RUN: Final = SpecialChars.WILDCARD_MULTI
ANY_CHARACTER: Final = SpecialChars.WILDCARD_SINGLE
_WILDCARDS: Final = {ANY_RUN: "*", ANY_CHARACTER: "?"}
_COMPARISONS: Final = {"LT": Operator.LT, "LTE": Operator.LE, "GT": Operator.GT, "GTE": Operator.GE}
_NAME_PATTERN: Final = re.compile(r"(?:[a-zA-Z0-9_]|\.\*)*")
_FLAGS: Final = (
    (SigmaRegularExpressionFlag.MULTILINE, "m"),
    (SigmaRegularExpressionFlag.DOTALL, "s"),
)


class _RuleSyntax(PythonRegexEngine):
    """Regular expressions of a rule have Python's syntax; the parser only wants to know whether they compile.

    It also matches names of detections by patterns that it makes of `1 of name*`, which could be made to
    backtrack for ages: those it searches with RE2.
    """

    def compile(self, pattern: str, flags: int = 0) -> RegexPattern:
        compiled = super().compile(pattern, flags)
        return _names.compile(pattern) if _NAME_PATTERN.fullmatch(pattern) else compiled


_names = RE2RegexEngine()
PARSER_POLICY: Final = SigmaPolicy(regex_engine=_RuleSyntax())


def detection_expression(rule: SigmaRule) -> Expression:
    """Return what a rule detects, without its log source.

    Raises
    ------
    ExpressionError
        Something that cannot be expressed; the rest of the rule is then worth nothing.
    sigma.exceptions.SigmaError
        The parser refuses a condition.
    """
    for detection in rule.detection.detections.values():
        _check_keywords(detection)
    return _joined(Or, [_node(condition.parse()) for condition in rule.detection.parsed_condition])


def _check_keywords(detection: SigmaDetection) -> None:
    """Refuse what the condition tree no longer tells from a plain keyword."""
    for item in detection.detection_items:
        if isinstance(item, SigmaDetection):
            _check_keywords(item)
        elif isinstance(item, SigmaDetectionItem) and item.field is None:
            for modifier in item.modifiers:
                if issubclass(modifier, SigmaStartswithModifier | SigmaEndswithModifier):
                    raise ExpressionError(
                        "a keyword, which has no field, is searched for anywhere and has no start or end"
                    )


def _node(item: Any) -> Expression:
    if isinstance(item, ConditionAND):
        return _joined(And, [_node(child) for child in item.args])
    if isinstance(item, ConditionOR):
        return _joined(Or, [_node(child) for child in item.args])
    if isinstance(item, ConditionNOT):
        child = _node(item.args[0])
        return child.child if isinstance(child, Not) else Not(child)
    if isinstance(item, ConditionFieldEqualsValueExpression):
        return _value_test(item.field, item.value)
    if isinstance(item, ConditionValueExpression):
        return _value_test(None, item.value)
    raise ExpressionError("a part of the condition says nothing", seen=type(item).__name__)


def _joined(connective: type[And] | type[Or], children: list[Expression]) -> Expression:
    """Return a connective without operands of its own sort; an OR's whole values of a field are one test."""
    flat: list[Expression] = []
    for child in children:
        if type(child) is connective:
            flat.extend(child.children)
        else:
            flat.append(child)
    if connective is Or:
        flat = _gathered(flat)
    return flat[0] if len(flat) == 1 else connective(tuple(flat))


def _gathered(tests: list[Expression]) -> list[Expression]:
    """Gather ``=`` and ``in`` by field and sort of comparison, each at the place of its first one."""
    members: dict[tuple[str, bool], dict[Any, None]] = {}
    places: list[Expression | tuple[str, bool]] = []
    for test in tests:
        if (
            type(test) is Atom
            and test.attribute is not None
            and test.other is None
            and test.operator in (Operator.EQ, Operator.IN)
        ):
            key = (test.attribute, test.ignore_case)
            if key not in members:
                places.append(key)
            values = test.value if isinstance(test.value, tuple) else (test.value,)
            members.setdefault(key, {}).update(dict.fromkeys((type(value), value) for value in values))
        else:
            places.append(test)
    return [_member_test(place, members[place]) if isinstance(place, tuple) else place for place in places]


def _member_test(key: tuple[str, bool], members: dict[Any, None]) -> Atom:
    name, ignore_case = key
    values = tuple(value for _, value in members)
    if len(values) == 1:
        return Atom(name, Operator.EQ, values[0], ignore_case=ignore_case)
    return Atom(name, Operator.IN, values, ignore_case=ignore_case)


# -- values -------------------------------------------------------------------------------------------------


def _value_test(field: str | None, value: Any) -> Expression:
    """Return the test of a field, or of any field's text where it is None."""
    if isinstance(value, SigmaExpansion):
        return _joined(Or, [_value_test(field, each) for each in value.values])
    if isinstance(value, SigmaString):
        return _text_test(field, value.s, not isinstance(value, SigmaCasedString))
    if isinstance(value, SigmaRegularExpression):
        return _regex_test(field, value)
    if isinstance(value, SigmaCIDRExpression):
        return Atom(field, Operator.IN_NETWORK, str(value.network))
    if isinstance(value, SigmaBool):
        return _text_test(field, [str(value.boolean).lower()], True)
    if isinstance(value, SigmaNumber) and not isinstance(value, SigmaTimestampPart):
        number = _number(value)
        return _text_test(None, [str(number)], True) if field is None else number_atom(field, [number])
    if field is None:
        raise ExpressionError("a keyword has no field that it could be about", seen=type(value).__name__)
    if isinstance(value, SigmaNull):
        return Atom(field, Operator.NOT_EXISTS)
    if isinstance(value, SigmaExists):
        return Atom(field, Operator.EXISTS if value else Operator.NOT_EXISTS)
    if isinstance(value, SigmaFieldReference):
        if value.starts_with or value.ends_with:
            raise ExpressionError(
                "two fields can be compared as a whole only", seen=f"{field}, {value.field}"
            )
        return Atom(field, Operator.EQ, ignore_case=True, other=value.field)
    if isinstance(value, SigmaCompareExpression):
        return _comparison(field, value)
    raise ExpressionError("a modifier has no counterpart", seen=type(value).__name__)


def _text_test(field: str | None, parts: list[Any], ignore_case: bool) -> Atom:
    """Return the test of a text's parts: literals and wildcards."""
    if not all(isinstance(part, str | SpecialChars) for part in parts):
        raise ExpressionError(
            "a placeholder (`expand`) has no values",
            seen=[str(part) for part in parts],
            remedy="Put the values into the rule.",
        )
    if field is None:  # searched for anywhere
        parts = [ANY_RUN, *parts, ANY_RUN]
    parts = [part for part in parts if part != ""]
    starts = bool(parts) and parts[0] is ANY_RUN
    ends = bool(parts) and parts[-1] is ANY_RUN
    while parts and parts[0] is ANY_RUN:
        parts = parts[1:]
    while parts and parts[-1] is ANY_RUN:
        parts = parts[:-1]
    if not parts and starts:
        return Atom(field, Operator.CONTAINS, "") if field is None else Atom(field, Operator.EXISTS)
    if any(not isinstance(part, str) for part in parts):
        pattern = "".join(_escaped(part) for part in parts)
        pattern = f"{'*' if starts else ''}{pattern}{'*' if ends else ''}"
        return Atom(field, Operator.LIKE, pattern, ignore_case=ignore_case)
    text = "".join(parts)
    if starts and ends:
        return Atom(field, Operator.CONTAINS, text, ignore_case=ignore_case)
    if starts:
        return Atom(field, Operator.SUFFIX, text, ignore_case=ignore_case)
    if ends:
        return Atom(field, Operator.PREFIX, text, ignore_case=ignore_case)
    if ignore_case:
        return text_atom(str(field), [text])
    return Atom(field, Operator.EQ, text)


def _escaped(part: Any) -> str:
    """Return a part in the language's own pattern syntax, in which a backslash always escapes."""
    if not isinstance(part, str):
        return _WILDCARDS[part]
    return part.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?")


def _regex_test(field: str | None, value: SigmaRegularExpression) -> Atom:
    # The parser has cut the pattern at what would be wildcards in a text; put together it is as it was.
    pattern = ""
    for part in value.regexp.s:
        if not isinstance(part, str | SpecialChars):
            raise ExpressionError("a placeholder (`expand`) has no values", seen=str(value.regexp))
        pattern += part if isinstance(part, str) else _WILDCARDS[part]
    spelt = to_re2(pattern, SigmaRegularExpressionFlag.MULTILINE in value.flags)
    flags = "".join(letter for flag, letter in _FLAGS if flag in value.flags)
    ignore_case = SigmaRegularExpressionFlag.IGNORECASE in value.flags
    return Atom(field, Operator.MATCHES, f"(?{flags}){spelt}" if flags else spelt, ignore_case=ignore_case)


def _comparison(field: str, value: SigmaCompareExpression) -> Expression:
    operator = _COMPARISONS.get(value.op.name)
    if operator is None or not isinstance(value.number, SigmaNumber):
        raise ExpressionError("a comparison has no counterpart", seen=value.op.name)
    if isinstance(value.number, SigmaTimestampPart):
        raise ExpressionError("parts of a time have no counterpart", seen=value.number.timestamp_part.name)
    number = _number(value.number)
    return Or(
        (Atom(field, operator, number), Atom(field, Operator.MATCHES, decimal_pattern(operator, number)))
    )


def _number(value: SigmaNumber) -> int | float:
    number = value.number
    if isinstance(number, float) and (number.is_integer() or not math.isfinite(number)):
        raise ExpressionError(
            "the parser does not keep an integer of this size",
            seen=number,
            limit=2**53,
            remedy="Write it as a text, in quotes.",
        )
    return number
