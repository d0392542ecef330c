"""Does a text say, in its own voice, that it replaces, supersedes, retires or closes the older record?

Each function below is one way of saying it and yields a wording class, whose precision was measured
(`precision`). A text that also says the opposite of the same record has claimed nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .atoms import Atom, Names, read_atoms
from .clauses import follows_cleanly, read_objects, speaks_for_itself, subject_is_text
from .negation import CONDITION, MOOD, NEGATIVE, OTHERS, PARTIAL, REPORT, STAYS, UNDONE, any_of
from .phrases import (
    ADVERBS,
    AUXILIARIES,
    CAUSED,
    DOCUMENT_NOUNS,
    ENDED,
    IN_FORCE,
    OBJECT_FILLERS,
    TIME_NOUNS,
    cause_form,
    phrase_at,
    verb_at,
)
from .text import sentences, without_quotations

Wording = Literal["field", "active", "participle", "purpose", "passive", "nominal", "in_place", "causative", "no_longer"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One stated ending: how it is worded, how the record is named, and the sentence."""

    wording: Wording
    titled: bool
    quote: str


def find_claim(text: str, names: Names, titles: tuple[str, ...], year_now: int) -> Claim | None:
    """The first claim in a text that its other sentences do not take back."""
    masked = without_quotations(text, titles)
    found: Claim | None = None
    for sentence in sentences(masked):
        atoms = read_atoms(masked, sentence.start, sentence.end, names)
        if takes_back(atoms, names):
            return None
        if found is None and not sentence.question:
            wording = claim_in(atoms, names, year_now)
            if wording is not None:
                quote = text[sentence.start : sentence.end].strip()
                found = Claim(wording[0], wording[1] == "title", quote)
    return found


def claim_in(atoms: Sequence[Atom], names: Names, year_now: int) -> tuple[Wording, str] | None:
    """The wording class of a sentence that ends the older record, and how it names it."""
    if not _may_name(atoms, names):
        return None
    for at in range(len(atoms)):
        for read in (_active, _causative, _passive, _in_place, _nominal, _no_longer):
            found = read(atoms, at, names, year_now)
            if found is not None:
                return found
    return None


def _may_name(atoms: Sequence[Atom], names: Names) -> bool:
    return any(a.role == "older" for a in atoms) or (names.own.series is not None and any(a.kind == "num" for a in atoms))


def _active(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    verb = verb_at(atoms, at) if atoms[at].kind == "word" else None
    if verb is None:
        return None
    form, stop = verb
    objects = read_objects(atoms, stop, names)
    if objects is None or not objects.older:
        return None
    if not follows_cleanly(atoms, objects.end, year_now) or not subject_is_text(atoms, at, form):
        return None
    headed = all(atom.kind == "mark" for atom in atoms[:at])
    if headed and stop < len(atoms) and atoms[stop].text in (":", "|"):
        return "field", objects.naming
    return {"ing": "participle", "base": "purpose"}.get(form, "active"), objects.naming  # pyright: ignore[reportReturnType]


def _causative(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    form = cause_form(atoms[at].text)
    if form is None:
        return None
    objects = read_objects(atoms, at + 1, names)
    if objects is None or not objects.older:
        return None
    after = objects.end
    while after < len(atoms) and atoms[after].text in ADVERBS:
        after += 1
    if after >= len(atoms) or atoms[after].text not in CAUSED:
        return None
    if not follows_cleanly(atoms, after + 1, year_now) or not subject_is_text(atoms, at, form):
        return None
    return "causative", objects.naming


def _passive(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    if atoms[at].kind != "doc" or not _begins_clause(atoms, at):
        return None
    objects = read_objects(atoms, at, names)
    if objects is None or not objects.older:
        return None
    place = objects.end
    auxiliaries: list[str] = []
    marked = False
    while place < len(atoms) and (atoms[place].text in AUXILIARIES or atoms[place].text in ADVERBS):
        (auxiliaries.append(atoms[place].text) if atoms[place].text in AUXILIARIES else None)
        marked = marked or atoms[place].text in ("hereby", "herewith", "thereby", "now")
        place += 1
    if place >= len(atoms) or atoms[place].text not in ENDED:
        return None
    zone = atoms[:at]
    if any_of(zone, CONDITION, REPORT, NEGATIVE, MOOD):
        return None
    place += 1
    agent = phrase_at(
        atoms, place, ("by",), ("with",), ("through",), ("in", "favour", "of"), ("in", "favor", "of"), ("and", "replaced", "by")
    )
    if agent is not None:
        end = _means_text(atoms, agent, zone)
        return ("passive", objects.naming) if end is not None and follows_cleanly(atoms, end, year_now) else None
    present = auxiliaries[:1] in (["is"], ["are"])
    with_this = any(phrase_at(atoms, n, ("with", "this"), ("by", "this")) is not None for n in range(at))
    others = any(atom.role == "other" for atom in atoms[:at]) or objects.other
    if present and (marked or with_this) and not others and follows_cleanly(atoms, place, year_now):
        return "passive", objects.naming
    return None


def _begins_clause(atoms: Sequence[Atom], at: int) -> bool:
    """Whether a record named at ``at`` can be the subject, not "section 3 of" it."""
    at -= 1
    while at >= 0 and atoms[at].kind == "word" and atoms[at].text in OBJECT_FILLERS and atoms[at].text != "of":
        at -= 1
    return at < 0 or atoms[at].kind == "mark" or atoms[at].text in ("and", "so", "but", "thus", "hence", "therefore", "because")


def _means_text(atoms: Sequence[Atom], at: int, zone: Sequence[Atom]) -> int | None:
    """Index after a phrase at ``at`` that means the text itself: "this decision", "PEP 345", "the present memo"."""
    if at >= len(atoms):
        return None
    atom = atoms[at]
    if atom.kind == "doc":
        return at + 1 if atom.role == "self" else None
    if atom.text in ("this", "the", "our"):
        end = at + 1
        while end < len(atoms) and end < at + 4 and atoms[end].kind == "word" and atoms[end].text not in _STOPS:
            end += 1
        words = [a.text for a in atoms[at + 1 : end]]
        if any(word in PARTIAL or word in OTHERS for word in words):
            return None
        if end < len(atoms) and atoms[end].kind == "doc":
            return end + 1 if atoms[end].role == "self" else None
        if atom.text == "this":
            return None if words and words[-1] in TIME_NOUNS else end
        return end if words and words[0] in ("present", "new", "current") and words[-1] in DOCUMENT_NOUNS else None
    if atom.text in ("it", "us"):
        return at + 1 if speaks_for_itself(zone) else None
    return None


_STOPS = frozenset("as from on in with since because and which that for to after of hereby now is are".split())


def _in_place(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    stop = phrase_at(
        atoms, at, ("instead", "of"), ("in", "place", "of"), ("in", "the", "place", "of"), ("in", "lieu", "of"), ("in", "succession", "to")
    )
    if stop is None:
        return None
    objects = read_objects(atoms, stop, names)
    if objects is None or not objects.older or not follows_cleanly(atoms, objects.end, year_now):
        return None
    zone, rest = atoms[:at], atoms[objects.end :]
    everything = [*zone, *rest]
    if any_of(everything, CONDITION, REPORT, NEGATIVE, MOOD, OTHERS):
        return None
    if any(atom.role == "other" for atom in everything):
        return None
    if all(atom.kind == "mark" for atom in zone):
        return ("in_place", objects.naming) if not rest or _speaks(rest) else None
    return ("in_place", objects.naming) if _applies_itself(zone) else None


def _speaks(atoms: Sequence[Atom]) -> bool:
    return any(a.role == "self" or a.text in ("this", "we", "i", "it", "our") for a in atoms) or all(
        a.kind == "mark" for a in atoms
    )


_APPLYING = frozenset(
    "applies holds counts stands governs is are in force now used valid adopted accepted use uses follow follows apply "
    "adopt takes take effect serves rules chosen chose decided binding from on as the a to be we i go went with it".split()
)
_ORDERS = frozenset("use follow apply adopt take see read consult".split())


def _applies_itself(zone: Sequence[Atom]) -> bool:
    words = [a for a in zone if a.kind == "word" or a.role]
    if not words:
        return True
    first = words[0]
    if first.text in _ORDERS or first.text in ("we", "i"):
        return any(a.text in _APPLYING for a in words)
    if first.text == "this" or first.role == "self":
        return speaks_for_itself(zone)
    return speaks_for_itself(zone) and any(a.text in _APPLYING for a in words)


_SUCCESSOR = frozenset({"successor", "replacement", "substitute"})


def _nominal(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    if atoms[at].text not in _SUCCESSOR or at + 1 >= len(atoms) or atoms[at + 1].text not in ("to", "of", "for", ":"):
        return None
    objects = read_objects(atoms, at + 2, names)
    if objects is None or not objects.older:
        return None
    start = at
    while start > 0 and atoms[start - 1].text in ("the", "a", "an", "direct", "official", "full", "complete", "formal", "its", "our", "in", "drop", "-"):
        start -= 1
    zone = atoms[:start]
    if any_of(zone, CONDITION, REPORT, NEGATIVE, MOOD, OTHERS):
        return None
    named_after = phrase_at(atoms, objects.end, ("is",), (":",))
    if named_after is not None and all(a.kind == "mark" for a in zone):
        end = _means_text(atoms, named_after, zone)
        return ("nominal", objects.naming) if end is not None and follows_cleanly(atoms, end, year_now) else None
    if not follows_cleanly(atoms, objects.end, year_now):
        return None
    if all(a.kind == "mark" for a in zone):
        return "nominal", objects.naming
    last = zone[-1]
    if last.text in ("is", "becomes"):
        return ("nominal", objects.naming) if subject_is_text(atoms, start - 1, "finite") else None
    if last.kind == "mark" or last.text in ("as", "and"):
        return ("nominal", objects.naming) if speaks_for_itself(zone[:-1] or zone) else None
    return None


def _no_longer(atoms: Sequence[Atom], at: int, names: Names, year_now: int) -> tuple[Wording, str] | None:
    stop = phrase_at(atoms, at, ("no", "longer"), ("ceases", "to"), ("cease", "to"))
    if stop is None or any(a.role == "other" for a in atoms):
        return None
    zone = atoms[:at]
    if any_of(zone, CONDITION, REPORT, MOOD, OTHERS):
        return None
    objects = read_objects(atoms, stop, names)
    if objects is None and stop < len(atoms) and atoms[stop].text in ("follow", "use", "apply", "observe", "honour", "honor"):
        objects = read_objects(atoms, stop + 1, names) if any(a.text in ("we", "i") for a in zone) else None
        if objects is None:
            return None
    if objects is not None:
        clean = objects.older and follows_cleanly(atoms, objects.end, year_now)
        return ("no_longer", objects.naming) if clean and (_marks(zone) or _speaks(zone)) else None
    begin = next((n for n in range(at) if atoms[n].role == "older" and _begins_clause(atoms, n)), None)
    if begin is None:
        return None
    subject = read_objects(atoms, begin, names)
    if subject is None or any(a.text not in AUXILIARIES and a.text not in ADVERBS for a in atoms[subject.end : at]):
        return None
    place = stop
    while place < len(atoms) and atoms[place].text in ("in", "be", "the", "a", "an"):
        place += 1
    if place >= len(atoms) or atoms[place].text not in IN_FORCE or not follows_cleanly(atoms, place + 1, year_now):
        return None
    return "no_longer", subject.naming


def _marks(atoms: Sequence[Atom]) -> bool:
    return all(atom.kind == "mark" for atom in atoms)


def takes_back(atoms: Sequence[Atom], names: Names) -> bool:
    """Whether a sentence says that the older record stays, replaces this text, or that this text came to nothing."""
    named = [n for n, atom in enumerate(atoms) if atom.role == "older"]
    for at in named:
        if any_of(atoms, STAYS):
            return True
        before = [a.text for a in atoms[max(0, at - 4) : at]]
        if "by" in before and any(a.text in ENDED for a in atoms[max(0, at - 6) : at]):
            return True
        if any_of(atoms[:at], NEGATIVE) and any(verb_at(atoms, n) for n in range(at) if atoms[n].kind == "word"):
            return True
    head = [a.text for a in atoms if a.kind == "word" or a.role][:3]
    if head[:1] == ["status"] and any(word in UNDONE or word in ("draft", "proposed", "provisional") for word in head[1:]):
        return True
    return False
