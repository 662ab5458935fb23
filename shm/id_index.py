"""Text id -> catalogue row, at about twelve bytes per subscription: the ids themselves stay in the catalogue.

    segment: int64 words, each tag << 32 | row + 1, 0 where free; linear probing from tag's share of the size

Many small segments grow one at a time, so that no insertion waits for millions of others to be moved. The
tag is 31 bits of Python's own hash of the text, whose key is secret and differs per process, so nobody can
make ids that collide; a word with an equal tag is compared with the catalogue's text. One thread.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

I4 = npt.NDArray[np.int32]

SEGMENT_BITS = 10
TAG_BITS = 31
WORDS_LEAST = 8
SLACK_WORDS = 24  # behind the last home, so that probing never wraps; the last word is always free
LOAD_MAX = 0.85
GROWTH = 1.25
MANY_IDS = 8  # of so many the texts are compared all at once
SHRINK_LOAD = 0.5
_ROW_MASK = (1 << 32) - 1
_SEGMENT_MASK = (1 << SEGMENT_BITS) - 1
_TAG_MASK = (1 << TAG_BITS) - 1


class IdIndex:
    """The rows of live subscriptions by their text ids.

    Parameters
    ----------
    id_of : callable
        Gives the UTF-8 of a row's text id.
    """

    def __init__(self, id_of: Callable[[int], bytes]) -> None:
        self._id_of = id_of
        self._segments = [
            array("q", bytes(8 * (WORDS_LEAST + SLACK_WORDS))) for _ in range(_SEGMENT_MASK + 1)
        ]
        self._counts = array("i", bytes(4 * (_SEGMENT_MASK + 1)))
        self._count = 0
        self._new_row = np.zeros(0, np.int32)
        self._old: set[int] = set()  # segments whose rows are to be renumbered when they are next looked at

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(8 * len(segment) for segment in self._segments)

    def find(self, text_id: str) -> int:
        """Return the row of `text_id`; -1 when there is none."""
        return self._locate(text_id)[2]

    def find_many(
        self, text_ids: Sequence[str], texts_of: Callable[[I4], tuple[npt.NDArray[np.int64], bytes]]
    ) -> list[int]:
        """Return what `find` gives for each of these ids.

        Parameters
        ----------
        text_ids : sequence of str
        texts_of : callable
            Gives the offsets and the UTF-8 of many rows' text ids (`CatalogueReader.subscription_ids`).
        """
        if len(text_ids) < MANY_IDS:
            return [self.find(text_id) for text_id in text_ids]
        rows = self._guess(text_ids)
        # A word of that tag is almost always the right one, so the texts are compared all at once.
        found = [number for number, row in enumerate(rows) if row >= 0]
        if found:
            expected = [text_ids[number].encode() for number in found]
            offsets, text = texts_of(np.array([rows[number] for number in found], np.int32))
            sizes = np.fromiter(map(len, expected), np.int64, len(expected))
            if text != b"".join(expected) or not np.array_equal(np.diff(offsets), sizes):
                return [self.find(text_id) for text_id in text_ids]
        return rows

    def _guess(self, text_ids: Sequence[str]) -> list[int]:
        """Return the first row with the tag of each id, which is almost always the right one; or -1."""
        if self._old:
            for text_id in text_ids:
                self._settle(hash(text_id) & _SEGMENT_MASK)
        segments = self._segments
        rows = []
        for text_id in text_ids:
            hashed = hash(text_id)
            tag = hashed >> SEGMENT_BITS & _TAG_MASK
            segment = segments[hashed & _SEGMENT_MASK]
            at = tag * (len(segment) - SLACK_WORDS) >> TAG_BITS
            while (word := segment[at]) and word >> 32 != tag:
                at += 1
            rows.append((word & _ROW_MASK) - 1)
        return rows

    def add(self, text_id: str, row: int) -> None:
        """Enter an id that is not there yet."""
        hashed = hash(text_id)
        number = hashed & _SEGMENT_MASK
        tag = hashed >> SEGMENT_BITS & _TAG_MASK
        if self._old:
            self._settle(number)
        segment = self._segments[number]
        homes = len(segment) - SLACK_WORDS
        if self._counts[number] >= LOAD_MAX * homes:
            segment = self._grow(number)
            homes = len(segment) - SLACK_WORDS
        at = tag * homes >> TAG_BITS
        while segment[at]:
            at += 1
        if at == len(segment) - 1:
            self._grow(number)
            self.add(text_id, row)
            return
        segment[at] = tag << 32 | row + 1
        self._counts[number] += 1
        self._count += 1

    def add_many(self, text_ids: Sequence[str], first_row: int) -> None:
        """Enter ids that are not there yet, none of them twice, with rows that follow each other."""
        if self._old:
            for text_id in text_ids:
                self._settle(hash(text_id) & _SEGMENT_MASK)
        segments, counts = self._segments, self._counts
        added = 0
        for word, text_id in enumerate(text_ids, first_row + 1):
            hashed = hash(text_id)
            number = hashed & _SEGMENT_MASK
            segment = segments[number]
            homes = len(segment) - SLACK_WORDS
            tag = hashed >> SEGMENT_BITS & _TAG_MASK
            at = tag * homes >> TAG_BITS
            while segment[at]:
                at += 1
            if counts[number] >= LOAD_MAX * homes or at == len(segment) - 1:
                self.add(text_id, word - 1)  # the segment has to grow
                continue
            segment[at] = tag << 32 | word
            counts[number] += 1
            added += 1
        self._count += added

    def fill(self, text_ids: Sequence[str]) -> None:
        """Enter the ids of rows 0, 1, 2, ..., none of them twice; only while there are none."""
        if self._count:
            raise ValueError(f"{self._count} ids are there already")
        hashed = np.fromiter(map(hash, text_ids), np.int64, len(text_ids))
        words = (hashed >> SEGMENT_BITS & _TAG_MASK) << 32 | np.arange(1, len(text_ids) + 1)
        number = hashed & _SEGMENT_MASK
        order = np.lexsort((words, number))
        bounds = np.searchsorted(number[order], np.arange(_SEGMENT_MASK + 2))
        words = words[order]
        for segment, (first, stop) in enumerate(itertools.pairwise(bounds.tolist())):
            homes = max(int((stop - first) / LOAD_MAX) + 1, WORDS_LEAST)
            self._rebuild(segment, words[first:stop], homes)
            self._counts[segment] = stop - first
        self._count = len(text_ids)

    def move(self, text_id: str, row: int) -> None:
        """Give an id that is there another row."""
        number, at, _ = self._locate(text_id)
        segment = self._segments[number]
        segment[at] = segment[at] >> 32 << 32 | row + 1

    def remove(self, text_id: str) -> int:
        """Take an id that is there out; return its row."""
        number, at, row = self._locate(text_id)
        self._take_out(number, at)
        return row

    def _take_out(self, number: int, at: int) -> None:
        segment = self._segments[number]
        homes = len(segment) - SLACK_WORDS
        free = at
        # Words behind move up unless that would put them before their home: nothing marks what was removed.
        while word := segment[at := at + 1]:
            if (word >> 32) * homes >> TAG_BITS <= free:
                segment[free] = word
                free = at
        segment[free] = 0
        self._counts[number] -= 1
        self._count -= 1

    def remove_many(self, text_ids: Sequence[str], are_theirs: Callable[[I4], bool]) -> list[int]:
        """Take different ids that are there out, as `remove` does; return their rows.

        Parameters
        ----------
        text_ids : sequence of str
        are_theirs : callable
            Tells whether so many rows, all there, are those of the ids: cheaper than to compare their texts.
        """
        rows = self._guess(text_ids)
        if -1 in rows or not are_theirs(np.array(rows, np.int32)):
            rows = [self.find(text_id) for text_id in text_ids]
        for text_id, row in zip(text_ids, rows, strict=True):
            hashed = hash(text_id)
            number = hashed & _SEGMENT_MASK
            segment = self._segments[number]
            homes = len(segment) - SLACK_WORDS
            tag = hashed >> SEGMENT_BITS & _TAG_MASK
            word = tag << 32 | row + 1
            at = tag * homes >> TAG_BITS
            while segment[at] != word:
                at += 1
            self._take_out(number, at)
        return rows

    def renumber(self, new_row: npt.NDArray[np.int32], id_of: Callable[[int], bytes]) -> None:
        """Give every id another row, in a moment: segments follow one by one, see `settle`.

        Parameters
        ----------
        new_row : int32[rows]
            By row; at least 0 for each row of the index.
        id_of : callable
            Gives the UTF-8 of a new row's text id.
        """
        while self.settle(len(self._segments)):
            pass
        self._id_of = id_of
        self._new_row = new_row
        self._old = set(range(len(self._segments)))

    def settle(self, segment_count: int) -> bool:
        """Renumber so many segments, and make them smaller where many ids have gone; False when all are."""
        for _ in range(min(segment_count, len(self._old))):
            self._settle(next(iter(self._old)))
        if not self._old:
            self._new_row = np.zeros(0, np.int32)
        return bool(self._old)

    def _settle(self, number: int) -> None:
        if number not in self._old:
            return
        self._old.discard(number)
        segment = np.frombuffer(self._segments[number], np.int64)
        used = np.flatnonzero(segment)
        words = segment[used]
        words = words >> 32 << 32 | self._new_row[(words & _ROW_MASK) - 1] + 1
        homes = len(segment) - SLACK_WORDS
        if homes > WORDS_LEAST and len(words) < SHRINK_LOAD * homes:
            self._rebuild(number, words, max(int(len(words) / LOAD_MAX * GROWTH), WORDS_LEAST))
        else:
            segment[used] = words

    def _locate(self, text_id: str) -> tuple[int, int, int]:
        """Return segment, place and row of an id; row -1 when it is not there."""
        hashed = hash(text_id)
        number = hashed & _SEGMENT_MASK
        tag = hashed >> SEGMENT_BITS & _TAG_MASK
        if self._old:
            self._settle(number)
        segment = self._segments[number]
        at = tag * (len(segment) - SLACK_WORDS) >> TAG_BITS
        while word := segment[at]:
            if word >> 32 == tag:
                row = (word & _ROW_MASK) - 1
                if self._id_of(row) == text_id.encode():
                    return number, at, row
            at += 1
        return number, at, -1

    def _grow(self, number: int) -> array[int]:
        old = np.frombuffer(self._segments[number], np.int64)
        homes = max(int(len(old) * GROWTH) - SLACK_WORDS, WORDS_LEAST)
        return self._rebuild(number, old[old != 0], homes)

    def _rebuild(self, number: int, words: npt.NDArray[np.int64], homes: int) -> array[int]:
        words = np.sort(words)
        while len(place := _places(words, homes)) and place[-1] >= homes + SLACK_WORDS - 1:
            homes = int(homes * GROWTH) + 1
        made = array("q", bytes(8 * (homes + SLACK_WORDS)))
        np.frombuffer(made, np.int64)[place] = words
        self._segments[number] = made
        return made


def _places(words: npt.NDArray[np.int64], homes: int) -> npt.NDArray[np.int64]:
    """Return where linear probing puts words that come in order of their tags; ascending."""
    home = (words >> 32) * homes >> TAG_BITS
    rank = np.arange(len(words))
    placed: npt.NDArray[np.int64] = np.maximum.accumulate(home - rank) + rank
    return placed
