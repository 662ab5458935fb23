"""``load --format sigma``: detection rules as subscriptions, reported rule by rule.

Whatever is refused, by the importer or by the cluster, is named with its reason; the rules around it are
loaded. With ``--dry-run`` no cluster is needed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubsub_cluster.cli.common import EXIT_ERROR, emit_json, note
from pubsub_cluster.cli.load import replace_existing
from pubsub_cluster.cli.progress import Progress
from pubsub_cluster.cli.render import counted, table, terminal_width
from pubsub_cluster.language.errors import PubSubError

if TYPE_CHECKING:
    from pubsub_cluster.client import Client
    from pubsub_cluster.sigma_rules.logsources import LogSource
    from pubsub_cluster.sigma_rules.rules import Rule, RuleSet, Unloaded

RULES_PER_CHUNK = 1_000
SOURCES_SHOWN_MAX = 5
LEVELS = ("critical", "high", "medium", "low", "informational", "")
HEADERS = ("state", "rule", "level", "log source", "predicates", "ns/event", "stored as, or why not")
DEAR_RULES = 10
PARSER_PACKAGES = ("sigma", "yaml")
INSTALL = "Install the parser: pip install 'pubsub-cluster[sigma]'."


def read_rules(paths: Sequence[str], logsources_file: Path | None) -> RuleSet:
    """Read rules with the package's table of log sources, and a user's file before it.

    Raises
    ------
    click.UsageError
        The parser is not installed, or a path cannot be read.
    PubSubError
        The user's file is not of its form.
    """
    from pubsub_cluster.sigma_rules.documents import read_documents
    from pubsub_cluster.sigma_rules.logsources import default_logsources
    from pubsub_cluster.sigma_rules.rules import load_rules

    sources = default_logsources()
    try:
        if logsources_file is not None:
            sources = sources.extended(logsources_file)
        for path in paths:
            if next(read_documents([path]), None) is None:
                note(f"Warning: there is no rule in {path}: no YAML by its name.")
        return load_rules(paths, sources)
    except ImportError as error:
        if (error.name or "").split(".")[0] not in PARSER_PACKAGES:
            raise
        raise click.UsageError(f"Sigma rules need the parser pySigma 2. {INSTALL}") from None
    except OSError as error:
        raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from None


def show_rules(
    found: RuleSet, sample_paths: Sequence[str], logsources_file: Path | None, as_json: bool
) -> None:
    """Print what would become of every rule: the dearest first, the refused last."""
    from pubsub_cluster.cli.expected_cost import expected_costs, sample_events

    sample = sample_events(sample_paths, logsources_file) if sample_paths else None
    costs = expected_costs(found.rules, sample)
    priced = sorted(zip(found.rules, costs, strict=True), key=lambda each: -(each[1] or 0.0))
    event_count = 0 if sample is None else sample.event_count
    if as_json:
        report = _report(found, [rule for rule, _ in priced], {}, 0.0)
        for told, (_, cost) in zip(report["rules"], priced, strict=True):
            told["expected_cost_ns"] = cost
        emit_json({**report, "sampled_events": event_count})
        return
    rows = [_row(rule, cost) for rule, cost in priced]
    rows += [_unloaded_row("not applicable", each) for each in found.not_applicable]
    rows += [_unloaded_row("refused", each) for each in found.refused]
    if rows:
        width = terminal_width() if sys.stdout.isatty() else None  # a file has room for whole cells
        click.echo(table(HEADERS, rows, indent="", width_max=width))
    note(_summary("Would load", len(found.rules), found))
    levels = Counter(rule.level for rule in found.rules)
    by_level = [f"{levels[level]:,} {level or 'without a level'}" for level in LEVELS if levels[level]]
    programs = sum(rule.clause_count is None for rule in found.rules)
    note(
        f"By level: {', '.join(by_level) or 'none'}. Predicates: "
        f"{sum(rule.predicate_count for rule in found.rules):,}; {counted(programs, 'rule')} as Boolean "
        "programs, because their clauses would be many."
    )
    _note_costs(priced, event_count)


def _note_costs(priced: Sequence[tuple[Rule, float | None]], event_count: int) -> None:
    """Say what the column of costs is, and where the statistics are from."""
    costs = [cost or 0.0 for _, cost in priced]
    note(
        f"Expected cost: {sum(costs):,.1f} ns per event for all rules, {sum(costs[:DEAR_RULES]):,.1f} of it "
        f"for the first {DEAR_RULES}, beside the search for texts that all share (docs/sigma.md)."
    )
    if event_count:
        note(f"Statistics: an even sample of {counted(event_count, 'event')} of --sample.")
    else:
        note(
            "Statistics: none, so every field is taken as present and every value as equally likely. "
            "--sample EVENTS takes them from a log."
        )


def load_into(
    connect: Callable[[], Client], found: RuleSet, owner: str | None, replace: bool, as_json: bool
) -> None:
    """Subscribe the rules; the subscription's id is the rule's."""
    begin = time.monotonic()
    refused: dict[str, PubSubError] = {}
    replaced_count = 0
    with connect() as client, Progress("Loading", len(found.rules), "rule") as bar:
        for first in range(0, len(found.rules), RULES_PER_CHUNK):
            rules = found.rules[first : first + RULES_PER_CHUNK]
            items = [_item(rule, owner) for rule in rules]
            results = list(client.subscribe_many(items, retained=0))
            if replace:
                replaced_count += replace_existing(client, items, results)
            refused.update(
                (rule.id, result)
                for rule, result in zip(rules, results, strict=True)
                if isinstance(result, PubSubError)
            )
            bar.advance(len(rules), f"{len(refused):,} refused")
    loaded = [rule for rule in found.rules if rule.id not in refused]
    if as_json:
        emit_json(_report(found, loaded, refused, time.monotonic() - begin, replaced_count))
    else:
        replaced = f" ({replaced_count:,} replaced)" if replaced_count else ""
        click.echo(f"{_summary('Loaded', len(loaded), found)}{replaced}")
    for each in found.refused:
        note(f"Refused {each.where}: {each.title or 'no title'}: {each.reason}")
    for rule in found.rules:
        if rule.id in refused:
            note(f"Refused {rule.where}: {rule.title}: {refused[rule.id]}")
    _note_others(found)
    if refused or found.refused:
        raise SystemExit(EXIT_ERROR)


def _note_others(found: RuleSet) -> None:
    """Say which log sources have no mapping, the commonest ones."""
    sources = Counter(str(each.logsource) for each in found.not_applicable)
    for source, count in sources.most_common(SOURCES_SHOWN_MAX):
        note(f"Not applicable: {counted(count, 'rule')} of {source}")
    if sources:
        unseen = len(sources) - SOURCES_SHOWN_MAX
        more = f"{counted(unseen, 'more log source')} not shown; " if unseen > 0 else ""
        note(f"  {more}--dry-run lists every rule, --logsources FILE maps log sources.")


def _item(rule: Rule, owner: str | None) -> dict[str, Any]:
    item: dict[str, Any] = {"id": rule.id, "expr": rule.expression, "metadata": rule.metadata()}
    return item if owner is None else {**item, "owner": owner}


def _summary(verb: str, loaded_count: int, found: RuleSet) -> str:
    others = len(found.not_applicable)
    total = len(found.rules) + len(found.refused) + others
    refused = total - others - loaded_count
    rules = counted(total, "rule")
    return f"{verb} {loaded_count:,} of {rules}; refused {refused:,}, not applicable {others:,}."


def _row(rule: Rule, cost: float | None) -> tuple[Any, ...]:
    stored = "program" if rule.clause_count is None else counted(rule.clause_count, "clause")
    return (
        "loaded",
        rule.title,
        rule.level,
        _short(rule.logsource),
        rule.predicate_count,
        _shown(cost),
        stored,
    )


def _shown(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 4)


def _unloaded_row(state: str, each: Unloaded) -> tuple[Any, ...]:
    # What a rule is called that has no title, or cannot be read, is its file.
    return state, each.title or each.where, "", _short(each.logsource), None, None, each.reason


def _short(source: LogSource) -> str:
    said = (source.product, source.category, source.service)
    return " ".join(part for part in said if part is not None)


def _report(
    found: RuleSet,
    loaded: Sequence[Rule],
    refused: dict[str, PubSubError],
    seconds: float,
    replaced_count: int = 0,
) -> dict[str, Any]:
    return {
        "loaded": len(loaded),
        "replaced": replaced_count,
        "refused": len(refused) + len(found.refused),
        "not_applicable": len(found.not_applicable),
        "seconds": round(seconds, 3),
        "rules": [_rule_report(rule) for rule in loaded],
        "refusals": [
            *[_unloaded_report(each) for each in found.refused],
            *[
                {**_rule_report(rule), "reason": str(refused[rule.id])}
                for rule in found.rules
                if rule.id in refused
            ],
        ],
        "others": [_unloaded_report(each) for each in found.not_applicable],
    }


def _rule_report(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        **rule.metadata(),
        "where": rule.where,
        "predicates": rule.predicate_count,
        "clauses": rule.clause_count,
    }


def _unloaded_report(each: Unloaded) -> dict[str, Any]:
    return {
        "id": each.id,
        "title": each.title,
        "logsource": str(each.logsource),
        "where": each.where,
        "reason": each.reason,
    }
