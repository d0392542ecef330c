"""What a sentence is read against, and the phrases in it that mean the text itself or the older record."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .atoms import Atom, Names
from .lexicon import words
from .negation import NEGATIVE, OTHERS, PARTIAL, any_of
from .objects import Objects, read_objects
from .phrases import DOCUMENT_NOUNS, OBJECT_FILLERS, TITLE_LINKS, phrase_at
from .restrictions import is_scoped
from .self_reference import ACTING_NOUNS

Wording = Literal[
    "field", "active", "participle", "purpose", "passive", "nominal", "in_place", "causative", "no_longer",
    "pronoun",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """What one sentence is read against."""

    atoms: Sequence[Atom]
    names: Names
    now: datetime
    after_other: bool = False
    """The sentence before was about a third record."""
    antecedent: bool = False
    """The sentence before was about the older record and no other, so that "it" may mean that."""


@dataclass(frozen=True, slots=True)
class Found:
    """A wording class, and whether the record was named by its title only."""

    wording: Wording
    titled: bool = False
    start: int = 0
    end: int = 0
    """Where the named records stand, whose numbers are no dates."""


def found_as(wording: Wording, objects: Objects) -> Found:
    return Found(wording, objects.naming == "title", objects.start, objects.end)


_HAD = words("been had its served done")
_WAS_ONLY = words(
    """
    is was were served proved turned aged worked became held applied stood lasted
    """
)


def is_about_older(atoms: Sequence[Atom]) -> bool:
    """Whether a clause only says of the older record what it was: "PEP 314 was too narrow"."""
    docs = [n for n, atom in enumerate(atoms) if atom.kind == "doc" and atom.role != "self"]
    if (
        not docs
        or is_scoped(atoms)
        or any(atoms[n].role != "older" for n in docs)
        or not begins_clause(atoms, docs[0])
    ):
        return False
    after = docs[-1] + 1
    if docs[0] and atoms[docs[0] - 1].text in ("because", "since", "as"):
        return True
    if after >= len(atoms):
        return False
    had = atoms[after].text in ("had", "has") and after + 1 < len(atoms) and atoms[after + 1].text in _HAD
    return had or atoms[after].text in _WAS_ONLY or atoms[after].kind == "mark"


def it_is_text(reading: Reading, zone: Sequence[Atom]) -> bool:
    if reading.after_other:
        return False
    first = next((n for n, atom in enumerate(zone) if atom.kind == "doc"), None)
    if first is None:
        return True
    # Records that are listed with the older one do not stand between "it" and the text.
    listed = read_objects(zone, first, reading.names) if zone[first].role == "other" else None
    start = listed.end if listed is not None and listed.older and begins_clause(zone, first) else 0
    return not any(atom.role == "other" for atom in zone[start:])


def means_text(reading: Reading, at: int, zone: Sequence[Atom]) -> int | None:
    """Index after a phrase at ``at`` that means the text itself: "this decision", "the present memo"."""
    atoms = reading.atoms
    if at >= len(atoms):
        return None
    atom = atoms[at]
    if atom.kind == "doc":
        return at + 1 if atom.role == "self" else None
    if atom.text in ("this", "the", "our"):
        end = at + 1
        while end < len(atoms) and end < at + 4 and atoms[end].kind == "word" and atoms[end].text not in _STOPS:
            end += 1
        inner = atoms[at + 1 : end]
        if any_of(inner, PARTIAL, OTHERS):
            return None
        if end < len(atoms) and atoms[end].kind == "doc":
            return end + 1 if atoms[end].role == "self" else None
        if atom.text == "this":
            if phrase_at(atoms, end, ("and", "that")) is not None:
                return None
            own = bool(inner) and (inner[-1].text in ACTING_NOUNS or inner[-1].text in reading.names.series)
            return end if not inner or own else None
        first, last = (inner[0].text, inner[-1].text) if inner else ("", "")
        return end if first in ("present", "new", "current") and last in DOCUMENT_NOUNS else None
    if atom.text == "it":
        return at + 1 if it_is_text(reading, zone) else None
    return None


_STOPS = words(
    """
    as from on in with since because and which that for to after of hereby now is are entirely fully
    completely at effective altogether
    """
)


def begins_clause(atoms: Sequence[Atom], at: int) -> bool:
    """Whether a record named at ``at`` can be the subject, not "section 3 of" it."""
    titled = atoms[at].naming == "title"
    at -= 1
    while (
        at >= 0
        and atoms[at].kind == "word"
        and (
            (atoms[at].text in OBJECT_FILLERS and atoms[at].text not in ("of", "even"))
            or (titled and atoms[at].text in TITLE_LINKS and at > 0 and atoms[at - 1].text in DOCUMENT_NOUNS)
        )
    ):
        at -= 1
    if at > 0 and atoms[at].text == "and" and (atoms[at - 1].role == "self" or atoms[at - 1].text == "this"):
        return False
    if at < 0 or atoms[at].kind != "word" or atoms[at].text in _BEFORE_SUBJECT:
        return at < 0 or atoms[at].kind != "doc"
    dated = at > 0 and (
        atoms[at - 1].kind in ("num", "date") or atoms[at - 1].text in ("now", "today", "here", "then")
    )
    return atoms[at].text == "on" and dated


_BEFORE_SUBJECT = words(
    """
    and so but thus hence therefore consequently accordingly because as since with this today now hereby
    herewith it
    """
)
_NOT_BEFORE_OBJECT = words("of in from under to")


def subject_group(reading: Reading, last: int, *, with_agent: bool) -> Objects | None:
    """The records that are the subject of a passive whose verb group starts after ``last``."""
    atoms = reading.atoms
    if last < 0:
        return None
    relative = atoms[last].text in ("which", "that")
    stop = last - 1 if relative else last
    found: Objects | None = None
    if stop >= 0 and atoms[stop].text in (",", ":", "–", "—") and (relative or with_agent):
        found = _group_ending(reading, stop - 1, relative)
    if found is None and stop >= 0 and atoms[stop].text == ",":
        found = _group_ending(reading, _before_apposition(atoms, stop), relative)
    if found is None:
        found = _group_ending(reading, stop, relative)
    if found is None and with_agent and atoms[last].text in ("and", ","):
        found = _coordinated(reading, last)
    return found


def _before_apposition(atoms: Sequence[Atom], comma: int) -> int:
    """Index before "…, adopted in 2003," that closes at ``comma``; -1 where nothing like it stands there."""
    opened = next((n for n in range(comma - 1, max(-1, comma - 14), -1) if atoms[n].text == ","), -1)
    between = atoms[opened + 1 : comma]
    if opened < 0 or any(a.kind == "doc" for a in between) or any_of(between, NEGATIVE, PARTIAL):
        return -1
    return opened - 1


def _group_ending(reading: Reading, stop: int, relative: bool) -> Objects | None:
    """The list of records with the older one that ends at ``stop`` and can be a subject."""
    atoms = reading.atoms
    for start in range(max(0, stop - 40), stop + 1):
        if (
            atoms[start].kind != "doc"
            or atoms[start].role == "self"
            or (start and atoms[start - 1].text in _NOT_BEFORE_OBJECT)
        ):
            continue
        objects = read_objects(atoms, start, reading.names)
        if objects is None or objects.end != stop + 1 or not objects.older:
            continue
        if relative or begins_clause(atoms, start):
            return objects
    return None


def _coordinated(reading: Reading, last: int) -> Objects | None:
    """ "PEP 314 was too narrow and is replaced by this"."""
    docs = [n for n in range(last) if reading.atoms[n].kind == "doc"]
    if (
        not docs
        or any(reading.atoms[n].role != "older" for n in docs)
        or not begins_clause(reading.atoms, docs[0])
    ):
        return None
    objects = read_objects(reading.atoms, docs[0], reading.names)
    return objects if objects is not None and objects.older else None


def has_text(atoms: Sequence[Atom]) -> bool:
    return all(a.kind == "mark" for a in atoms) or any(
        a.role == "self" or a.text in ("this", "we", "i", "it", "our") for a in atoms
    )
