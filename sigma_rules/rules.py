"""Rule files to subscriptions: files, folders and zip archives, each document loaded whole or refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pubsub_cluster.language.errors import ExpressionError, PubSubError
from pubsub_cluster.language.expression import And, Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.wellformed import check_tree
from pubsub_cluster.sigma_rules.documents import Document, read_documents
from pubsub_cluster.sigma_rules.logsources import LogSource, LogSources, default_logsources


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that can be loaded.

    Attributes
    ----------
    id : str
        The rule's id, in small letters; the subscription's id.
    title : str
    level : str
        ``informational low medium high critical``, or empty.
    status : str
        ``stable test experimental deprecated unsupported``, or empty.
    tags : tuple of str
        As in the rule, ``attack.t1059.001`` for instance.
    logsource : LogSource
    expression : Expression
        Over normalised events (`pubsub_cluster.sigma_rules`), its log source included.
    where : str
        File, and member within an archive.
    predicate_count : int
        Distinct predicates: what matching the rule costs at most, per event of its log source.
    clause_count : int or None
        Clauses of the normal form; None where they would be many, so that it is a Boolean program.
    """

    id: str
    title: str
    level: str
    status: str
    tags: tuple[str, ...]
    logsource: LogSource
    expression: Expression
    where: str
    predicate_count: int
    clause_count: int | None

    def metadata(self) -> dict[str, Any]:
        """Return what a subscription to the rule says of itself."""
        return {
            "title": self.title,
            "level": self.level,
            "status": self.status,
            "tags": list(self.tags),
            "logsource": str(self.logsource),
        }


@dataclass(frozen=True, slots=True)
class Unloaded:
    """One document that is not loaded, and why.

    Attributes
    ----------
    where : str
        File, member within an archive, number of the document in a file with several.
    id, title : str
        Empty where it has none, or cannot be read.
    logsource : LogSource
    reason : str
    """

    where: str
    id: str
    title: str
    logsource: LogSource
    reason: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """What became of every document, in the order of the files.

    Attributes
    ----------
    rules : tuple of Rule
        Loaded; their ids are distinct.
    refused : tuple of Unloaded
        Cannot be read or expressed.
    not_applicable : tuple of Unloaded
        Good rules whose log source the table does not have.
    """

    rules: tuple[Rule, ...]
    refused: tuple[Unloaded, ...]
    not_applicable: tuple[Unloaded, ...]


def load_rules(
    paths: Iterable[Path | str], logsources: LogSources | None = None, limits: Limits = DEFAULT_LIMITS
) -> RuleSet:
    """Read rules.

    Parameters
    ----------
    paths : iterable of path
        Rule files, folders (searched for ``*.yml`` and ``*.yaml``, sorted by name) and zip archives.
    logsources : LogSources, optional
        None: the package's own table; `LogSources.extended` adds a user's file.
    limits : Limits
        Of the cluster or engine that the rules are for.

    Returns
    -------
    RuleSet
        Every document is in one of its three lists.

    Raises
    ------
    ImportError
        pySigma is not installed (the extra ``sigma``).
    OSError
        A path does not exist or cannot be read.
    """
    table = default_logsources() if logsources is None else logsources
    reading = _Reading(table, limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # `re` on `[[` within a class, which is meant as it is
        for document in read_documents(paths):
            reading.take(document)
    return RuleSet(tuple(reading.rules), tuple(reading.refused), tuple(reading.not_applicable))


class _Reading:
    """One reading of rules: what has become of the documents so far."""

    def __init__(self, logsources: LogSources, limits: Limits) -> None:
        self.logsources = logsources
        self.limits = limits
        self.rules: list[Rule] = []
        self.refused: list[Unloaded] = []
        self.not_applicable: list[Unloaded] = []
        self.where_of_id: dict[str, str] = {}

    def take(self, document: Document) -> None:
        """Put a document into one of the three lists."""
        from sigma.exceptions import SigmaError

        body = document.body
        if not isinstance(body, dict):
            self.refuse(document, document.problem or "the document is not a map, so it is no rule")
            return
        try:
            self.take_rule(document, body)
        except PubSubError as error:
            self.refuse(document, str(error))
        except SigmaError as error:
            self.refuse(document, f"the parser refuses it: {error}")
        except RecursionError:
            self.refuse(document, "it is nested too deeply for the parser")
        except Exception as error:  # whatever the parser trips over costs this document alone
            self.refuse(document, f"the parser fails on it: {type(error).__name__}: {error}")

    def take_rule(self, document: Document, body: dict[str, Any]) -> None:
        """Read a rule whole, or raise."""
        from sigma.rule import SigmaRule

        from pubsub_cluster.sigma_rules.expressions import PARSER_POLICY, detection_expression

        for kind, what in _NO_RULES.items():
            if kind in body:
                raise ExpressionError(what, seen=kind)
        parsed = SigmaRule.from_dict(body, policy=PARSER_POLICY)
        detection = detection_expression(parsed)
        source = LogSource(parsed.logsource.product, parsed.logsource.category, parsed.logsource.service)
        is_meant = self.logsources.expression_of(source)
        expression = detection if is_meant is None else _both(is_meant, detection)
        check_tree(expression, self.limits)
        form = normalise(expression, limits=self.limits)  # compiles every pattern
        rule_id = document.where if parsed.id is None else str(parsed.id).lower()
        other = self.where_of_id.get(rule_id)
        if other is not None:
            raise ExpressionError("another rule has this id", seen=rule_id, remedy=f"It is in {other}.")
        self.where_of_id[rule_id] = document.where
        if is_meant is None:
            reason = f"no mapping names its log source: {source}"
            self.not_applicable.append(Unloaded(document.where, rule_id, parsed.title, source, reason))
            return
        self.rules.append(
            Rule(
                id=rule_id,
                title=parsed.title,
                level="" if parsed.level is None else parsed.level.name.lower(),
                status="" if parsed.status is None else parsed.status.name.lower(),
                tags=tuple(str(tag) for tag in parsed.tags),
                logsource=source,
                expression=expression,
                where=document.where,
                predicate_count=len(form.predicates),
                clause_count=None if form.clauses is None else len(form.clauses),
            )
        )

    def refuse(self, document: Document, reason: str) -> None:
        """List a document with what can be read of it."""
        body = document.body if isinstance(document.body, dict) else {}
        said = body.get("logsource")
        texts = (
            [
                value if isinstance(value := said.get(name), str) else None
                for name in ("product", "category", "service")
            ]
            if isinstance(said, dict)
            else []
        )
        self.refused.append(
            Unloaded(
                document.where,
                str(body.get("id") or ""),
                str(body.get("title") or ""),
                LogSource(*texts),
                " ".join(reason.split()),
            )
        )


_NO_RULES = {
    "correlation": "it relates several events, and a subscription sees one event at a time",
    "filter": "it is a filter for other rules, which are read without it",
    "action": "it is a part of a rule collection in the old form",
}


def _both(one: Expression, other: Expression) -> Expression:
    parts = [part for test in (one, other) for part in (test.children if isinstance(test, And) else (test,))]
    return parts[0] if len(parts) == 1 else And(tuple(parts))
