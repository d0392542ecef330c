"""Sentences that take a claim back: the older record stays, replaces this text, or this text came to nothing."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import phrases, words
from .negation import CAME, CONDITION, MOOD, NEGATIVE, PARTIAL, STAYS, UNDONE, UNSETTLED, any_of
from .phrases import AUXILIARIES, ENDED, OBJECT_FILLERS, YIELDS, phrase_at, verb_at
from .reading import Found

MAY_RETRACT = UNSETTLED | words("never not lost fails status")
"""Words of a sentence that could say, without naming the older record, that this text came to nothing."""


_STAYED = words("kept stayed remained continued retained preserved survived unchanged")
"""History: only what holds now keeps a record in force ("PEP 314 kept everything in one table")."""


def takes_back(atoms: Sequence[Atom], found: Found | None) -> bool:
    """Whether a sentence keeps the older record, lets it replace this text, or lets this text come to nothing."""
    if _says_undone(atoms):
        return True
    named = [n for n, atom in enumerate(atoms) if atom.role == "older"]
    if not named:
        return False
    near = [atom for at in named for atom in atoms[max(0, at - 2) : at + 5]] if found is not None else atoms
    if any_of(near, STAYS - _STAYED):
        return True
    if any(_is_agent(atoms, at) for at in named):
        return True
    if found is not None:
        return False
    ending = any(
        verb_at(atoms, n) is not None or atom.text in ENDED or phrase_at(atoms, n, *YIELDS) is not None
        for n, atom in enumerate(atoms)
        if atom.kind == "word"
    )
    return ending and any_of(atoms, NEGATIVE, MOOD, CONDITION, PARTIAL)


def _is_agent(atoms: Sequence[Atom], at: int) -> bool:
    """Whether the older record is what something else is replaced by."""
    place = at - 1
    while (
        place >= 0 and atoms[place].kind in ("word", "doc") and atoms[place].text not in ("by", "favour", "favor")
    ):
        if atoms[place].kind == "word" and atoms[place].text not in OBJECT_FILLERS:
            break
        place -= 1
    if place < 0:
        return False
    if atoms[place].text == ":":
        place -= 1  # "Superseded by: PEP 314"
    near = atoms[max(0, place - 4) : place]
    return atoms[place].text in ("by", "favour", "favor", "of") and any(atom.text in ENDED for atom in near)


def _says_undone(atoms: Sequence[Atom]) -> bool:
    """ "Status: Rejected", "Draft.", "This PEP was withdrawn." - a record without force ends nothing."""
    row = [atom for atom in atoms if atom.kind != "mark"]
    if not row:
        return False
    texts = [atom.text for atom in row]
    if _never_came(texts) and all(atom.role in ("", "self") for atom in row):
        return True
    standard = "standard" in texts
    unsettled = any(text in UNSETTLED for text in texts) and not (standard and not set(texts) & UNDONE)
    if not unsettled:
        return False
    older = any(atom.role == "older" for atom in row)
    if texts[0] == "status" and len(texts) <= 6:
        return True
    if not older and (texts[0] in UNSETTLED or texts[:2] == ["still", "draft"]) and len(texts) <= 8:
        return True
    own = row[0].role == "self" or texts[0] in ("this", "it")
    return (
        own
        and all(atom.role in ("", "self") for atom in row)
        and any(
            text in UNDONE
            and at
            and (texts[at - 1] in AUXILIARIES or texts[at - 1] in ("later", "finally", "then"))
            for at, text in enumerate(texts)
        )
    )


_BALLOTS = words("vote motion ballot poll")
_LOST = words("failed lost fails")


def _never_came(texts: Sequence[str]) -> bool:
    """ "It was never adopted." · "The vote failed."."""
    denied = any(text in ("never", "not") and set(texts[at : at + 4]) & CAME for at, text in enumerate(texts))
    return denied or (bool(set(texts) & _BALLOTS) and bool(set(texts) & _LOST))


_NARROWING = phrases(
    """
    only | except | unless | perhaps | maybe | but only | but not | not yet | not really | not all | not
    entirely | not quite | just | at least | or so | or rather | never mind | if accepted | if approved | no ,
    | well , | in part | partly | partially | for new | that is the plan | kidding
    """
)


def narrows(atoms: Sequence[Atom]) -> bool:
    """Whether the sentence after a claim restricts it: "Only section 2 is meant."."""
    return phrase_at(atoms, 0, *_NARROWING) is not None
