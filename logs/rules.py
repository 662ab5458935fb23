"""Rules for a run over log files: Sigma files, or subscriptions one a line.

A `RuleBook` is what a run needs: expressions by position, what to print of each, and the form that an event
must have for them. Sigma rules want a normalised event, subscriptions the event as it is, so a book has one
kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pubsub_cluster.language.errors import ExpressionError, PubSubError
from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.json_form import expression_from_any
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.subscription import window_given
from pubsub_cluster.language.subscription_lines import read_item
from pubsub_cluster.language.text_form import parse_text
from pubsub_cluster.logs.detector import EventForm
from pubsub_cluster.sigma_rules.events import Normaliser
from pubsub_cluster.sigma_rules.logsources import default_logsources

LEVELS = ("critical", "high", "medium", "low", "informational")
"""The most urgent first."""
UNBOUNDED = (None, None)
SIGMA_SUFFIXES = (".yml", ".yaml", ".zip")


class BookRule(NamedTuple):
    """What is printed of a rule.

    Attributes
    ----------
    id, title : str
    level : str
        One of `LEVELS`, or empty.
    tags : tuple of str
    where : str
        File and place in it.
    window : (int or None, int or None)
        It is valid from the first to before the second, microseconds since the epoch; None: unbounded.
    """

    id: str
    title: str
    level: str
    tags: tuple[str, ...]
    where: str
    window: tuple[int | None, int | None] = UNBOUNDED

    def is_valid_at(self, now_us: int) -> bool:
        """Say whether it is valid at a time, microseconds since the epoch."""
        return is_valid_at(self.window, now_us)


class Refusal(NamedTuple):
    """A rule that is not used.

    Attributes
    ----------
    where, title, reason : str
    """

    where: str
    title: str
    reason: str


@dataclass(slots=True)
class RuleBook:
    """The rules of a run.

    Attributes
    ----------
    rules : list of BookRule
    expressions : list of Expression
        By the same positions.
    refused : list of Refusal
        Cannot be read or expressed.
    not_applicable : list of Refusal
        Good rules for other logs.
    is_sigma : bool
    """

    rules: list[BookRule]
    expressions: list[Expression]
    refused: list[Refusal]
    not_applicable: list[Refusal]
    is_sigma: bool

    def form(self, renamed: dict[str, str], logsources: Any = None) -> EventForm:
        """Return the form of events that the rules are written for.

        Parameters
        ----------
        renamed : dict of str to str
        logsources : LogSources, optional
            The table whose aliases hold; the package's own by default.
        """
        if not self.is_sigma:
            return EventForm(None, renamed)
        from pubsub_cluster.logs.projection import attributes_of

        read = {name for each in self.expressions for name in attributes_of(each) if name is not None}
        aliases = (logsources or default_logsources()).aliases
        return EventForm(Normaliser(aliases, read), renamed)

    def without(self, position: int, error: PubSubError) -> None:
        """Move a rule to the refused ones: the engine does not take it."""
        rule = self.rules.pop(position)
        del self.expressions[position]
        self.refused.append(Refusal(rule.where, rule.title, str(error)))

    def at_least(self, level: str) -> RuleBook:
        """Return the book without the rules below a level; a rule without a level is below all."""
        wanted = LEVELS[: LEVELS.index(level) + 1]
        return self._of([i for i, rule in enumerate(self.rules) if rule.level in wanted])

    def valid_at(self, now_us: int) -> RuleBook:
        """Return the book without the rules that are not valid at a time, microseconds since the epoch."""
        return self._of([i for i, rule in enumerate(self.rules) if rule.is_valid_at(now_us)])

    def _of(self, kept: list[int]) -> RuleBook:
        return RuleBook(
            [self.rules[i] for i in kept],
            [self.expressions[i] for i in kept],
            self.refused,
            self.not_applicable,
            self.is_sigma,
        )


def is_valid_at(window: tuple[int | None, int | None], now_us: int) -> bool:
    """Say whether a time, microseconds since the epoch, is within a window; None: unbounded."""
    begin, end = window
    return (begin is None or begin <= now_us) and (end is None or now_us < end)


def level_rank(level: str) -> int:
    """Return the place of a level in `LEVELS`; after all of them for none."""
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)


def is_sigma(path: Path) -> bool:
    """Say whether rules at a path are Sigma's: a folder, an archive, or YAML by its name."""
    return path.is_dir() or path.suffix.lower() in SIGMA_SUFFIXES


def read_book(
    paths: Sequence[Path],
    logsources: Any = None,
    limits: Limits = DEFAULT_LIMITS,
) -> RuleBook:
    """Read the rules of some files.

    Parameters
    ----------
    paths : sequence of Path
        All of Sigma, or all with one subscription per line.
    logsources : LogSources, optional
        Of Sigma rules.
    limits : Limits

    Raises
    ------
    ExpressionError
        The paths are of both kinds.
    ImportError
        Sigma rules, and pySigma is not installed.
    """
    kinds = {is_sigma(path) for path in paths}
    if len(kinds) > 1:
        raise ExpressionError(
            "Sigma rules and subscriptions cannot be matched in one run",
            seen=[str(path) for path in paths],
            remedy="Sigma rules want normalised events, subscriptions want them as they are: run it twice.",
        )
    if kinds == {True}:
        return _sigma_book(paths, logsources, limits)
    book = RuleBook([], [], [], [], False)
    for path in paths:
        with path.open("rb") as file:
            _add_lines(book, path.name, file, limits)
    return book


def _sigma_book(paths: Sequence[Path], logsources: Any, limits: Limits) -> RuleBook:
    from pubsub_cluster.sigma_rules.rules import load_rules

    found = load_rules(paths, logsources, limits)
    rules = [BookRule(each.id, each.title, each.level, each.tags, each.where) for each in found.rules]
    return RuleBook(
        rules,
        [each.expression for each in found.rules],
        [Refusal(each.where, each.title, each.reason) for each in found.refused],
        [Refusal(each.where, each.title, each.reason) for each in found.not_applicable],
        True,
    )


def _add_lines(
    book: RuleBook,
    name: str,
    lines: Iterable[bytes],
    limits: Limits,
) -> None:
    known = {rule.id for rule in book.rules}
    for number, line in enumerate(lines, start=1):
        where = f"{name}:{number}"
        item: dict[str, Any] | None = None
        try:
            item = read_item(line, None)
            if item is None:
                continue
            expression = item["expr"]
            if isinstance(expression, str):
                tree = parse_text(expression, None, limits)
            else:
                tree = expression_from_any(expression, limits)
            rule_id = str(item.get("id") or where)
            window = window_given(item.get("valid_from"), item.get("valid_until"))
            if rule_id in known:
                raise ExpressionError("a rule with this id is there already", seen=rule_id)
        except PubSubError as error:
            book.refused.append(Refusal(where, str((item or {}).get("id", "")), str(error)))
            continue
        known.add(rule_id)
        book.rules.append(BookRule(rule_id, rule_id, "", (), where, window))
        book.expressions.append(tree)
