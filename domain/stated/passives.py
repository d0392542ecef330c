"""Endings said of the older record as a subject: "… is superseded by this", "… is hereby withdrawn"."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import phrases, words
from .negation import CONDITION, MOOD, NEGATIVE, OTHERS, REPORT, any_of
from .objects import read_objects
from .phrases import ADVERBS, AUXILIARIES, TIME_NOUNS, YIELDS, ended_at, phrase_at
from .reading import Found, Reading, found_as, it_is_text, means_text, subject_group
from .restrictions import follows_cleanly, is_scoped
from .self_reference import speaks_for_itself

_BY_THE_TEXT = phrases(
    """
    by | with | through | in favour of | in favor of | here by | and replaced by | and superseded by | to make
    way for | to make room for
    """
)
_IN_ITS_FAVOUR = phrases("in its favour | in its favor")
_WITH_THE_TEXT = phrases("with this | by this | with it | as of today")
_OVER_HERE = phrases("ends here | end here | lapses herewith | ends herewith | stops here")
OVER_HERE_FIRST = words("ends end lapses stops")
_ALL = words("all both")
_AGENTLESS = words("by through with")


def read_passive(reading: Reading, at: int) -> Found | None:
    """ "PEP 314 is superseded by this" · "PEP 314 is hereby withdrawn" · "PEP 314 gives way to this"."""
    atoms = reading.atoms
    over = phrase_at(atoms, at, *_OVER_HERE)
    if over is not None:
        whole = subject_group(reading, at - 1, with_agent=False)
        alone = whole is not None and not any(atom.role == "other" for atom in atoms[: whole.start])
        return found_as("passive", whole) if whole is not None and alone and follows_cleanly(atoms, over) else None
    yields = phrase_at(atoms, at, *YIELDS)
    ended = ended_at(atoms, at)
    if yields is None and ended is None:
        return None
    stop = ended or at + 1
    zone = atoms[:at]
    if any_of(zone, CONDITION, REPORT, NEGATIVE, MOOD) or is_scoped(zone):
        return None
    end = _agent(reading, stop, zone) if yields is None else means_text(reading, yields, zone)
    listed = _labelled_list(reading, at, end or stop, agent=end is not None)
    if listed is not None:
        return listed
    last = at - 1
    helpers: list[str] = []
    while last >= 0 and (
        atoms[last].text in AUXILIARIES or atoms[last].text in ADVERBS or atoms[last].text in _ALL
    ):
        helpers.append(atoms[last].text)
        last -= 1
    subject = subject_group(reading, last, with_agent=end is not None)
    if subject is None:
        it = last == 0 and atoms[0].text == "it" and reading.antecedent and end is not None
        return Found("pronoun") if it and follows_cleanly(atoms, end or stop) else None
    if end is not None:
        return found_as("passive", subject) if follows_cleanly(atoms, end) else None
    if (
        yields is not None
        or not (
            {"is", "are", "stands"} & set(helpers) or ({"has", "have"} & set(helpers) and _MARKERS & set(helpers))
        )
        or {"was", "were", "being"} & set(helpers)
    ):
        return None
    agentless = stop >= len(atoms) or atoms[stop].text not in _AGENTLESS
    third = any(atom.role == "other" for atom in (*atoms[: subject.start], *atoms[stop:]))
    if third or not agentless or any_of(atoms[stop:], NEGATIVE, OTHERS):
        return None
    marked = (
        bool(_MARKERS & set(helpers))
        or _says_here(atoms, at)
        or phrase_at(atoms, stop, *_FROM_NOW) is not None
        or _follows_from_text(atoms, subject.start)
    )
    return found_as("passive", subject) if marked and follows_cleanly(atoms, stop, purpose=False) else None


_SO = words("so thus therefore hence consequently accordingly")


def _follows_from_text(atoms: Sequence[Atom], start: int) -> bool:
    """ "It sets out the rules afresh, so PEP 314 is withdrawn"."""
    return start > 0 and atoms[start - 1].text in _SO and speaks_for_itself(atoms[: start - 1])


_MARKERS = words("hereby herewith thereby now henceforth therefore thus consequently accordingly hence")
_FROM_NOW = phrases(
    """
    hereby | herewith | from now on | from today | as of today | with this | with it | with immediate effect
    """
)


def _says_here(atoms: Sequence[Atom], at: int) -> bool:
    """Whether a sentence that ends a record without an agent speaks of the text itself too."""
    if any(phrase_at(atoms, n, *_WITH_THE_TEXT) is not None for n in range(at)):
        return True
    return any(
        atom.role == "self"
        or (atom.text == "this" and (n + 1 >= len(atoms) or atoms[n + 1].text not in TIME_NOUNS))
        for n, atom in enumerate(atoms)
    )


def _labelled_list(reading: Reading, at: int, colon: int, *, agent: bool) -> Found | None:
    """ "Superseded by this decision: ADR-3, ADR-5" · "Hereby retired: PEP 314"."""
    atoms = reading.atoms
    head = [a for a in atoms[:at] if a.kind != "mark"]
    if any(a.text not in ("hereby", "herewith") for a in head):
        return None
    if colon >= len(atoms) or atoms[colon].text != ":" or not (agent or head):
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
