"""Invented flights of the real shape, for tests of the demonstration."""

from __future__ import annotations

from typing import Any

import numpy as np

from pubsub_cluster.cli.demo.flights import Flights, TextColumn

FLIGHT_COUNT = 3_000
CARRIERS = {"UA": "United Air Lines Inc.", "B6": "JetBlue Airways", "DL": "Delta Air Lines Inc."}
AIRPORTS = {"LAX": "Los Angeles Intl", "IAH": "George Bush Intercontinental", "BQN": None, "BOS": "Logan"}


def invented_flights() -> Flights:
    """Flights of the real shape, with every attribute that alerts are drawn from."""
    rng = np.random.default_rng(3)

    def number(low: int, high: int, missing: float = 0.0, kind: type = np.int64) -> Any:
        values = rng.integers(low, high, FLIGHT_COUNT).astype(kind)
        return np.ma.MaskedArray(values, mask=rng.random(FLIGHT_COUNT) < missing)

    def text(values: list[str], missing: float = 0.0) -> TextColumn:
        codes = rng.integers(0, len(values), FLIGHT_COUNT).astype(np.int32)
        codes[rng.random(FLIGHT_COUNT) < missing] = -1
        return TextColumn(values, codes)

    carrier, dest = text(list(CARRIERS)), text(list(AIRPORTS))
    names = [name for name in AIRPORTS.values() if name]
    name_code = np.array([names.index(name) if name else -1 for name in AIRPORTS.values()], dtype=np.int32)
    numbers = {
        "month": number(1, 13), "day": number(1, 29), "hour": number(5, 24), "flight": number(1, 99),
        "dep_delay": number(-20, 200, 0.03), "arr_delay": number(-60, 200, 0.03),
        "plane_year": number(1980, 2014, 0.15), "plane_seats": number(2, 400, 0.15),
        "wind_gust": number(10, 60, 0.75, np.float64), "temp": number(10, 100, 0.01, np.float64),
    }  # fmt: skip
    texts = {
        "carrier": carrier, "carrier_name": TextColumn(list(CARRIERS.values()), carrier.codes),
        "origin": text(["EWR", "JFK", "LGA"]), "origin_name": text(["Newark Liberty Intl", "La Guardia"]),
        "dest": dest, "dest_name": TextColumn(names, name_code[dest.codes]),
        "tailnum": text([f"N{i}UA" for i in range(50)], 0.01),
        "plane_manufacturer": text(["BOEING", "EMBRAER"], 0.15), "plane_model": text(["A320", "737"]),
    }  # fmt: skip
    return Flights(numbers, texts)
