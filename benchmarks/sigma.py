"""Sigma rules over log files, end to end on one core: what `pubsub-cluster match` does, and its rivals.

    python -m pubsub_cluster.benchmarks.sigma RULES.zip EVENTS-FOLDER [--passes N] [--without RIVAL]

A timed pass reads all archives, decodes, matches and counts; it asserts the frozen number of matches. The
floor reads and decodes the same archives and does nothing else. Rivals take a part of the events, in the
same process: the naive matcher every so-many-th event, SQLite one file. Ratios are per event. Growth is the
time with ten variants of every rule. Memory and the command's own time are those of a fresh process.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pubsub_cluster.benchmarks.record import ROOT, Figure, write
from pubsub_cluster.benchmarks.sigma_naive import NaiveRules, from_text, read_events
from pubsub_cluster.benchmarks.sigma_sqlite import GATE, SqliteRun, queries_of
from pubsub_cluster.embedded import Engine
from pubsub_cluster.language.expression import And, Expression, Not, Operator, Or
from pubsub_cluster.language.naive import NaiveMatcher
from pubsub_cluster.logs.detector import Detector
from pubsub_cluster.logs.files import BadLine, parse_line, read_blocks
from pubsub_cluster.logs.matching import EngineMatcher
from pubsub_cluster.logs.rules import BookRule, RuleBook, read_book
from pubsub_cluster.sigma_rules.rules import load_rules

FROZEN = ROOT / "tests" / "data" / "sigma-matches.txt"
SEED = 1
VARIANTS = 10
NAIVE_STEP = 200
RUN = """
import sys
from pubsub_cluster.cli.main import run
code = run()
with open("/proc/self/status") as status:
    sys.stderr.write(next(line for line in status if line.startswith("VmHWM")))
sys.exit(code)
"""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_VARIED = frozenset({Operator.EQ, Operator.IN, Operator.PREFIX, Operator.SUFFIX, Operator.CONTAINS})


class Pass(NamedTuple):
    """One pass over all archives: seconds of loading and building, seconds of matching, events, matches."""

    load_s: float
    match_s: float
    event_count: int
    match_count: int


def timed_pass(book: RuleBook, archives: Sequence[str]) -> Pass:
    """Load the rules into a new engine and match all events of the archives."""
    begin = time.perf_counter()
    bad: list[BadLine] = []
    detector = Detector(book.expressions, EngineMatcher(Engine(), book), bad.append, book.form({}))
    loaded = time.perf_counter()
    match_count = 0
    for block in read_blocks(archives, bad.append):
        match_count += sum(len(found.rules) for found in detector.matches_of(block))
    done = time.perf_counter()
    assert not bad, bad[0]
    return Pass(loaded - begin, done - loaded, detector.tally.event_count, match_count)


def floor_s(archives: Sequence[str]) -> float:
    """Time reading and decoding alone."""
    begin = time.perf_counter()
    for block in read_blocks(archives, lambda bad: None):
        for line in block.lines:
            parse_line(line)
    return time.perf_counter() - begin


def variants(book: RuleBook, count: int, seed: int) -> RuleBook:
    """Return the rules with `count` - 1 variants of each: a letter of every text constant is another one."""
    draw = random.Random(seed)
    rules, expressions = list(book.rules), list(book.expressions)
    for number in range(1, count):
        for rule, expression in zip(book.rules, book.expressions, strict=True):
            rules.append(BookRule(f"{rule.id}-{number}", rule.title, rule.level, rule.tags, rule.where))
            expressions.append(_varied(expression, draw))
    return RuleBook(rules, expressions, [], [], book.is_sigma)


def _varied(expression: Expression, draw: random.Random) -> Expression:
    if isinstance(expression, Not):
        return Not(_varied(expression.child, draw))
    if isinstance(expression, And | Or):
        return type(expression)(tuple(_varied(child, draw) for child in expression.children))
    if expression.operator not in _VARIED or expression.attribute in GATE or expression.other is not None:
        return expression
    if isinstance(expression.value, tuple):
        return replace(
            expression,
            value=tuple(v if not isinstance(v, str) else _other(v, draw) for v in expression.value),
        )
    value = expression.value
    return replace(expression, value=_other(value, draw)) if isinstance(value, str) else expression


def _other(text: str, draw: random.Random) -> str:
    places = [i for i, char in enumerate(text) if char.isalpha()]
    if not places:
        return text
    place = draw.choice(places)
    return text[:place] + draw.choice(LETTERS) + text[place + 1 :]


def naive_us(rules_path: Path, archives: Iterable[Path], step: int) -> tuple[float, float, int]:
    """Time the naive matcher on every so-many-th event.

    Returns
    -------
    us_per_event : float
        Of the naive matcher as it is: every rule is asked about every event.
    gated_us_per_event : float
        Of the same tests behind one test per log source.
    event_count : int
    """
    rules = load_rules([rules_path]).rules
    naive, gated = NaiveMatcher(), NaiveRules(rules)
    for rule in rules:
        naive.subscribe(rule.id, rule.expression)
    events = [event for i, event in enumerate(read_events(archives)) if i % step == 0]
    frozen = _frozen()
    times_us = []
    for match in (naive.match_canonical, gated.match):
        begin = time.perf_counter()
        found = [match(event.values) for event in events]
        times_us.append(1e6 * (time.perf_counter() - begin) / len(events))
        for event, matched in zip(events, found, strict=True):
            assert set(matched) == frozen.get((event.file, event.line), set())
    return times_us[0], times_us[1], len(events)


def sqlite_us(rules_path: Path, archive: Path) -> tuple[float, int, float]:
    """Time one query per rule over one file, the making of its table included.

    Returns
    -------
    us_per_event : float
    event_count : int
    convert_s : float
        Seconds that the conversion of the rules took, not in the first.
    """
    queries = queries_of(rules_path, load_rules([rules_path]).rules)
    events = list(read_events([archive]))
    begin = time.perf_counter()
    SqliteRun(queries).answers(events)
    seconds = time.perf_counter() - begin
    return 1e6 * seconds / len(events), len(events), queries.convert_s


def _frozen() -> dict[tuple[str, int], set[str]]:
    """Return the ids of the rules that hold, by file and line."""
    found: dict[tuple[str, int], set[str]] = {}
    for (rule_id, file), lines in from_text(FROZEN.read_text()).items():
        for line in lines:
            found.setdefault((file, line), set()).add(rule_id)
    return found


def command(rules_path: Path, archives: Sequence[str]) -> tuple[float, float]:
    """Run the command in a fresh process; return its seconds and its peak memory in MB.

    The process tells its own mark: the one that a parent is told of a child has the parent's size in it.
    """
    begin = time.perf_counter()
    arguments = ["match", "--rules", str(rules_path), *archives]
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, int(done.stderr.split()[-2]) * 1024 / 1e6


def measure(rules_path: Path, folder: Path, passes: int, without: Sequence[str]) -> list[Figure]:
    """Measure everything that is not left out; return the figures."""
    paths = sorted(folder.glob("*.zip"))
    archives = [str(path) for path in paths]
    expected = sum(map(len, _frozen().values()))
    begin = time.perf_counter()
    book = read_book([rules_path])
    parse_s = time.perf_counter() - begin
    applicable = len(book.rules) + len(book.refused)
    timed_pass(book, archives[:1])
    turns = [(floor_s(archives), timed_pass(book, archives)) for _ in range(passes)]
    assert all(found.match_count == expected for _, found in turns), (turns, expected)
    events = turns[0][1].event_count
    rates = [found.event_count / found.match_s for _, found in turns]
    floors = [events / seconds for seconds, _ in turns]
    best_us = 1e6 / max(rates)
    figures = [
        _figure("rules loaded of those that apply", len(book.rules) / applicable, "", ">= 0.995"),
        _figure("parsing and translating the rules", parse_s, "s"),
        _figure("load and build", min(found.load_s for _, found in turns), "s", "<= 5"),
        _figure("events, from the archives", max(rates), "events/s", ">= 30,000", _spread(rates)),
        _figure("events, reading and decoding alone", max(floors), "events/s", "", _spread(floors)),
        _figure("matches", expected, ""),
    ]
    if "naive" not in without:
        naive, gated, count = naive_us(rules_path, paths, NAIVE_STEP)
        figures.append(_figure(f"time of naive / match, {count:,} events", naive / best_us, "", ">= 100"))
        name = f"time of naive behind log sources / match, {count:,} events"
        figures.append(_figure(name, gated / best_us, ""))
    if "sqlite" not in without:
        smallest = min(paths, key=lambda path: path.stat().st_size)
        sql, count, convert_s = sqlite_us(rules_path, smallest)
        figures.append(_figure(f"time of sqlite / match, {count:,} events", sql / best_us, "", ">= 13"))
        figures.append(_figure("sqlite, converting the rules", convert_s, "s"))
    if "growth" not in without:
        grown = timed_pass(variants(book, VARIANTS, SEED), archives)
        ratio = grown.match_s / statistics.median(found.match_s for _, found in turns)
        figures.append(_figure(f"time with {VARIANTS} x the rules / with them", ratio, "", "<= 3"))
        figures.append(_figure(f"load and build of {VARIANTS} x the rules", grown.load_s, "s"))
    if "command" not in without:
        seconds, peak_mb = command(rules_path, archives)
        figures.append(_figure("command, peak memory", peak_mb, "MB", "<= 300"))
        figures.append(_figure("command, start to end", seconds, "s"))
    return [figure._replace(subscriptions=len(book.rules)) for figure in figures]


def _figure(name: str, value: float, unit: str, target: str = "", spread: str = "") -> Figure:
    return Figure(name, value, unit, target, spread, SEED, "SIGMA")


def _spread(values: Sequence[float]) -> str:
    return f"{min(values):,.0f} to {max(values):,.0f}"


def main() -> int:
    """Measure; write ``benchmarks/results/sigma.csv``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", type=Path)
    parser.add_argument("events", type=Path, help="folder of zip archives")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], choices=["naive", "sqlite", "growth", "command"])
    options = parser.parse_args()
    figures = measure(options.rules, options.events, options.passes, options.without)
    path = write("sigma", figures, keep_others=True, only_figures=True)
    sys.stdout.write(f"{path}\n{path.read_text()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
