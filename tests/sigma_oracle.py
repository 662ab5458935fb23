"""A straight evaluator of Sigma rules over events as they came: the importer's oracle.

It walks the parser's condition tree and looks at raw values; it shares nothing with the importer but the
table of log sources, which is data. Slow, and as plain as can be.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sigma.conditions as conditions
import sigma.types as types
from sigma.policy.profiles import TrustedPolicy
from sigma.rule import SigmaRule

from pubsub_cluster.sigma_rules.logsources import LogSources, default_logsources

Event = dict[str, list[Any]]

ALIASES = {"Provider_Name": "SourceName", "Computer": "Hostname", "Data": "Message"}
ALIASES_OF_4688 = {
    "Image": "NewProcessName",
    "ParentImage": "ParentProcessName",
    "IntegrityLevel": "MandatoryLabel",
    "LogonId": "SubjectLogonId",
}
FLAGS = {
    types.SigmaRegularExpressionFlag.IGNORECASE: re.IGNORECASE,
    types.SigmaRegularExpressionFlag.MULTILINE: re.MULTILINE,
    types.SigmaRegularExpressionFlag.DOTALL: re.DOTALL,
}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "LT": lambda one, other: one < other,
    "LTE": lambda one, other: one <= other,
    "GT": lambda one, other: one > other,
    "GTE": lambda one, other: one >= other,
}


def text_of(value: Any) -> str:
    """The text of a raw value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


@lru_cache(maxsize=100_000)
def folded(text: str) -> str:
    """Simple case folding, one character to one."""
    out = []
    for char in text:
        if len(char.casefold()) == 1:
            out.append(char.casefold())
        else:
            out.append(char.lower() if len(char.lower()) == 1 else char)
    return "".join(out)


def flat(event: dict[str, Any]) -> Event:
    """Values by name; a missing field has none."""
    found: Event = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{name}.{key}", inner)
        elif isinstance(value, list):
            for inner in value:
                walk(name, inner)
        elif value is not None:
            found.setdefault(name, []).append(value)

    for name, value in event.items():
        walk(name, value)
    return found


def values_of(event: Event, field: str) -> list[Any]:
    """The values of a rule's field: its own, else its alias'."""
    if event.get(field):
        return event[field]
    alias = ALIASES.get(field)
    if alias is None and field in ALIASES_OF_4688 and _is_4688(event):
        alias = ALIASES_OF_4688[field]
    return event.get(alias, []) if alias else []


def _is_4688(event: Event) -> bool:
    channels = [folded(text_of(value)) for value in event.get("Channel", [])]
    return "security" in channels and any(_is_number(value, 4688) for value in event.get("EventID", []))


def _is_number(value: Any, number: int | float) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool) and value == number:
        return True
    return text_of(value) == str(number)


def wildcard_holds(parts: list[Any], text: str, ignore_case: bool) -> bool:
    """Whether the whole text fits; the set of places that each part can end at."""
    if ignore_case:
        text = folded(text)
        parts = [folded(part) if isinstance(part, str) else part for part in parts]
    ends = {0}
    for part in parts:
        if isinstance(part, str):
            ends = {end + len(part) for end in ends if text.startswith(part, end)}
        elif part is types.SpecialChars.WILDCARD_SINGLE:
            ends = {end + 1 for end in ends if end < len(text)}
        else:
            ends = set(range(min(ends), len(text) + 1)) if ends else set()
    return len(text) in ends


class Oracle:
    """One rule."""

    def __init__(self, body: dict[str, Any], logsources: LogSources | None = None) -> None:
        self.rule = SigmaRule.from_dict(body, policy=TrustedPolicy)
        self.conditions = [condition.parse() for condition in self.rule.detection.parsed_condition]
        self.where = self._where(logsources or default_logsources())

    def holds(self, event: dict[str, Any]) -> bool:
        """Whether the rule is reported for a raw event."""
        return self.holds_flat(flat(event))

    def holds_flat(self, values: Event) -> bool:
        """The same for an event whose values are known."""
        if self.where is None or not all(self._is_source(values, where) for where in self.where):
            return False
        return any(self.node(condition, values) for condition in self.conditions)

    def _where(self, table: LogSources) -> list[Any] | None:
        source = self.rule.logsource
        wanted = [(source.product, source.category, source.service)]
        if source.category and source.service:
            wanted = [(source.product, source.category, None), (source.product, None, source.service)]
        by_name = {(key.product, key.category, key.service): where for key, where in table.where.items()}
        return [by_name[key] for key in wanted] if all(key in by_name for key in wanted) else None

    @staticmethod
    def _is_source(event: Event, where: Any) -> bool:
        for field, wanted in where.items():
            if not any(
                folded(text_of(value)) == folded(each) if isinstance(each, str) else _is_number(value, each)
                for value in event.get(field, [])
                for each in wanted
            ):
                return False
        return True

    def node(self, item: Any, event: Event) -> bool:
        """The truth of a condition."""
        if isinstance(item, conditions.ConditionAND):
            return all(self.node(child, event) for child in item.args)
        if isinstance(item, conditions.ConditionOR):
            return any(self.node(child, event) for child in item.args)
        if isinstance(item, conditions.ConditionNOT):
            return not self.node(item.args[0], event)
        if isinstance(item, conditions.ConditionValueExpression):
            return self.keyword(item.value, event)
        return self.field(item.field, item.value, event)

    def keyword(self, value: Any, event: Event) -> bool:
        """The truth of a value without a field: anywhere in the text of any value."""
        texts = [text_of(each) for found in event.values() for each in found]
        if isinstance(value, types.SigmaExpansion):
            return any(self.keyword(each, event) for each in value.values)
        if isinstance(value, types.SigmaRegularExpression):
            return any(self.value(value, text) for text in texts)
        parts = value.s if isinstance(value, types.SigmaString) else [text_of(_plain(value))]
        run = types.SpecialChars.WILDCARD_MULTI
        ignore_case = not isinstance(value, types.SigmaCasedString)
        return any(wildcard_holds([run, *parts, run], text, ignore_case) for text in texts)

    def field(self, field: str, value: Any, event: Event) -> bool:
        """The truth of a value for a field."""
        found = values_of(event, field)
        if isinstance(value, types.SigmaNull):
            return not found
        if isinstance(value, types.SigmaExists):
            return bool(found) is value.exists
        if isinstance(value, types.SigmaFieldReference):
            ours = {folded(text_of(each)) for each in found}
            return any(folded(text_of(each)) in ours for each in values_of(event, value.field))
        return any(self.value(value, each) for each in found)

    def value(self, value: Any, found: Any) -> bool:
        """The truth of a value for one value of the event."""
        text = text_of(found)
        if isinstance(value, types.SigmaExpansion):
            return any(self.value(each, found) for each in value.values)
        if isinstance(value, types.SigmaString):
            return wildcard_holds(value.s, text, not isinstance(value, types.SigmaCasedString))
        if isinstance(value, types.SigmaBool):
            return text.lower() == text_of(value.boolean)
        if isinstance(value, types.SigmaNumber):
            return _is_number(found, value.number)
        if isinstance(value, types.SigmaRegularExpression):
            flags = re.NOFLAG
            for flag in value.flags:
                flags |= FLAGS[flag]
            return re.search(raw_pattern(value), text, flags) is not None
        if isinstance(value, types.SigmaCIDRExpression):
            try:
                return ipaddress.ip_address(text) in value.network
            except ValueError:
                return False
        if isinstance(value, types.SigmaCompareExpression):
            return self.compares(value, found)
        raise AssertionError(f"not known to the oracle: {value!r}")

    @staticmethod
    def compares(value: Any, found: Any) -> bool:
        """The truth of lt, lte, gt, gte."""
        compare, bound = COMPARE[value.op.name], value.number.number
        if isinstance(found, int | float) and not isinstance(found, bool):
            return compare(found, bound)
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text_of(found)):
            return False
        return compare(Decimal(text_of(found)), Decimal(str(bound)))


def raw_pattern(value: Any) -> str:
    """A regular expression as the rule has it."""
    signs = {types.SpecialChars.WILDCARD_MULTI: "*", types.SpecialChars.WILDCARD_SINGLE: "?"}
    return "".join(part if isinstance(part, str) else signs[part] for part in value.regexp.s)


def _plain(value: Any) -> Any:
    return value.number if isinstance(value, types.SigmaNumber) else value.boolean


def atoms(item: Any) -> Iterator[tuple[str | None, Any]]:
    """Give field and value of every test in a condition tree."""
    if isinstance(item, conditions.ConditionAND | conditions.ConditionOR | conditions.ConditionNOT):
        for child in item.args:
            yield from atoms(child)
    elif isinstance(item, conditions.ConditionValueExpression):
        yield None, item.value
    else:
        yield item.field, item.value
