"""Configurations: which hash tables a layout has beside its slots, and what the choice is made from.

A *table* has a schema of one to six layout attributes, each taken *by label* (equality, or a small set that
registers under each member) or *by cell*. The slots (single labels, bits, "present", always) are the papers'
single-attribute tables: every configuration has them, so they are never listed (RR-4089, section 3.2.3).

Cells: the labels of an attribute are cut into slices, in order; cell j covers slices j and j + 1. A range
whose labels lie in two neighbouring slices is registered in one cell, and a value of slice b is looked up in
cells b - 1 and b. With one slice there is no cell. After H-Tree, section 3.3, on labels and so exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubsub_cluster.language.errors import LimitError
from pubsub_cluster.shm.code_space import F8, I4, I8

SCHEMA_ATTRIBUTES_MAX = 6
BY_LABEL, BY_CELL = 0, 1

Bools = npt.NDArray[np.bool_]


class TableSchema(NamedTuple):
    """What a table is looked up by.

    Attributes
    ----------
    attributes : tuple of int
        Layout attributes, ascending, one to six.
    cells : tuple of int
        Of each: `BY_LABEL` or `BY_CELL`.
    """

    attributes: tuple[int, ...]
    cells: tuple[int, ...]


class Configuration(NamedTuple):
    """Tables beside the slots, and the slices of attributes that are taken by cell somewhere.

    Attributes
    ----------
    tables : tuple of TableSchema
        Different ones; never a single attribute by label.
    slice_first_label : tuple of tuples of int
        Of each layout attribute the first label of each slice, ascending from 0; empty: no cells. May be
        shorter than the number of attributes.
    """

    tables: tuple[TableSchema, ...]
    slice_first_label: tuple[tuple[int, ...], ...]

    def slices(self, attribute: int) -> I8:
        """Return the first labels of an attribute's slices."""
        known = attribute < len(self.slice_first_label)
        return np.array(self.slice_first_label[attribute] if known else (), np.int64)

    def slice_of_label(self, attribute: int, label_count: int) -> I4:
        """Return the monotone map from label to slice (all 0 without slices)."""
        first = self.slices(attribute)
        labels = np.arange(label_count)
        return np.maximum(np.searchsorted(first, labels, side="right") - 1, 0).astype(np.int32)


EMPTY_CONFIGURATION = Configuration((), ())


class Problem(NamedTuple):
    """What a configuration is chosen for, and what clauses are assigned from. All numbers are the layout's.

    Attributes
    ----------
    attribute_count : int
    predicate_attribute : int32[P]
        -1 for bits (text predicates, comparisons).
    predicate_is_point, predicate_is_range : bool[P]
        One label (``lo == hi``); an interval of labels without holes (a point is one too). Neither: a set, a
        set to be excepted, or a bit.
    predicate_is_flag : bool[P]
        Checked by a byte load: points, bits, and what else has a flag.
    predicate_member_count : int32[P]
        Labels under which it is registered by label: 1 for points, the members of a small set, otherwise 0.
    predicate_lo, predicate_hi : int32[P]
    predicate_probability : float64[P]
        That it holds for an event.
    clause_start : int64[n+1]
    literal : int32[]
        ``2 * predicate + negated`` of each clause's literals.
    label_start : int64[A+1]
    label_probability : float64[L]
        Per label slot, ``label_start[a] + label``.
    present : float64[A]
    sample_labels : int32[m, A]
        Labels of sampled events, 0 where missing (of several values one), for joint frequencies; m may be 0.
    weight : float
        Clauses of the catalogue per clause here, where these are a sample.
    """

    attribute_count: int
    predicate_attribute: I4
    predicate_is_point: Bools
    predicate_is_range: Bools
    predicate_is_flag: Bools
    predicate_member_count: I4
    predicate_lo: I4
    predicate_hi: I4
    predicate_probability: F8
    clause_start: I8
    literal: I4
    label_start: I8
    label_probability: F8
    present: F8
    sample_labels: I4
    weight: float = 1.0

    @property
    def clause_count(self) -> int:
        """Number of clauses."""
        return len(self.clause_start) - 1


class TableMembers(NamedTuple):
    """The clauses of one table, by `tuner.assignment.assign_clauses`.

    Attributes
    ----------
    clause : int64[m]
        Ascending.
    literal : int64[m, k]
        Position in `Problem.literal` of the literal that is looked up by each attribute of the schema.
    cell : int32[m, k]
        Its cell; -1 where the attribute is taken by label.
    """

    clause: I8
    literal: I8
    cell: I4


def check_configuration(configuration: Configuration, label_count: Sequence[int] | I8) -> None:
    """Refuse a configuration that no layout can have.

    Parameters
    ----------
    configuration : Configuration
    label_count : sequence of int
        Labels of each layout attribute.

    Raises
    ------
    LimitError
        Saying which table or slices, and why.
    """
    remedy = "let the tuner choose the configuration"
    for attribute, first in enumerate(configuration.slice_first_label):
        if first and (first[0] != 0 or any(a >= b for a, b in itertools.pairwise(first))):
            raise LimitError(
                condition=f"slices of layout attribute {attribute} must ascend from label 0",
                seen=str(first[:8]),
                remedy=remedy,
            )
    seen: set[TableSchema] = set()
    for schema in configuration.tables:
        attributes, cells = schema
        fault = ""
        if not 1 <= len(attributes) <= SCHEMA_ATTRIBUTES_MAX or len(attributes) != len(cells):
            fault = f"a table has 1 to {SCHEMA_ATTRIBUTES_MAX} attributes, each by label or by cell"
        elif list(attributes) != sorted(set(attributes)):
            fault = "the attributes of a table must ascend"
        elif attributes[0] < 0 or attributes[-1] >= len(label_count):
            fault = f"a table's attributes must be among the layout's {len(label_count)}"
        elif len(attributes) == 1 and cells[0] == BY_LABEL:
            fault = "a single attribute by label is a slot, not a table"
        elif any(c and len(configuration.slices(a)) < 2 for a, c in zip(attributes, cells, strict=True)):
            fault = "an attribute taken by cell needs at least two slices"
        elif schema in seen:
            fault = "a table may be listed once"
        if fault:
            raise LimitError(condition=fault, seen=str(schema), remedy=remedy)
        seen.add(schema)
