"""Whether what follows the named records restricts an ending, makes it depend on something, or takes it back."""

from collections.abc import Sequence
from itertools import pairwise

from .atoms import Atom
from .dates import MONTH_NAMES, dates_in
from .lexicon import words
from .negation import CAME, CONDITION, NEGATIVE, PARTIAL, PIECES, PLACES, SAID, STAYS, UNDONE, any_of
from .phrases import phrase_at

_MAY_FOLLOW = words(
    """
    because since after and so which that hereby herewith entirely fully completely wholly altogether outright
    now immediately today effective following due thanks starting forthwith definitively permanently thereby
    thus henceforth everywhere finally formally officially but although though whose alike too likewise
    together wholesale forever included
    """
)
_AS_MAY_FOLLOW = words("of from agreed decided part")
_CAPACITIES = words(
    "standard rule basis reference policy specification definition default guideline norm way format"
)
_ALL_USES = words("purposes uses cases intents projects time")
_REASONS = words("because since")
_TURNS = words("but however though although except unless until only if yet")
_TO_SOMETHING = words("a an the new old some all any every most certain")
_WHOLE = words("entirety totality respects respect way favour favor")


def follows_cleanly(atoms: Sequence[Atom], at: int, *, free: bool = False, purpose: bool = True) -> bool:
    """Whether what follows the records named before ``at`` leaves the ending whole.

    ``free`` leaves out the test of the very next word, for clauses that begin there ("Instead of X we …").
    ``purpose`` allows "to …": "replaces PEP 314 to save a file", but not "no longer applies to wheels".
    """
    rest = _without_reason(atoms[at:])
    if not rest:
        return True
    if any_of(rest, CONDITION, SAID, STAYS, UNDONE) or _restricts(rest) or _turns(rest) or _is_period(rest):
        return False
    if any(atom.text == "?" or phrase_at(rest, n, ("in", "a", "way")) for n, atom in enumerate(rest)):
        return False
    return free or _first_follows(atoms, at, purpose)


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
    following = atoms[at + 1] if at + 1 < len(atoms) else None
    return following is not None and (following.kind in ("num", "date", "month") or following.text in MONTH_NAMES)


def _restricts(rest: Sequence[Atom]) -> bool:
    for place, atom in enumerate(rest):
        if atom.kind not in ("word", "mark"):
            continue
        before = rest[place - 1].text if place else ""
        if atom.text in PARTIAL and not (atom.text == "part" and before == "as"):
            return True
        if atom.text in PLACES and (place < 2 or (before in (",", "(", ":", "the", "a", "an") and place < 4)):
            return True
        if atom.text in ("draft", "proposed") and not (
            place + 1 < len(rest) and rest[place + 1].text == "standard"
        ):
            return True
    return False


def _turns(rest: Sequence[Atom]) -> bool:
    """ "…, but never took effect": a turn with a negation takes the ending back."""
    last = next((atom.text for atom in reversed(rest) if atom.kind == "word"), "")
    if last in ("not", "nope", "never", "no"):
        return True
    if any(atom.text in ("never", "not") and any_of(rest[n + 1 : n + 4], CAME) for n, atom in enumerate(rest)):
        return True
    turn = next((place for place, atom in enumerate(rest) if atom.text in _TURNS), None)
    return turn is not None and any_of(rest[turn:], NEGATIVE)


def _is_period(rest: Sequence[Atom]) -> bool:
    """ "from 2005 to 2010": a period that is over ended nothing for good."""
    dates = dates_in(rest)
    return any(
        rest[later.start - 1].text in ("to", "–", "-", "till", "through") and later.start - earlier.end <= 2
        for earlier, later in pairwise(dates)
    )


def _first_follows(atoms: Sequence[Atom], at: int, purpose: bool) -> bool:
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
            return (
                dated
                or whole
                or favour
                or (after in ("its", "their", "all", "every", "one") and third in _WHOLE | {"go"})
            )
        case "for":
            return after in ("good", "everyone", "everything", "ever") or (after == "all" and third in _ALL_USES)
        case "on":
            return dated
        case "from":
            return dated or after in ("now", "here", "today", "this")
        case "at":
            return after in ("once", "last")
        case "as":
            if after in ("a", "an", "the", "our"):
                return any(atom.text in _CAPACITIES for atom in atoms[at + 2 : at + 6])
            return after in _AS_MAY_FOLLOW
        case "with" | "by":
            return after not in ("regard", "respect", "reference") and _only_self(atoms[at:])
        case "to":
            return purpose and second is not None and second.kind == "word" and after not in _TO_SOMETHING
        case "once":
            return after == "and" and third == "for"
        case word:
            return word in _MAY_FOLLOW


def _only_self(atoms: Sequence[Atom]) -> bool:
    return not any(atom.kind == "doc" and atom.role != "self" for atom in atoms)


_SCOPES = words(
    "for on in within during under to where at among between inside outside across per throughout over"
)
_NO_SCOPE = words(
    "view light short sum consequence addition response replacing turn future force effect use lieu place this"
)


def is_scoped(zone: Sequence[Atom]) -> bool:
    """Whether a sentence opens with where or for whom it holds: "For wheels, …", "On Windows …", "Had it …"."""
    start = next((n for n, atom in enumerate(zone) if atom.kind != "mark"), -1)
    if start < 0:
        return False
    first = zone[start].text
    if first in ("had", "were", "should"):
        return True
    following = zone[start + 1] if start + 1 < len(zone) else None
    if first not in _SCOPES or following is None:
        return False
    dated = following.kind in ("num", "date", "month", "doc") or following.text in MONTH_NAMES
    if first == "to" and following.text == "be":
        return False
    parted = following.text == "this" and any_of(zone[start + 2 : start + 3], PIECES)
    return parted or not (dated or following.text in _NO_SCOPE)
