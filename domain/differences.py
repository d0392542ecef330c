"""What one of two texts says and the other does not, as far as it can be told without reading meaning.

Near texts that differ in a number, a date, a name or a negation are about two things, however near they are:
"rotate the keys every 30 days" and "… every 90 days" (settlement 10). The guard is broad on purpose: a missed edge
costs one proposal, a false one lets a memory that still stands be closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from .judging import visible
from .stated.atoms import Atom, Names, read_tokens
from .stated.dates import MONTH_NAMES, dates_in
from .stated.lexicon import words
from .stated.mentions import Identity
from .stated.negation import NEGATIVE

Difference = Literal["number", "date", "name", "negation", "too_long"]

LONGEST = 20_000
"""Characters of a text that is looked at; whether longer ones differ is not told, so they count as different."""

_NOBODY = Identity(frozenset(), None, frozenset(), (), frozenset(), "")
_NOTHING_NAMED = Names(_NOBODY, _NOBODY)
_NUMBER_WORDS = words(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen
    once twice half first second third fourth fifth sixth seventh eighth ninth tenth last
    """
)
_DAYS = words(
    """
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
    saturdays sundays today yesterday tomorrow weekday weekdays weekend weekends daily weekly monthly quarterly
    yearly annually morning afternoon evening night noon midnight spring summer autumn winter
    """
)
_DENYING = NEGATIVE | words(
    "no longer stop end ended ceased cease avoid forbid forbids forbidden disallow disabled"
)
_OPENING = words(
    """
    a an the this that these those it its we our us you your they their he his she her i my there here in on at by
    for from of to with as and or but if when while once after before since until all any each every some most many
    use uses used using do does did is are was were be has have had will can may must should would let keep
    """
)
"""Words whose capital letter says only that a sentence begins."""


@dataclass(frozen=True, slots=True)
class Said:
    """The words of a text, and among them what it must share with another one to say the same."""

    words: frozenset[str]
    numbers: frozenset[str]
    dates: frozenset[str | tuple[date, date]]
    names: frozenset[str]
    denials: int
    """How many words take something back."""
    too_long: bool = False


_TOO_LONG = Said(frozenset(), frozenset(), frozenset(), frozenset(), 0, too_long=True)


def differences(one: Said, other: Said) -> frozenset[Difference]:
    """In what two texts differ; empty where nothing of that kind tells them apart."""
    if one.too_long or other.too_long:
        return frozenset({"too_long"})
    found: set[Difference] = set()
    if one.numbers != other.numbers:
        found.add("number")
    if one.dates != other.dates:
        found.add("date")
    if one.names - other.words or other.names - one.words:
        found.add("name")
    if one.denials != other.denials:
        found.add("negation")
    return frozenset(found)


def read(text: str) -> Said:
    """A text as `differences` compares it."""
    if len(text) > LONGEST:
        return _TOO_LONG
    seen = visible(text)
    atoms = _with_months(read_tokens(seen, 0, len(seen), _NOTHING_NAMED, _as_they_are))
    dated = dates_in(atoms)
    in_date = {place for one in dated for place in range(one.start, one.end)}
    undated = [atom for place, atom in enumerate(atoms) if place not in in_date]
    days = {atom.text for atom in undated if atom.text in MONTH_NAMES or atom.text in _DAYS}
    return Said(
        words=frozenset(atom.text for atom in atoms),
        numbers=frozenset(atom.text for atom in undated if atom.kind == "num" or atom.text in _NUMBER_WORDS),
        dates=frozenset({(one.first, one.last) for one in dated} | days),
        names=frozenset(atom.text for atom in undated if _is_name(atom)),
        denials=sum(atom.text in _DENYING for atom in atoms),
    )


def _is_name(atom: Atom) -> bool:
    """Whether it is written like a name: with a capital letter, as an address, or as a file."""
    if atom.kind == "doc":
        return True
    written = any(letter.isupper() for letter in atom.raw) or "://" in atom.raw
    return atom.kind == "word" and written and atom.text not in _OPENING


def _with_months(atoms: list[Atom]) -> list[Atom]:
    for atom in atoms:
        if atom.text in MONTH_NAMES and atom.raw[:1].isupper():
            atom.kind = "month"
    return atoms


def _as_they_are(atoms: Sequence[Atom], _names: Names) -> list[Atom]:
    return list(atoms)
