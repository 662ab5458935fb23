"""Fragments: rows of subscriptions, judged and packed, as files; what a catalogue is merged from.

A task turns the rows that it is given, in the order of their ids, into fragments of bounded size, one after
the other: a packed catalogue whose handles are positions, the expressions as they were given, and metadata. A
row that cannot stand is put aside with its error. Nothing here knows Spark.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pubsub_cluster.language.errors import DuplicateIdError, ExpressionError, PubSubError
from pubsub_cluster.language.limits import DEFAULT_LIMITS, Limits
from pubsub_cluster.language.schema import Schema
from pubsub_cluster.language.subscription import (
    DEFAULT_OWNER,
    ExpressionReader,
    Form,
    encode_metadata,
    window_given,
)
from pubsub_cluster.language.values import check_name
from pubsub_cluster.shm.catalogue import CatalogueCounts, CatalogueReader, CatalogueWriter, NewRows
from pubsub_cluster.shm.catalogue_packed import PackedCatalogue, pack_catalogue
from pubsub_cluster.shm.catalogue_store import I8, U1, U8, CatalogueColumns
from pubsub_cluster.shm.change_groups import GROUP_CHANGES, SUBSCRIBE, Change
from pubsub_cluster.shm.packed_file import PackedWriter, opened

FRAGMENT_KIND = "fragment"
FRAGMENT_ROWS = 1 << 17
FRAGMENT_SIZE_BYTES = 128 << 20
"""Of expressions and literals; a fragment is closed when it has more."""
ROWS_AT_ONCE = 1_000
CAPACITY_ROWS = 1 << 22
"""Untouched room costs nothing, and rows of a fragment may have many literals."""
REFUSED_AT_ONCE = 10_000

COLUMNS = {
    "id": pa.string(),
    "owner": pa.string(),
    "expr": pa.string(),
    "valid_from": pa.int64(),
    "valid_until": pa.int64(),
    "metadata": pa.string(),
    "handle": pa.int64(),
    "file": pa.string(),
    "error": pa.string(),
    "code": pa.string(),
}
"""Of subscriptions, in this order: what they say; a handle if they bring one; where they are from; and what
is wrong with those that could not even be read."""
REFUSED_SCHEMA = pa.schema(list(COLUMNS.items()))


class Fragment(NamedTuple):
    """A fragment as it lies in its file, mapped.

    Attributes
    ----------
    catalogue : PackedCatalogue
        Its handles are positions, from 0.
    handle : uint64[rows]
        As they were given; empty where none were.
    expression_start : int64[rows + 1]
    expression : uint8[]
        Bytes of JSON, one after the other.
    metadata : dict of str to bytes
        By id, of subscriptions that have any.
    """

    catalogue: PackedCatalogue
    handle: U8
    expression_start: I8
    expression: U1
    metadata: dict[str, bytes]


class Written(NamedTuple):
    """What a task says of a file that it has written.

    Attributes
    ----------
    file : str
        Name within the work folder.
    kind : str
        ``fragment`` or ``refused``.
    rows : int
    codes : dict of str to int
        How many rows were refused for what.
    size_bytes : int
        Of the fragment's catalogue; 0 of what was refused.
    next_handle : int
        Above all handles that were given.
    """

    file: str
    kind: str
    rows: int
    codes: dict[str, int]
    size_bytes: int = 0
    next_handle: int = 1


class FragmentWriter:
    """Writes the fragments of one task.

    Parameters
    ----------
    folder : Path
        Where the files go; their names are nobody else's.
    schema : Schema
    limits : Limits
    has_handles : bool
        Rows bring their handles.
    fragment_rows : int
    """

    def __init__(
        self,
        folder: Path,
        schema: Schema,
        limits: Limits = DEFAULT_LIMITS,
        has_handles: bool = False,
        fragment_rows: int = FRAGMENT_ROWS,
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._has_handles = has_handles
        self._fragment_rows = fragment_rows
        self._name = uuid.uuid4().hex
        self._read = ExpressionReader(schema, limits)
        self._last_id: str | None = None
        self._number = 0
        self._refused = _Refused(folder / f"{self._name}.parquet")
        self._begin()

    def _begin(self) -> None:
        self._writer = CatalogueWriter.in_memory(CAPACITY_ROWS)
        self._expressions: list[bytes] = []
        self._expression_bytes = 0
        self._metadata: dict[str, bytes] = {}
        self._handles: list[int] = []

    def add(self, batch: pa.RecordBatch) -> Iterator[Written]:
        """Take rows in the order of their ids, with the columns `COLUMNS`; yield what is complete."""
        for first in range(0, batch.num_rows, ROWS_AT_ONCE):
            self._add(batch.slice(first, ROWS_AT_ONCE))
            counts = self._writer.counts()
            size_bytes = self._expression_bytes + 4 * counts.literals + counts.heap
            if counts.rows >= self._fragment_rows or size_bytes >= FRAGMENT_SIZE_BYTES:
                yield self._write()

    def finish(self) -> Iterator[Written]:
        """Yield what is left."""
        if self._writer.counts().rows:
            yield self._write()
        refused = self._refused.finish()
        if refused is not None:
            yield refused

    def _add(self, batch: pa.RecordBatch) -> None:
        rows: list[tuple[Any, ...]] = []
        for given in zip(*(_values(batch.column(name)) for name in COLUMNS), strict=True):
            *said, file, known_error, known_code = given
            if known_code is not None:
                self._refused.add((*said, file), known_error, known_code)
                continue
            try:
                rows.append(self._judged(*said))
            except Exception as error:  # one bad row, or a defect of ours, must not take the others with it
                code = error.code if isinstance(error, PubSubError) else "defect"
                self._refused.add((*said, file), str(error) or repr(error), code)
        if not rows:
            return
        names, owners, forms, valid_from, valid_until, expressions, metadata, handles = zip(
            *rows, strict=True
        )
        count = self._writer.counts().rows
        positions = range(count, count + len(rows))
        self._writer.append_rows(NewRows(positions, names, owners, forms, valid_from, valid_until))
        self._expressions += expressions
        self._expression_bytes += sum(map(len, expressions))
        self._handles += handles
        self._metadata |= {name: one for name, one in zip(names, metadata, strict=True) if one is not None}

    def _judged(
        self,
        name: str | None,
        owner: str | None,
        text: str | None,
        valid_from: int | None,
        valid_until: int | None,
        metadata: str | None,
        handle: int | None,
    ) -> tuple[str, str, Form, int | None, int | None, bytes, bytes | None, int | None]:
        """Return a row as it is kept; raises `CallerError`."""
        if name is None:
            raise ExpressionError("the subscription has no id", remedy="Give each one its own.")
        name = check_name(name, what="subscription id", limits=self._limits)
        if name == self._last_id:  # rows come by their ids
            raise DuplicateIdError("a subscription with this id exists", seen=name, remedy="Use another id.")
        owner = DEFAULT_OWNER if owner is None else check_name(owner, what="owner", limits=self._limits)
        if text is None:
            raise ExpressionError("the expression is missing", remedy='Give it as "expr".')
        if self._has_handles and (handle is None or handle < 1):
            raise ExpressionError("the handle is missing, or none", seen=handle, limit="1 or more")
        if valid_from is not None or valid_until is not None:
            window_given(valid_from, valid_until)
        kept = None
        if metadata is not None:
            kept = encode_metadata(_decoded(metadata), self._limits)
        expression = expression_bytes(text)
        form = self._read.form_of(expression)
        self._last_id = name
        return name, owner, form, valid_from, valid_until, expression, kept, handle

    def _write(self) -> Written:
        counts = self._writer.counts()
        packed = pack_catalogue(CatalogueReader.of(self._writer).columns, counts, 0)
        file = f"{self._name}-{self._number}.packed"
        handles = np.array(self._handles if self._has_handles else [], np.uint64)
        start = np.zeros(counts.rows + 1, np.int64)
        np.cumsum(np.fromiter(map(len, self._expressions), np.int64, counts.rows), out=start[1:])
        with PackedWriter(self._folder / file, FRAGMENT_KIND) as out:
            for name, column in packed.columns.items():
                out.add(name, column)
            out.add("given_handle", handles)
            out.add("expression_start", start)
            out.add("expression", np.frombuffer(b"".join(self._expressions), np.uint8))
            out.add("metadata", np.frombuffer(msgspec.msgpack.encode(self._metadata), np.uint8))
            out.finish({"counts": list(packed.counts)})
        self._number += 1
        self._begin()
        size_bytes = sum(column.nbytes for column in packed.columns.values())
        next_handle = int(handles.max(initial=0)) + 1
        return Written(file, "fragment", counts.rows, {}, size_bytes, next_handle)


class _Refused:
    """What is put aside, as a Parquet file; none where nothing is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[tuple[Any, ...]] = []
        self._writer: pq.ParquetWriter | None = None
        self._codes: dict[str, int] = {}

    def add(self, given: tuple[Any, ...], error: str, code: str) -> None:
        self._codes[code] = self._codes.get(code, 0) + 1
        self._rows.append((*given, error, code))
        if len(self._rows) >= REFUSED_AT_ONCE:
            self._put()

    def _put(self) -> None:
        columns = zip(*(map(_printable, row) for row in self._rows), strict=True)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, REFUSED_SCHEMA.types, strict=True)]
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, REFUSED_SCHEMA)
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=REFUSED_SCHEMA))
        self._rows = []

    def finish(self) -> Written | None:
        if self._rows:
            self._put()
        if self._writer is None:
            return None
        self._writer.close()
        return Written(self._path.name, "refused", sum(self._codes.values()), self._codes)


def _printable(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _values(column: pa.Array) -> list[Any]:
    """Return the values of a column; bytes that are no UTF-8 become characters that no check lets through."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        found = column.cast(pa.binary()).to_pylist()
        values = [None if one is None else one.decode(errors="surrogateescape") for one in found]
    return values


def expression_bytes(text: str) -> bytes:
    """Return an expression, in JSON or in text form, as it is kept: as bytes of JSON."""
    head = text.lstrip()[:1]
    if head in ("{", '"'):
        return text.strip().encode()
    return msgspec.json.encode(text)


def _decoded(metadata: str) -> Any:
    try:
        return msgspec.json.decode(metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ExpressionError("the metadata is not JSON", seen=str(error)) from None


def map_fragment(path: Path) -> Fragment:
    """Map a fragment after checking every byte of it; raises `StoreError`."""
    names = [name for name in CatalogueColumns._fields if name != "removed_version"]
    with opened(path, FRAGMENT_KIND) as file:
        return Fragment(
            PackedCatalogue(
                CatalogueCounts(*file.facts["counts"]), {name: file.column(name) for name in names}
            ),
            file.column("given_handle"),
            file.column("expression_start"),
            file.column("expression"),
            msgspec.msgpack.decode(file.column("metadata").tobytes(), type=dict[str, bytes]),
        )


def handles_of(fragment: Fragment, first_handle: int) -> U8:
    """Return the handles of a fragment's rows: as given, else from `first_handle` on."""
    if len(fragment.handle):
        return fragment.handle
    return np.arange(first_handle, first_handle + fragment.catalogue.counts.rows, dtype=np.uint64)


def changes_of(fragment: Fragment, handles: U8, first_version: int) -> Iterator[list[Change]]:
    """Yield the changes that make a fragment's subscriptions, in groups.

    Parameters
    ----------
    fragment : Fragment
    handles : uint64[rows]
    first_version : int
        Of the first one; the others follow it.
    """
    packed, reader = fragment.catalogue, CatalogueReader.over(fragment.catalogue)
    columns, rows = reader.columns, packed.counts.rows
    owners = [reader.owner_name(number) for number in range(packed.counts.owners)]
    windows = {
        row: (since, until)
        for row, since, until in zip(
            columns.window_row.tolist(),
            _given(columns.window_from, np.iinfo(np.int64).min),
            _given(columns.window_until, np.iinfo(np.int64).max),
            strict=True,
        )
    }
    unbounded = (None, None)
    for first in range(0, rows, GROUP_CHANGES):
        stop = min(first + GROUP_CHANGES, rows)
        names = _cut(columns.id_text, columns.id_start[first : stop + 1])
        expressions = _cut(fragment.expression, fragment.expression_start[first : stop + 1])
        group = []
        for row, handle, text, owner, expression in zip(
            range(first, stop),
            handles[first:stop].tolist(),
            names,
            columns.owner[first:stop].tolist(),
            expressions,
            strict=True,
        ):
            name = text.decode()
            since, until = windows.get(row, unbounded)
            change = (handle, name, owners[owner], expression, since, until, fragment.metadata.get(name))
            group.append(Change(first_version + row, SUBSCRIBE, *change))
        yield group


def _given(ends: I8, unbounded: int) -> list[int | None]:
    return [None if end == unbounded else end for end in ends.tolist()]


def _cut(text: U1, start: Any) -> list[bytes]:
    bounds = start.tolist()
    whole = text[bounds[0] : bounds[-1]].tobytes()
    ends = [end - bounds[0] for end in bounds]
    return [whole[begin:end] for begin, end in itertools.pairwise(ends)]
