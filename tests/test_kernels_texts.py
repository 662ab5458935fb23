"""Bits of texts: from the cache, beyond its bounds and through its growth, always what the predicate says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub_cluster.language.raw_batch import TextEntries
from pubsub_cluster.workers import text_cache
from pubsub_cluster.workers.text_cache import TextCache

TESTS = [
    lambda text: "a" in text,
    lambda text: text.endswith("b"),
    lambda text: len(text) > 8,
    lambda text: True,
]
texts = st.text("ab\0é", max_size=12) | st.sampled_from(["", "aaaaaaaa", "aaaaaaaab", "aaaaaaaa\0", "a" * 40])


def entries_of(values: list[tuple[int, str]]) -> TextEntries:
    """Return rows in the given order, with bytes of others between them."""
    encoded = [value.encode() for _, value in values]
    start = np.cumsum([3, *(len(text) + 1 for text in encoded)])[:-1].astype(np.int64)
    data = b"xyz" + b"".join(text + b"|" for text in encoded)
    event = np.array([event for event, _ in values], np.int32)
    end = start + np.array([len(text) for text in encoded], np.int64)
    return TextEntries(event, start, end, np.frombuffer(data, np.uint8))


def cache_of(tests: list) -> TextCache:
    cache = TextCache()
    cache.tests = [(2 * at + 1, test) for at, test in enumerate(tests)]
    return cache


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 5), texts), max_size=12), max_size=5),
    test_count=st.integers(0, 4),
    bounds=st.sampled_from([(65_536, 1 << 23), (4, 1 << 23), (65_536, 40)]),
)
def test_bits_are_those_of_the_predicates(
    batches: list[list[tuple[int, str]]], test_count: int, bounds: tuple[int, int]
) -> None:
    """Several batches through one cache, whatever it holds by then."""
    cache = cache_of(TESTS[:test_count])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cache, "CACHE_TEXTS_MAX", bounds[0])
        patch.setattr(text_cache, "CACHE_SIZE_BYTES_MAX", bounds[1])
        for batch in batches:
            found = cache.keys_of(entries_of(batch), 10).tolist()
            expected = [
                event * 10 + bit for event, value in batch for bit, test in cache.tests if test(value)
            ]
            assert sorted(found) == sorted(expected)


def test_a_text_is_evaluated_once() -> None:
    """Also after the cache has grown; keys need more room than there are rows."""
    seen: list[str] = []
    cache = cache_of([lambda text: bool(seen.append(text)) or True, *[lambda text: True] * 200])
    values = [(at, f"text number {at % 3_000}") for at in range(6_000)]
    assert len(cache.keys_of(entries_of(values), 1_000)) == 201 * 6_000
    assert len(cache.keys_of(entries_of(values[::-1]), 1_000)) == 201 * 6_000
    assert len(seen) == 3_000
