"""The catalogue's live rows as columns without gaps: what a fresh load in the order of handles would hold.

Rows come by handle; clauses, literals and id texts follow them. Predicates, constants, attributes and owners
keep their order and lose those that no live row needs; so does the heap. Nothing is done per row in Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.predicate import Predicate, ValueKind
from pubsub_cluster.shm.catalogue_codec import FLAG_HAS_HI, FLAG_HAS_LO, decode_predicate
from pubsub_cluster.shm.catalogue_rows import clause_ranges, id_ranges, is_removed, literal_ranges
from pubsub_cluster.shm.catalogue_store import I4, I8, CatalogueColumns, CatalogueCounts
from pubsub_cluster.shm.code_space import expand_slices

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]


class PackedCatalogue(NamedTuple):
    """Live rows, packed.

    Attributes
    ----------
    counts : CatalogueCounts
    columns : dict of str to array
        As in `CatalogueColumns`, each of the length that `counts` gives; all but ``removed_version``.
    """

    counts: CatalogueCounts
    columns: Arrays


def pack_catalogue(columns: CatalogueColumns, counts: CatalogueCounts, version: int) -> PackedCatalogue:
    """Return the rows below ``counts.rows`` that are not removed at `version`, and what they need."""
    rows = np.flatnonzero(~is_removed(columns, slice(0, counts.rows), version)).astype(np.int32)
    rows = rows[np.argsort(columns.handle[rows], kind="stable")]
    found: Arrays = {"handle": columns.handle[rows]}
    owner, owners = _renumbered(columns.owner[rows], counts.owners)
    found["owner"] = owner
    found |= _windows(columns, counts, rows)
    id_first, id_size = id_ranges(columns, rows)
    found["id_start"] = _starts(id_size).astype(np.uint32)
    found["id_text"] = columns.id_text[expand_slices(id_first, id_size)]
    literal = _clauses(columns, rows, found)
    is_predicate = literal >= 0
    predicate, predicates = _renumbered(np.where(is_predicate, literal >> 1, -1), counts.predicates)
    found["literal"] = np.where(is_predicate, 2 * predicate + (literal & 1), literal).astype(np.int32)
    _predicates(columns, counts, predicates, found)
    _heap(columns, owners, found)
    packed_counts = CatalogueCounts(
        len(rows),
        len(found["window_row"]),
        len(found["id_text"]),
        len(found["literal_start"]) - 1,
        len(literal),
        len(predicates),
        len(found["constant_kind"]),
        len(found["heap"]),
        len(found["attribute_name_start"]),
        len(owners),
    )
    return PackedCatalogue(packed_counts, found)


def _starts(sizes: Any) -> I8:
    found = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=found[1:])
    return found


def _renumbered(numbers: Any, count: int) -> tuple[I4, I8]:
    """Return numbers of a pool without gaps (negative ones stay), and which of the pool are left."""
    used = np.zeros(count, np.bool_)
    used[numbers[numbers >= 0]] = True
    fresh = np.cumsum(used) - 1
    if not count:
        return np.asarray(numbers, np.int32), np.zeros(0, np.int64)
    return np.where(numbers >= 0, fresh[np.maximum(numbers, 0)], numbers).astype(np.int32), np.flatnonzero(
        used
    )


def _windows(columns: CatalogueColumns, counts: CatalogueCounts, rows: I4) -> Arrays:
    row_now = np.full(counts.rows, -1, np.int32)
    row_now[rows] = np.arange(len(rows), dtype=np.int32)
    window_row = row_now[columns.window_row[: counts.windows]]
    kept = np.flatnonzero(window_row >= 0)
    kept = kept[np.argsort(window_row[kept], kind="stable")]
    return {
        "window_row": window_row[kept],
        "window_from": columns.window_from[kept],
        "window_until": columns.window_until[kept],
    }


def _clauses(columns: CatalogueColumns, rows: I4, found: Arrays) -> I4:
    """Enter where the rows' clauses and the clauses' literals start; return the literals as they are."""
    first, count, is_program = clause_ranges(columns, rows)
    clause_start = 2 * _starts(count)
    clause_start[1:] += is_program
    found["clause_start"] = clause_start.astype(np.uint32)
    literal_first, literal_count = literal_ranges(columns, expand_slices(first, count))
    found["literal_start"] = _starts(literal_count).astype(np.uint32)
    literal: I4 = columns.literal[expand_slices(literal_first, literal_count)]
    return literal


def _predicates(columns: CatalogueColumns, counts: CatalogueCounts, predicates: I8, found: Arrays) -> None:
    """Enter the predicates that are left, their attributes and constants."""
    for name in CatalogueColumns._fields:
        if name.startswith("predicate_"):
            found[name] = getattr(columns, name)[predicates]
    both = np.concatenate([found["predicate_attribute"], found["predicate_other"]])
    both, attributes = _renumbered(both, counts.attributes)
    found["predicate_attribute"], found["predicate_other"] = np.split(both, 2)
    found["attribute_name_start"] = columns.attribute_name_start[attributes]
    found["attribute_name_size"] = columns.attribute_name_size[attributes]
    is_text = found["predicate_value_kind"] == ValueKind.TEXT
    has_lo = is_text & (found["predicate_flags"] & FLAG_HAS_LO > 0)
    has_hi = is_text & (found["predicate_flags"] & FLAG_HAS_HI > 0)
    members = expand_slices(found["predicate_constant_start"], found["predicate_constant_count"])
    ends = [found["predicate_lo_whole"][has_lo], found["predicate_hi_whole"][has_hi]]
    number, constants = _renumbered(np.concatenate([*ends, members]), counts.constants)
    found["predicate_lo_whole"][has_lo] = number[: len(ends[0])]
    found["predicate_hi_whole"][has_hi] = number[len(ends[0]) : len(ends[0]) + len(ends[1])]
    # The members of a predicate lie side by side, and still do.
    member_number = number[len(number) - len(members) :]
    member_first = _starts(found["predicate_constant_count"])[:-1]
    has_members = found["predicate_constant_count"] > 0
    found["predicate_constant_start"] = np.zeros(len(predicates), np.int64)
    found["predicate_constant_start"][has_members] = member_number[member_first[has_members]]
    for name in ("constant_kind", "constant_whole", "constant_part", "constant_size"):
        found[name] = getattr(columns, name)[constants]


def _heap(columns: CatalogueColumns, owners: I8, found: Arrays) -> None:
    """Enter the texts of what is left, one after the other, and where each starts now."""
    texts = np.flatnonzero(found["constant_kind"] == ValueKind.TEXT)
    starts = [
        found["constant_whole"][texts],
        found["attribute_name_start"],
        columns.owner_name_start[owners],
    ]
    sizes = [
        found["constant_size"][texts],
        found["attribute_name_size"],
        columns.owner_name_size[owners],
    ]
    start, size = np.concatenate(starts), np.concatenate(sizes).astype(np.int64)
    found["heap"] = columns.heap[expand_slices(start, size)]
    now = _starts(size)[:-1]
    text_end, name_end = len(texts), len(texts) + len(starts[1])
    found["constant_whole"][texts] = now[:text_end]
    found["attribute_name_start"] = now[text_end:name_end]
    found["owner_name_start"] = now[name_end:]
    found["owner_name_size"] = sizes[2]


def known_items(
    columns: CatalogueColumns, counts: CatalogueCounts
) -> tuple[dict[Predicate, int], dict[str, int], dict[str, int]]:
    """Return what a writer knows of its catalogue: literals by predicate, attributes and owners by name."""
    attributes = _names(columns, columns.attribute_name_start, columns.attribute_name_size, counts.attributes)
    owners = _names(columns, columns.owner_name_start, columns.owner_name_size, counts.owners)
    name_of = [*attributes, None]  # the last one, -1, is none
    attribute = columns.predicate_attribute[: counts.predicates].tolist()
    other = columns.predicate_other[: counts.predicates].tolist()
    literals = {
        decode_predicate(columns, number, name_of[first], name_of[second]): 2 * number
        for number, (first, second) in enumerate(zip(attribute, other, strict=True))
    }
    return literals, attributes, owners


def _names(columns: CatalogueColumns, start: I8, size: I4, count: int) -> dict[str, int]:
    bounds = zip(start[:count].tolist(), size[:count].tolist(), strict=True)
    texts = (columns.heap[first : first + size_bytes].tobytes().decode() for first, size_bytes in bounds)
    return {text: number for number, text in enumerate(texts)}
