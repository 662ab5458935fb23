"""Bits of texts: whatever is searched together, kept or forgotten, they are what each predicate says."""

from __future__ import annotations

import ipaddress
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pubsub_cluster.language import text_needles
from pubsub_cluster.language.errors import ExpressionError
from pubsub_cluster.language.predicate import Predicate, PredicateKind, ValueKind
from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch, TextEntries
from pubsub_cluster.language.text_match import compile_text
from pubsub_cluster.language.text_needles import TEXT_START, TEXT_STOP, needles_of
from pubsub_cluster.language.values import fold
from pubsub_cluster.workers import text_cache, text_search
from pubsub_cluster.workers.text_bits import TextBits
from pubsub_cluster.workers.text_machine import FOLDED_MAX, folding

# Letters that fold to others, also from one size in UTF-8 to another, and letters that only seem to.
LETTERS = "abAsS\u017fkK\u212aiİ\u0131ßẞéÉ😀ȺⱥΩ\u2126 \\.*?0-\n\x00"
words = st.text(st.sampled_from(LETTERS), max_size=5)
texts = st.text(st.sampled_from(LETTERS), max_size=14) | st.sampled_from(
    ["10.0.0.7", "::1", "a" * 700, "ab" * 9_000]
)
REGEXES = (
    "",
    "a",
    "ab+c?",
    "^ab",
    "b$",
    "(?i)as",
    "(?i:K)s",
    r"a\.b",
    "[^]a]b",
    r"[[:alpha:]]\\",
    r"\x61b",
    r"\Qa.b\E",
    "a{2}",
    "a{0,1}b",
    "ab{0}s",
    "(ab)?k",
    "(?s)a.b",
    r"\x{17f}",
    "s{2,3}?a",
    "a*?b",
    r"\d-",
    "k",
    "é+",
    "(a)(?P<n>b)",
    "{a",
    "a{,2}",
    "a|b",
    "(a|b)s",
)
NETWORKS = ("10.0.0.0/8", "0.0.0.0/0", "::/0", "10.0.0.7", "10.0.0.0/30")


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    operator = draw(
        st.sampled_from(
            ("contains", "prefix", "suffix", "like", "=", "!=", "in", "not in", "matches", "in_network")
        )
    )
    attribute = draw(
        st.sampled_from(("a", "b") if operator in ("=", "!=", "in", "not in") else ("a", "b", None))
    )
    ignore_case = operator in ("=", "!=", "in", "not in") or (
        operator != "in_network" and draw(st.booleans())
    )
    if operator in ("in", "not in"):
        patterns = draw(st.lists(words, max_size=4))
    else:
        pool = {"matches": st.sampled_from(REGEXES), "in_network": st.sampled_from(NETWORKS)}.get(
            operator, words
        )
        patterns = [draw(pool)]
    constants = tuple((ValueKind.TEXT, pattern.encode()) for pattern in patterns)
    return Predicate(
        PredicateKind.TEXT, attribute, constants=constants, text_operator=operator, ignore_case=ignore_case
    )


def entries_of(values: list[tuple[int, str]]) -> AttributeEntries:
    """Return rows in the given order, with bytes of others between them."""
    encoded = [value.encode() for _, value in values]
    start = np.cumsum([3, *(len(text) + 1 for text in encoded)])[:-1].astype(np.int64)
    data = b"xyz" + b"".join(text + b"|" for text in encoded)
    event = np.array([event for event, _ in values], np.int32)
    end = start + np.array([len(text) for text in encoded], np.int64)
    return AttributeEntries(texts=TextEntries(event, start, end, np.frombuffer(data, np.uint8)))


def expected_bits(held: list[Predicate], batch: dict[str, list[tuple[int, str]]], event: int) -> set[int]:
    """Return the bits of an event, test by test."""
    found = set()
    for bit, predicate in enumerate(held):
        test = compile_text(predicate)
        names = batch if predicate.attribute is None else [predicate.attribute]
        if any(test(text) for name in names for at, text in batch.get(name, ()) if at == event):
            found.add(bit)
    return found


def check(
    bits: TextBits, held: list[Predicate], batch: dict[str, list[tuple[int, str]]], event_count: int
) -> None:
    raw = RawBatch(event_count, {name: entries_of(values) for name, values in batch.items()}, {})
    start, bit = bits.evaluate(raw)
    assert start[0] == 0 and start[-1] == len(bit)
    for event in range(event_count):
        found = bit[start[event] : start[event + 1]].tolist()
        assert len(set(found)) == len(found)
        assert set(found) == expected_bits(held, batch, event)


rows = st.lists(st.tuples(st.integers(0, 3), texts), max_size=6)


@settings(max_examples=150)
@given(
    held=st.lists(predicates(), min_size=1, max_size=25),
    batches=st.lists(st.fixed_dictionaries({"a": rows, "b": rows, "c": rows}), min_size=1, max_size=4),
    bounds=st.sampled_from(
        [(1 << 17, 12 << 20, 512), (3, 12 << 20, 512), (1 << 17, 60, 512), (1 << 17, 1 << 20, 4)]
    ),
    needle_max=st.sampled_from((256, 1, 2)),
)
def test_bits_are_those_of_the_predicates(
    held: list[Predicate],
    batches: list[dict[str, list[tuple[int, str]]]],
    bounds: tuple[int, int, int],
    needle_max: int,
) -> None:
    """Several batches through one search, whatever it keeps by then."""
    for predicate in list(held):
        try:
            compile_text(predicate)
        except ExpressionError:
            held.remove(predicate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_needles, "NEEDLE_LENGTH_MAX", needle_max)
        bits = TextBits(held)
        patch.setattr(text_cache, "TEXTS_MAX", bounds[0])
        patch.setattr(text_cache, "SIZE_BYTES_MAX", bounds[1])
        patch.setattr(text_search, "KEPT_BYTES_MAX", bounds[2])
        for batch in batches:
            check(bits, held, batch, 4)


@settings(max_examples=300)
@given(predicate=predicates(), text=texts, needle_max=st.sampled_from((256, 1, 2)))
@example(
    Predicate(PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, b"ab+c?"),), text_operator="matches"),
    "zabb",
    256,
)
def test_no_text_holds_without_a_needle(predicate: Predicate, text: str, needle_max: int) -> None:
    """Needles may be found in vain, but never be missed; those that decide are never found in vain."""
    try:
        holds = compile_text(predicate)(text)
    except ExpressionError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_needles, "NEEDLE_LENGTH_MAX", needle_max)
        needles, is_folded, is_decided = needles_of(predicate)
    assert all(len(needle.strip(TEXT_START + TEXT_STOP).decode()) <= needle_max for needle in needles)
    searched = TEXT_START + (fold(text) if is_folded else text).encode() + TEXT_STOP
    found = any(needle in searched for needle in needles) or not needles
    assert found or not holds
    assert not is_decided or holds == found


@pytest.mark.parametrize(
    ("pattern", "needle"),
    [
        (r"^C:\\Windows\\[a-z]+\.exe$", b"C:\\Windows\\"),
        (r"(?i)(foo|bar)\s+powershell.{3}", b"powershell"),
        (r"ab?cde*f", b"cd"),
        (r"(?i)Straße", b"stra"),
        (r"x{2}yz", b"yz"),
        (r"foo|bar", b""),
        (r"\x41bcdef", b""),
        (r"(unclosed\Q)", b""),
    ],
)
def test_literal_of_a_regular_expression(pattern: str, needle: bytes) -> None:
    """What is certain is found; what is not gives nothing."""
    predicate = Predicate(
        PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, pattern.encode()),), text_operator="matches"
    )
    assert needles_of(predicate).needles == ((needle,) if needle else ())


def test_every_character_folds_as_in_the_language() -> None:
    """The tables of the kernels say what `fold` says, for all of Unicode."""
    tables = folding()
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code < 0xE000:
            continue
        page = tables.page[code >> 8] if code < FOLDED_MAX else -1
        folded = (
            tables.lower[code]
            if code < 0x80
            else tables.folded[(page << 8) | (code & 0xFF)]
            if page >= 0
            else code
        )
        char = chr(code)
        assert chr(folded) == (char if char == char.casefold() else fold(char)), hex(code)


def test_a_text_is_tested_once() -> None:
    """Also after the cache has grown; outputs need more room than there are rows."""
    operators = [("matches", b"number"), *(("contains", b"text num"[at % 8 :]) for at in range(200))]
    held = [
        Predicate(PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, pattern),), text_operator=operator)
        for operator, pattern in operators
    ]
    bits = TextBits(held)
    search = bits._search
    assert search is not None
    seen: list[str] = []
    search._tests[0] = lambda text: bool(seen.append(text)) or True
    values = [(at, f"text number {at % 3_000}") for at in range(6_000)]
    for batch in (values, values[::-1]):
        start, bit = bits.evaluate(RawBatch(6_000, {"a": entries_of(batch)}, {}))
        assert len(bit) == 201 * 6_000
        assert set(np.diff(start).tolist()) == {201}
    assert len(seen) == 3_000


def test_overlapping_needles_and_a_large_text() -> None:
    """A text of a megabyte in which every needle is found at every place: each is told once."""
    held = [
        Predicate(
            PredicateKind.TEXT,
            "a",
            constants=((ValueKind.TEXT, b"a" * size),),
            text_operator="contains",
            ignore_case=True,
        )
        for size in range(1, 1_500)
    ]
    stars = Predicate(
        PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, b"*a" * 5_000 + b"*b"),), text_operator="like"
    )
    nested = Predicate(
        PredicateKind.TEXT, "a", constants=((ValueKind.TEXT, b"(a+)+(a*)*b$"),), text_operator="matches"
    )
    bits = TextBits([*held, stars, nested])
    _, bit = bits.evaluate(RawBatch(1, {"a": entries_of([(0, "aA" * (1 << 19))])}, {}))
    assert sorted(bit.tolist()) == list(range(len(held)))


@given(
    st.lists(st.sampled_from([*"0159afF.:%/ ", "::", "255", "01", "ffff", "1.2.3.4", "é", "٣", "\0"])).map(
        "".join
    )
)
def test_addresses_are_what_the_standard_library_takes(text: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        expected = []
    else:
        expected = [bit for bit, version in enumerate((4, 6)) if address.version == version]
    assert text_search.Networks([(0, "0.0.0.0/0"), (1, "::/0")]).bits_of(text) == expected
    host = [(2, text)] if expected else []
    assert text_search.Networks(host).bits_of(text) == [2] * len(host)
