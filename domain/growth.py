"""How a store grows under a bound (behaviour.md 4.2, conformance examples D1 to D4)."""

import math
from dataclasses import dataclass
from fractions import Fraction

from .errors import InvalidInput

DAYS = (30, 90, 365)
"""The days a projection tells."""
NOTHING_FORGETS = "Nothing in this store forgets unless you make it: neither a time to live nor a cap is set."


@dataclass(frozen=True, slots=True)
class Stock:
    """How much a store holds."""

    items: float
    kb: float


@dataclass(frozen=True, slots=True)
class Cap:
    """A ceiling, and the day it is reached, counted from the first write; None for never."""

    items: float
    day: int | None


@dataclass(frozen=True, slots=True)
class Growth:
    """What becomes of a store that is written to at one pace."""

    at: dict[int, Stock]
    """By day; caps are not applied to it."""
    steady: Stock | None
    """What it levels off at; None without a time to live."""
    caps: dict[str, Cap]
    """By ``max_items`` and ``max_kb``, those that are set."""
    notes: tuple[str, ...]


def project(
    *,
    writes_per_day: float,
    average_kb: float,
    ttl_days: float | None = None,
    max_items: float | None = None,
    max_kb: float | None = None,
) -> Growth:
    """Items and KB at day 30, 90 and 365, the steady state, and the day each cap is reached.

    Raises `InvalidInput` for a figure that is not above 0, or no number.
    """
    figures = {
        "writes_per_day": writes_per_day,
        "average_kb": average_kb,
        "ttl_days": ttl_days,
        "max_items": max_items,
        "max_kb": max_kb,
    }
    for name, value in figures.items():
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InvalidInput(name, "must be a number above 0")
    lifetime = math.inf if ttl_days is None else ttl_days
    at = {day: _stock(writes_per_day * min(day, lifetime), average_kb) for day in DAYS}
    steady = None if ttl_days is None else _stock(writes_per_day * ttl_days, average_kb)
    wanted = {"max_items": max_items, "max_kb": None if max_kb is None else max_kb / average_kb}
    caps = {name: _cap(items, writes_per_day, steady) for name, items in wanted.items() if items is not None}
    return Growth(at, steady, caps, () if steady or caps else (NOTHING_FORGETS,))


def _stock(items: float, average_kb: float) -> Stock:
    return Stock(items, items * average_kb)


def _cap(items: float, writes_per_day: float, steady: Stock | None) -> Cap:
    if steady is not None and items > steady.items:
        return Cap(items, None)
    # In whole numbers: 0.1 a day must not reach 3 on day 31.
    return Cap(items, math.ceil(Fraction(str(items)) / Fraction(str(writes_per_day))))
