"""Endings said as a rule that has stopped: "PEP 314 no longer applies", "we do not follow ADR-5 any more"."""

from .lexicon import phrases, words
from .negation import CONDITION, MOOD, OTHERS, REPORT, any_of
from .objects import read_objects
from .phrases import ADVERBS, AUXILIARIES, IN_FORCE, phrase_at
from .reading import Found, Reading, found_as, has_text, subject_group
from .restrictions import follows_cleanly, is_scoped

NOT_NOW = phrases("no longer | ceases to | cease to | ceases | any more | anymore | any longer")
_ANY_MORE = phrases("any more | anymore | any longer")
_FOLLOW = words("follow use apply observe honour honor cite")
_FOLLOWED = words("used followed applied cited consulted observed")
_NORMS = words("must should shall is are to")
_BE_USED = _FOLLOWED | words("must should shall be")
_STANDARDS = words("standard rule reference norm basis default policy decision")
_NOT = words("not doesn't don't isn't aren't")
_STILL_NOT = _NOT | words("does do is are in the has have")


def read_no_longer(reading: Reading, at: int) -> Found | None:
    """The record that a sentence says is no longer followed."""
    atoms = reading.atoms
    if any(atom.role == "other" for atom in atoms) or is_scoped(atoms[:at]):
        return None
    last = at - 1
    while last >= 0 and (
        atoms[last].text in AUXILIARIES or atoms[last].text in ADVERBS or atoms[last].text in _NORMS
    ):
        last -= 1
    tail = phrase_at(atoms, at, *_ANY_MORE)
    if tail is not None:
        return _not_any_more(reading, at, tail)
    return None if any_of(atoms[: last + 1], CONDITION, REPORT, OTHERS, MOOD) else _no_longer(reading, at, last)


def _no_longer(reading: Reading, at: int, last: int) -> Found | None:
    atoms = reading.atoms
    stop = phrase_at(atoms, at, *NOT_NOW)
    if stop is None:
        return None
    zone = atoms[:at]
    objects = read_objects(atoms, stop, reading.names)
    if (
        objects is None
        and stop < len(atoms)
        and atoms[stop].text in _FOLLOW
        and any(a.text in ("we", "i") for a in zone)
    ):
        objects = read_objects(atoms, stop + 1, reading.names)
        if objects is None:
            return None
    if objects is not None:
        clean = objects.older and follows_cleanly(atoms, objects.end, purpose=False)
        return found_as("no_longer", objects) if clean and (not zone or has_text(zone)) else None
    subject = subject_group(reading, last, with_agent=False)
    place = stop
    while place < len(atoms) and atoms[place].text in ("in", "be", "to", "the", "a", "an"):
        place += 1
    standard = place < len(atoms) and atoms[place - 1].text == "the" and atoms[place].text in _STANDARDS
    if standard and subject is not None and has_text(atoms[place + 1 :]):
        return found_as("no_longer", subject) if follows_cleanly(atoms, place + 1) else None
    if (
        subject is None
        or place >= len(atoms)
        or not (atoms[place].text in IN_FORCE or atoms[place].text in _FOLLOWED)
    ):
        return None
    return found_as("no_longer", subject) if follows_cleanly(atoms, place + 1, purpose=False) else None


def _not_any_more(reading: Reading, at: int, tail: int) -> Found | None:
    """ "PEP 314 does not apply any more" · "Do not use PEP 314 any more"."""
    atoms = reading.atoms
    last = at - 1
    seen: set[str] = set()
    while last >= 0 and atoms[last].text in _STILL_NOT | IN_FORCE | _BE_USED:
        seen.add(atoms[last].text)
        last -= 1
    if any_of(atoms[: last + 1], CONDITION, REPORT, OTHERS, MOOD):
        return None
    if seen & _NOT and (seen & IN_FORCE or seen & _FOLLOWED):
        subject = subject_group(reading, last, with_agent=False)
        clean = subject is not None and follows_cleanly(atoms, tail, purpose=False)
        return found_as("no_longer", subject) if subject is not None and clean else None
    verb = next((n for n in range(at) if atoms[n].text in _FOLLOW), None)
    if verb is None or not any(atom.text in _NOT for atom in atoms[:verb]):
        return None
    if any(a.kind == "word" and a.text not in _STILL_NOT and a.text not in ("we", "i") for a in atoms[:verb]):
        return None
    objects = read_objects(atoms, verb + 1, reading.names)
    if (
        objects is None
        or not objects.older
        or objects.end != at
        or not follows_cleanly(atoms, tail, purpose=False)
    ):
        return None
    return found_as("no_longer", objects)
