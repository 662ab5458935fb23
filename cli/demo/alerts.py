"""Alerts drawn from the real distributions of the flights.

Each alert starts from one real flight, drawn at random: its route, airline, aircraft, number or day make
the alert, so that popular routes get many alerts and every alert can happen. Thresholds (delays, gusts,
seats) are those of a second flight, drawn among the flights where they matter. One alert in five then gets
a twist: a NOT or an OR.

Everything follows from the seed: equal flights, count and seed give equal alerts, in equal order. The
weights of the kinds are chosen so that 200,000 alerts give 20 to 50 matches per flight of the year.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pubsub_cluster.cli.demo import parts as p
from pubsub_cluster.cli.demo.flights import Flights
from pubsub_cluster.cli.demo.parts import Part

TWIST_PROBABILITY = 0.2
COMMON_WORDS = frozenset({"intl", "airport", "international", "regional", "rgnl", "the", "fld", "field"})
WORD_LENGTH_MIN = 4


class Alert(NamedTuple):
    """A subscription of the demonstration.

    Attributes
    ----------
    id, owner : str
    expr : dict
        Expression in JSON form.
    sentence : str
        The same in English.
    """

    id: str
    owner: str
    expr: dict[str, Any]
    sentence: str

    def item(self) -> dict[str, Any]:
        """Return what `Client.subscribe_many` takes."""
        return {"id": self.id, "expr": self.expr, "owner": self.owner}


class _Draws:
    """Values of `count` flights drawn at random, column by column, and dice for each of them."""

    def __init__(self, flights: Flights, rng: np.random.Generator, count: int) -> None:
        self._flights = flights
        self._rng = rng
        self._count = count
        self._seed_flight = rng.integers(0, len(flights), count)

    def number(self, name: str) -> list[Any]:
        """Values of the drawn flights; None where missing."""
        drawn: list[Any] = self._flights.numbers[name][self._seed_flight].tolist()
        return drawn

    def text(self, name: str) -> list[Any]:
        """Texts of the drawn flights; None where missing."""
        drawn: list[Any] = self._flights.texts[name].take(self._seed_flight).tolist()
        return drawn

    def among(self, name: str, wanted: Callable[[NDArray[Any]], NDArray[np.bool_]], step: int) -> list[int]:
        """Values of other flights, drawn among those that are `wanted`, rounded to multiples of `step`."""
        known = self._flights.numbers[name].compressed()
        pool = known[wanted(known)]
        if not len(pool):
            return [step] * self._count
        rounded = np.rint(pool / step).astype(np.int64) * step
        found: list[int] = self._rng.choice(rounded, self._count).tolist()
        return found

    def other_text(self, name: str) -> list[Any]:
        """Texts of further flights, drawn apart; None where missing."""
        other: list[Any] = (
            self._flights.texts[name].take(self._rng.integers(0, len(self._flights), self._count)).tolist()
        )
        return other

    def dice(self, sides: int) -> list[int]:
        """Whole numbers from 0 to ``sides - 1``."""
        thrown: list[int] = self._rng.integers(0, sides, self._count).tolist()
        return thrown

    def late(self, minutes_min: int) -> list[int]:
        """Delays at departure of flights that left at least so late, in steps of five minutes."""
        return self.among("dep_delay", lambda known: known >= minutes_min, 5)


def _by_route(d: _Draws) -> Iterator[list[Part]]:
    """Late flights of an airline on a route."""
    rows = zip(
        d.text("origin"),
        d.text("dest"),
        d.text("carrier"),
        d.text("carrier_name"),
        d.late(35),
        d.dice(4),
        strict=True,
    )
    for origin, dest, carrier, name, minutes, die in rows:
        delay = p.leaving_late(minutes) if die else p.arriving_late(minutes)
        yield [p.route(origin, dest), p.operated_by(carrier, name), delay]


def _by_hours(d: _Draws) -> Iterator[list[Part]]:
    """Late flights on a route at some hours, half of them in one month."""
    rows = zip(
        d.text("origin"),
        d.text("dest"),
        d.number("hour"),
        d.number("month"),
        d.late(20),
        d.dice(6),
        strict=True,
    )
    for origin, dest, hour, month, minutes, die in rows:
        found = [p.route(origin, dest), p.scheduled(hour, min(23, hour + die // 2))]
        if die % 2:
            found.append(p.in_month(month))
        yield [*found, p.leaving_late(minutes)]


def _by_day(d: _Draws) -> Iterator[list[Part]]:
    """A traveller: everything on a route on a few days."""
    rows = zip(
        d.text("origin"), d.text("dest"), d.text("carrier"), d.text("carrier_name"), d.number("month"),
        d.number("day"), d.dice(4), d.dice(3), strict=True,
    )  # fmt: skip
    for origin, dest, carrier, name, month, day, width, die in rows:
        found = [p.route(origin, dest), p.on_days(month, max(1, day - width), day)]
        if die:
            found.append(p.operated_by(carrier, name))
        yield found


def _by_number(d: _Draws) -> Iterator[list[Part]]:
    """One flight number when it is late, or early."""
    early = d.among("arr_delay", lambda known: known <= -20, 5)
    rows = zip(
        d.text("carrier"), d.number("flight"), d.text("origin"), d.late(30), early, d.dice(6), strict=True
    )
    for carrier, flight, origin, late_minutes, early_minutes, die in rows:
        delay = p.leaving_late(late_minutes) if die else p.arriving_early(-early_minutes)
        yield [p.numbered(carrier, flight), p.leaving(origin), delay]


def _by_aircraft(d: _Draws) -> Iterator[list[Part]]:
    """One aircraft: late, to one place, or in one month."""
    rows = zip(
        d.text("tailnum"),
        d.text("origin"),
        d.text("dest"),
        d.number("month"),
        d.late(15),
        d.dice(3),
        strict=True,
    )
    for tailnum, origin, dest, month, minutes, die in rows:
        if tailnum is None:
            yield [p.route(origin, dest), p.in_month(month), p.cancelled()]
        elif die == 0:
            yield [p.flown_by(tailnum), p.leaving_late(minutes)]
        else:
            yield [p.flown_by(tailnum), p.route(origin, dest) if die == 1 else p.in_month(month)]


def _by_weather(d: _Draws) -> Iterator[list[Part]]:
    """Flights of an airline on a route that leave in bad weather."""
    gusts = d.among("wind_gust", lambda known: known > 25, 1)
    cold = d.among("temp", lambda known: known < 32, 1)
    hot = d.among("temp", lambda known: known > 85, 1)
    rows = zip(
        d.text("origin"), d.text("dest"), d.text("carrier"), d.text("carrier_name"), gusts, cold, hot,
        d.dice(5), d.dice(5), strict=True,
    )  # fmt: skip
    for origin, dest, carrier, name, gust, low, high, die, level in rows:
        if die == 0:
            condition = p.weather("wind_gust", ">", float(gust))
        elif die == 1:
            condition = p.weather("temp", "<", float(low))
        elif die == 2:
            condition = p.weather("temp", ">", float(high))
        elif die == 3:
            condition = p.weather("visib", "<", (0.5, 1.0, 2.0, 3.0, 5.0)[level])
        else:
            condition = p.weather("precip", ">", (0.02, 0.05, 0.1, 0.2, 0.4)[level])
        yield [p.route(origin, dest), p.operated_by(carrier, name), condition]


def _by_model(d: _Draws) -> Iterator[list[Part]]:
    """Late flights to a place on one model of aircraft, on large ones, or on old ones."""
    seats = d.among("plane_seats", lambda known: known >= 100, 10)
    years = d.among("plane_year", lambda known: known <= 1998, 1)
    rows = zip(
        d.text("plane_manufacturer"), d.text("plane_model"), d.text("origin"), d.text("dest"),
        d.number("month"), seats, years, d.late(45), d.dice(4), strict=True,
    )  # fmt: skip
    for manufacturer, model, origin, dest, month, seat_count, year, minutes, die in rows:
        found = [p.route(origin, dest), p.leaving_late(minutes)]
        if die == 0:
            yield [*found, p.in_month(month), p.seats_at_least(seat_count)]
        elif die == 1:
            yield [*found, p.built_before(year)]
        elif manufacturer is None:
            yield [*found, p.in_month(month)]
        else:
            yield [*found, p.made_by(manufacturer, model)]


def _by_word(d: _Draws) -> Iterator[list[Part]]:
    """Late flights to or from an airport that has a word in its name, or of a family of aircraft."""
    rows = zip(
        d.text("dest_name"), d.text("origin_name"), d.text("tailnum"), d.text("origin"), d.text("dest"),
        d.text("carrier"), d.text("carrier_name"), d.number("hour"), d.number("month"), d.late(60),
        d.dice(64), d.other_text("dest"), strict=True,
    )  # fmt: skip
    for (
        dest_name,
        origin_name,
        tailnum,
        origin,
        dest,
        carrier,
        name,
        hour,
        month,
        minutes,
        die,
        other,
    ) in rows:
        late = p.leaving_late(minutes)
        if die % 4 == 0 and tailnum is not None:
            yield [p.tail_prefix(tailnum[:3]), p.route(origin, dest), late]
        elif die % 4 == 1:
            word = _word(origin_name, die // 4)
            yield [p.name_contains("origin_name", word), p.to_any_of(dest, other), p.in_month(month), late]
        elif dest_name is not None:
            word = _word(dest_name, die // 4)
            named = [p.leaving(origin), p.name_contains("dest_name", word), p.operated_by(carrier, name)]
            yield [*named, p.scheduled(hour, min(23, hour + 2)), late]
        else:
            yield [p.route(origin, dest), p.operated_by(carrier, name), p.in_month(month), late]


def _word(name: str, pick: int) -> str:
    """Return a telling word of an airport's name."""
    words = [word.strip(".,()") for word in name.replace("-", " ").replace("/", " ").split()]
    telling = [word for word in words if len(word) >= WORD_LENGTH_MIN and word.lower() not in COMMON_WORDS]
    choice = telling or words
    return choice[pick % len(choice)]


# Share of each kind, and who subscribes to it.
KINDS: tuple[tuple[float, str, Callable[[_Draws], Iterator[list[Part]]]], ...] = (
    (0.22, "station", _by_route),
    (0.16, "commuter", _by_hours),
    (0.22, "traveller", _by_day),
    (0.12, "crew", _by_number),
    (0.10, "hangar", _by_aircraft),
    (0.08, "dispatch", _by_weather),
    (0.05, "spotter", _by_model),
    (0.05, "visitor", _by_word),
)


def draw_alerts(flights: Flights, count: int, seed: int) -> list[Alert]:
    """Draw alerts.

    Parameters
    ----------
    flights : Flights
        Whose distributions are used; at least one flight.
    count : int
        Number of alerts.
    seed : int

    Returns
    -------
    list of Alert
        Kinds mixed at random; ids ``alert-000000`` and so on.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([share for share, _, _ in KINDS])
    kind_idx = rng.choice(len(KINDS), count, p=shares / shares.sum())
    drawn: list[tuple[str, list[Part]]] = []
    for i, (_, owner, draw) in enumerate(KINDS):
        kind_count = int((kind_idx == i).sum())
        kind_rng, twist_rng = rng.spawn(2)
        lists = draw(_Draws(flights, kind_rng, kind_count))
        drawn.extend((owner, found) for found in _twisted(lists, _Draws(flights, twist_rng, kind_count)))
    position = np.empty(count, dtype=np.int64)
    position[np.argsort(kind_idx, kind="stable")] = np.arange(count)
    numbers = rng.integers(0, max(1, count // 20), count).tolist()
    alerts = []
    for i, (drawn_idx, number) in enumerate(zip(position.tolist(), numbers, strict=True)):
        owner, found = drawn[drawn_idx]
        alerts.append(Alert(f"alert-{i:06d}", f"{owner}-{number}", p.expression(found), p.sentence(found)))
    return alerts


def _twisted(lists: Iterator[list[Part]], d: _Draws) -> Iterator[list[Part]]:
    """Give one list of parts in five a NOT or an OR."""
    rows = zip(
        lists, d.dice(1000), d.text("carrier"), d.text("carrier_name"), d.number("month"), d.number("hour"),
        d.other_text("dest"), strict=True,
    )  # fmt: skip
    for found, die, carrier, name, month, hour, dest in rows:
        if die >= TWIST_PROBABILITY * 1000:
            yield found
        elif die % 2:
            exceptions = {
                "carrier": p.operated_by(carrier, name),
                "hour": p.scheduled(hour, min(23, hour + 2)),
                "month": p.in_month(month),
            }
            yield _with_not(found, die, exceptions)
        else:
            yield _with_or(found, dest)


def _with_not(found: list[Part], die: int, exceptions: dict[str, Part]) -> list[Part]:
    """Add an exception about an attribute that the alert does not mention yet."""
    mentioned = {atom.get("attr") for part in found for atom in part.atoms}
    free = [part for attribute, part in exceptions.items() if attribute not in mentioned]
    return [*found, p.unless(free[die % len(free)])] if free else found


def _with_or(found: list[Part], dest: str) -> list[Part]:
    """Add a second route from the same airport, or else cancelled flights."""
    first, last = found[0], found[-1]
    if [atom["attr"] for atom in first.atoms] == ["origin", "dest"]:
        elsewhere = p.route(first.atoms[0]["value"], dest)
        if elsewhere is not first:
            return [p.either(first, elsewhere), *found[1:]]
    return [*found[:-1], p.either(last, p.cancelled())]
