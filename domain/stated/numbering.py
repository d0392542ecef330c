"""Join series words and numbers into named records: "PEP 345", "ADR-0005", "PEPs 241, 314 and 345", "#12"."""

from collections.abc import Sequence

from .atoms import Atom, Names, Role, find_named, read_tokens
from .dates import MONTH_NAMES
from .lexicon import words
from .series import is_number_word, plain_number, series_name

_RANGE_MARKS = frozenset({"-", "–", "—", "to", "through", "thru"})
_LIST_WORDS = frozenset({",", "and", "&", "/", "plus"})
_MAX_RANGE = 50
_MAX_HOPS = 3


def read_atoms(text: str, start: int, end: int, names: Names) -> list[Atom]:
    """The atoms of ``text[start:end]`` with the records it names and their role."""
    return _with_months(name_records(read_tokens(text, start, end, names, name_records), names))


def name_records(atoms: Sequence[Atom], names: Names) -> list[Atom]:
    """Atoms with titles, then numbers joined into named records."""
    return _with_numbers(find_named(atoms, names), names)


def _with_months(atoms: list[Atom]) -> list[Atom]:
    """Mark month names beside a number as such, so that the month May is not read as a mood."""
    for at, atom in enumerate(atoms):
        if atom.kind == "word" and atom.text in MONTH_NAMES:
            beside = (atoms[at - 1] if at else None, atoms[at + 1] if at + 1 < len(atoms) else None)
            ordinal = at > 1 and atoms[at - 1].text in (
                "st",
                "nd",
                "rd",
                "th",
                "of",
                "early",
                "mid",
                "late",
                "end",
                "-",
            )
            if ordinal or any(near is not None and near.kind == "num" for near in beside):
                atom.kind = "month"
    return atoms


def _with_numbers(atoms: Sequence[Atom], names: Names) -> list[Atom]:
    out: list[Atom] = []
    also = names.series
    at, count = 0, len(atoms)
    while at < count:
        atom = atoms[at]
        number_at = None
        series: str | None = None
        plural = False
        if atom.kind == "word":
            if at + 1 < count and (found := series_name(atom.raw, also)) is not None:
                series, plural = found
                number_at = _number_after(atoms, at + 1)
            elif is_number_word(atom.text):
                number_at = _number_after(atoms, at + 1)
        elif (
            atom.text == "#" and at + 1 < count and atoms[at + 1].kind == "num" and atoms[at + 1].start == atom.end
        ):
            number_at = at + 1
        if number_at is None:
            out.append(atom)
            at += 1
        else:
            at = _append_records(out, atoms, at, number_at, series, plural, names)
    return out


def _number_after(atoms: Sequence[Atom], at: int) -> int | None:
    """Index of the number that a series word before ``at`` announces."""
    for place in range(at, min(at + _MAX_HOPS, len(atoms))):
        atom = atoms[place]
        if atom.kind == "num":
            return place if "," not in atom.text else None
        joins = atom.kind == "mark" and (atom.text in "-#_№" or (atom.text == "." and place > at))
        if not joins and not is_number_word(atom.text):
            return None
    return None


def _append_records(
    out: list[Atom], atoms: Sequence[Atom], first: int, at: int, series: str | None, plural: bool, names: Names
) -> int:
    """Append the record(s) announced at ``first`` whose first number is at ``at``; return the next index."""
    start = atoms[first].start
    while True:
        number, stop = atoms[at].text, at + 1
        if not plural and _joined(atoms, stop) and atoms[stop].text == "-" and atoms[stop + 1].kind == "num":
            number += "-" + atoms[stop + 1].text  # "ADR-2024-003" is one number, "PEPs 241-314" a range
            stop += 2
        if stop < len(atoms) and atoms[stop].kind == "word" and atoms[stop].start == atoms[stop - 1].end:
            number += atoms[stop].text  # "2616bis" is another record than 2616
            stop += 1
        role = names.role_of(series, plain_number(number))
        last = _range_end(atoms, stop, number)
        if last is not None:
            role = _role_of_range(int(number), int(atoms[last].text), series, names)
            stop = last + 1
        out.append(Atom("doc", number, start, atoms[stop - 1].end, number, role, "id" if series else "bare"))
        following = _list_number(atoms, stop)
        if following is None:
            return stop
        out.extend(atoms[stop:following])
        at = following
        start = atoms[at].start


def _joined(atoms: Sequence[Atom], at: int) -> bool:
    """Whether the atoms before, at and after ``at`` are written without spaces."""
    return at + 1 < len(atoms) and atoms[at].start == atoms[at - 1].end and atoms[at + 1].start == atoms[at].end


def _range_end(atoms: Sequence[Atom], at: int, number: str) -> int | None:
    if at + 1 >= len(atoms) or atoms[at].text not in _RANGE_MARKS or not number.isdigit():
        return None
    upper = atoms[at + 1]
    if upper.kind != "num" or not upper.text.isdigit() or len(upper.text) > 6 or len(number) > 6:
        return None
    if not 0 < int(upper.text) - int(number) <= _MAX_RANGE:
        return None
    return at + 1


def _role_of_range(first: int, last: int, series: str | None, names: Names) -> Role:
    roles = {names.role_of(series, str(number)) for number in range(first, last + 1)}
    return "older" if "older" in roles and "self" not in roles else "other"


def _list_number(atoms: Sequence[Atom], at: int) -> int | None:
    """Index of a bare number that continues a list ("PEPs 241, 314 and 345"), if one stands there."""
    begin = at
    while at < len(atoms) and atoms[at].text in _LIST_WORDS:
        at += 1
    return at if at > begin and at < len(atoms) and ends_number(atoms, at) else None


_AFTER_NUMBER = words(
    """
    and & or plus as in entirely fully completely altogether outright because since which with from on now
    effective for by is are was were has have had no to at once hereby after so that through make makes
    obsolete void redundant moot
    """
)


def ends_number(atoms: Sequence[Atom], at: int) -> bool:
    """Whether a plain number stands at ``at`` and counts nothing ("345 lines" counts)."""
    atom = atoms[at]
    if atom.kind != "num" or not atom.text.isdigit() or len(atom.text) > 6:
        return False
    if at + 1 == len(atoms):
        return True
    after = atoms[at + 1]
    return (after.kind == "mark" and after.text not in "%$€£°") or (
        after.kind == "word" and after.text in _AFTER_NUMBER
    )
