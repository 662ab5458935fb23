"""Frequencies as columns: a packed file that the tuner takes in, and bytes on the way between parts of a job.

Columns of all attributes stand one behind the other, in the order of their names, with `*_start` columns to
find them again. A file of another format, or one with a byte changed, is refused.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from pubsub_cluster.language.errors import StoreError
from pubsub_cluster.language.raw_batch import (
    AttributeEntries,
    BooleanEntries,
    NumberEntries,
    RawBatch,
    TextEntries,
)
from pubsub_cluster.shm.code_space import I8
from pubsub_cluster.shm.packed_file import PackedWriter, opened
from pubsub_cluster.tuner.event_rows import NO_ENTRIES, text_list
from pubsub_cluster.tuner.frequencies import Frequencies, SampledEvents
from pubsub_cluster.tuner.messages import STATISTICS_FORMAT, STATISTICS_KIND
from pubsub_cluster.tuner.value_counts import AttributeCounts, CountLimits, NumberCounts, Totals

Column = npt.NDArray[Any]
_FACTS = "facts"
_NO_NUMBERS = NumberEntries(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0))
_NO_TEXTS = TextEntries(
    np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
)
_NO_BOOLEANS = BooleanEntries(np.zeros(0, np.int32), np.zeros(0, np.uint8))


class StoredFrequencies(NamedTuple):
    """What is in a file.

    Attributes
    ----------
    frequencies : Frequencies
    schema : dict
        Under which the events were read.
    about : dict
        What else whoever counted has to say.
    """

    frequencies: Frequencies
    schema: dict[str, Any]
    about: dict[str, Any]


def write_frequencies(path: Path, stored: StoredFrequencies) -> int:
    """Write a file, complete or not at all; return its size in bytes.

    Raises
    ------
    OSError
    """
    with PackedWriter(path, STATISTICS_KIND) as file:
        for name, column in _columns(stored.frequencies).items():
            file.add(name, column)
        facts = {"format": STATISTICS_FORMAT, "schema": stored.schema, "about": stored.about}
        return file.finish({**facts, **_facts(stored.frequencies)})


def read_frequencies(path: Path) -> StoredFrequencies:
    """Return what a file has, after checking every byte of it.

    Raises
    ------
    StoreError
        It is missing, damaged, or of another format.
    """
    with opened(path, STATISTICS_KIND) as file:
        facts = file.facts
        if facts["format"] != STATISTICS_FORMAT:
            raise StoreError(
                "the statistics are of another version of pubsub-cluster",
                seen=facts["format"],
                limit=STATISTICS_FORMAT,
                remedy="Count them again with this version: pubsub-cluster pipeline statistics",
                path=str(path),
            )
        columns = {name: file.column(name) for name in file.names()}
        return StoredFrequencies(_taken_apart(columns, facts), facts["schema"], facts["about"])


def to_bytes(frequencies: Frequencies) -> bytes:
    """Return frequencies as bytes, for `from_bytes` of the same version."""
    buffer = io.BytesIO()
    columns = _columns(frequencies)
    columns[_FACTS] = np.frombuffer(orjson.dumps(_facts(frequencies)), np.uint8)
    np.savez(buffer, allow_pickle=False, **columns)
    return buffer.getvalue()


def from_bytes(data: bytes) -> Frequencies:
    """Return the frequencies that `to_bytes` was given."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        columns = dict(file)
    return _taken_apart(columns, orjson.loads(columns.pop(_FACTS).tobytes()))


def _facts(frequencies: Frequencies) -> dict[str, Any]:
    return {
        "events": frequencies.event_count,
        "sampled": len(frequencies.sample.priority),
        "names": sorted(frequencies.attributes),
        "limits": list(frequencies.limits),
    }


def _columns(frequencies: Frequencies) -> dict[str, Column]:
    names = sorted(frequencies.attributes)
    counts = [frequencies.attributes[name] for name in names]
    text = [text for mine in counts for text in mine.texts]
    hashes = [np.zeros(0, np.uint64) if mine.hashes is None else mine.hashes for mine in counts]
    attributes = frequencies.sample.events.attributes
    sampled = [attributes.get(name, NO_ENTRIES) for name in names]
    numbers = [entries.numbers or _NO_NUMBERS for entries in sampled]
    texts = [entries.texts or _NO_TEXTS for entries in sampled]
    booleans = [entries.booleans or _NO_BOOLEANS for entries in sampled]
    sampled_text = [value for mine in texts for value in text_list(mine)]
    return {
        "totals": np.array([mine.totals for mine in counts], np.int64).reshape(-1),
        "exact": np.array([mine.is_exact for mine in counts], np.uint8),
        "number_start": _starts([mine.numbers.whole for mine in counts]),
        "number_whole": _flat([mine.numbers.whole for mine in counts], np.int64),
        "number_part": _flat([mine.numbers.part for mine in counts], np.float64),
        "number_times": _flat([mine.numbers.times for mine in counts], np.int64),
        "text_start": _starts([mine.texts for mine in counts]),
        "text_offset": _starts(text),
        "text_bytes": np.frombuffer(b"".join(text), np.uint8),
        "text_times": np.array([times for mine in counts for times in mine.texts.values()], np.int64),
        "hash_start": _starts(hashes),
        "hash": _flat(hashes, np.uint64),
        "priority": frequencies.sample.priority,
        "sampled_number_start": _starts([mine.event for mine in numbers]),
        "sampled_number_event": _flat([mine.event for mine in numbers], np.int32),
        "sampled_number_whole": _flat([mine.whole for mine in numbers], np.int64),
        "sampled_number_part": _flat([mine.part for mine in numbers], np.float64),
        "sampled_text_start": _starts([mine.event for mine in texts]),
        "sampled_text_event": _flat([mine.event for mine in texts], np.int32),
        "sampled_text_offset": _starts(sampled_text),
        "sampled_text_bytes": np.frombuffer(b"".join(sampled_text), np.uint8),
        "sampled_boolean_start": _starts([mine.event for mine in booleans]),
        "sampled_boolean_event": _flat([mine.event for mine in booleans], np.int32),
        "sampled_boolean_value": _flat([mine.value for mine in booleans], np.uint8),
    }


def _taken_apart(columns: Mapping[str, Column], facts: dict[str, Any]) -> Frequencies:
    """Return the frequencies that are in columns."""
    totals, exact = columns["totals"].reshape(-1, len(Totals._fields)), columns["exact"]
    texts = _texts(columns["text_offset"], columns["text_bytes"])
    times = columns["text_times"].tolist()
    attributes: dict[str, AttributeCounts] = {}
    for at, name in enumerate(facts["names"]):
        number, text, hashed = (_slice(columns[f"{kind}_start"], at) for kind in ("number", "text", "hash"))
        attributes[name] = AttributeCounts(
            Totals(*totals[at].tolist()),
            NumberCounts(*(columns[f"number_{part}"][number] for part in NumberCounts._fields)),
            dict(zip(texts[text], times[text], strict=True)),
            None if exact[at] else columns["hash"][hashed],
        )
    sampled: dict[str, AttributeEntries] = {}
    for at, name in enumerate(facts["names"]):
        entries = _sampled_entries(columns, at)
        if entries != NO_ENTRIES:
            sampled[name] = entries
    sample = SampledEvents(columns["priority"], RawBatch(len(columns["priority"]), sampled, {}))
    return Frequencies(facts["events"], attributes, sample, CountLimits(*facts["limits"]))


def _sampled_entries(columns: Mapping[str, Column], attribute: int) -> AttributeEntries:
    """Return the entries of an attribute in the sampled events."""
    number, text, boolean = (
        _slice(columns[f"sampled_{kind}_start"], attribute) for kind in ("number", "text", "boolean")
    )
    offset = columns["sampled_text_offset"][text.start : text.stop + 1]
    return AttributeEntries(
        NumberEntries(*(columns[f"sampled_number_{part}"][number] for part in NumberEntries._fields))
        if number.start < number.stop
        else None,
        TextEntries(
            columns["sampled_text_event"][text], offset[:-1], offset[1:], columns["sampled_text_bytes"]
        )
        if text.start < text.stop
        else None,
        BooleanEntries(*(columns[f"sampled_boolean_{part}"][boolean] for part in BooleanEntries._fields))
        if boolean.start < boolean.stop
        else None,
    )


def _starts(parts: Sequence[Sized]) -> I8:
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _flat(parts: Sequence[Column], dtype: Any) -> Column:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype, copy=False)


def _slice(start: Column, at: int) -> slice:
    return slice(*start[at : at + 2].tolist())


def _texts(offset: Column, data: Column) -> list[bytes]:
    text = data.tobytes()
    return [text[first:last] for first, last in itertools.pairwise(offset.tolist())]
