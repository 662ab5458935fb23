"""Needles of real rules in real texts: the kernel against libraries that search for many needles at once.

    python -m pubsub_cluster.benchmarks.text_search RULES.zip EVENTS-FOLDER

For some attributes: what rules look for without regard to case, `prefix`, `suffix` and `=` made `contains`
because libraries know no ends, in the distinct texts of every so-many-th event. One pass is one call per text
for a library, folding included, and one call for the kernel, which has forgotten what it saw. All must find
the same needles. Libraries that are not installed are left out: pyahocorasick, ahocorasick-rs, hyperscan.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.benchmarks.record import Figure, write
from pubsub_cluster.language.normalise import normalise
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.text_needles import TEXT_START, TEXT_STOP, needles_of
from pubsub_cluster.language.values import fold
from pubsub_cluster.logs.files import read_blocks
from pubsub_cluster.logs.rules import RuleBook, read_book
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.text_cache import TextCache
from pubsub_cluster.workers.text_search import TextRows, TextSearch

ATTRIBUTES = ("CommandLine", "Image", "TargetObject", "Hashes", "ContextInfo")
EVENT_STEP = 10
TEXTS_MAX = 6_000
PASSES = 3
OWN = "kernel"

Count = Callable[[], int]
"""One pass over the texts; returns how many needles were found, each once per text."""


class Problem(NamedTuple):
    """Needles, folded, and texts to look for them in."""

    needles: list[bytes]
    texts: list[str]


def problem_of(attribute: str, book: RuleBook, texts: list[str]) -> Problem:
    """Return the needles of an attribute, as `contains`, and the texts."""
    found: dict[bytes, None] = {}
    for expression in book.expressions:
        for predicate in normalise(expression).predicates:
            if predicate.kind == PredicateKind.TEXT and predicate.attribute == attribute:
                needles, is_folded, is_decided = needles_of(predicate)
                if is_folded and is_decided:
                    found.update(dict.fromkeys(one.strip(TEXT_START + TEXT_STOP) for one in needles))
    return Problem([one for one in found if one], texts)


def texts_of(book: RuleBook, folder: Path) -> dict[str, list[str]]:
    """Return distinct texts of the attributes, in the order of the events."""
    form = book.form({})
    found: dict[str, dict[str, None]] = {attribute: {} for attribute in ATTRIBUTES}
    for block in read_blocks(sorted(map(str, folder.glob("*.zip"))), lambda bad: None):
        for line in block.lines[::EVENT_STEP]:
            event = form.flat(line)
            values = form.seen(event) if event is not None else {}
            for attribute in ATTRIBUTES:
                if isinstance(value := values.get(attribute), str) and len(found[attribute]) < TEXTS_MAX:
                    found[attribute][value] = None
    return {attribute: list(texts) for attribute, texts in found.items()}


def own(problem: Problem) -> Count:
    """Return a pass of the kernel."""
    predicates = [
        Predicate(
            PredicateKind.TEXT,
            "a",
            constants=((ValueKind.TEXT, needle),),
            text_operator="contains",
            ignore_case=True,
        )
        for needle in problem.needles
    ]
    search = TextSearch(list(enumerate(predicates)))
    encoded = [text.encode() for text in problem.texts]
    stop = np.cumsum([len(text) for text in encoded]).astype(np.int64)
    start = stop - np.array([len(text) for text in encoded], np.int64)
    event = frozen(np.arange(len(encoded), dtype=np.int32))
    data = frozen(np.frombuffer(b"".join(encoded), np.uint8))
    rows = TextRows(event, frozen(np.zeros(len(encoded), np.int32)), frozen(start), frozen(stop), data)

    def count() -> int:
        search._cache = TextCache()
        search._told[:] = 0
        return len(search.find(rows)[0])

    return count


def pyahocorasick(problem: Problem) -> Count:
    """Return a pass of pyahocorasick."""
    automaton: Any = importlib.import_module("ahocorasick").Automaton()
    for number, needle in enumerate(problem.needles):
        automaton.add_word(needle.decode(), number)
    automaton.make_automaton()
    return lambda: sum(len({found for _, found in automaton.iter(fold(text))}) for text in problem.texts)


def ahocorasick_rs(problem: Problem) -> Count:
    """Return a pass of ahocorasick-rs."""
    automaton: Any = importlib.import_module("ahocorasick_rs").BytesAhoCorasick(problem.needles)

    def count() -> int:
        found = 0
        for text in problem.texts:
            hits = automaton.find_matches_as_indexes(fold(text).encode(), overlapping=True)
            found += len({hit[0] for hit in hits})
        return found

    return count


def hyperscan(problem: Problem) -> Count:
    """Return a pass of hyperscan."""
    library: Any = importlib.import_module("hyperscan")
    database = library.Database(mode=library.HS_MODE_BLOCK)
    size = len(problem.needles)
    flags = [library.HS_FLAG_SINGLEMATCH] * size
    database.compile(expressions=problem.needles, ids=list(range(size)), literal=True, flags=flags)
    found: list[int] = []

    def hit(number: int, *_: Any) -> None:
        found.append(number)

    def count() -> int:
        found.clear()
        for text in problem.texts:
            database.scan(fold(text).encode(), match_event_handler=hit)
        return len(found)

    return count


SEARCHES: dict[str, Callable[[Problem], Count]] = {
    OWN: own,
    "pyahocorasick": pyahocorasick,
    "ahocorasick-rs": ahocorasick_rs,
    "hyperscan": hyperscan,
}


def compare(attribute: str, problem: Problem) -> Iterator[Figure]:
    """Time all searches in turns; the best pass counts."""
    passes: dict[str, Count] = {}
    build_ms: dict[str, float] = {}
    for name, search in SEARCHES.items():
        begin = time.process_time()
        with contextlib.suppress(ModuleNotFoundError):
            passes[name] = search(problem)
            build_ms[name] = 1e3 * (time.process_time() - begin)
    counts = {name: run() for name, run in passes.items()}
    assert len(set(counts.values())) == 1, (attribute, counts)
    times: dict[str, list[float]] = {name: [] for name in passes}
    for _ in range(PASSES):
        for name, run in passes.items():
            begin = time.process_time()
            run()
            times[name].append(time.process_time() - begin)
    size = sum(len(text.encode()) for text in problem.texts)
    for name, taken in times.items():
        spread = f"{1e9 * min(taken) / size:.2f} to {1e9 * max(taken) / size:.2f}"
        yield _figure(attribute, problem, f"{name}, time a byte", 1e9 * min(taken) / size, "ns", spread)
        yield _figure(attribute, problem, f"{name}, time a text", 1e6 * min(taken) / len(problem.texts), "µs")
        yield _figure(attribute, problem, f"{name}, build", build_ms[name], "ms")


def _figure(
    attribute: str, problem: Problem, figure: str, value: float, unit: str, spread: str = ""
) -> Figure:
    return Figure(figure, value, unit, "", spread, None, attribute, len(problem.needles))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; write ``benchmarks/results/text_search.csv``, where "subscriptions" are needles."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rules", type=Path)
    parser.add_argument("events", type=Path, help="folder of zip archives")
    options = parser.parse_args(arguments)
    book = read_book([options.rules])
    texts = texts_of(book, options.events)
    problems = {attribute: problem_of(attribute, book, texts[attribute]) for attribute in ATTRIBUTES}
    own(problems[ATTRIBUTES[0]])()  # loads the kernels
    figures = [figure for attribute in ATTRIBUTES for figure in compare(attribute, problems[attribute])]
    path = write("text_search", figures)
    sys.stdout.write(f"{path}\n{path.read_text()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
