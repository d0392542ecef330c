"""What an ending is said of, and whether the rest of the sentence restricts it or takes it back."""

from collections.abc import Sequence
from dataclasses import dataclass

from .atoms import Atom, Names, Naming
from .dates import MONTH_NAMES
from .lexicon import words
from .mentions import plain_number
from .negation import CONDITION, MOOD, NEGATIVE, PARTIAL, PLACES, SAID, STAYS, UNDONE, any_of
from .numbering import ends_number
from .phrases import DOCUMENT_NOUNS, EARLIER, OBJECT_FILLERS, TITLE_LINKS, phrase_at

_OPEN, _CLOSE = "([{", ")]}"
_QUOTES = frozenset("\"'“”‘’«»„`")
_PREFIXES = _QUOTES | {"[", ":", "|", "#"}
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
        if atom.kind == "word" and atom.text in OBJECT_FILLERS:
            noun = noun or atom.text in DOCUMENT_NOUNS
            earlier = earlier or atom.text in EARLIER
        elif atom.kind == "word" and noun and atom.text in TITLE_LINKS:
            linked = True
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
            if any_of(atoms[at:close], PARTIAL, PLACES, CONDITION, MOOD, NEGATIVE, STAYS):
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
    return at if after < len(atoms) and (atoms[after].kind == "doc" or ends_number(atoms, after)) else None


_MAY_FOLLOW = words(
    """
    because since after and so which that hereby herewith entirely fully completely wholly altogether
    outright now here immediately today effective following due thanks starting forthwith definitively
    permanently thereby thus henceforth everywhere finally formally officially but although though whose is
    """
)
_AS_LIMITS = words("far regards to concerns long soon if though regarding")
_ALL_USES = words("purposes uses cases intents projects time")
_REASONS = frozenset({"because", "since"})
_TURNS = words("but however though although except unless until only if yet")


def follows_cleanly(atoms: Sequence[Atom], at: int, *, free: bool = False) -> bool:
    """Whether what follows the named records neither restricts nor conditions nor takes back the ending.

    ``free`` leaves out the test of the very next word, for clauses that begin there ("Instead of X we …").
    """
    rest = _without_reason(atoms[at:])
    if not rest:
        return True
    if any_of(rest, CONDITION, SAID, STAYS, UNDONE) or _restricts(rest):
        return False
    return free or _first_follows(atoms, at)


def _without_reason(rest: Sequence[Atom]) -> list[Atom]:
    """The rest of a sentence without its reasons: "because section 3 was unclear" restricts nothing."""
    out: list[Atom] = []
    reasoning = False
    for place, atom in enumerate(rest):
        if atom.text in _REASONS and atom.kind == "word" and not _dated_next(rest, place):
            reasoning = True
        elif reasoning and (atom.text in _TURNS or atom.text == ";"):
            reasoning = False
        if not reasoning:
            out.append(atom)
    return out


def _dated_next(atoms: Sequence[Atom], at: int) -> bool:
    return at + 1 < len(atoms) and (
        atoms[at + 1].kind in ("num", "date", "month") or atoms[at + 1].text in MONTH_NAMES
    )


def _restricts(rest: Sequence[Atom]) -> bool:
    for place, atom in enumerate(rest):
        if atom.kind not in ("word", "mark"):
            continue
        before = rest[place - 1].text if place else ""
        if atom.text in PARTIAL and not (atom.text == "part" and before == "as"):
            return True
        if atom.text in PLACES and (place < 2 or (before in (",", "(", ":", "the") and place < 4)):
            return True
    return False


def _first_follows(atoms: Sequence[Atom], at: int) -> bool:
    """Whether the word right after the records leaves them whole: "PEP 314 in full", not "PEP 314 metadata"."""
    first = atoms[at]
    second = atoms[at + 1] if at + 1 < len(atoms) else None
    third = atoms[at + 2].text if at + 2 < len(atoms) else ""
    if first.kind == "mark":
        if first.text == "'s":
            return False
        touching = first.start == atoms[at - 1].end and second is not None and second.start == first.end
        return not (first.text in "-/" and touching)
    if first.kind != "word":
        return first.kind == "date"
    after = second.text if second is not None else ""
    dated = second is not None and second.kind in ("num", "date", "month")
    match first.text:
        case "in":
            whole = after in ("full", "whole", "total", "toto", "turn")
            favour = after in ("favour", "favor") and _only_self(atoms[at:])
            return dated or whole or favour or (after in ("its", "their", "all", "every") and third in _WHOLE)
        case "for":
            return after in ("good", "everyone", "everything", "ever") or (after == "all" and third in _ALL_USES)
        case "on":
            return dated
        case "from":
            return dated or after in ("now", "here", "today", "this")
        case "at":
            return after in ("once", "last")
        case "as":
            return after not in _AS_LIMITS
        case "with" | "by":
            return after not in ("regard", "respect", "reference") and _only_self(atoms[at:])
        case "to":
            return second is not None and second.kind == "word"
        case word:
            return word in _MAY_FOLLOW


_WHOLE = words("entirety totality respects respect way favour favor")


def _only_self(atoms: Sequence[Atom]) -> bool:
    return not any(atom.kind == "doc" and atom.role != "self" for atom in atoms)
