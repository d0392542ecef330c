"""Endings said of the older record as a subject: "… is superseded by this", "… no longer applies"."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import phrases, words
from .negation import CONDITION, MOOD, NEGATIVE, OTHERS, REPORT, any_of
from .objects import read_objects
from .restrictions import follows_cleanly
from .phrases import ADVERBS, AUXILIARIES, ENDED, IN_FORCE, YIELDS, phrase_at
from .reading import Found, Reading, found_as, has_text, it_is_text, means_text, subject_group

_BY_THE_TEXT = phrases(
    """
    by | with | through | in favour of | in favor of | here by | and replaced by | and superseded by | to make way for |
    to make room for
    """
)
_IN_ITS_FAVOUR = phrases("in its favour | in its favor")
_WITH_THE_TEXT = phrases("with this | by this | with it | as of today")
_AGENTLESS = words("by through with")
NOT_NOW = phrases("no longer | ceases to | cease to | any more | anymore | any longer")


def read_passive(reading: Reading, at: int) -> Found | None:
    """ "PEP 314 is superseded by this" · "PEP 314 is hereby withdrawn" · "PEP 314 gives way to this"."""
    atoms = reading.atoms
    yields = phrase_at(atoms, at, *YIELDS)
    if yields is None and (atoms[at].text not in ENDED or atoms[at].kind != "word"):
        return None
    zone = atoms[:at]
    if any_of(zone, CONDITION, REPORT, NEGATIVE, MOOD):
        return None
    end = _agent(reading, at + 1, zone) if yields is None else means_text(reading, yields, zone)
    listed = _labelled_list(reading, at, end)
    if listed is not None:
        return listed
    last = at - 1
    helpers: list[str] = []
    while last >= 0 and (atoms[last].text in AUXILIARIES or atoms[last].text in ADVERBS):
        helpers.append(atoms[last].text)
        last -= 1
    subject = subject_group(reading, last, with_agent=end is not None)
    if subject is None:
        return None
    if end is not None:
        return found_as("passive", subject) if follows_cleanly(atoms, end) else None
    if (
        yields is not None
        or not ({"is", "are", "stands"} & set(helpers))
        or {"was", "were", "been", "being"} & set(helpers)
    ):
        return None
    marked = bool({"hereby", "herewith", "thereby", "now", "henceforth"} & set(helpers)) or any(
        phrase_at(atoms, n, *_WITH_THE_TEXT) is not None for n in range(at)
    )
    third = any(atom.role == "other" for atom in atoms[: subject.start])
    agentless = at + 1 >= len(atoms) or atoms[at + 1].text not in _AGENTLESS
    if marked and agentless and not third and follows_cleanly(atoms, at + 1):
        return found_as("passive", subject)
    return None


def _labelled_list(reading: Reading, at: int, agent_end: int | None) -> Found | None:
    """ "Superseded by this decision: ADR-3, ADR-5" · "Hereby retired: PEP 314"."""
    atoms = reading.atoms
    head = [a for a in atoms[:at] if a.kind != "mark"]
    if any(a.text not in ("hereby", "herewith") for a in head):
        return None
    colon = agent_end if agent_end is not None else at + 1
    if colon >= len(atoms) or atoms[colon].text != ":" or (agent_end is None and not head):
        return None
    objects = read_objects(atoms, colon + 1, reading.names)
    clean = objects is not None and objects.older and follows_cleanly(atoms, objects.end)
    return found_as("field", objects) if objects is not None and clean else None


def _agent(reading: Reading, at: int, zone: Sequence[Atom]) -> int | None:
    """Index after "by this decision", "in favour of PEP 345", "in its favour"."""
    atoms = reading.atoms
    stop = phrase_at(atoms, at, *_BY_THE_TEXT)
    if stop is not None:
        return means_text(reading, stop, zone)
    own = phrase_at(atoms, at, *_IN_ITS_FAVOUR)
    return own if own is not None and it_is_text(reading, zone) else None


_FOLLOWING = words("follow use apply observe honour honor keep need go")
_STILL_NOT = words("does do not doesn't don't isn't aren't is are in the has have no")


def read_no_longer(reading: Reading, at: int) -> Found | None:
    """ "PEP 314 no longer applies" · "we no longer follow PEP 314" · "PEP 314 is not in force any more"."""
    atoms = reading.atoms
    if any(atom.role == "other" for atom in atoms):
        return None
    zone = atoms[:at]
    if any_of(zone, CONDITION, REPORT, MOOD, OTHERS):
        return None
    tail = phrase_at(atoms, at, ("any", "more"), ("anymore",), ("any", "longer"))
    if tail is not None:
        return _not_any_more(reading, at, tail)
    stop = phrase_at(atoms, at, ("no", "longer"), ("ceases", "to"), ("cease", "to"))
    if stop is None:
        return None
    objects = read_objects(atoms, stop, reading.names)
    if (
        objects is None
        and stop < len(atoms)
        and atoms[stop].text in _FOLLOWING
        and any(a.text in ("we", "i") for a in zone)
    ):
        objects = read_objects(atoms, stop + 1 + (atoms[stop].text == "go"), reading.names)
        if objects is None:
            return None
    if objects is not None:
        clean = objects.older and follows_cleanly(atoms, objects.end)
        return found_as("no_longer", objects) if clean and (not zone or has_text(zone)) else None
    last = at - 1
    while last >= 0 and (atoms[last].text in AUXILIARIES or atoms[last].text in ADVERBS):
        last -= 1
    subject = subject_group(reading, last, with_agent=False)
    place = stop
    while place < len(atoms) and atoms[place].text in ("in", "be", "the", "a", "an"):
        place += 1
    if subject is None or place >= len(atoms) or atoms[place].text not in IN_FORCE:
        return None
    return found_as("no_longer", subject) if follows_cleanly(atoms, place + 1) else None


def _not_any_more(reading: Reading, at: int, tail: int) -> Found | None:
    atoms = reading.atoms
    last = at - 1
    seen: set[str] = set()
    while last >= 0 and (atoms[last].text in _STILL_NOT or atoms[last].text in IN_FORCE):
        seen.add(atoms[last].text)
        last -= 1
    if not seen & {"not", "doesn't", "don't", "isn't", "aren't"} or not seen & IN_FORCE:
        return None
    subject = subject_group(reading, last, with_agent=False)
    return found_as("no_longer", subject) if subject is not None and follows_cleanly(atoms, tail) else None
