"""Rule files to subscriptions: files, folders and zip archives, each document loaded whole or refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pubsub_cluster.language.expression import Expression
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.sigma_rules.logsources import LogSource, LogSources


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
    """

    id: str
    title: str
    level: str
    status: str
    tags: tuple[str, ...]
    logsource: LogSource
    expression: Expression
    where: str


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
    raise NotImplementedError
