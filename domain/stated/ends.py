"""Does a memory's own text name the date on which it ends, and has that date passed?

"Valid until 2025-03-01", "This exception expires on 3 May 2025", "only until the end of Q1 2025". The end must be
that of the memory: a certificate or a trial that ends is a fact about the certificate or the trial.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..judging import JudgedMemory
from .atoms import Atom, Names
from .dates import Dated, date_at, dates_in
from .lexicon import letters_of, phrases, words
from .mentions import Identity, identity_of
from .negation import NEGATIVE, OTHERS, PIECES, PLACES, any_of
from .numbering import read_atoms
from .phrases import RECORD_NOUNS, TIME_NOUNS, phrase_at
from .text import sentences, without_quotations
from .titles import words_of

_NOBODY = Identity(frozenset(), None, frozenset(), (), frozenset(), "")

_LABELS = phrases(
    """
    valid until | valid till | valid through | valid to | valid - until | valid - to | end - date |
    validity ends | expires on | expires at | expires | expiry date | expiry | expiration date |
    expiration | end date | ends on | ends | sunset date | sunset | until | in force until | in effect
    until | applies until | good until | good through | runs until
    """
)
_STATED = phrases(
    """
    valid until | valid till | valid through | valid up to | expires on | expires at | expires after |
    expires with | expires in | expires | lapses on | lapses at | lapses after | lapses | ends on | ends
    at | ends with | ends in | in force until | in force through | in effect until | in effect through |
    applies until | applies through | applies till | apply until | holds until | stands until | good until
    | good through | runs out on | runs until | runs through | not valid after | no longer valid after |
    no longer applies after | void after | limited until | sunsets on | ceases to apply on | ceases to
    apply after | binding until | effective until | effective through
    """
)
_ONLY = phrases(
    """
    only until | only till | only through | just until | temporarily until | temporarily , until
    """
)
_EXTENDED = words(
    """
    extended extend extends extension renew renews renewed renewal renewals automatically automatic
    rolling prolonged prolong least earliest minimum unless if once whether should would might could
    tentatively probably about approximately around roughly unless originally formerly previously
    initially was were had been ran expected planned scheduled maybe perhaps likely supposed
    claimed proposed draft reviewed review revisit
    """
)
_DATE_LEADS = words("the end of on at midnight close including incl and") | {"(", ",", ":"}
_TOLD = words(
    """
    said says say claims claimed claim think thinks thought heard hear told wrote according allegedly
    reportedly supposedly believe believes suggest suggests suggested guess hunch impression opinion hope
    question example examples template
    """
)
_PAST = words(
    """
    was were had did used lasted ran waited worked stayed kept went came took made got ate met saw said
    held stood left lived sat spent
    """
)


_MAY_END = re.compile(
    r"(?<![A-Za-z])(?:valid|expir\w*|lapses?|ends?|sunsets?|until|till|through|good|in force|in effect|void after"
    r"|limited|runs out|ceases)(?![A-Za-z])(?=[^.!?]{0,80}\d)",
    re.IGNORECASE,
)
"""Cheap test of a text: a word of ending with a number after it."""
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class StatedEnd:
    """A passed end that a text states of itself, and the sentence."""

    quote: str


def find_stated_end(text: str, memory: JudgedMemory, now: datetime) -> StatedEnd | None:
    """The sentence that ends the memory, if every end the text states has passed and nothing extends it."""
    if _MAY_END.search(text) is None or not _LASTING.isdisjoint(letters_of(text)):
        return None
    masked = without_quotations(text)
    names = Names(replace(identity_of(memory), titles=()), _NOBODY)
    about = frozenset(words_of(memory.topic))
    found: StatedEnd | None = None
    for sentence in sentences(masked):
        if not _DIGIT.search(masked, sentence.start, sentence.end):
            continue
        atoms = read_atoms(masked, sentence.start, sentence.end, names)
        if len(atoms) > 200:
            continue
        dates = dates_in(atoms)
        if not dates:
            continue
        end = None if sentence.question else _end_in(atoms, about)
        if end is not None:
            if not all(dated.has_passed(now) for dated in dates):
                return None
            found = found or StatedEnd(text[sentence.start : sentence.end].strip())
        elif any(dated.lies_ahead(now) for dated in dates):
            return None  # a date that lies ahead leaves no plain end
    return found


_LASTING = words("extended extend extends extension renew renewed renewal prolonged")


def _end_in(atoms: Sequence[Atom], about: frozenset[str]) -> Dated | None:
    for at in range(len(atoms)):
        if atoms[at].kind != "word":
            continue
        introduced = any(atom.text == ":" for atom in atoms[1:at])  # "For instance: this rule …"
        for read in (_labelled,) if introduced else (_labelled, _stated, _only_until):
            end = read(atoms, at, about)
            if end is not None:
                clear = not any_of([*atoms[:at], *atoms[end.end :]], _EXTENDED, _TOLD)
                return end if clear else None
    return None


def _date_after(atoms: Sequence[Atom], at: int) -> Dated | None:
    """The date that follows a phrase, with "the end of" before it."""
    while at < len(atoms):
        dated = date_at(atoms, at)
        if dated is not None:
            return dated
        if atoms[at].text not in _DATE_LEADS:
            return None
        at += 1
    return None


def _labelled(atoms: Sequence[Atom], at: int, about: frozenset[str]) -> Dated | None:
    """ "Valid until: 2025-03-01" at the start of a line, or "(valid until 2025-03-01)"."""
    stop = phrase_at(atoms, at, *_LABELS)
    if stop is None:
        return None
    opening = all(atom.kind == "mark" for atom in atoms[:at])
    bracketed = at > 0 and atoms[at - 1].text in ("(", "[") and atoms[at].text not in ("ends", "sunset", "until")
    if not opening and not bracketed:
        return None
    if (
        opening
        and atoms[at].text in ("until", "ends", "end", "sunset")
        and (stop >= len(atoms) or atoms[stop].text != ":")
    ):
        return None
    if stop < len(atoms) and atoms[stop].text == ":":
        stop += 1
    return _date_after(atoms, stop)


def _stated(atoms: Sequence[Atom], at: int, about: frozenset[str]) -> Dated | None:
    """ "This exception expires on 3 May 2025" · "The merge freeze is valid until …" in its memory."""
    stop = phrase_at(atoms, at, *_STATED)
    dated = _date_after(atoms, stop) if stop is not None else None
    if dated is None:
        return None
    zone = list(atoms[:at])
    if any_of(zone, NEGATIVE, OTHERS, PIECES) or _is_past(zone) or any(atom.role == "other" for atom in zone):
        return None
    while zone and (zone[-1].text in _BEFORE_END or zone[-1].text == ","):
        zone.pop()
    return dated if not zone or _is_memory_itself(_last_clause(zone), about) else None


_BEFORE_END = words("is are and it only remains stays now which still")


_BREAKS = frozenset(",;:.!—–(")


def _last_clause(zone: Sequence[Atom]) -> Sequence[Atom]:
    start = next((n for n in range(len(zone) - 1, -1, -1) if zone[n].text in _BREAKS), -1)
    return zone[start + 1 :]


def _is_memory_itself(subject: Sequence[Atom], about: frozenset[str]) -> bool:
    """Whether the whole subject is the memory's own rule: "this exception", or what its topic says and no more."""
    texts = [atom.text for atom in subject]
    if not texts or any(atom.kind == "num" for atom in subject) or texts[-1] in PLACES or texts[-1] in TIME_NOUNS:
        return False
    if len(subject) == 1 and (texts[0] in ("this", "these") or subject[0].role == "self"):
        return True
    if texts[0] in ("this", "these"):
        return len(texts) <= 8 and not set(texts) & _CLAUSAL
    told = [text for text in texts if text not in _ARTICLES]
    return bool(told) and all(text in about or text in RECORD_NOUNS for text in told) and bool(set(told) & about)


_CLAUSAL = words("that is are was which who says has have a an and or")
_ARTICLES = words("the our all for of in on at to")


def _only_until(atoms: Sequence[Atom], at: int, about: frozenset[str]) -> Dated | None:
    """ "Use the old key only until 2025-03-01" · "until 2025-03-01 only": a rule that names its own end."""
    stop = phrase_at(atoms, at, *_ONLY)
    if stop is None:
        bare = phrase_at(atoms, at, ("until",), ("till",), ("through",))
        dated = _date_after(atoms, bare) if bare is not None else None
        if dated is None or dated.end >= len(atoms) or atoms[dated.end].text != "only":
            return None
    else:
        dated = _date_after(atoms, stop)
        if dated is None:
            return None
    zone = atoms[:at]
    if (
        any_of(zone[-1:], NEGATIVE)
        or any_of(zone[:1], OTHERS)
        or _is_past(zone)
        or any(a.role == "other" for a in zone)
    ):
        return None
    return dated


def _is_past(zone: Sequence[Atom]) -> bool:
    """Whether a zone tells of the past, which ends by itself: "we used Jenkins only until 2019"."""
    return any(atom.kind == "word" and (atom.text in _PAST or _ends_in_ed(atom.text)) for atom in zone)


def _ends_in_ed(word: str) -> bool:
    return (
        len(word) > 4
        and word.endswith("ed")
        and word not in ("need", "speed", "feed", "indeed", "shared", "exceed")
    )
