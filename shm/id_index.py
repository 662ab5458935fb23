"""Text id -> catalogue row, at about twenty bytes per subscription: the ids themselves stay in the catalogue.

    tags: int32[buckets, SLOTS], 0 where free       rows: int32[buckets, SLOTS]

The ids of a request are looked for, entered and taken out all at once: a bucket is a line of the cache, and
what is done in it is a few operations on arrays. Any slot of a bucket may hold an id, so taking one out
is to free its slot. The few ids whose bucket is full are in a dictionary.

Buckets grow in number one after the other, as ids are entered (linear hashing: W. Litwin, VLDB 1980), so that
no insertion waits for millions of others to be moved: bucket b is split in two, b and b plus the number
of buckets at the last doubling, by the next bit of each tag. The tag is 31 bits of Python's own hash of the
text, whose key is secret and differs per process, so nobody can make ids that collide; where a tag is equal,
the catalogue's text is compared. One thread.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from pubsub_cluster.shm.memory import untouched_zeros

I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]

SLOTS = 16
LOAD = 6
"""Ids per bucket, on average; where a bucket waits to be split it is up to twice as many."""
MANY_IDS = 8  # fewer are done one by one
FIRST_BITS = 10  # of the number of buckets, at least; they are no bits of the tag
TAG_BITS = 31
FILLED_AT_ONCE = 1 << 16
_FIRST_MASK = (1 << FIRST_BITS) - 1
_TAG_MASK = (1 << TAG_BITS) - 1
_NONE = np.zeros(0, np.int32)


class IdIndex:
    """The rows of live subscriptions by their text ids.

    Parameters
    ----------
    id_of : callable
        Gives the UTF-8 of a row's text id.
    ids_max : int
        Address space is set aside for so many; pages that were never used cost nothing. More are held, too,
        but slowly.
    """

    def __init__(self, id_of: Callable[[int], bytes], ids_max: int = 1 << 20) -> None:
        self._id_of = id_of
        self._doubled = _FIRST_MASK + 1  # buckets at the last doubling; of these so many are split
        self._split = 0
        most = 1 << max(FIRST_BITS, (ids_max // LOAD).bit_length())
        self._pools = [mmap.mmap(-1, 4 * SLOTS * most, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in "tr"]
        self._tags, self._rows = (np.frombuffer(pool, np.int32).reshape(most, SLOTS) for pool in self._pools)
        self._tag_at, self._row_at = (memoryview(pool).cast("i") for pool in self._pools)
        self._full: dict[str, int] = {}  # ids whose buckets were full when they came
        self._old_full: dict[str, int] = {}  # of these the ids whose rows are to be renumbered before use
        self._count = 0
        self._new_row = _NONE
        self._is_old = untouched_zeros(most, np.bool_)  # buckets whose rows are to be renumbered before use
        self._has_old = False
        self._settled = 0  # buckets, from the first one, that are not old

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """Bytes of all buckets in use."""
        return 8 * SLOTS * self._bucket_count

    @property
    def _bucket_count(self) -> int:
        return self._doubled + self._split

    def find(self, text_id: str) -> int:
        """Return the row of `text_id`; -1 when there is none."""
        return self._locate(text_id)[1]

    def find_many(self, text_ids: Sequence[str], texts_of: Callable[[I4], tuple[I8, bytes]]) -> list[int]:
        """Return what `find` gives for each of these ids.

        Parameters
        ----------
        text_ids : sequence of str
        texts_of : callable
            Gives the offsets and the UTF-8 of many rows' text ids (`CatalogueReader.subscription_ids`).
        """
        if len(text_ids) < MANY_IDS:
            return [self.find(text_id) for text_id in text_ids]
        rows = self._guess(text_ids)[2]
        # A slot of that tag is almost always the right one, so the texts are compared all at once.
        found = np.flatnonzero(rows >= 0)
        if len(found):
            all_found = len(found) == len(text_ids)
            asked = text_ids if all_found else [text_ids[number] for number in found.tolist()]
            offsets, text = texts_of(rows[found])
            expected, sizes = _utf_8(asked)
            if text != expected or not np.array_equal(np.diff(offsets), sizes):
                return [self.find(text_id) for text_id in text_ids]
        listed: list[int] = rows.tolist()
        return listed

    def add(self, text_id: str, row: int) -> None:
        """Enter an id that is not there yet."""
        self._grow(self._count + 1)
        first, tag = self._home(text_id)
        tags = self._tag_at[first : first + SLOTS].tolist()
        if 0 in tags:
            at = first + tags.index(0)
            self._tag_at[at], self._row_at[at] = tag, row
        else:
            self._full[text_id] = row
        self._count += 1

    def add_many(self, text_ids: Sequence[str], first_row: int) -> None:
        """Enter ids that are not there yet, none of them twice, with rows that follow each other."""
        if len(text_ids) < MANY_IDS:
            for row, text_id in enumerate(text_ids, first_row):
                self.add(text_id, row)
            return
        self._grow(self._count + len(text_ids))
        bucket, tag = self._homes(text_ids)
        rows = np.arange(first_row, first_row + len(text_ids), dtype=np.int32)
        left = np.arange(len(text_ids))
        while len(left):
            home = bucket[left]
            is_free = self._tags[home] == 0
            slot = is_free.argmax(1)
            has_room = is_free[np.arange(len(left)), slot]
            if not has_room.all():
                for number in left[~has_room].tolist():
                    self._full[text_ids[number]] = first_row + number
                left, home, slot = left[has_room], home[has_room], slot[has_room]
            self._rows[home, slot] = rows[left]
            is_mine = self._rows[home, slot] == rows[left]  # of several for a slot one has it
            self._tags[home[is_mine], slot[is_mine]] = tag[left[is_mine]]
            left = left[~is_mine]
        self._count += len(text_ids)

    def fill(self, text_ids: Sequence[str]) -> None:
        """Enter the ids of rows 0, 1, 2, ..., none of them twice; only while there are none."""
        if self._count:
            raise ValueError(f"{self._count} ids are there already")
        for first in range(0, len(text_ids), FILLED_AT_ONCE):
            self.add_many(text_ids[first : first + FILLED_AT_ONCE], first)

    def move(self, text_id: str, row: int) -> None:
        """Give an id that is there another row."""
        at, _ = self._locate(text_id)
        if at < 0:
            self._full[text_id] = row
        else:
            self._row_at[at] = row

    def remove(self, text_id: str) -> int:
        """Take an id that is there out; return its row."""
        at, row = self._locate(text_id)
        if at < 0:
            del self._full[text_id]
        else:
            self._tag_at[at] = 0
        self._count -= 1
        return row

    def remove_many(self, text_ids: Sequence[str], are_theirs: Callable[[I4], bool]) -> I4:
        """Take different ids that are there out, as `remove` does; return their rows.

        Parameters
        ----------
        text_ids : sequence of str
        are_theirs : callable
            Tells whether so many rows, all there, are those of the ids: cheaper than to compare their texts.
        """
        if len(text_ids) < MANY_IDS:
            return np.array([self.remove(text_id) for text_id in text_ids], np.int32)
        bucket, slot, rows = self._guess(text_ids)
        if (rows < 0).any() or not are_theirs(rows):
            return np.array([self.remove(text_id) for text_id in text_ids], np.int32)
        in_bucket = slot >= 0
        if not in_bucket.all():
            for number in np.flatnonzero(~in_bucket).tolist():
                del self._full[text_ids[number]]
            bucket, slot = bucket[in_bucket], slot[in_bucket]
        self._tags[bucket, slot] = 0
        self._count -= len(text_ids)
        return rows

    def renumber(self, new_row: I4, id_of: Callable[[int], bytes]) -> None:
        """Give every id another row, in a moment: buckets follow one by one, see `settle`.

        Parameters
        ----------
        new_row : int32[rows]
            By row; at least 0 for each row of the index.
        id_of : callable
            Gives the UTF-8 of a new row's text id.
        """
        while self.settle(self._bucket_count):
            pass
        self._id_of = id_of
        self._new_row = new_row
        self._full, self._old_full = {}, self._full
        self._is_old[: self._bucket_count] = self._has_old = True
        self._settled = 0

    def settle(self, bucket_count: int) -> bool:
        """Renumber so many buckets, or make them fewer where many ids have gone; False when all is done."""
        if self._has_old:
            first, self._settled = self._settled, self._settled + bucket_count
            self._renumber(np.arange(first, min(self._settled, self._bucket_count)))
            for text_id in list(islice(self._old_full, bucket_count)):
                self._full_row(text_id)
            if self._settled >= self._bucket_count and not self._old_full:
                self._new_row, self._has_old = _NONE, False
            return True
        return self._shrink(bucket_count)

    def _renumber(self, buckets: I8) -> None:
        """Renumber those of these buckets that are old; one may be named several times."""
        old = buckets[self._is_old[buckets]]
        number, slot = np.nonzero(self._tags[old])
        bucket = old[number]
        self._rows[bucket, slot] = self._new_row[self._rows[bucket, slot]]
        self._is_old[old] = False

    def _full_row(self, text_id: str, missing: int = -1) -> int:
        """Return the row of an id whose bucket was full; `missing` where it is not one."""
        row = self._full.get(text_id, missing)
        if row < 0 and (old := self._old_full.pop(text_id, -1)) >= 0:
            row = self._full[text_id] = int(self._new_row[old])
        return row

    def _homes(self, text_ids: Sequence[str]) -> tuple[I8, I4]:
        """Return bucket and tag of each id."""
        hashed = np.fromiter(map(hash, text_ids), np.int64, len(text_ids))
        tag = np.maximum(hashed >> 32 & _TAG_MASK, 1)
        key = tag << FIRST_BITS | hashed & _FIRST_MASK
        bucket = key & (self._doubled - 1)
        if self._split:
            bucket = np.where(bucket < self._split, key & (2 * self._doubled - 1), bucket)
        if self._has_old:
            self._renumber(bucket)
        return bucket, tag.astype(np.int32)

    def _guess(self, text_ids: Sequence[str]) -> tuple[I8, I8, I4]:
        """Return bucket, slot and row of each id; a slot of its tag is taken to be its own.

        The slot is -1 where there is none of that tag, and the row too unless the dictionary has it.
        """
        bucket, tag = self._homes(text_ids)
        numbers = np.arange(len(text_ids))
        is_equal = self._tags[bucket] == tag[:, None]
        slot = is_equal.argmax(1)
        is_there = is_equal[numbers, slot]
        rows = self._rows[bucket, slot]
        if not is_there.all():
            slot[~is_there] = -1
            rows[~is_there] = -1
            if self._full or self._old_full:
                row_of = self._full_row if self._old_full else self._full.get
                for number in np.flatnonzero(~is_there).tolist():
                    if (row := row_of(text_ids[number], -1)) >= 0:
                        rows[number] = row
        return bucket, slot, rows

    def _home(self, text_id: str) -> tuple[int, int]:
        """Return the first place of an id's bucket, and its tag."""
        hashed = hash(text_id)
        tag = hashed >> 32 & _TAG_MASK or 1
        key = tag << FIRST_BITS | hashed & _FIRST_MASK
        bucket = key & (self._doubled - 1)
        if bucket < self._split:
            bucket = key & (2 * self._doubled - 1)
        if self._has_old:
            self._renumber(np.array([bucket]))
        return SLOTS * bucket, tag

    def _locate(self, text_id: str) -> tuple[int, int]:
        """Return place and row of an id; row -1 when it is not there, place -1 when it is in no bucket."""
        first, tag = self._home(text_id)
        tags = self._tag_at[first : first + SLOTS].tolist()
        if tag in tags:
            for at, other in enumerate(tags, first):
                if other == tag and self._id_of(self._row_at[at]) == text_id.encode():
                    return at, self._row_at[at]
        return -1, self._full_row(text_id)

    def _grow(self, count: int) -> None:
        """Split buckets until there are enough for so many ids, or as many as can be."""
        enough = min(-(-count // LOAD), len(self._tags))
        while (missing := enough - self._bucket_count) > 0:
            stop = min(self._split + missing, self._doubled)
            low = slice(self._split, stop)
            high = slice(self._doubled + self._split, self._doubled + stop)
            if self._has_old:
                self._renumber(np.arange(self._split, stop))
            tags = self._tags[low]
            goes = tags & self._doubled >> FIRST_BITS != 0
            self._tags[high], self._rows[high] = np.where(goes, tags, 0), self._rows[low]
            tags[goes] = 0
            self._split = stop
            if self._split == self._doubled:
                self._doubled, self._split = 2 * self._doubled, 0

    def _shrink(self, bucket_count: int) -> bool:
        """Undo up to so many splits, where half of the ids have gone; False when that is not so."""
        if self._bucket_count <= _FIRST_MASK + 1 or 2 * self._count >= LOAD * self._bucket_count:
            return False
        if not self._split:
            self._doubled = self._split = self._doubled // 2
        first = max(self._split - bucket_count, 0)
        low = slice(first, self._split)
        high = slice(self._doubled + first, self._doubled + self._split)
        tags = np.concatenate((self._tags[low], self._tags[high]), axis=1)
        rows = np.concatenate((self._rows[low], self._rows[high]), axis=1)
        order = np.argsort(tags == 0, axis=1, kind="stable")
        tags, rows = np.take_along_axis(tags, order, 1), np.take_along_axis(rows, order, 1)
        self._tags[low], self._rows[low] = tags[:, :SLOTS], rows[:, :SLOTS]
        for row in rows[:, SLOTS:][tags[:, SLOTS:] != 0].tolist():
            self._full[self._id_of(row).decode()] = row
        self._tags[high] = 0
        self._split = first
        self._give_back(self._bucket_count, high.stop)
        return True

    def _give_back(self, first: int, stop: int) -> None:
        """Let the system have the pages of buckets that are not in use any more."""
        page = mmap.PAGESIZE // (4 * SLOTS)
        first = -(-first // page) * page
        if first < stop:
            for pool in self._pools:
                pool.madvise(mmap.MADV_DONTNEED, 4 * SLOTS * first, 4 * SLOTS * (stop - first))


def _utf_8(texts: Sequence[str]) -> tuple[bytes, I8]:
    """Return texts in UTF-8, one after the other, and the bytes of each."""
    whole = "".join(texts)
    if whole.isascii():
        return whole.encode(), np.fromiter(map(len, texts), np.int64, len(texts))
    encoded = [text.encode() for text in texts]
    return b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(encoded))
