"""What an ending is said of: the list of records after a verb or before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from .atoms import Atom, Names, Naming
from .negation import CONDITION, MOOD, NEGATIVE, PARTIAL, PLACES, SAID, STAYS, any_of
from .numbering import ends_number
from .phrases import DOCUMENT_NOUNS, EARLIER, OBJECT_FILLERS, TITLE_LINKS, phrase_at
from .series import plain_number

_OPEN, _CLOSE = "([{", ")]}"
_QUOTES = frozenset("\"'“”‘’«»„`")
_PREFIXES = _QUOTES | {"[", ":", "|", "#", "="}
_SPAN = 60


@dataclass(frozen=True, slots=True)
class Objects:
    """The records an ending is said of."""

    older: bool
    naming: Naming
    other: bool
    start: int
    end: int


def read_objects(atoms: Sequence[Atom], at: int, names: Names) -> Objects | None:
    """The list of records that stands at ``at``: "the earlier PEPs 241, 314 (Metadata 1.1) and 345"."""
    start = at
    older, other, naming = False, False, ""
    end: int | None = None
    while True:
        at, linked, earlier = _skip_fillers(atoms, at)
        if at >= len(atoms):
            break
        atom = atoms[at]
        if atom.kind == "doc" and (not linked or atom.naming == "title"):
            role, named = atom.role, atom.naming
            if role == "self" and named == "title" and names.same_title and earlier:
                role = "older"
        elif ends_number(atoms, at) and not linked:
            role, named = names.role_of(None, plain_number(atom.text)), "bare"
        else:
            break
        older = older or role == "older"
        other = other or role == "other"
        if role == "older" and naming in ("", "title"):
            naming = named
        after = _skip_apposition(atoms, at + 1)
        if after is None:
            return None
        end = at = after
        following = _skip_separator(atoms, at)
        if following is None:
            break
        if following < 0:
            return None
        at = following
    return None if end is None else Objects(older, naming, other, start, end)


def _skip_fillers(atoms: Sequence[Atom], at: int) -> tuple[int, bool, bool]:
    """Index after "the earlier decision on"; whether a link word and whether a word like "earlier" stood there."""
    linked = noun = earlier = False
    while at < len(atoms):
        atom = atoms[at]
        if atom.text == "of" and (not at or atoms[at - 1].text not in ("all", "both")):
            break
        if atom.kind == "word" and atom.text in OBJECT_FILLERS:
            noun = noun or atom.text in DOCUMENT_NOUNS
            earlier = earlier or atom.text in EARLIER
        elif atom.kind == "word" and noun and atom.text in TITLE_LINKS:
            linked = True
        elif atom.text == "," and at and atoms[at - 1].text in ("predecessor", "predecessors"):
            pass
        elif not (atom.kind == "mark" and atom.text in _PREFIXES):
            break
        at += 1
    return at, linked, earlier


def _skip_apposition(atoms: Sequence[Atom], at: int) -> int | None:
    """Index after what only describes the record just named; None where that restricts it ("(section 3)")."""
    while at < len(atoms):
        atom = atoms[at]
        named_next = at + 1 < len(atoms) and atoms[at + 1].kind == "doc" and atoms[at + 1].naming == "title"
        if atom.kind == "mark" and atom.text in _OPEN:
            close = closing(atoms, at)
            inside = atoms[at:close]
            if any_of(inside, PARTIAL, PLACES, CONDITION, MOOD, NEGATIVE, STAYS, SAID):
                return None
            if any(atom.text == "?" for atom in inside):
                return None
            at = close + 1
        elif atom.kind == "doc" and atom.naming == "title" and atom.role == atoms[at - 1].role:
            at += 1
        elif atom.text in (",", "–", "—", ":", "-") and named_next and atoms[at + 1].role == atoms[at - 1].role:
            at += 2
        elif atom.kind == "mark" and atom.text in _QUOTES:
            close = next((n for n in range(at + 1, min(len(atoms), at + 30)) if atoms[n].text in _QUOTES), at)
            at = close + 1
        elif atom.text == "]":
            at += 1
        else:
            break
    return at


def closing(atoms: Sequence[Atom], at: int) -> int:
    """Index of the mark that closes the bracket at ``at``, or of the last atom looked at."""
    depth = 0
    last = min(len(atoms), at + _SPAN)
    for place in range(at, last):
        if atoms[place].kind == "mark":
            depth += (atoms[place].text in _OPEN) - (atoms[place].text in _CLOSE)
            if depth == 0:
                return place
    return last - 1


def _skip_separator(atoms: Sequence[Atom], at: int) -> int | None:
    """Index after a separator that a further record follows; -1 for "or"; None where the list ends."""
    start = at
    while at < len(atoms):
        longer = phrase_at(atoms, at, ("as", "well", "as"), ("along", "with"), ("together", "with"))
        if longer is not None:
            at = longer
        elif atoms[at].text in (",", "and", "&", "plus", "/", ";", "then"):
            at += 1
        elif atoms[at].text == "or":
            return -1
        else:
            break
    if at == start:
        return None
    after, _, _ = _skip_fillers(atoms, at)
    if after < len(atoms) and atoms[after].role == "self":
        return None  # "Obsoleting PEP 314, PEP 345 takes effect"
    return at if after < len(atoms) and (atoms[after].kind == "doc" or ends_number(atoms, after)) else None
