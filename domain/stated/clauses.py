"""Who acts, on what, and with which restriction: the three questions behind every wording of an ending."""

from collections.abc import Sequence
from dataclasses import dataclass

from .atoms import Atom, Naming, Names, ends_number
from .mentions import plain_number
from .negation import CONDITION, MOOD, NEGATIVE, OTHERS, PARTIAL, REPORT, STAYS, any_of
from .phrases import (
    ADOPTED_TO,
    ADVERBS,
    ANNOUNCING,
    AUXILIARIES,
    DOCUMENT_NOUNS,
    MONTHS,
    OBJECT_FILLERS,
    PRONOUNS,
    RELATIVES,
    TIME_NOUNS,
    TITLE_LINKS,
    Form,
    phrase_at,
)

_OPEN, _CLOSE = "([{", ")]}"
_BOUNDARY = frozenset(",;:—–-(|•[.!")
_STRONG = frozenset(";:—–(")
_QUOTES = frozenset("\"'“”‘’«»„`")
_CONJUNCTIONS = frozenset("and but so then thus hence therefore because".split())
_SPAN = 60


@dataclass(frozen=True, slots=True)
class Objects:
    """The records an ending is said of."""

    older: bool
    naming: Naming
    other: bool
    end: int


def read_objects(atoms: Sequence[Atom], at: int, names: Names) -> Objects | None:
    """The list of records that stands at ``at``: "the earlier PEPs 241, 314 (Metadata 1.1) and 345"."""
    older, other, naming = False, False, ""
    end: int | None = None
    while True:
        at, linked = _skip_fillers(atoms, at)
        if at >= len(atoms):
            break
        atom = atoms[at]
        if atom.kind == "doc" and (not linked or atom.naming == "title"):
            role, named = atom.role, atom.naming
        elif ends_number(atoms, at) and not linked:
            role, named = names.role_of(None, plain_number(atom.text)), "bare"
        else:
            break
        older = older or role == "older"
        other = other or role == "other"
        if role == "older" and naming in ("", "title"):
            naming = named
        at += 1
        after = _skip_apposition(atoms, at)
        if after is None:
            return None
        end = at = after
        following = _skip_separator(atoms, at)
        if following is None:
            break
        if following < 0:
            return None
        at = following
    return None if end is None else Objects(older, naming, other, end)


def _skip_fillers(atoms: Sequence[Atom], at: int) -> tuple[int, bool]:
    linked = noun = False
    while at < len(atoms):
        atom = atoms[at]
        if atom.kind == "word" and atom.text in OBJECT_FILLERS:
            noun = noun or atom.text in DOCUMENT_NOUNS
        elif atom.kind == "word" and noun and atom.text in TITLE_LINKS:
            linked = True
        elif not (atom.kind == "mark" and atom.text in _QUOTES | {"[", ":", "|", "#"}):
            break
        at += 1
    return at, linked


def _skip_apposition(atoms: Sequence[Atom], at: int) -> int | None:
    """Index after what only describes the record just named; None where that restricts it ("(section 3)")."""
    while at < len(atoms):
        atom = atoms[at]
        if atom.text in _OPEN and atom.kind == "mark":
            close = _closing(atoms, at)
            if any_of(atoms[at:close], PARTIAL, CONDITION, MOOD, NEGATIVE):
                return None
            at = close + 1
        elif atom.kind == "doc" and atom.naming == "title" and atom.role == atoms[at - 1].role:
            at += 1
        elif (
            atom.text in ",–—:-"
            and at + 1 < len(atoms)
            and atoms[at + 1].kind == "doc"
            and atoms[at + 1].naming == "title"
            and atoms[at + 1].role == atoms[at - 1].role
        ):
            at += 2
        elif atom.kind == "mark" and atom.text in _QUOTES:
            close = next((n for n in range(at + 1, min(len(atoms), at + 30)) if atoms[n].text in _QUOTES), at)
            at = close + 1
        elif atom.text == "]":
            at += 1
        else:
            break
    return at


def _closing(atoms: Sequence[Atom], at: int) -> int:
    depth = 0
    for place in range(at, min(len(atoms), at + _SPAN)):
        if atoms[place].kind != "mark":
            continue
        if atoms[place].text in _OPEN:
            depth += 1
        elif atoms[place].text in _CLOSE:
            depth -= 1
            if depth == 0:
                return place
    return len(atoms) - 1


def _skip_separator(atoms: Sequence[Atom], at: int) -> int | None:
    """Index after a separator that a further record follows; -1 for "or"; None where the list ends."""
    start = at
    while at < len(atoms):
        longer = phrase_at(atoms, at, ("as", "well", "as"), ("along", "with"), ("together", "with"))
        if longer is not None:
            at = longer
        elif atoms[at].text in (",", "and", "&", "plus", "/", ";"):
            at += 1
        elif atoms[at].text == "or" and at + 1 < len(atoms) and atoms[at + 1].kind == "doc":
            return -1
        else:
            break
    if at == start:
        return None
    after, _ = _skip_fillers(atoms, at)
    return at if after < len(atoms) and (atoms[after].kind == "doc" or ends_number(atoms, after)) else None


_PLAIN_AFTER = frozenset(
    "because since after and so which that hereby herewith entirely fully completely wholly altogether outright now here "
    "immediately today effective following due thanks starting forthwith definitively permanently thereby thus henceforth "
    "everywhere finally formally officially but although though as".split()
)
_AS_LIMITS = frozenset("far regards to concerns long soon if though regarding".split())
_ALL_USES = frozenset("purposes uses cases intents projects time".split())


def follows_cleanly(atoms: Sequence[Atom], at: int, year_now: int) -> bool:
    """Whether what follows the named records neither restricts nor postpones nor takes back the ending."""
    rest = atoms[at:]
    if not rest:
        return True
    if any_of(rest, PARTIAL, STAYS) and not _only_harmless(rest):
        return False
    if any_of(rest, CONDITION) and not _once_and_for_all(rest):
        return False
    if any(atom.kind in ("num", "date") and _year(atom) > year_now for atom in rest):
        return False
    return _first_follows(atoms, at)


def _year(atom: Atom) -> int:
    text = atom.text
    if atom.kind == "date":
        return int(text[:4]) if text[:4].isdigit() else int(text[-4:])
    return int(text) if len(text) == 4 and text.isdigit() and text[:2] in ("19", "20", "21") else 0


def _only_harmless(rest: Sequence[Atom]) -> bool:
    """"as part of the clean-up" restricts nothing."""
    for place, atom in enumerate(rest):
        if atom.text in PARTIAL or atom.text in STAYS:
            harmless = (
                atom.text == "part" and place and rest[place - 1].text == "as" and place + 1 < len(rest) and rest[place + 1].text == "of"
            )
            if not harmless:
                return False
    return True


def _once_and_for_all(rest: Sequence[Atom]) -> bool:
    return all(
        atom.text not in CONDITION or phrase_at(rest, place, ("once", "and", "for", "all")) is not None
        for place, atom in enumerate(rest)
    )


def _first_follows(atoms: Sequence[Atom], at: int) -> bool:
    first = atoms[at]
    second = atoms[at + 1] if at + 1 < len(atoms) else None
    third = atoms[at + 2] if at + 2 < len(atoms) else None
    if first.kind == "mark":
        if first.text == "'s":
            return False
        hyphenated = first.text in "-/" and second is not None and second.start == first.end and first.start == atoms[at - 1].end
        return not hyphenated
    if first.kind != "word":
        return first.kind == "date"
    after = second.text if second is not None else ""
    dated = second is not None and (second.kind in ("num", "date") or after in MONTHS)
    match first.text:
        case "in":
            whole = after in ("full", "whole", "total", "toto", "turn", "favour", "favor")
            return dated or whole or (after in ("its", "their", "all", "every") and third is not None and third.text in ("entirety", "totality", "respects", "respect"))
        case "for":
            return after in ("good", "everyone", "everything", "ever") or (after == "all" and third is not None and third.text in _ALL_USES)
        case "on":
            return dated
        case "from":
            return dated or after in ("now", "here", "today", "this")
        case "at":
            return after in ("once", "last")
        case "as":
            return after not in _AS_LIMITS
        case "with" | "by":
            return not any(atom.kind == "doc" and atom.role != "self" for atom in atoms[at:])
        case "to":
            return second is not None and second.kind == "word"
        case word:
            return word in _PLAIN_AFTER


def subject_is_text(atoms: Sequence[Atom], verb: int, form: Form) -> bool:
    """Whether the text itself is what ends the older record, in the indicative and the writer's own voice."""
    zone = atoms[:verb]
    if any_of(zone, CONDITION, REPORT):
        return False
    at = verb - 1
    hereby = False
    while at >= 0 and atoms[at].kind == "word" and (atoms[at].text in ADVERBS or atoms[at].text in AUXILIARIES):
        hereby = hereby or atoms[at].text in ("hereby", "herewith")
        at -= 1
    if any_of(atoms[_clause_start(atoms, at, verb) : verb], NEGATIVE, MOOD):
        return False
    if any_of(zone, frozenset({"nothing", "nobody", "none", "neither", "nor"})):
        return False
    if hereby and not any(atom.role in ("other", "older") for atom in zone) and not any_of(zone, OTHERS):
        return True
    auxiliary = any(atoms[n].text in AUXILIARIES for n in range(at + 1, verb))
    if form == "base":
        return _base_subject(atoms, at)
    if at < 0 or all(atom.kind == "mark" for atom in zone):
        return form in ("finite", "ing") and not auxiliary
    if form in ("past", "participle") and (atoms[at].kind == "mark" and atoms[at].text != ")"):
        return False
    if form == "participle" and not auxiliary:
        return False
    return _subject_ends(atoms, at)


def _clause_start(atoms: Sequence[Atom], subject_end: int, verb: int) -> int:
    """Where the clause of the verb begins: behind a strong mark, or behind a comma before its own subject."""
    for at in range(subject_end, -1, -1):
        text = atoms[at].text
        if atoms[at].kind != "mark":
            continue
        if text in _STRONG and at < verb - 1:
            return at + 1
        if text == ",":
            first = at + 1
            while first < verb and atoms[first].text in _CONJUNCTIONS | ADVERBS:
                first += 1
            if first < verb and (atoms[first].text in PRONOUNS or atoms[first].role == "self"):
                return at + 1
    return 0


def _base_subject(atoms: Sequence[Atom], at: int) -> bool:
    if at < 0:
        return False
    if atoms[at].text in ("we", "i"):
        return True
    if atoms[at].text == "to" and at and atoms[at - 1].text in ADOPTED_TO:
        return speaks_for_itself(atoms[:at])
    return False


def _subject_ends(atoms: Sequence[Atom], at: int) -> bool:
    """Whether the noun phrase that ends at ``at`` means the text itself."""
    atom = atoms[at]
    if atom.text == ")" and atom.kind == "mark":
        opened = next((n for n in range(at - 1, max(-1, at - _SPAN), -1) if atoms[n].text == "("), -1)
        inside = [a.role for a in atoms[opened + 1 : at] if a.kind == "doc"]
        if "other" in inside or "older" in inside or opened < 0:
            return False
        if "self" in inside:
            return not any_of(atoms[:opened], OTHERS)
        return opened > 0 and _subject_ends(atoms, opened - 1)
    if atom.kind == "doc":
        before = atoms[at - 1].text if at else ""
        if atom.role != "self" or before in ("from", "in", "like", "than", "with", "to", "on", "about", "under"):
            return False
        return before != "of" or (at > 1 and atoms[at - 2].text in ("publication", "adoption", "acceptance", "approval"))
    if atom.kind == "mark":
        if atom.text in _QUOTES:
            return at > 0 and _subject_ends(atoms, at - 1)
        return atom.text in _BOUNDARY and speaks_for_itself(atoms[:at])
    if atom.text in ("which", "that"):
        return _antecedent_is_text(atoms, at - 1)
    if atom.text in _CONJUNCTIONS:
        return speaks_for_itself(atoms[:at])
    if atom.text in PRONOUNS:
        if atom.text == "it":
            docs = [a.role for a in atoms[:at] if a.kind == "doc"]
            return not docs or docs[-1] == "self"
        return True
    return _noun_phrase_is_text(atoms, at) or all(
        a.kind != "doc" and (a.kind != "word" or a.text in ANNOUNCING) or a.role == "self" for a in atoms[: at + 1]
    )


def _noun_phrase_is_text(atoms: Sequence[Atom], at: int) -> bool:
    """"this release", "the present memo", "our new decision"."""
    head = atoms[at].text
    if head in PARTIAL or head in OTHERS or atoms[at].kind != "word":
        return False
    for place in range(at - 1, max(-1, at - 5), -1):
        word = atoms[place].text
        if word == "this":
            return head not in TIME_NOUNS
        if word in OTHERS or atoms[place].kind != "word":
            return False
        if word in ("present", "new", "our", "my", "current", "above"):
            return head in DOCUMENT_NOUNS
    return False


def _antecedent_is_text(atoms: Sequence[Atom], at: int) -> bool:
    while at >= 0 and atoms[at].text == ",":
        at -= 1
    if at < 0:
        return False
    if atoms[at].kind == "doc" or atoms[at].text == ")":
        return _subject_ends(atoms, at)
    if _noun_phrase_is_text(atoms, at):
        return True
    if atoms[at].text not in DOCUMENT_NOUNS:
        return False
    start = next((n for n in range(at - 1, max(-1, at - 7), -1) if atoms[n].text in ("a", "an", "the")), -1)
    if start < 0 or any_of(atoms[start:at], OTHERS, PARTIAL) or any(a.kind == "doc" for a in atoms[start:at]):
        return False
    before = atoms[start - 1] if start else None
    if before is None:
        return True
    return before.text in ("is", "as", ":", ",", "—", "–", ";", "(") and speaks_for_itself(atoms[:start])


def speaks_for_itself(zone: Sequence[Atom]) -> bool:
    """Whether a clause without a subject of its own, after this zone, has the text itself as its subject."""
    roles = [atom.role for atom in zone if atom.kind == "doc"]
    if roles and roles[0] != "self":
        return False
    if any(role != "self" for role in roles) and (any_of(zone, RELATIVES) or zone[-1].role in ("other", "older")):
        return False
    if any_of(zone, OTHERS):
        return False
    if roles:
        return True
    words = [atom for atom in zone if atom.kind == "word"]
    if all(atom.text in ANNOUNCING for atom in words):
        return True
    return any(
        atom.text in ("we", "i", "our", "hereby", "herewith")
        or (atom.text == "this" and (place + 1 == len(words) or words[place + 1].text not in TIME_NOUNS))
        for place, atom in enumerate(words)
    )
