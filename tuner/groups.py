"""Groups of subscribers for multicast: the subscription clustering of RIABOV (section 4, A.1, A.2).

The cells of a grid (`tuner.grid`) with l(g), those who are interested in them (`tuner.interest`), and p(g),
how many sampled events lie in them, become at most n groups:

1. Cells of the same l(g) are one *hyper-cell* that has all their events; to join them wastes nothing.
2. The T hyper-cells of the greatest p(g) * #l(g) are kept (step 0; D-19). All else is the catch-all set S_0:
   cells that nobody is interested in, that no sampled event lies in, that were not kept, and events that lie
   outside the grid.
3. The kept ones are formed into groups with as little expected waste as possible (`tuner.group_forming`).

The group of an event is that of its cell; all who are interested in the event are members of it (RIABOV-11).
Here is how it is done of owners and cells at hand; `pipeline.groups` does the same on Spark, from the same
parts.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader
from pubsub_cluster.shm.code_space import F8, I4, I8, U8
from pubsub_cluster.tuner.grid import WORD_BITS, Bools, Grid
from pubsub_cluster.tuner.group_forming import (
    MEASURES,
    METHODS,
    Formed,
    Measure,
    expected_waste,
    form,
    group_members,
)
from pubsub_cluster.tuner.interest import owner_cells

CATCH_ALL = -1
"""The group number of S_0."""
BLOCK_CELLS = 64
_SIGNATURE_BYTES = 16


class GroupOptions(NamedTuple):
    """How groups are formed.

    Attributes
    ----------
    group_count : int
        n, the most groups.
    kept_max : int
        T, the most hyper-cells that are grouped.
    method : str
        Of `group_forming.METHODS`.
    measure : {"total", "mean"}
        What a distance is the increase of, see `group_forming`; D-21 has ``mean``.
    hyper_cells : bool
        False: cells of the same members are kept and grouped one by one, as in the paper's appendix.
    """

    group_count: int = 100
    kept_max: int = 6_000
    method: str = "forgy"
    measure: Measure = "total"
    hyper_cells: bool = True


class Interests(NamedTuple):
    """Who is interested in which cells.

    Attributes
    ----------
    owners : tuple of str
        Ascending.
    cells : uint64[owners, words]
        Bitmaps over the grid's cells.
    """

    owners: tuple[str, ...]
    cells: U8


class CellTotals(NamedTuple):
    """What is known of the members of all cells; adds up over disjoint sets of owners.

    Attributes
    ----------
    size : int64[cells]
        #l(g).
    signature : uint64[cells, 2]
        Exclusive or of 128-bit hashes of the members' names: equal where l(g) is equal, and else different,
        unless two hashes of so many bits meet.
    """

    size: I8
    signature: U8


class Kept(NamedTuple):
    """The hyper-cells that are grouped: the list h of RIABOV A.2, greatest first.

    Attributes
    ----------
    of_cell : int32[cells]
        Hyper-cell of each cell; `CATCH_ALL` for the others.
    cell : int64[T]
        First cell of each.
    weight : float64[T]
        Events in its cells.
    size : int64[T]
        #l.
    """

    of_cell: I4
    cell: I8
    weight: F8
    size: I8


class Groups(NamedTuple):
    """Groups over the cells of a grid.

    Attributes
    ----------
    grid : Grid
    of_cell : int32[cells]
        Group of each cell; `CATCH_ALL` for those of S_0.
    cell_count : int64[n]
        Cells of each group.
    size : int64[n]
        #M_q, members.
    probability : float64[n]
        That an event lies in the group's cells; what is missing to 1 is that of S_0.
    waste : float64[n]
        EW: members who are not interested in an event of the group, on average.
    formed : Formed
        Of the hyper-cells.
    """

    grid: Grid
    of_cell: I4
    cell_count: I8
    size: I8
    probability: F8
    waste: F8
    formed: Formed

    @property
    def expected_waste(self) -> float:
        """Members who get an event in vain: mean over all events, those of S_1 to S_n sent to groups."""
        return float((self.probability * self.waste).sum())

    @property
    def expected_receivers(self) -> float:
        """Members who get an event: mean over all events, those of S_1 to S_n sent to their groups."""
        return float((self.probability * self.size).sum())

    def to_json(self) -> dict[str, Any]:
        """Return all but the members; `Grid.from_json` and ``of_cell`` give the group of an event."""
        names = ("cell_count", "size", "probability", "waste")
        columns = zip(*(getattr(self, name).tolist() for name in names), strict=True)
        return {
            "grid": self.grid.to_json(),
            "of_cell": self.of_cell.tolist(),
            "groups": [dict(zip(names, values, strict=True)) for values in columns],
            "catch_all_probability": 1.0 - float(self.probability.sum()),
            "expected_waste": self.expected_waste,
            "expected_receivers": self.expected_receivers,
            "passes": self.formed.passes,
            "is_stable": self.formed.is_stable,
        }


class FormedGroups(NamedTuple):
    """Groups and who is in them.

    Attributes
    ----------
    groups : Groups
    owners : tuple of str
    members : uint64[n, words]
        M_q: bitmaps over `owners`.
    """

    groups: Groups
    owners: tuple[str, ...]
    members: U8

    def members_of(self, group: int) -> list[str]:
        """Return the members of a group."""
        bits = np.unpackbits(self.members[group].astype("<u8").view(np.uint8), bitorder="little")
        return [self.owners[number] for number in np.flatnonzero(bits).tolist()]


def form_groups(
    interests: Interests,
    grid: Grid,
    cell_weight: F8,
    event_count: float,
    options: GroupOptions = GroupOptions(),  # noqa: B008
) -> FormedGroups:
    """Form groups of owners.

    Parameters
    ----------
    interests : Interests
    grid : Grid
    cell_weight : float64[cells]
        p(g): sampled events in each cell, or any measure of probability. With counts the result depends on
        nothing else; otherwise sums are rounded.
    event_count : float
        All sampled events, those outside the grid included.
    options : GroupOptions

    Raises
    ------
    CallerError
        An option is out of range.
    """
    check_options(options)
    totals = cell_totals(interests, grid)
    kept = keep_cells(cell_weight, totals, options)
    bits = cell_members(interests.cells, grid, kept.cell)
    formed = form(options.method, kept.weight, bits, options.group_count, options.measure)
    members = group_members(bits, formed.group)
    sizes = np.bitwise_count(members).sum(axis=1, dtype=np.int64)
    return FormedGroups(describe_groups(grid, kept, formed, sizes, event_count), interests.owners, members)


def check_options(options: GroupOptions) -> None:
    """Raise `CallerError` for an option that is out of range."""
    if options.method not in METHODS:
        raise CallerError("there is no such way to form groups", seen=options.method, limit=list(METHODS))
    if options.measure not in MEASURES:
        raise CallerError("there is no such measure of distance", seen=options.measure, limit=list(MEASURES))
    if not 1 <= options.group_count <= options.kept_max:
        raise CallerError(
            "the number of groups is out of range",
            seen=options.group_count,
            limit=f"1 to {options.kept_max}, the number of cells that are grouped",
        )


def catalogue_interests(
    reader: CatalogueReader, counts: CatalogueCounts, grid: Grid, version: int = 0
) -> Interests:
    """Return the interests of all owners of a catalogue, as of a version."""
    names: list[str] = []
    blocks = [np.zeros((0, grid.word_count), np.uint64)]
    for block in owner_cells(reader, counts, grid, version):
        names += [reader.owner_name(number) for number in block.owner.tolist()]
        blocks.append(block.cells)
    order = sorted(range(len(names)), key=names.__getitem__)
    return Interests(tuple(names[at] for at in order), np.concatenate(blocks)[order])


def cell_totals(interests: Interests, grid: Grid) -> CellTotals:
    """Return what is known of the members of all cells."""
    size = np.zeros(grid.cell_count, np.int64)
    signature = np.zeros((grid.cell_count, 2), np.uint64)
    for name, words in zip(interests.owners, interests.cells, strict=True):
        is_in = grid.unpack(words)
        size += is_in
        signature[is_in] ^= _hash(name)
    return CellTotals(size, signature)


def _hash(name: str) -> U8:
    digest = hashlib.blake2b(name.encode(), digest_size=_SIGNATURE_BYTES).digest()
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def keep_cells(cell_weight: F8, totals: CellTotals, options: GroupOptions) -> Kept:
    """Return the hyper-cells of the greatest p(g) * #l(g); of equal ones, those of the first cells."""
    cell = np.flatnonzero((cell_weight > 0) & (totals.size > 0))
    first, number = _distinct(totals.signature[cell], cell, options.hyper_cells)
    weight: F8 = np.bincount(number, cell_weight[cell], len(first)).astype(np.float64)
    size = totals.size[first]
    best = np.lexsort((first, -(weight * size)))[: options.kept_max]
    rank = np.full(len(first), CATCH_ALL, np.int32)
    rank[best] = np.arange(len(best), dtype=np.int32)
    of_cell = np.full(len(cell_weight), CATCH_ALL, np.int32)
    of_cell[cell] = rank[number]
    return Kept(of_cell, first[best], weight[best], size[best])


def _distinct(signature: U8, cell: I8, is_merging: bool) -> tuple[I8, I8]:
    """Return the first cell of each signature, and which signature each cell has; or each cell for itself."""
    if not is_merging:
        return cell, np.arange(len(cell))
    _, first, number = np.unique(signature, axis=0, return_index=True, return_inverse=True)
    return cell[first], number.reshape(-1)


def cell_members(cells: U8, grid: Grid, picked: I8) -> U8:
    """Return the members of picked cells: bitmaps over the owners, uint64[T, owner words].

    Parameters
    ----------
    cells : uint64[owners, words]
        Each owner's cells.
    grid : Grid
    picked : int64[T]
        Cells.
    """
    found = np.zeros((len(picked), -(-len(cells) // WORD_BITS)), np.uint64)
    word, bit = grid.bit_of(picked)
    for first in range(0, len(picked), BLOCK_CELLS):
        block = slice(first, first + BLOCK_CELLS)
        is_in = ((cells[:, word[block]] >> bit[block]) & np.uint64(1)).astype(np.bool_)
        found[block] = pack_bits(is_in.T)
    return found


def pack_bits(is_in: Bools) -> U8:
    """Return sets, bool[..., n], as bitmaps: uint64[..., words]."""
    padded = np.zeros((*is_in.shape[:-1], -(-is_in.shape[-1] // WORD_BITS) * WORD_BITS), np.bool_)
    padded[..., : is_in.shape[-1]] = is_in
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def describe_groups(grid: Grid, kept: Kept, formed: Formed, sizes: I8, event_count: float) -> Groups:
    """Return what there is to say of groups of kept hyper-cells.

    Parameters
    ----------
    grid : Grid
    kept : Kept
    formed : Formed
    sizes : int64[n]
        Members of each group.
    event_count : float
        All events, those outside the grid included.
    """
    count = len(sizes)
    inside = kept.of_cell >= 0
    of_cell = np.full(len(inside), CATCH_ALL, np.int32)
    of_cell[inside] = formed.group[kept.of_cell[inside]]
    weight: F8 = np.bincount(formed.group, kept.weight, count).astype(np.float64)
    reach: F8 = np.bincount(formed.group, kept.weight * kept.size, count).astype(np.float64)
    return Groups(
        grid,
        of_cell,
        np.bincount(of_cell[inside], minlength=count).astype(np.int64),
        sizes,
        weight / event_count,
        expected_waste(weight, reach, sizes),
        formed,
    )
