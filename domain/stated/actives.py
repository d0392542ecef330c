"""Endings said by the text as a subject: "this replaces …", "makes … obsolete"."""

from .objects import read_objects
from .phrases import ADVERBS, Form, cause_at, caused_at, verb_at
from .reading import Found, Reading, Wording, found_as, is_about_older
from .restrictions import follows_cleanly
from .subjects import subject_is_text

_OF_FORM: dict[Form, Wording] = {"finite": "active", "past": "active", "ing": "participle", "base": "purpose"}


def read_active(reading: Reading, at: int) -> Found | None:
    """ "Replaces: 345" · "this supersedes ADR-5" · "…, replacing PEP 314" · "adopted to replace PEP 314"."""
    atoms = reading.atoms
    verb = verb_at(atoms, at)
    if verb is None:
        return None
    form, stop = verb
    objects = read_objects(atoms, stop, reading.names)
    if objects is None:
        return _pronoun(reading, at, form, stop)
    if not objects.older or not follows_cleanly(atoms, objects.end):
        return None
    label = atoms[stop].text if stop < len(atoms) else ""
    labelled = label == "=" or (label in (":", "|") and all(a.kind == "mark" for a in atoms[:at]))
    if labelled:
        return found_as("field", objects) if form in ("finite", "ing") else None
    if not subject_is_text(atoms, at, form, after_other=reading.after_other):
        return None
    return found_as(_OF_FORM[form], objects)


def _pronoun(reading: Reading, at: int, form: Form, stop: int) -> Found | None:
    """ "PEP 314 had its day; this one replaces it": the pronoun means the record the clause before is about."""
    atoms = reading.atoms
    if stop >= len(atoms) or atoms[stop].text not in ("it", "that", "them") or form == "base":
        return None
    if not follows_cleanly(atoms, stop + 1) or not subject_is_text(atoms, at, form):
        return None
    docs = [n for n, atom in enumerate(atoms[:at]) if atom.role in ("older", "other")]
    if not docs:
        return (
            Found("pronoun")
            if reading.antecedent and any(a.text in ("this", "we") or a.role == "self" for a in atoms[:at])
            else None
        )
    return Found("pronoun") if is_about_older(atoms[:at]) else None


def read_causative(reading: Reading, at: int) -> Found | None:
    """ "This makes PEP 314 obsolete" · "puts PEP 314 out of force"."""
    atoms = reading.atoms
    form = cause_at(atoms, at)
    if form is None:
        return None
    objects = read_objects(atoms, at + 1, reading.names)
    if objects is None or not objects.older:
        return None
    after = objects.end
    while after < len(atoms) and atoms[after].text in ADVERBS:
        after += 1
    end = caused_at(atoms, after, atoms[at].text)
    if end is None or not follows_cleanly(atoms, end):
        return None
    return (
        found_as("causative", objects)
        if subject_is_text(atoms, at, form, after_other=reading.after_other)
        else None
    )
