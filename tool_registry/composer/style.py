"""How one application speaks and names: drawn once, and then kept to throughout."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

_VERBS = {
    "get": ("get", "show", "fetch", "read", "describe", "retrieve"),
    "list": ("list", "list", "browse", "list_all"),
    "search": ("search", "find", "query", "look_up"),
    "count": ("count", "tally"),
    "update": ("update", "edit", "change", "modify"),
    "sum": ("total", "sum_up"),
}
_FIRST = datetime.fromisoformat("2026-01-05T08:00:00")

IMPERIAL = {
    "kg": ("lb", 2.2),
    "km": ("mi", 0.62),
    "cm": ("in", 0.39),
    "m": ("ft", 3.28),
    "m2": ("sq ft", 10.76),
    "l": ("gal", 0.26),
}
UNITS = {
    "g": "grams", "kg": "kilograms", "lb": "pounds", "km": "kilometres", "mi": "miles",
    "cm": "centimetres", "in": "inches", "m": "metres", "ft": "feet", "m2": "square metres",
    "sq ft": "square feet", "l": "litres", "gal": "gallons", "ml": "millilitres", "h": "hours",
    "min": "minutes", "s": "seconds", "kWh": "kilowatt-hours", "kW": "kilowatts", "ha": "hectares",
    "mm": "millimetres", "MB": "megabytes", "GB": "gigabytes", "ms": "milliseconds", "t": "tonnes",
    "%": "percent", "C": "degrees Celsius", "W": "watts", "V": "volts", "mg": "milligrams",
}  # fmt: skip
CENTS = {"EUR": "euro cents", "USD": "US cents", "GBP": "pence", "CHF": "Swiss centimes"}


@dataclass(frozen=True, slots=True)
class Style:
    """The choices that make two applications of one vocabulary differ in form."""

    verb_first: bool
    """`get_parcel`, or `parcel_get`."""
    key_ending: str
    """Of parameters that are keys: `parcel_id` or `parcel`."""
    state: str
    """Name of the column of states."""
    closed: str
    """Name of the column with the day on which a record ended; empty: there is none."""
    made: str
    """Name of the column with the day on which a record was made; empty: there is none."""
    one_update: bool
    """One tool for all changes, or one for each attribute."""
    wide_lists: bool
    """Lists show all columns, or few."""
    metric: bool
    currency: str
    digits: int
    dash: str
    clock: str
    limit: int
    """Live records of one kind that an owner may have; 0: as many as they like."""
    voice: int
    """Which of several wordings descriptions have."""
    verbs: dict[str, str] = field(default_factory=dict)

    @property
    def cents(self) -> str:
        """Return what the integers of sums count."""
        return CENTS[self.currency]

    def tool(self, verb: str, noun: str) -> str:
        """Return the name of a tool."""
        verb = self.verbs.get(verb, verb)
        return f"{verb}_{noun}" if self.verb_first else f"{noun}_{verb}"

    def key(self, entity: str) -> str:
        """Return the parameter that takes the key of an entity."""
        return entity + self.key_ending


def draw_style(rng: random.Random) -> Style:
    """Draw a style."""
    moment = _FIRST + timedelta(days=rng.randrange(700), hours=rng.randrange(9))
    return Style(
        verb_first=rng.random() < 0.75,
        key_ending="_id" if rng.random() < 0.75 else "",
        state=rng.choice(("status", "status", "state")),
        closed=rng.choice(("", "closed_on", "ended_on", "settled_on")),
        made=rng.choice(("", "created_on", "entered_on", "opened_on")),
        one_update=rng.random() < 0.6,
        wide_lists=rng.random() < 0.35,
        metric=rng.random() < 0.8,
        currency=rng.choice(("EUR", "EUR", "USD", "GBP", "CHF")),
        digits=rng.choice((3, 4, 5)),
        dash=rng.choice(("", "", "-")),
        clock=moment.isoformat(),
        limit=rng.choice((0, 0, 3, 4)),
        voice=rng.randrange(3),
        verbs={kind: rng.choice(words) for kind, words in _VERBS.items()},
    )
