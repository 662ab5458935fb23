"""Projections of JSON lines, a block at a time: see `workers.kernels.lines`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from pubsub_cluster.language.values import encode_texts
from pubsub_cluster.shm.layout import frozen
from pubsub_cluster.workers.inputs import kernel_input
from pubsub_cluster.workers.kernels import lines as kernels
from pubsub_cluster.workers.kernels import names as name_kernels
from pubsub_cluster.workers.kernels._jit import Settled
from pubsub_cluster.workers.names import empty_arrays

CLASSES_MAX = 4_096
"""Classes that are remembered; when there are more, all are forgotten."""
CLASS_SIZE_BYTES_MAX = 512
"""The values of the gate attributes of one class, as JSON; lines with longer ones are special."""

_BYTES_PER_MEMBER = 5
"""At least: a name of a byte in quotes, a colon and a value."""
_HEAP_BYTES_MAX = 1 << 18
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))
_scan_lines = Settled(kernels.scan_lines)
_project_lines = Settled(kernels.project_lines)


class Source(Protocol):
    """What is known of a class of lines."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Attributes that belong to the projection."""


AnySource = TypeVar("AnySource", bound=Source)


class Projected(NamedTuple, Generic[AnySource]):
    """Projections of n lines.

    Attributes
    ----------
    sources : list, n
        What was said of each line's class; None for a special line.
    bounds : list of int, n + 1
        Where each line begins in `text`, and the end.
    text : bytes
        JSON objects; nothing where a line has none of the attributes.
    """

    sources: list[AnySource | None]
    bounds: list[int]
    text: bytes


class LineProjector(Generic[AnySource]):
    """Projects lines on the attributes that their class reads.

    Parameters
    ----------
    gates : sequence of str
        Attributes whose values decide about the class.
    fields : iterable of str
        Attributes that some class reads.
    special : iterable of str
        A line that has one of these attributes is special.
    describe : callable
        Given a line that is the first of its class, says what the class reads.
    """

    def __init__(
        self,
        gates: Sequence[str],
        fields: Iterable[str],
        special: Iterable[str],
        describe: Callable[[bytes], AnySource],
    ) -> None:
        self._describe = describe
        wanted = [name for name in dict.fromkeys((*gates, *fields)) if name]
        self._number = {name: number for number, name in enumerate(wanted)}
        unwelcome = {name for name in special if name}  # a line with an empty name is special anyway
        names = [*wanted, *sorted(unwelcome.difference(wanted))]
        offsets, data = encode_texts(names)
        self._names = empty_arrays(1 << len(names).bit_length(), len(data) + 1)
        size_max = np.int64(max(CLASS_SIZE_BYTES_MAX, len(data)))
        self._rules = name_kernels.ScanRules(size_max, np.int64(0), np.int64(0), np.uint8(1), _SEED)
        bytes_of_names = frozen(np.frombuffer(data, np.uint8))
        number = np.empty(len(names), np.int32)
        name_kernels.number_names(self._names, bytes_of_names, frozen(offsets), self._rules, number)
        self._names.accepts[[i for i, name in enumerate(names) if name in unwelcome]] = 0
        self._gate = (np.empty(len(gates), np.int64), np.empty(CLASS_SIZE_BYTES_MAX, np.uint8))
        self._forget()

    def project(self, lines: Sequence[bytes]) -> Projected[AnySource]:
        """Return the projection of each line."""
        if self._is_full():
            self._forget()
        data = kernel_input(np.frombuffer(b"".join((*lines, b"\0")), np.uint8), np.uint8)
        offsets = frozen(np.array([0, *accumulate(map(len, lines))], np.int64))
        room = min(len(data) // _BYTES_PER_MEMBER, len(lines) * len(self._number)) + 1
        members = kernels.Members(
            np.empty(room, np.int32),
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room, np.int64),
        )
        found = kernels.Lines(*(np.empty(len(lines), dtype) for dtype in (np.int32, np.int64, np.int64)))
        classes = self._classes, self._rules
        _scan_lines(data, offsets, self._names, self._gate, classes, members, found)
        self._learn(lines, found)
        out = np.empty(len(data), np.uint8)
        stop = np.empty(len(lines), np.int64)
        _project_lines(data, members, found, self._reads, out, stop)
        bounds = [0, *stop.tolist()]
        # Number SPECIAL is the last one.
        sources = list(map([*self._sources, None].__getitem__, found.source.tolist()))
        return Projected(sources, bounds, out[: bounds[-1]].tobytes())

    def _learn(self, lines: Sequence[bytes], found: kernels.Lines) -> None:
        """Ask about the classes that were met for the first time."""
        for number in range(len(self._sources), int(self._classes.state[name_kernels.NAME_COUNT])):
            line = int(np.argmax(found.source == number))
            source = self._describe(lines[line])
            self._sources.append(source)
            self._reads[number, [self._number[name] for name in source.fields if name]] = 1

    def _is_full(self) -> bool:
        count, heap_used, _ = self._classes.state.tolist()
        return bool(count == CLASSES_MAX or heap_used + CLASS_SIZE_BYTES_MAX > _HEAP_BYTES_MAX)

    def _forget(self) -> None:
        self._classes = empty_arrays(CLASSES_MAX, _HEAP_BYTES_MAX)
        self._sources: list[AnySource] = []
        self._reads = np.zeros((CLASSES_MAX, len(self._number)), np.uint8)
