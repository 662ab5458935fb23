"""The encoder: from a decoded batch to labels and bits per event, against one set of code spaces.

It validates nothing (`language.batch` did) and decides nothing: it brings every input into the one array type
that the kernels are compiled for (read-only, contiguous, aligned), allocates, calls one kernel per column and
one to arrange the result event by event.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pubsub_cluster.language.raw_batch import AttributeEntries, RawBatch
from pubsub_cluster.shm.code_space import I4, I8, CodeSpaces, first_text_label
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input as kernel_input
from pubsub_cluster.workers.kernels import encode
from pubsub_cluster.workers.text_bits import TextBits


class EncodedBatch(NamedTuple):
    """Labels and bits of n events, event-major; all arrays read-only.

    Attributes
    ----------
    event_count : int
    entry_start : int64[n+1]
    entry_attribute, entry_label : int32[]
        Within an event grouped by attribute, attributes ascending; labels of one attribute are distinct.
    bit_start : int64[n+1]
    bit : int32[]
        Bits that are set, ascending within an event.
    """

    event_count: int
    entry_start: I8
    entry_attribute: I4
    entry_label: I4
    bit_start: I8
    bit: I4


class Encoder:
    """Encodes batches against one set of code spaces.

    Parameters
    ----------
    spaces : CodeSpaces
    attribute_names : sequence of str
        Name of each attribute of `spaces`.
    text_bits : TextBits
        The bit predicates.
    """

    def __init__(self, spaces: CodeSpaces, attribute_names: Sequence[str], text_bits: TextBits) -> None:
        self._names = list(attribute_names)
        self._text_bits = text_bits
        self._number_constants = (
            kernel_input(spaces.number_whole, np.int64),
            kernel_input(spaces.number_part, np.float64),
        )
        self._text_constants = (
            kernel_input(spaces.text_offset, np.int64),
            kernel_input(spaces.text_bytes, np.uint8),
            kernel_input(spaces.text_prefix, np.uint64),
        )
        numbers, texts = spaces.number_start.tolist(), spaces.text_start.tolist()
        self._number_bounds = list(itertools.pairwise(numbers))
        bases = [first_text_label(spaces, attribute) for attribute in range(len(self._names))]
        self._text_bounds = list(zip(texts[:-1], texts[1:], bases, strict=True))

    def encode(self, raw: RawBatch) -> EncodedBatch:
        """Encode all events of a batch; refused ones come out empty."""
        columns = [
            (attribute, raw.attributes[name])
            for attribute, name in enumerate(self._names)
            if name in raw.attributes
        ]
        room = sum(len(kind.event) for _, entries in columns for kind in entries if kind is not None)
        out = (np.empty(room, np.int32), np.empty(room, np.int32))
        segments: list[tuple[int, int, int]] = []
        at = 0
        for attribute, entries in columns:
            end, several = self._encode_attribute(attribute, entries, at, out)
            if several:
                end = _make_distinct(at, end, out)
            segments.append((attribute, at, end))
            at = end
        table = np.array(segments, np.int64).reshape(-1, 3)
        entry_start = np.zeros(raw.event_count + 1, np.int64)
        entries_out = (np.empty(at, np.int32), np.empty(at, np.int32))
        encode.arrange(
            (
                kernel_input(table[:, 0], np.int32),
                kernel_input(table[:, 1], np.int64),
                kernel_input(table[:, 2], np.int64),
            ),
            (frozen(out[0]), frozen(out[1])),
            entry_start,
            entries_out,
        )
        bit_start, bit = self._text_bits.evaluate(raw)
        return EncodedBatch(
            raw.event_count,
            frozen(entry_start),
            frozen(entries_out[0]),
            frozen(entries_out[1]),
            frozen(bit_start),
            frozen(bit),
        )

    def _encode_attribute(
        self, attribute: int, entries: AttributeEntries, at: int, out: tuple[I4, I4]
    ) -> tuple[int, bool]:
        """Encode one attribute into `out` from row `at` on; return the next row and whether events repeat."""
        repeats = 0
        if entries.booleans is not None:
            event = kernel_input(entries.booleans.event, np.int32)
            value = kernel_input(entries.booleans.value, np.uint8)
            repeats += encode.encode_booleans(event, value, at, out)
            at += len(event)
        if entries.numbers is not None:
            event = kernel_input(entries.numbers.event, np.int32)
            keys = (
                kernel_input(entries.numbers.whole, np.int64),
                kernel_input(entries.numbers.part, np.float64),
            )
            bounds = self._number_bounds[attribute]
            repeats += encode.encode_numbers(event, keys, self._number_constants, bounds, at, out)
            at += len(event)
        if entries.texts is not None:
            event = kernel_input(entries.texts.event, np.int32)
            texts = (
                kernel_input(entries.texts.start, np.int64),
                kernel_input(entries.texts.end, np.int64),
                kernel_input(entries.texts.data, np.uint8),
            )
            text_bounds = self._text_bounds[attribute]
            repeats += encode.encode_texts(event, texts, self._text_constants, text_bounds, at, out)
            at += len(event)
        return at, repeats > 0


def _make_distinct(first: int, stop: int, out: tuple[I4, I4]) -> int:
    """Sort rows [first, stop) by event and label, drop repeats; return the new stop."""
    event, label = out
    keys = np.unique((event[first:stop].astype(np.int64) << 32) | label[first:stop])
    end = first + len(keys)
    event[first:end] = keys >> 32
    label[first:end] = keys & 0x7FFFFFFF
    return end
