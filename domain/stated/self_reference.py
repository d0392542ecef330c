"""Phrases that mean the text itself: "this", "the present memo", "PEP 345", a title, or no subject at all."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import words
from .negation import OTHERS, any_of
from .phrases import ADVERBS, ANNOUNCING, DOCUMENT_NOUNS, OBJECT_FILLERS, RELATIVES, TIME_NOUNS

_SPAN = 60
_CONJUNCTIONS = words("and but so then thus hence therefore because since as")
_LEADS = words("with from as of on in hereby herewith today now hence thus so therefore after here")
_LEADING = words("after from with as since by upon following today now henceforth until till")
_SPEAKERS = words("we i he she they you one ben")
ACTING_NOUNS = DOCUMENT_NOUNS | words(
    """
    release edition revision version change scheme format model system setup solution exception trial
    pilot standardisation framework law act statute contract charter rulebook manual handbook
    """
)
"""Nouns that "this …" may have when it ends another record; "this sentence" and "this author" do not."""


_ADOPTION = words("adoption acceptance publication approval")


def opens_clause(atoms: Sequence[Atom], at: int) -> bool:
    """Whether a subject at ``at`` begins its clause: not "we fear it replaces"."""
    while at > 0:
        before = atoms[at - 1]
        if before.kind != "word":
            return before.kind != "doc" or before.role == "self"
        if before.text in _CONJUNCTIONS:
            return True
        if before.text in ADVERBS or before.text in ANNOUNCING or before.text in OBJECT_FILLERS:
            at -= 1
            continue
        lead = atoms[:at]
        return lead[0].text in _LEADING and not any_of(lead, _SPEAKERS) and len(lead) <= 10
    return True


def noun_phrase_is_text(atoms: Sequence[Atom], at: int) -> bool:
    """ "this release", "the present memo", "our new decision", ending at ``at``."""
    head = atoms[at].text
    if atoms[at].kind != "word" or not (head in ACTING_NOUNS or head in _ADOPTION):
        return False
    for place in range(at - 1, max(-1, at - 5), -1):
        word = atoms[place].text
        if atoms[place].kind != "word" or word in OTHERS:
            return False
        if word == "this":
            return opens_clause(atoms, place)
        if word == "its" and head in _ADOPTION:
            return opens_clause(atoms, place)
        if word in ("present", "new", "our", "my", "current", "above") and head in DOCUMENT_NOUNS:
            this = next((n for n in range(place - 1, max(-1, place - 3), -1) if atoms[n].text == "this"), place)
            return opens_clause(atoms, this)
    return False


def opening(atoms: Sequence[Atom], at: int) -> int:
    """Index of the bracket that the one at ``at`` closes, or -1."""
    depth = 0
    for place in range(at, max(-1, at - _SPAN), -1):
        depth += (atoms[place].text == ")") - (atoms[place].text == "(")
        if depth == 0:
            return place
    return -1


def only_announces(zone: Sequence[Atom]) -> bool:
    return all(is_announcement(atom) for atom in zone)


def is_announcement(atom: Atom) -> bool:
    if atom.kind == "doc":
        return atom.role == "self"
    return atom.kind != "word" or atom.text in ANNOUNCING


def speaks_for_itself(zone: Sequence[Atom], *, joined: bool = False) -> bool:
    """Whether a clause without a subject of its own, after this zone, has the text itself as its subject.

    ``joined`` is for "… and replaces", where a third record may end the zone as an object of the first verb.
    """
    roles = [atom.role for atom in zone if atom.kind == "doc"]
    if roles:
        if roles[0] != "self":
            return False
        third = any(role != "self" for role in roles)
        if third and (any_of(zone, RELATIVES) or (not joined and zone[-1].role in ("other", "older"))):
            return False
        first = next(n for n, atom in enumerate(zone) if atom.kind == "doc")
        return not any_of(zone[:first], OTHERS)
    return only_announces(zone) or _starts_with_text(zone) or _is_adopted(zone)


_ADOPTED = words("adopted accepted approved issued published ratified passed enacted")


def _is_adopted(zone: Sequence[Atom]) -> bool:
    """ "The council adopted it on 28 April 2005, …": what follows is said of what was adopted."""
    return not any_of(zone, OTHERS, RELATIVES) and any(
        atom.text in _ADOPTED and place + 1 < len(zone) and zone[place + 1].text in ("it", "this")
        for place, atom in enumerate(zone)
    )


def _starts_with_text(zone: Sequence[Atom]) -> bool:
    """Whether a zone begins with the text as its subject: "this", "we", "after review, we"."""
    start = True
    for place, atom in enumerate(zone):
        if atom.kind == "mark":
            start = start or atom.text in ",;:—–"
            continue
        if start and atom.text in ("we", "i", "it", "our", "this", "hereby", "herewith", "here"):
            following = zone[place + 1].text if place + 1 < len(zone) else ""
            return not (atom.text == "this" and following in TIME_NOUNS)
        if start and atom.text in OTHERS:
            return False
        start = start and (atom.text in _LEADS or atom.kind != "word")
    return False
