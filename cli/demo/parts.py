"""Parts of an alert: a piece of the expression and the same piece in plain English.

An alert is a list of parts that must all hold. Each part is made once and shared by all alerts that use
it, so that 200,000 alerts are cheap to draw, and no sentence can say something else than its expression:
both come from the same function.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

Atom = dict[str, Any]

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class Part(NamedTuple):
    """Something that an alert asks for.

    Attributes
    ----------
    atoms : tuple of dict
        Expressions in JSON form that must all hold.
    phrase : str
        The same in English, to be put after "Flights".
    """

    atoms: tuple[Atom, ...]
    phrase: str

    @property
    def expression(self) -> Atom:
        """The part as one expression."""
        return self.atoms[0] if len(self.atoms) == 1 else {"and": list(self.atoms)}


@cache
def atom(attribute: str, operator: str, value: Any) -> Atom:
    """Return ``{"attr", "op", "value"}``; a tuple becomes a list."""
    return {"attr": attribute, "op": operator, "value": list(value) if isinstance(value, tuple) else value}


@cache
def interval(attribute: str, lo: int, hi: int) -> Atom:
    """Return ``lo <= attribute <= hi``."""
    return {"attr": attribute, "op": "between", "lo": lo, "hi": hi}


@cache
def absent(attribute: str) -> Atom:
    """Return the predicate that `attribute` is missing."""
    return {"attr": attribute, "op": "not exists"}


@cache
def route(origin: str, dest: str) -> Part:
    """Flights of one route."""
    return Part((atom("origin", "=", origin), atom("dest", "=", dest)), f"from {origin} to {dest}")


@cache
def leaving(origin: str) -> Part:
    """Flights from one airport."""
    return Part((atom("origin", "=", origin),), f"from {origin}")


@cache
def to_any_of(first: str, second: str) -> Part:
    """Flights to one of two airports."""
    return Part((atom("dest", "in", (first, second)),), f"to {first} or {second}")


@cache
def operated_by(carrier: str, name: str) -> Part:
    """Flights of one airline."""
    return Part((atom("carrier", "=", carrier),), f"by {name}")


@cache
def numbered(carrier: str, flight: int) -> Part:
    """One flight number."""
    return Part(
        (atom("carrier", "=", carrier), atom("flight", "=", flight)), f"with flight number {carrier} {flight}"
    )


@cache
def flown_by(tailnum: str) -> Part:
    """One aircraft."""
    return Part((atom("tailnum", "=", tailnum),), f"flown by aircraft {tailnum}")


@cache
def leaving_late(minutes: int) -> Part:
    """Flights with a delay at departure."""
    return Part((atom("dep_delay", ">", minutes),), f"leaving more than {minutes} minutes late")


@cache
def arriving_late(minutes: int) -> Part:
    """Flights with a delay at arrival."""
    return Part((atom("arr_delay", ">=", minutes),), f"arriving {minutes} minutes late or more")


@cache
def arriving_early(minutes: int) -> Part:
    """Flights that arrive well before their time."""
    return Part((atom("arr_delay", "<=", -minutes),), f"arriving {minutes} minutes early or more")


@cache
def cancelled() -> Part:
    """Flights that never left."""
    return Part((absent("dep_delay"),), "cancelled")


@cache
def scheduled(first_hour: int, last_hour: int) -> Part:
    """Flights of some hours of the day."""
    hours = f"between {first_hour}:00 and {last_hour}:59"
    return Part((interval("hour", first_hour, last_hour),), f"scheduled {hours}")


@cache
def in_month(month: int) -> Part:
    """Flights of one month."""
    return Part((atom("month", "=", month),), f"in {MONTHS[month - 1]}")


@cache
def on_days(month: int, first_day: int, last_day: int) -> Part:
    """Flights of one to a few days of the year."""
    name = MONTHS[month - 1]
    if first_day == last_day:
        return Part((atom("month", "=", month), atom("day", "=", first_day)), f"on {first_day} {name}")
    days = interval("day", first_day, last_day)
    return Part((atom("month", "=", month), days), f"from {first_day} to {last_day} {name}")


@cache
def name_contains(attribute: str, word: str) -> Part:
    """Flights from or to an airport with a word in its name, however it is capitalised."""
    found = {"attr": attribute, "op": "contains", "value": word.lower(), "ignore_case": True}
    way = "to" if attribute == "dest_name" else "from"
    return Part((found,), f'{way} an airport with "{word}" in its name')


@cache
def tail_prefix(prefix: str) -> Part:
    """Aircraft whose registration begins with a text."""
    return Part((atom("tailnum", "prefix", prefix),), f"flown by an aircraft registered {prefix}...")


@cache
def weather(attribute: str, operator: str, value: float) -> Part:
    """Flights that leave in some weather."""
    phrase = {
        "wind_gust": f"with gusts above {value:.0f} mph",
        "wind_speed": f"with wind of {value:.0f} mph or more",
        "visib": f"with visibility below {value:g} miles",
        "precip": f"with more than {value:g} inches of rain in the hour",
        "temp": f"{'below' if operator == '<' else 'above'} {value:.0f} degrees Fahrenheit",
    }[attribute]
    return Part((atom(attribute, operator, value),), phrase)


@cache
def made_by(manufacturer: str, model: str) -> Part:
    """One model of aircraft."""
    maker = atom("plane_manufacturer", "=", manufacturer)
    return Part((maker, atom("plane_model", "=", model)), f"on an aircraft of model {manufacturer} {model}")


@cache
def built_before(year: int) -> Part:
    """Old aircraft."""
    return Part((atom("plane_year", "<", year),), f"on an aircraft built before {year}")


@cache
def seats_at_least(seats: int) -> Part:
    """Large aircraft."""
    return Part((atom("plane_seats", ">=", seats),), f"on an aircraft with {seats} seats or more")


def unless(part: Part) -> Part:
    """The opposite of a part; holds also when nothing is known about it."""
    return Part(({"not": part.expression},), f"but not {part.phrase}")


def either(first: Part, second: Part) -> Part:
    """One part or the other."""
    both = {"or": [first.expression, second.expression]}
    return Part((both,), f"either {first.phrase} or {second.phrase}")


def sentence(parts: list[Part]) -> str:
    """Return an alert in plain English."""
    return "Flights " + ", ".join([part.phrase for part in parts])


def expression(parts: list[Part]) -> Atom:
    """Return an alert in JSON form."""
    return {"and": [piece for part in parts for piece in part.atoms]}
