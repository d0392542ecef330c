"""Dates written in a sentence: ISO dates, "3 May 2025", "May 3, 2025", "March 2025", "end of Q1 2025", "2025".

Each date is a span of days. An end has passed only when its last day is over everywhere on earth, and a start
lies ahead as long as its first day has not come.
"""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from .atoms import Atom

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",), ("june", "jun"),
            ("july", "jul"), ("august", "aug"), ("september", "sep", "sept"), ("october", "oct"),
            ("november", "nov"), ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}  # fmt: skip
MONTH_NAMES = frozenset(_MONTHS)
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_QUARTERS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": 4}
_FIRST_WORDS = MONTH_NAMES | _QUARTERS.keys() | {"q"}
_FIRST_YEAR, _LAST_YEAR = 1950, 2200


@dataclass(frozen=True, slots=True)
class Dated:
    """A date at ``atoms[start:end]``."""

    start: int
    end: int
    first: date
    last: date

    def has_passed(self, now: datetime) -> bool:
        """Whether its last day is over in every time zone (twelve hours behind UTC is the last)."""
        after = datetime(self.last.year, self.last.month, self.last.day, tzinfo=UTC) + timedelta(days=1, hours=12)
        return now >= after

    def lies_ahead(self, now: datetime) -> bool:
        """Whether its first day has not begun anywhere (fourteen hours ahead of UTC is the first)."""
        begins = datetime(self.first.year, self.first.month, self.first.day, tzinfo=UTC) - timedelta(hours=14)
        return now < begins


def dates_in(atoms: Sequence[Atom]) -> list[Dated]:
    """Every date of a sentence, longest reading first at each place; numbers of records are no dates."""
    found: list[Dated] = []
    at = 0
    while at < len(atoms):
        atom = atoms[at]
        could = atom.kind in ("num", "date", "month") or atom.text in _FIRST_WORDS
        dated = date_at(atoms, at) if could else None
        if dated is None:
            at += 1
        else:
            found.append(dated)
            at = dated.end
    return found


def date_at(atoms: Sequence[Atom], at: int) -> Dated | None:
    """The date that begins at ``at``."""
    atom = atoms[at]
    if atom.kind == "date":
        return _written_out(atoms, at)
    for read in (_day_month_year, _month_day_year, _month_year, _quarter, _year):
        dated = read(atoms, at)
        if dated is not None:
            return dated
    return None


def _written_out(atoms: Sequence[Atom], at: int) -> Dated | None:
    text = atoms[at].text
    if text[:4].isdigit():
        return _day(at, at + 1, int(text[:4]), int(text[5:7]), int(text[8:10]))
    one, two, year = (int(part) for part in text.replace("/", ".").split("."))
    readings = [d for d in (_day(at, at + 1, year, two, one), _day(at, at + 1, year, one, two)) if d is not None]
    # 03/04/2025 is two dates; an end counts from the later, a start from the earlier.
    if not readings:
        return None
    return Dated(at, at + 1, min(d.first for d in readings), max(d.last for d in readings))


def _day(start: int, end: int, year: int, month: int, day: int) -> Dated | None:
    if not _FIRST_YEAR <= year <= _LAST_YEAR or not 1 <= month <= 12 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    return Dated(start, end, date(year, month, day), date(year, month, day))


def _months(start: int, end: int, year: int, first: int, last: int) -> Dated:
    return Dated(start, end, date(year, first, 1), date(year, last, monthrange(year, last)[1]))


def _text(atoms: Sequence[Atom], at: int) -> str:
    return atoms[at].text if 0 <= at < len(atoms) else ""


def _number(atoms: Sequence[Atom], at: int, low: int, high: int) -> int | None:
    if at >= len(atoms) or atoms[at].kind != "num" or not (atoms[at].text.isascii() and atoms[at].text.isdigit()):
        return None
    value = int(atoms[at].text) if len(atoms[at].text) <= 4 else -1
    return value if low <= value <= high else None


def _ordinal(atoms: Sequence[Atom], at: int) -> int:
    return at + 1 if _text(atoms, at) in _ORDINALS else at


def _day_month_year(atoms: Sequence[Atom], at: int) -> Dated | None:
    day = _number(atoms, at, 1, 31)
    if day is None:
        return None
    place = _ordinal(atoms, at + 1)
    if _text(atoms, place) in ("of", "-", "."):
        place += 1
    month = _MONTHS.get(_text(atoms, place))
    if month is None:
        return None
    place += 2 if _text(atoms, place + 1) in (",", ".", "-") else 1
    year = _number(atoms, place, _FIRST_YEAR, _LAST_YEAR)
    return None if year is None else _day(at, place + 1, year, month, day)


def _month_day_year(atoms: Sequence[Atom], at: int) -> Dated | None:
    month = _MONTHS.get(_text(atoms, at))
    if month is None:
        return None
    place = at + 2 if _text(atoms, at + 1) == "." else at + 1
    if _text(atoms, place) == "the":
        place += 1
    day = _number(atoms, place, 1, 31)
    if day is None:
        return None
    place = _ordinal(atoms, place + 1)
    place += _text(atoms, place) in (",", "of")
    year = _number(atoms, place, _FIRST_YEAR, _LAST_YEAR)
    return None if year is None else _day(at, place + 1, year, month, day)


def _month_year(atoms: Sequence[Atom], at: int) -> Dated | None:
    month = _MONTHS.get(_text(atoms, at))
    if month is None:
        return None
    place = at + 2 if _text(atoms, at + 1) in ("of", ",", ".") else at + 1
    year = _number(atoms, place, _FIRST_YEAR, _LAST_YEAR)
    return None if year is None else _months(at, place + 1, year, month, month)


def _quarter(atoms: Sequence[Atom], at: int) -> Dated | None:
    """ "Q1 2025", "Q1/2025", "2025-Q1", "the first quarter of 2025"."""
    word = _text(atoms, at)
    if word == "q":
        quarter = _number(atoms, at + 1, 1, 4)
        place = at + 3 if _text(atoms, at + 2) in ("/", "of", "-", ",") else at + 2
        year = _number(atoms, place, _FIRST_YEAR, _LAST_YEAR)
    elif word in _QUARTERS and _text(atoms, at + 1) == "quarter":
        quarter = _QUARTERS[word]
        place = at + 3 if _text(atoms, at + 2) == "of" else at + 2
        year = _number(atoms, place, _FIRST_YEAR, _LAST_YEAR)
    else:
        year = _number(atoms, at, _FIRST_YEAR, _LAST_YEAR)
        place = at + 2 if _text(atoms, at + 1) in ("-", "/") else at + 1
        if _text(atoms, place) != "q":
            return None
        quarter = _number(atoms, place + 1, 1, 4)
        place += 1
    if quarter is None or year is None:
        return None
    return _months(at, place + 1, year, 3 * quarter - 2, 3 * quarter)


def _year(atoms: Sequence[Atom], at: int) -> Dated | None:
    """A bare year: all of it, so that "until 2025" has passed only when 2025 is over."""
    year = _number(atoms, at, _FIRST_YEAR, _LAST_YEAR)
    return None if year is None else _months(at, at + 1, year, 1, 12)
