"""ONE table of every column in shared memory; `shm.column_plan` does all offset arithmetic by it.

A *family* is a list of columns that lie one after the other in a segment (or in each of its equal *cells*:
chunks, slots). A column's length is named by a symbol; `plan` turns the lengths into offsets. A segment of a
family starts with the stamp (`shm.header`) and its lengths, so that a reader needs nothing but the name, and
the stamp's layout version is a checksum of the family's table: older segments are refused after a change.

    | stamp 64 bytes | lengths int64[symbols] | column | column | ...
    | stamp 64 bytes | lengths int64[symbols] | cell 0: columns | cell 1: columns | ...

`docs/shm-layout.md` is generated from this table by ``python -m pubsub_cluster.shm.columns`` (``--check``
compares). To add a column, add a line; to add a symbol, use it.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

PAGE_SIZE_BYTES = 4096
CACHE_LINE_BYTES = 64


class Column(NamedTuple):
    """One column.

    Attributes
    ----------
    name : str
    dtype : str
        NumPy's name, native byte order (the stamp tells a foreign one).
    length_symbol : str
        ``symbol``, ``symbol + 1``, ``8 * symbol`` or a number.
    unit : str
        What one item counts or numbers; empty for plain codes.
    writer, readers : str
        Processes.
    ordered_by : str
        What makes a reader see the writer's stores.
    doc : str
    """

    name: str
    dtype: str
    length_symbol: str
    unit: str
    writer: str
    readers: str
    ordered_by: str
    doc: str


class Frame(NamedTuple):
    """How a family lies in its segment.

    Attributes
    ----------
    align_bytes : int
        Alignment of each column.
    cell_symbol : str
        Number of equal cells; empty when the columns are there once.
    cell_align_bytes : int
        Alignment of each cell.
    doc : str
    """

    align_bytes: int
    cell_symbol: str
    cell_align_bytes: int
    doc: str


def _columns(
    writer: str, readers: str, ordered_by: str, *lines: tuple[str, str, str, str, str]
) -> tuple[Column, ...]:
    return tuple(
        Column(name, dtype, symbol, unit, writer, readers, ordered_by, doc)
        for name, dtype, symbol, unit, doc in lines
    )


_MESSAGE = "counts in messages"
_ANNOUNCED = "announced complete by a message"

_CATALOGUE = (
    *_columns(
        "coordinator",
        "workers, tuner",
        _MESSAGE,
        ("handle", "u8", "rows", "handle", "the subscription's handle; an update makes a new row"),
        ("owner", "i4", "rows", "owner", "-1: none"),
        (
            "id_start",
            "u4",
            "rows + 1",
            "id byte",
            "the subscription's text id ends where the next one starts",
        ),
        (
            "clause_start",
            "u4",
            "rows + 1",
            "",
            "2 * first clause + 1 where the only clause is a program; no clause: never holds",
        ),
    ),
    *_columns(
        "coordinator",
        "coordinator; a hint elsewhere",
        "one aligned 8-byte store",
        ("removed_version", "i8", "rows", "version", "0: live; else first version that does not see the row"),
    ),
    *_columns(
        "coordinator",
        "workers, tuner",
        _MESSAGE,
        ("window_row", "i4", "windows", "row", "rows that have a validity window, ascending"),
        ("window_from", "i8", "windows", "us since epoch", "INT64_MIN: unbounded"),
        ("window_until", "i8", "windows", "us since epoch", "first moment outside; INT64_MAX: unbounded"),
        ("id_text", "u1", "id_bytes", "byte", "UTF-8 of the subscriptions' ids"),
        ("literal_start", "u4", "clauses + 1", "literal", "first literal of the clause; none: always holds"),
        (
            "literal",
            "i4",
            "literals",
            "",
            "2 * predicate + negated; in a program (postfix) also -2n: AND of n, -2n - 1: OR of n",
        ),
        ("predicate_kind", "i1", "predicates", "", "language.predicate.PredicateKind"),
        ("predicate_attribute", "i4", "predicates", "attribute", "-1: any attribute"),
        ("predicate_other", "i4", "predicates", "attribute", "second attribute of COMPARE, else -1"),
        ("predicate_value_kind", "i1", "predicates", "", "language.predicate.ValueKind; 0: none"),
        ("predicate_flags", "u1", "predicates", "", "bits: lo_open 1, hi_open 2, ignore_case 4, lo 8, hi 16"),
        ("predicate_operator", "i1", "predicates", "", "index in TEXT_OPERATOR_NAMES; 0: none"),
        ("predicate_lo_whole", "i8", "predicates", "", "number key; boolean 0 or 1; text: its constant"),
        ("predicate_lo_part", "f8", "predicates", "", "number key"),
        ("predicate_hi_whole", "i8", "predicates", "", "like predicate_lo_whole"),
        ("predicate_hi_part", "f8", "predicates", "", "number key"),
        (
            "predicate_constant_start",
            "i8",
            "predicates",
            "constant",
            "members of SET and EXCEPT, patterns of TEXT",
        ),
        ("predicate_constant_count", "i4", "predicates", "constants", ""),
        ("constant_kind", "i1", "constants", "", "language.predicate.ValueKind"),
        ("constant_whole", "i8", "constants", "", "number key; boolean 0 or 1; text: first heap byte"),
        ("constant_part", "f8", "constants", "", "number key"),
        ("constant_size", "i4", "constants", "bytes", "of a text"),
        ("heap", "u1", "heap", "byte", "UTF-8 of constants and names"),
        ("attribute_name_start", "i8", "attributes", "heap byte", ""),
        ("attribute_name_size", "i4", "attributes", "bytes", ""),
        ("owner_name_start", "i8", "owners", "heap byte", ""),
        ("owner_name_size", "i4", "owners", "bytes", ""),
    ),
)

_LAYOUT = _columns(
    "tuner",
    "workers",
    _ANNOUNCED,
    ("info", "i8", "16", "", "shm.layout.LAYOUT_INFO: generation, version, catalogue counts, largest sizes"),
    ("attribute_catalogue", "i4", "attributes", "catalogue attribute", "of each attribute of the layout"),
    ("number_start", "i4", "attributes + 1", "number constant", "code space: constants of each attribute"),
    ("number_whole", "i8", "numbers", "", "number keys, ascending within an attribute"),
    ("number_part", "f8", "numbers", "", ""),
    ("text_start", "i4", "attributes + 1", "text constant", ""),
    ("text_offset", "i8", "texts + 1", "text byte", "texts ascending by bytes within an attribute"),
    ("text_bytes", "u1", "text_bytes", "byte", "UTF-8"),
    ("text_prefix", "u8", "texts", "", "first 8 bytes of each text, big-endian, zero-padded"),
    ("label_start", "i8", "attributes + 1", "label", "labels of all attributes in a row"),
    ("row_catalogue", "i4", "rows", "catalogue row", "rows of the generation, by handle"),
    ("row_many", "u1", "rows", "", "told once by a stamp: 1 one clause of several keys, 2 several clauses"),
    ("predicate_test", "i4", "4 * predicates", "", "attribute, lo, hi, set (shm.code_space.LabelTests)"),
    ("set_start", "i4", "sets + 1", "set label", ""),
    ("set_label", "i4", "set_labels", "label", "ascending within a set"),
    ("bit_catalogue", "i4", "bits", "catalogue predicate", "the text or comparison behind each bit"),
    ("attribute_point", "i4", "attributes + 1", "predicate", "point predicates come first, by attribute"),
    ("point_base", "i8", "attributes", "", "first item in label_point; -1: no points"),
    ("label_point", "i4", "point_labels", "predicate", "the point of a label; -1: none"),
    ("flag_base", "i8", "attributes", "", "first item in flag_start; -1: no other tests with a flag"),
    ("flag_start", "i4", "flag_labels + 1", "", "first item in flag_test, by label"),
    ("flag_test", "i4", "flag_tests", "predicate", "tests with a flag that a label passes"),
    ("slice_start", "i4", "attributes + 1", "slice", ""),
    ("slice_label", "i4", "slices", "label", "first label of each slice of an attribute"),
    ("attribute_table", "i4", "attributes + 1", "table", "tables are ordered by where they hang"),
    ("table_part", "i4", "tables + 1", "part", ""),
    ("part_code", "i4", "parts", "", "2 * attribute + by cell"),
    ("part_multiplier", "i8", "parts", "", "of the digit, in the key"),
    ("table_offset", "i8", "tables", "", "to be taken from the sum"),
    ("table_area", "i8", "tables", "", "first item of table_direct, or first entry of table_hash"),
    ("table_size", "i8", "tables", "", "keys, or entries that a hash is looked up in"),
    ("table_places", "i8", "tables", "", "items or entries, overflow included"),
    ("table_mode", "u1", "tables", "", "shm.blob: bits TABLE_*"),
    ("table_direct", "i4", "direct", "blob word", "by key; -1: none"),
    ("table_hash", "i8", "2 * entries", "", "key, blob word; -1: free"),
    ("table_cost", "f8", "tables", "ns per event", "expected"),
    ("table_entries", "i8", "tables", "", "clauses, each as often as it is registered"),
    ("access_start", "i4", "slots + 1", "cluster", "slots: points, bits, present, always"),
    ("cluster_start", "i8", "clusters", "blob word", "of the slots in order, then of leaf nodes of the tree"),
    ("cluster_partition", "i4", "clusters", "partition", ""),
    ("cluster_attribute", "i4", "clusters", "attribute", "of the access predicate; -1: none"),
    ("attribute_dimension", "i4", "attributes", "", "of the tree; -1: none"),
    ("tree_lo", "i4", "tree_bounds", "label", "least one in each node, by dimension; 0: may be missing"),
    ("tree_hi", "i4", "tree_bounds", "label", "greatest one in each node, by dimension"),
    ("tree_first", "i4", "tree_nodes", "", "first child; of a leaf node, its cluster"),
    ("tree_count", "i4", "tree_nodes", "", "children; 0: a leaf node. The root is the first node"),
    ("tree_chance", "f8", "tree_nodes", "", "expected share of the events that open the node"),
    ("tree_cost", "f8", "trees", "ns per event", "expected; there is one tree or none"),
    ("tree_entries", "i8", "trees", "", "clauses"),
    ("cluster_blob", "i4", "blob_words", "", "sections, see shm.blob"),
    ("partition_cost", "f8", "partitions", "ns per event", "expected"),
    ("program_start", "i4", "programs + 1", "program code", ""),
    ("program_code", "i4", "codes", "", "steps: literal, next step if it holds, if not; -1 holds, -2 fails"),
    ("program_row", "i4", "programs", "row", ""),
)

_BATCH_CHUNK = _columns(
    "coordinator",
    "workers",
    "the batch's message",
    ("header_size", "i8", "1", "bytes", "JSON header of the payload"),
    ("buffer_count", "i8", "1", "buffers", ""),
    ("content", "u1", "content_bytes", "byte", "int64[2 * buffers] (start, size); header; buffers at 8"),
)

_RESULT_SLOT = _columns(
    "one worker",
    "coordinator",
    "the page's message",
    ("first_event", "i8", "1", "event", "first event of the page"),
    ("event_count", "i8", "1", "events", ""),
    ("match_count", "i8", "1", "rows", ""),
    ("counts", "i4", "page_events", "rows", "matches of each event of the page"),
    ("rows", "i4", "page_rows", "catalogue row", "grouped by event"),
)

_COUNTERS = (
    *_columns(
        "coordinator",
        "anyone",
        "complete before the name is told",
        ("counter_name", "u1", "64 * counters", "byte", "64 bytes each: UTF-8, filled with zeros"),
    ),
    *_columns(
        "the slot's process",
        "anyone",
        "one aligned 8-byte store each; a hint",
        ("slot_pid", "i8", "8 * slots", "process", "word 8 * slot: last writer; 0: never used"),
        ("value", "i8", "8 * values", "", "word 8 * (slot * counters + counter); the rest is padding"),
    ),
    *_columns(
        "one worker",
        "coordinator",
        "the worker's death",
        ("slot_task", "i8", "8 * slots", "task", "word 8 * slot: what the worker was at; 0: none"),
    ),
)

_MOVED = _columns(
    "tuner, then coordinator",
    "coordinator",
    _ANNOUNCED,
    ("known", "i8", "4", "item", "items that each of the other columns tells of; there is room behind them"),
    ("rows", "i4", "old_rows", "row", "new number of each row of a copied catalogue; -1: left out"),
    ("predicates", "i4", "old_predicates", "predicate", "the same"),
    ("attributes", "i4", "old_attributes", "attribute", "the same"),
    ("owners", "i4", "old_owners", "owner", "the same"),
)

_BROADCAST_RING = _columns(
    "coordinator",
    "clients of this host",
    "a message names the end; position and checksum of each record",
    ("ring_end", "i8", "8", "byte", "word 0: position behind the last record; a hint"),
    ("record_bytes", "u1", "ring_bytes", "byte", "frames and records (`language/records.py`), over and over"),
)

_GROUP_MAP = _columns(
    "tuner",
    "coordinator",
    _ANNOUNCED,
    ("grid_json", "u1", "grid_bytes", "byte", "the grid over the event space, as JSON"),
    ("cell_group", "i4", "cells", "group", "of each cell of the grid; -1: events there go by unicast"),
    ("member_start", "i8", "groups + 1", "member", "first member of each group"),
    ("member", "i4", "members", "owner", "place among the owners that were asked for, ascending in a group"),
)

FAMILIES: dict[str, tuple[Column, ...]] = {
    "catalogue": _CATALOGUE,
    "layout": _LAYOUT,
    "batch_chunk": _BATCH_CHUNK,
    "result_slot": _RESULT_SLOT,
    "counters": _COUNTERS,
    "moved": _MOVED,
    "broadcast_ring": _BROADCAST_RING,
    "group_map": _GROUP_MAP,
}

FRAMES: dict[str, Frame] = {
    "catalogue": Frame(PAGE_SIZE_BYTES, "", 0, "All subscriptions, append-only; pages reserved as it grows."),
    "layout": Frame(CACHE_LINE_BYTES, "", 0, "One immutable generation of the index."),
    "batch_chunk": Frame(8, "chunks", PAGE_SIZE_BYTES, "The batch slab: one payload per chunk; sparse."),
    "result_slot": Frame(8, "slots", PAGE_SIZE_BYTES, "Pages of matches on their way back."),
    "counters": Frame(CACHE_LINE_BYTES, "", 0, "Counters of all processes, one padded word each."),
    "moved": Frame(CACHE_LINE_BYTES, "", 0, "Where everything went when a catalogue was copied."),
    "broadcast_ring": Frame(CACHE_LINE_BYTES, "", 0, "Records for groups of listeners, over and over."),
    "group_map": Frame(CACHE_LINE_BYTES, "", 0, "Groups of owners for multicast, and the cells of events."),
}


if __name__ == "__main__":
    from pubsub_cluster.shm.columns_page import main

    sys.exit(main(sys.argv[1:]))
