"""The engine in a Python worker: parts of a layout folder, mapped, and matched as a cluster would.

A host's workers map the same files, so there is one copy of a layout on it, whatever their number. An engine
stays from task to task, as workers do; a task's own baggage is the folder's path and a number.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pubsub_cluster.language.errors import LimitError, PubSubError
from pubsub_cluster.language.limits import Limits
from pubsub_cluster.language.payload import Payload
from pubsub_cluster.language.payload_slice import slice_payload
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.shm.layout_folder import LayoutGeneration, MappedPart, map_part, open_folder
from pubsub_cluster.workers.engine import MatchEngine
from pubsub_cluster.workers.visible import Visibility

EVENTS_PER_CALL_MAX = 16_384
"""More gain nothing, and a call's events and matches are in memory together."""

ENGINES_KEPT = 2
"""Of a worker: the generation in force, and the one before it while a stream changes over."""

LIMITS = Limits(events_per_batch_max=EVENTS_PER_CALL_MAX, batch_size_bytes_max=1 << 40)
_GENERATION = 1


class Selection(NamedTuple):
    """What to match with: picklable, and small.

    Attributes
    ----------
    root : str
        A layout folder, as every worker sees it.
    generation : int
    made_ns : int
        When it was written: a folder that was removed and built again is another one.
    parts : tuple of int
    """

    root: str
    generation: int
    made_ns: int
    parts: tuple[int, ...]


class Found(NamedTuple):
    """Matches of some events.

    Attributes
    ----------
    event : int64[m]
        Positions, ascending.
    part : int32[m]
        Index into `PartsEngine.parts`.
    row : int32[m]
        Catalogue row in that part.
    handle : int64[m]
        By event, ascending.
    refused : dict of int to PubSubError
        Events that match nothing because of what they hold, by position.
    """

    event: npt.NDArray[np.int64]
    part: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    handle: npt.NDArray[np.int64]
    refused: dict[int, PubSubError]


class PartsEngine:
    """Matches batches against parts of one generation; one thread at a time.

    Parameters
    ----------
    generation : LayoutGeneration
    part_idx : sequence of int
        Which parts.

    Raises
    ------
    StoreError
        A part cannot be mapped.
    """

    def __init__(self, generation: LayoutGeneration, part_idx: tuple[int, ...]) -> None:
        paths = generation.paths
        self.schema = generation.schema
        self.parts = [_Part(map_part(paths[idx]), self.schema) for idx in part_idx]
        self.attributes = frozenset().union(*(part.attributes for part in self.parts))

    def match(self, events: Payload, at_us: int) -> Found:
        """Match events.

        Parameters
        ----------
        events : Payload
            At most `EVENTS_PER_CALL_MAX`.
        at_us : int
            Time of acceptance: validity is judged by it.
        """
        pieces = [
            piece for number, part in enumerate(self.parts) for piece in part.match(events, 0, at_us, number)
        ]
        if len(pieces) == 1:
            return pieces[0]
        if not pieces:
            none4 = np.zeros(0, np.int32)
            return Found(np.zeros(0, np.int64), none4, none4, np.zeros(0, np.int64), {})
        event, part_of, row, handle = (np.concatenate([piece[at] for piece in pieces]) for at in range(4))
        order = np.lexsort((handle, event))
        refused = {at: error for piece in pieces for at, error in piece.refused.items()}
        return Found(event[order], part_of[order], row[order], handle[order], refused)

    def texts(self, found: Found, label: str) -> Any:
        """Return the ids (`label` is "id") or owners ("owner") of matches, as an Arrow array of text."""
        pieces = [
            part.texts(found.row[found.part == number], label) for number, part in enumerate(self.parts)
        ]
        if len(pieces) == 1:
            return pieces[0]
        order = np.empty(len(found.row), np.int64)
        order[np.argsort(found.part, kind="stable")] = np.arange(len(found.row))
        return pa.concat_arrays(pieces).take(pa.array(order))

    def warm_up(self) -> None:
        """Load every kernel that `match` calls."""
        for part in self.parts[:1]:
            part.engine.warm_up()
            part.visibility.warm_up()


class _Part:
    """A mapped part with its engine."""

    def __init__(self, mapped: MappedPart, schema: Schema) -> None:
        self.catalogue = mapped.catalogue
        self.counts = mapped.layout.counts
        self.version = mapped.layout.version
        self.engine = MatchEngine(mapped.catalogue, schema, LIMITS)
        self.engine.attach_layout(_GENERATION, mapped.layout)
        self.visibility = Visibility(mapped.catalogue)
        names = [self.catalogue.owner_name(idx) for idx in range(self.catalogue.capacity.owners)]
        self._owners = pa.array([*names, None], pa.string())
        count = self.catalogue.capacity.attributes
        self.attributes = {self.catalogue.attribute_name(idx) for idx in range(count)}

    def texts(self, rows: npt.NDArray[np.int32], label: str) -> Any:
        """Return the ids or owners of rows."""
        if label == "owner":
            owners = self.catalogue.columns.owner[rows]
            return self._owners.take(pa.array(np.where(owners < 0, len(self._owners) - 1, owners)))
        offsets, text = self.catalogue.subscription_ids(rows)
        buffers = pa.py_buffer(offsets.tobytes()), pa.py_buffer(text)
        return pa.LargeStringArray.from_buffers(len(rows), *buffers).cast(pa.string())

    def match(self, events: Payload, first: int, at_us: int, number: int) -> list[Found]:
        """Match events, the first of which is `first`; several pieces where they match too much for one."""
        count = events.header["event_count"]
        batch = self.engine.read(events.header, events.buffers)
        try:
            result = self.engine.match_batch(batch, _GENERATION, self.counts)
        except LimitError:
            if count == 1:
                raise
            half = count // 2
            return [
                *self.match(slice_payload(events, 0, half), first, at_us, number),
                *self.match(slice_payload(events, half, count), first + half, at_us, number),
            ]
        refused: dict[int, PubSubError] = {**batch.refused, **events.refused}
        offsets, rows, _ = self.visibility.keep(result, self.counts, self.version, at_us, refused)
        event = np.repeat(np.arange(first, first + count), np.diff(offsets))
        rows = rows.copy()  # the engine's own memory
        handle = self.catalogue.columns.handle[rows].astype(np.int64)
        part_of = np.full(len(rows), number, np.int32)
        return [Found(event, part_of, rows, handle, {first + at: error for at, error in refused.items()})]


@functools.lru_cache(maxsize=ENGINES_KEPT)
def engine_of(selection: Selection) -> PartsEngine:
    """Return the engine of a selection in this process, mapped at its first use."""
    generation = open_folder(Path(selection.root), selection.generation)
    return PartsEngine(generation, selection.parts)
