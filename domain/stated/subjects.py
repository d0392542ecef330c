"""Who ends the older record: only the text itself may, in the indicative and in its own voice."""

from collections.abc import Sequence

from .atoms import Atom
from .lexicon import words
from .negation import ABSENT, CONDITION, MOOD, NEGATIVE, OTHERS, PARTIAL, REPORT, any_of
from .phrases import ADOPTED_TO, ADVERBS, AUXILIARIES, DOCUMENT_NOUNS, PRONOUNS, RECORD_NOUNS, Form
from .restrictions import is_scoped
from .self_reference import (
    is_announcement,
    noun_phrase_is_text,
    only_announces,
    opening,
    opens_clause,
    speaks_for_itself,
)

_BOUNDARY = frozenset(",;:—–-(|•[.!")
_STRONG = frozenset(";:—–(")
_QUOTES = frozenset("\"'“”‘’«»„`")
_CONJUNCTIONS = words("and but so then thus hence therefore because")
_NO_SUBJECT_AFTER = words("from in like than with to on about under or")
_OF_WHICH = words("publication adoption acceptance approval")


def subject_is_text(atoms: Sequence[Atom], verb: int, form: Form, *, after_other: bool = False) -> bool:
    """Whether the text itself is the subject of the verb at ``verb``.

    ``after_other`` says that the sentence before was about a third record, so that "it" and a missing subject
    mean that record.
    """
    zone = atoms[:verb]
    if any_of(zone, CONDITION, REPORT, ABSENT) or is_scoped(zone):
        return False
    at = verb - 1
    helpers: list[str] = []
    while at >= 0 and atoms[at].kind == "word" and (atoms[at].text in ADVERBS or atoms[at].text in AUXILIARIES):
        helpers.append(atoms[at].text)
        at -= 1
    clause = atoms[_clause_start(atoms, at, verb) : verb]
    if any_of(clause, NEGATIVE, MOOD) or _is_for_a_while(clause):
        return False
    auxiliary = [word for word in helpers if word in AUXILIARIES]
    if form == "ing" and auxiliary:
        return False
    if form == "past" and auxiliary and not set(auxiliary) <= {"has", "have"}:
        return False
    if {"hereby", "herewith"} & set(helpers) and form != "base":
        return not any(atom.role in ("other", "older") for atom in zone) and not any_of(zone, OTHERS)
    if form == "base":
        return _base_subject(atoms, at)
    if at < 0 or all(atom.kind == "mark" for atom in zone):
        return form in ("finite", "ing") and not auxiliary and not after_other
    if form == "past" and not auxiliary and atoms[at].kind == "mark" and atoms[at].text != ")":
        return False
    return _ends_in_text(atoms, at, after_other)


_DURATIONS = words("while time day days week weeks month months year years hour hours")


def _is_for_a_while(zone: Sequence[Atom]) -> bool:
    """ "For three months this replaced …": a while that is over."""
    return any(
        atom.text == "for" and any_of(zone[place + 1 : place + 4], _DURATIONS) for place, atom in enumerate(zone)
    )


def _clause_start(atoms: Sequence[Atom], subject_end: int, verb: int) -> int:
    """Where the clause of the verb begins: behind a strong mark, or behind a comma before its own subject."""
    for at in range(subject_end, -1, -1):
        if atoms[at].kind != "mark":
            continue
        if atoms[at].text in _STRONG and at < verb - 1:
            return at + 1
        if atoms[at].text == ",":
            first = at + 1
            while first < verb and (atoms[first].text in _CONJUNCTIONS or atoms[first].text in ADVERBS):
                first += 1
            if first < verb and (atoms[first].text in PRONOUNS or atoms[first].role == "self"):
                return at + 1
    return 0


def _base_subject(atoms: Sequence[Atom], at: int) -> bool:
    """ "We replace", "these rules replace", "adopted to replace"; never the bare imperative."""
    if at < 0:
        return False
    if atoms[at].text in ("we", "i"):
        return True
    if atoms[at].text == "to":
        before = at - 1
        while before > 0 and atoms[before].text not in ADOPTED_TO and is_announcement(atoms[before]):
            before -= 1
        return before >= 0 and atoms[before].text in ADOPTED_TO and (before == 0 or speaks_for_itself(atoms[:at]))
    return at > 0 and atoms[at - 1].text == "these" and atoms[at].text in DOCUMENT_NOUNS


def _ends_in_text(atoms: Sequence[Atom], at: int, after_other: bool) -> bool:
    """Whether the noun phrase that ends at ``at`` means the text itself."""
    atom = atoms[at]
    if atom.kind == "mark" and atom.text == ")":
        return _bracketed(atoms, at, after_other)
    if atom.kind == "doc":
        before = atoms[at - 1].text if at else ""
        if atom.role != "self" or before in _NO_SUBJECT_AFTER:
            return False
        if before == "of":
            return at > 1 and atoms[at - 2].text in _OF_WHICH
        return opens_clause(atoms, at)
    if atom.kind == "mark":
        if atom.text in _QUOTES:
            return at > 0 and _ends_in_text(atoms, at - 1, after_other)
        return atom.text in _BOUNDARY and not after_other and speaks_for_itself(atoms[:at])
    if atom.text in ("which", "that"):
        return _antecedent_is_text(atoms, at - 1, after_other)
    if atom.text in _CONJUNCTIONS:
        if atom.text == "but" and at and atoms[at - 1].text == "all":
            return False  # "It all but replaces PEP 314"
        return not after_other and speaks_for_itself(atoms[:at], joined=True)
    if atom.text in PRONOUNS:
        if not opens_clause(atoms, at):
            return False
        colon = next((n for n in range(at - 1, -1, -1) if atoms[n].text == ":"), -1)
        if colon > 0 and not speaks_for_itself(atoms[:colon]):
            return False  # "In the words of one reader: it replaces …"
        if atom.text == "it":
            roles = [a.role for a in atoms[:at] if a.kind == "doc"]
            return roles[-1] == "self" if roles else not after_other
        return True
    return noun_phrase_is_text(atoms, at) or only_announces(atoms[: at + 1]) or _is_described(atoms[: at + 1])


_PREPOSITIONS = words("by of from on for in about")
_SUBORDINATES = words("that which who why how when where what whether whose if")


def _is_described(zone: Sequence[Atom]) -> bool:
    """ "RFC 7230 by the HTTP working group": the text, with a phrase that only describes it."""
    first = next((n for n, atom in enumerate(zone) if atom.kind != "mark"), -1)
    if (
        first < 0
        or zone[first].role != "self"
        or first + 1 >= len(zone)
        or zone[first + 1].text not in _PREPOSITIONS
    ):
        return False
    rest = zone[first + 1 :]
    return len(rest) <= 9 and not any_of(rest, _SUBORDINATES, OTHERS) and all(atom.kind != "doc" for atom in rest)


def _bracketed(atoms: Sequence[Atom], at: int, after_other: bool) -> bool:
    opened = opening(atoms, at)
    roles = [a.role for a in atoms[opened + 1 : at] if a.kind == "doc"]
    if opened < 0 or any(role != "self" for role in roles):
        return False
    if roles:
        return not any_of(atoms[:opened], OTHERS) and not any(a.role in ("other", "older") for a in atoms[:opened])
    return opened > 0 and _ends_in_text(atoms, opened - 1, after_other)


def _antecedent_is_text(atoms: Sequence[Atom], at: int, after_other: bool) -> bool:
    """Whether "which" or "that" refers back to the text: "a decision of May 2005, which …"."""
    while at >= 0 and atoms[at].text == ",":
        at -= 1
    if at < 0:
        return False
    if atoms[at].kind == "doc":
        before = atoms[at - 1].text if at else ""
        return atoms[at].role == "self" and before not in _NO_SUBJECT_AFTER and before != "of"
    if atoms[at].text == ")":
        return _ends_in_text(atoms, at, after_other)
    if noun_phrase_is_text(atoms, at) or only_announces(atoms[: at + 1]):
        return True
    start = next((n for n in range(at, max(-1, at - 12), -1) if atoms[n].text in ("a", "an", "the")), -1)
    if (
        start < 0
        or any(a.kind == "doc" for a in atoms[start:at])
        or any_of(atoms[start : at + 1], OTHERS, PARTIAL)
    ):
        return False
    if not any(a.text in RECORD_NOUNS or a.text in ("revision", "edition") for a in atoms[start : at + 1]):
        return False
    if start == 0:
        return True
    return atoms[start - 1].text in ("is", "as", ":", ",", "—", "–", ";", "(") and speaks_for_itself(atoms[:start])
