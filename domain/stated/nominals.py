"""Endings said without a verb of ending: "instead of …", "the successor to …"."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import phrases, words
from .negation import ABSENT, CONDITION, MOOD, NEGATIVE, OTHERS, REPORT, any_of
from .objects import Objects, read_objects
from .phrases import ADOPTED_TO, ADVERBS, ANNOUNCING, DOCUMENT_NOUNS, phrase_at
from .reading import Found, Reading, found_as, means_text
from .restrictions import follows_cleanly, is_scoped
from .self_reference import speaks_for_itself
from .subjects import subject_is_text

IN_PLACE_OF = phrases(
    """
    instead of | in place of | in the place of | in lieu of | in succession to | and no longer | and not
    """
)


def read_in_place(reading: Reading, at: int) -> Found | None:
    """ "instead of RFC 2616" · "use this in place of PEP 314"."""
    atoms = reading.atoms
    stop = phrase_at(atoms, at, *IN_PLACE_OF)
    if stop is None:
        return None
    objects = read_objects(atoms, stop, reading.names)
    if objects is None or not objects.older:
        return None
    zone, rest = atoms[:at], atoms[objects.end :]
    opening = all(atom.kind == "mark" for atom in zone)
    if not follows_cleanly(atoms, objects.end, free=opening):
        return None
    if is_scoped(zone):
        return None
    for side in (zone, rest):
        if any_of(side, CONDITION, REPORT, NEGATIVE, MOOD, OTHERS, _HABIT) or any(a.role == "other" for a in side):
            return None
    if opening:
        fits = atoms[at].text != "and" and not reading.after_other and _comes_into_use(rest)
    else:
        fits = not reading.after_other and _is_in_use(zone)
    return found_as("in_place", objects) if fits else None


_HABIT = words("used allowed able designed people tools sometimes often usually")


_USES = words("use uses follow follows apply adopt adopted take choose chose chosen decided went go")


def _comes_into_use(rest: Sequence[Atom]) -> bool:
    """What follows "Instead of X": "this is the rule", "we now follow PEP 345", or nothing."""
    row = [atom for atom in rest if atom.kind != "mark"]
    if not row:
        return True
    itself = any(atom.role == "self" or atom.text in ("this", "it") for atom in row)
    if any(atom.text in ("we", "i") for atom in row):
        return any(atom.text in _USES for atom in row)
    return itself and any(
        atom.text in _APPLYING and atom.text not in ("this", "it", "the", "a", "to") for atom in row
    )


_APPLYING = words(
    """
    applies applied comes steps enters holds counts approved published issued followed since stands
    governs is are in force now valid adopted accepted use uses follow follows apply adopt takes take
    effect serves rules chosen choose chose decided binding from on as the a to be we i go went with it
    this one
    """
)
_ORDERS = words("use follow apply adopt take see read consult")


def _is_in_use(zone: Sequence[Atom]) -> bool:
    """ "Use this …" · "we follow PEP 345 …" · "this applies …" before "instead of"."""
    row = [atom for atom in zone if atom.kind != "mark" and atom.text != "please"]
    if not row or row[0].text in _ORDERS:
        return not row or any(a.role == "self" or a.text in ("this", "it") for a in row)
    if row[0].text in ("we", "i"):
        return any(atom.text in _USES for atom in row)
    fragment = all(
        a.kind != "word" or a.text in _APPLYING or a.text in ADVERBS or a.text in ANNOUNCING for a in row
    )
    if not fragment and not speaks_for_itself(zone, joined=True):
        return False
    return (
        fragment
        or all(
            a.kind != "word" or a.text in _APPLYING or a.text in DOCUMENT_NOUNS or a.text in ADVERBS for a in row
        )
        or (zone[-1].kind == "mark")
    )


SUCCESSOR = frozenset({"successor", "replacement", "substitute"})
_BEFORE_SUCCESSOR = words(
    """
    the a an direct official full complete formal its our in drop - immediate agreed
    """
)


def read_nominal(reading: Reading, at: int) -> Found | None:
    """ "the successor to PEP 314" · "a replacement for ADR-5" · "PEP 314's successor"."""
    atoms = reading.atoms
    if atoms[at].text not in SUCCESSOR or at + 1 >= len(atoms):
        return None
    start, end = at, at + 1
    if atoms[at - 1].text == "'s" and at > 1 and atoms[at - 2].role == "older":
        objects = Objects(True, atoms[at - 2].naming, False, at - 2, at + 1)
        start = at - 2
    elif atoms[at + 1].text in ("to", "of", "for", ":"):
        found = read_objects(atoms, at + 2, reading.names)
        if found is None or not found.older:
            return None
        objects, end = found, found.end
        while start > 0 and atoms[start - 1].text in _BEFORE_SUCCESSOR:
            start -= 1
    else:
        return None
    zone = atoms[:start]
    if any_of(zone, CONDITION, REPORT, NEGATIVE, MOOD, OTHERS, ABSENT) or is_scoped(zone):
        return None
    if any_of(atoms[end:], NEGATIVE):
        return None
    opening = all(a.kind == "mark" for a in zone)
    named_after = phrase_at(atoms, end, ("is",), (":",))
    if named_after is not None and opening:
        after = means_text(reading, named_after, zone)
        return found_as("nominal", objects) if after is not None and follows_cleanly(atoms, after) else None
    if not follows_cleanly(atoms, end):
        return None
    if opening:
        return None if reading.after_other else found_as("nominal", objects)
    last = zone[-1]
    if last.text in ("is", "becomes"):
        return (
            found_as("nominal", objects)
            if subject_is_text(atoms, start - 1, "finite", after_other=reading.after_other)
            else None
        )
    if reading.after_other or (last.text == "as" and not _is_adopted_as(zone)):
        return None
    if last.kind == "mark" or last.text in ("as", "and"):
        return found_as("nominal", objects) if speaks_for_itself(zone) else None
    return None


def _is_adopted_as(zone: Sequence[Atom]) -> bool:
    """ "Adopted on 28 April 2005 as …", not "conceived as …": only a record in force succeeds another."""
    place = len(zone) - 2
    while (
        place >= 0
        and zone[place].text not in ADOPTED_TO
        and (zone[place].kind != "word" or zone[place].text in ANNOUNCING)
    ):
        place -= 1
    return place < 0 or zone[place].text in ADOPTED_TO
