"""Groups of subscribers over large catalogues, as Spark jobs: the same groups as `tuner.groups` forms.

    layout parts --(interest)--> owner, cells --(totals)--> #l(g) and a signature of l(g), by cell
    events ------(count)-------> events by cell                                           |
                                                                the cells to be kept <----+
    owner, cells --(kept)------> owner, kept cells --(at the driver)--> group of each kept cell
                                                  \\-(members)--------> group, owner

Owners are divided among the executors, and everything that is added up is a whole number, so the order of
rows and the number of partitions change nothing. Driver and network see numbers by cell (at most
`tuner.grid.CELLS_MAX`) and the kept cells' members, a bit for each cell and owner without names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pubsub_cluster.language.errors import CallerError, LimitError
from pubsub_cluster.language.schema import EMPTY_SCHEMA, Schema
from pubsub_cluster.pipeline.group_cells import (
    REFUSED,
    Layout,
    count_batches,
    interest_batches,
    kept_batches,
    kept_members,
    member_batches,
    merge_batches,
    read_events,
    rectangle_batches,
    total_batches,
    totals_of,
)
from pubsub_cluster.shm.code_space import F8, I8
from pubsub_cluster.shm.layout_folder import LayoutGeneration, open_folder
from pubsub_cluster.tuner.grid import CELLS_PER_ATTRIBUTE_DEFAULT, Grid, Spacing, grid_of_sample
from pubsub_cluster.tuner.group_forming import Formed, form, group_members
from pubsub_cluster.tuner.groups import (
    CellTotals,
    GroupOptions,
    Groups,
    Kept,
    check_options,
    describe_groups,
    keep_cells,
)

SAMPLE_EVENTS = 10_000
"""The grid's cuts are taken from so many events."""
SAMPLE_SEED = 1
DRIVER_BYTES_MAX = 1 << 30
"""The kept cells' members at the driver: 6,000 cells of 1.4 million owners."""

OWNER_CELLS_TYPE = "owner string, cells binary"
Tell = Callable[[str], None]


def _say_nothing(_: str) -> None:
    pass


class CellWeights(NamedTuple):
    """Where events lie.

    Attributes
    ----------
    weight : float64[cells]
        Events in each cell.
    event_count : int
        All events but refused ones.
    refused : int
        Events that break the schema; they count nowhere.
    """

    weight: F8
    event_count: int
    refused: int


class GroupsFound(NamedTuple):
    """Groups of a catalogue's owners.

    Attributes
    ----------
    groups : Groups
    members : DataFrame
        ``group int, owner string``: M_q, in no order.
    owner_count : int
        Owners with an interest in some cell.
    events : CellWeights
    kept : DataFrame
        What `members` is made of; persisted until `release`.
    """

    groups: Groups
    members: DataFrame
    owner_count: int
    events: CellWeights
    kept: DataFrame

    def release(self) -> None:
        """Let go of what is persisted; `members` would be made of the layout again."""
        self.kept.unpersist()


def choose_grid(
    events: DataFrame,
    attributes: Sequence[str],
    schema: Schema = EMPTY_SCHEMA,
    cells: int = CELLS_PER_ATTRIBUTE_DEFAULT,
    spacing: Spacing = "quantile",
) -> Grid:
    """Return a grid that suits a random sample of events, which are brought to the driver.

    The sample is the same for the same events in the same partitions; see `tuner.grid.grid_of_sample`.

    Raises
    ------
    CallerError
        An attribute is no column, or has no value in any sampled event.
    EventError
        All sampled events break the schema.
    LimitError
        The grid would have too many cells.
    """
    picked = _picked(events, attributes).orderBy(F.rand(SAMPLE_SEED)).limit(SAMPLE_EVENTS).toArrow()
    batch = pa.record_batch([column.combine_chunks() for column in picked.columns], schema=picked.schema)
    raw = read_events(batch, schema)
    if raw.event_count and len(raw.refused) == raw.event_count:
        raise raw.refused[0]
    return grid_of_sample([raw], attributes, cells, spacing)


def weigh_cells(events: DataFrame, grid: Grid, schema: Schema = EMPTY_SCHEMA) -> CellWeights:
    """Count events by cell; the counts are brought to the driver.

    Raises
    ------
    CallerError
        An attribute of the grid is no column.
    """
    picked = _picked(events, [dimension.attribute for dimension in grid.dimensions])
    counted = picked.mapInArrow(partial(count_batches, grid=grid, schema=schema), "cell long, count long")
    table = counted.groupBy("cell").agg(F.sum("count").alias("count")).toArrow()
    cell, count = table.column("cell").to_numpy(), table.column("count").to_numpy()
    inside = cell >= 0
    weight = np.zeros(grid.cell_count)
    weight[cell[inside]] = count[inside]
    refused = int(count[cell == REFUSED].sum())
    return CellWeights(weight, int(count.sum()) - refused, refused)


def layout_interests(
    session: SparkSession, layout: LayoutGeneration, grid: Grid, tasks: int | None = None
) -> DataFrame:
    """Return each owner's cells: ``owner string, cells binary``, an owner once.

    Parameters
    ----------
    session : SparkSession
    layout : LayoutGeneration
        Under the same path on every host.
    grid : Grid
    tasks : int, optional
        Among so many the work is divided at least; as many as a shuffle has partitions by default.
    """
    tasks = tasks or int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    shares = -(-tasks // len(layout.parts)) if layout.parts else 1
    work = Layout(str(layout.folder.parent), layout.generation, shares)
    count = len(layout.parts) * shares
    found = session.range(0, count, 1, max(count, 1)).mapInArrow(
        partial(interest_batches, layout=work, grid=grid), OWNER_CELLS_TYPE
    )
    return found if len(layout.parts) <= 1 else _merged(found, grid)


def rectangle_interests(rectangles: DataFrame, grid: Grid) -> DataFrame:
    """Return each owner's cells as `layout_interests` does, of rectangles.

    Parameters
    ----------
    rectangles : DataFrame
        ``owner string``, and ``<attribute>_lo``, ``<attribute>_hi`` (numbers) of each attribute of the grid;
        open below and closed above, null has no end.
    grid : Grid

    Raises
    ------
    CallerError
        A column is missing.
    """
    sides = [f"{dimension.attribute}_{end}" for dimension in grid.dimensions for end in ("lo", "hi")]
    picked = _picked(rectangles, ["owner", *sides])
    work = partial(rectangle_batches, grid=grid)
    return _merged(picked.mapInArrow(work, OWNER_CELLS_TYPE), grid)


def _merged(interests: DataFrame, grid: Grid) -> DataFrame:
    by_owner = interests.repartition("owner").sortWithinPartitions("owner")
    return by_owner.mapInArrow(partial(merge_batches, grid=grid), OWNER_CELLS_TYPE)


def find_groups(
    events: DataFrame,
    layout: str | Path | LayoutGeneration,
    attributes: Sequence[str],
    options: GroupOptions = GroupOptions(),  # noqa: B008
    *,
    cells: int = CELLS_PER_ATTRIBUTE_DEFAULT,
    spacing: Spacing = "quantile",
    tasks: int | None = None,
    driver_bytes_max: int = DRIVER_BYTES_MAX,
    tell: Tell = _say_nothing,
) -> GroupsFound:
    """Form groups of the owners of a built catalogue.

    Parameters
    ----------
    events : DataFrame
        A column per attribute; what events are like.
    layout : path or LayoutGeneration
        A folder of ``pipeline build``, under this path on every host.
    attributes : sequence of str
        Of the grid.
    options : GroupOptions
    cells, spacing
        As for `choose_grid`.
    tasks : int
        As for `layout_interests`.
    driver_bytes_max : int
        As for `group_owners`.
    tell : callable, optional
        Is told what is being done.

    Raises
    ------
    CallerError
        An option is out of range, an attribute is no column or has no values.
    LimitError
        The grid would have too many cells, or the kept ones' members are too large for the driver.
    StoreError
        The layout cannot be used.
    """
    check_options(options)
    generation = layout if isinstance(layout, LayoutGeneration) else open_folder(Path(layout).absolute())
    tell("choosing a grid")
    grid = choose_grid(events, attributes, generation.schema, cells, spacing)
    tell(f"counting events in {grid.cell_count:,} cells")
    weights = weigh_cells(events, grid, generation.schema)
    interests = layout_interests(events.sparkSession, generation, grid, tasks)
    return group_owners(interests, grid, weights, options, driver_bytes_max=driver_bytes_max, tell=tell)


def group_owners(
    interests: DataFrame,
    grid: Grid,
    weights: CellWeights,
    options: GroupOptions = GroupOptions(),  # noqa: B008
    *,
    driver_bytes_max: int = DRIVER_BYTES_MAX,
    tell: Tell = _say_nothing,
) -> GroupsFound:
    """Form groups of owners by their interests.

    Parameters
    ----------
    interests : DataFrame
        ``owner string, cells binary``, an owner once; kept in the executors' memory or on their disks
        meanwhile.
    grid : Grid
    weights : CellWeights
    options : GroupOptions
    driver_bytes_max : int
        The kept cells' members, which come to the driver, may not be larger.
    tell : callable, optional
        Is told what is being done.

    Raises
    ------
    CallerError
        An option is out of range.
    LimitError
        The kept cells' members are too large for the driver.
    """
    check_options(options)
    with _persisted(interests) as held:
        tell("who is interested in which cells")
        totals, owner_count = _totals(held, grid)
        kept = keep_cells(weights.weight, totals, options)
        tell(f"{len(kept.cell):,} hyper-cells of {owner_count:,} owners into groups")
        of_kept = held.mapInArrow(partial(kept_batches, grid=grid, kept=kept.cell), OWNER_CELLS_TYPE)
        of_kept = of_kept.persist()
        try:
            formed, sizes = _form(of_kept, kept, options, owner_count, driver_bytes_max)
        except BaseException:
            of_kept.unpersist()
            raise
    groups = describe_groups(grid, kept, formed, sizes, max(weights.event_count, 1))
    members = of_kept.mapInArrow(partial(member_batches, group=formed.group), "group int, owner string")
    return GroupsFound(groups, members, owner_count, weights, of_kept)


@contextmanager
def _persisted(table: DataFrame) -> Iterator[DataFrame]:
    held = table.persist()
    try:
        yield held
    finally:
        held.unpersist()


def _totals(interests: DataFrame, grid: Grid) -> tuple[CellTotals, int]:
    """Return what is known of the members of all cells, and the number of owners."""
    parts = interests.mapInArrow(
        partial(total_batches, grid=grid), "cell long, size long, low long, high long"
    )
    added = parts.groupBy("cell").agg(
        F.sum("size").alias("size"), F.bit_xor("low").alias("low"), F.bit_xor("high").alias("high")
    )
    return totals_of(added.toArrow(), grid)


def _form(
    of_kept: DataFrame, kept: Kept, options: GroupOptions, owner_count: int, driver_bytes_max: int
) -> tuple[Formed, I8]:
    """Return the groups of kept cells, and how many members each has."""
    size_bytes = owner_count * len(kept.cell) // 8
    if size_bytes > driver_bytes_max:
        raise LimitError(
            "the members of all kept cells are too large for the driver, in bytes",
            seen=size_bytes,
            limit=driver_bytes_max,
            remedy="Keep fewer cells, or let the driver have more.",
            limit_name="driver_bytes_max",
        )
    bits = kept_members(of_kept.select("cells").toArrow(), len(kept.cell))
    formed = form(options.method, kept.weight, bits, options.group_count, options.measure)
    return formed, np.bitwise_count(group_members(bits, formed.group)).sum(axis=1, dtype=np.int64)


def _picked(table: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns; decimals, which events have no kind for, as doubles."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise CallerError(f"there is no column {missing[0]!r}", seen=table.columns)
    columns = [F.col("`" + name.replace("`", "``") + "`") for name in names]
    kinds = [table.schema[name].dataType for name in names]
    return table.select(
        *(
            column.cast("double").alias(name) if isinstance(kind, T.DecimalType) else column
            for name, column, kind in zip(names, columns, kinds, strict=True)
        )
    )
