"""Does a text say, in its own voice, that it replaces, supersedes, retires or closes the older record?

Sentences are read in order. A claim stands only where no other sentence of the same text takes it back, and
where its heading or the words that introduce it do not turn it into a report or an option.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from .atoms import Atom, Names
from .lexicon import phrases, words
from .negation import CONDITION, MOOD, NEGATIVE, PARTIAL, REPORT, STAYS, UNDONE, UNSETTLED, any_of
from .numbering import read_atoms
from .phrases import ANNOUNCING, AUXILIARIES, ENDED, OBJECT_FILLERS, YIELDS, phrase_at, verb_at
from .reading import Found, Reading, Wording, is_about_older
from .text import STEERING, Sentence, sentences, without_quotations
from .wordings import ending_in

MAX_ATOMS = 400
"""A longer row of words is no statement; this also bounds the work."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One stated ending: how it is worded, whether the record was named by title only, and the sentence."""

    wording: Wording
    titled: bool
    quote: str


def find_claim(texts: Sequence[str], names: Names, now: datetime) -> Claim | None:
    """The first claim of a memory's texts (content, topic) that the memory does not take back elsewhere."""
    if any(STEERING.search(text) for text in texts):
        return None
    titles = tuple(" ".join(title) for title in (*names.older.titles, *names.own.titles))
    found: Claim | None = None
    for text in texts:
        if not names.older.could_be_named_in(text, text.casefold()):
            continue
        claim, taken_back = _read(text, without_quotations(text, titles), names, now)
        if taken_back:
            return None
        found = found or claim
    return found


def _read(text: str, masked: str, names: Names, now: datetime) -> tuple[Claim | None, bool]:
    """The claim of one text, and whether the text takes back whatever was claimed."""
    claim: Claim | None = None
    before: Sequence[Atom] = ()
    blocked_section = blocked_list = False
    just_claimed = False
    label: tuple[Sequence[Atom], Sentence] | None = None
    for sentence in sentences(masked):
        atoms = _without_own_heading(read_atoms(masked, sentence.start, sentence.end, names), masked)
        if not atoms or len(atoms) > MAX_ATOMS:
            before = ()
            continue
        if atoms[0].text == "#":
            blocked_section = _is_about_options(atoms)
        opened, start = atoms, sentence.start
        if label is not None and sentence.item:
            opened, start = [*label[0], *_without_bullet(atoms)], label[1].start
        elif not _is_label(atoms):
            label = None
        about_other = bool(before) and _is_about_other(before)
        reading = Reading(opened, names, now, about_other, bool(before) and is_about_older(before))
        blocked = sentence.question or blocked_section or (blocked_list and (sentence.item or _introduces(before)))
        found = None if blocked else ending_in(reading)
        if _takes_back(atoms, found) or (just_claimed and _narrows(atoms)):
            return None, True
        if found is not None and claim is None:
            claim = Claim(
                found.wording,
                found.titled,
                " ".join(text[start : sentence.end].split())
                if opened is not atoms
                else text[start : sentence.end].strip(),
            )
        just_claimed = found is not None
        if _is_label(atoms):
            label = (atoms, sentence)
        if _introduces(atoms):
            blocked_list = any_of(atoms, CONDITION, REPORT, NEGATIVE, MOOD, UNSETTLED)
        elif not sentence.item and not _introduces(before):
            blocked_list = False
        before = atoms
    return claim, False


def _without_own_heading(atoms: list[Atom], masked: str) -> list[Atom]:
    """The atoms after a first line that is only the record's own name and title, which has no full stop."""
    if not atoms or atoms[0].role != "self":
        return atoms
    stop = masked.find("\n", atoms[0].end, atoms[-1].start)
    if stop < 0:
        return atoms
    cut = next(n for n, atom in enumerate(atoms) if atom.start > stop)
    line = atoms[1:cut]
    label = bool(line) and line[0].text in (":", "–", "—", "-", "|", ".")
    plain = all(atom.role == "self" or atom.kind != "word" or atom.text in ANNOUNCING for atom in line)
    return atoms[cut:] if (label or plain) and not any(atom.role in ("older", "other") for atom in line) else atoms


def _without_bullet(atoms: Sequence[Atom]) -> Sequence[Atom]:
    first = next((n for n, atom in enumerate(atoms) if atom.kind != "mark" or atom.text not in "-+•*"), 0)
    return atoms[first:]


def _is_label(atoms: Sequence[Atom]) -> bool:
    """A line of its own that a list continues: "Supersedes:", "## Replaces"."""
    words = [(n, atom) for n, atom in enumerate(atoms) if atom.kind != "mark"]
    if not words or len(words) > 4 or any(atom.kind != "word" for _, atom in words):
        return False
    verb = verb_at(atoms, words[0][0])
    return (
        verb is not None
        and verb[0] in ("finite", "ing")
        and (atoms[-1].text == ":" or atoms[0].text == "#")
        and verb[1] >= len(atoms) - 1
    )


def _introduces(atoms: Sequence[Atom]) -> bool:
    return bool(atoms) and atoms[-1].text == ":"


_OPTION_WORDS = words(
    """
    alternative alternatives option options considered rejected idea ideas question questions example examples
    template todo future proposal proposals draft drafts discarded discussion minutes quote quotes
    """
)


def _is_about_options(heading: Sequence[Atom]) -> bool:
    """Whether a section lists what was not decided: "## Alternatives considered"."""
    return any_of(heading, _OPTION_WORDS)


def _is_about_other(atoms: Sequence[Atom]) -> bool:
    """Whether a sentence has a third record as its subject."""
    first = next((n for n, atom in enumerate(atoms) if atom.kind != "mark"), -1)
    if first < 0 or atoms[first].role != "other":
        return False
    return first + 1 < len(atoms) and atoms[first + 1].kind == "word"


def _takes_back(atoms: Sequence[Atom], found: Found | None) -> bool:
    """Whether a sentence keeps the older record, lets it replace this text, or lets this text come to nothing."""
    if _says_undone(atoms):
        return True
    named = [n for n, atom in enumerate(atoms) if atom.role == "older"]
    if not named:
        return False
    if any_of(atoms, STAYS) and not _has_reason_before_stay(atoms):
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


def _has_reason_before_stay(atoms: Sequence[Atom]) -> bool:
    """ "PEP 314 kept everything in one table" is history; only what holds now keeps a record in force."""
    return not any_of(atoms, STAYS - words("kept stayed remained continued retained preserved survived unchanged"))


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


_CAME = words("adopted accepted approved implemented shipped merged ratified effect force passed enacted")
_BALLOTS = words("vote motion ballot poll")
_LOST = words("failed lost fails")


def _never_came(texts: Sequence[str]) -> bool:
    """ "It was never adopted." · "The vote failed."."""
    denied = any(text in ("never", "not") and set(texts[at : at + 4]) & _CAME for at, text in enumerate(texts))
    return denied or (bool(set(texts) & _BALLOTS) and bool(set(texts) & _LOST))


_NARROWING = phrases(
    """
    only | except | unless | perhaps | maybe | but only | but not | not yet | not really | not all | not
    entirely | not quite | just | at least | or so | or rather | never mind | if accepted | if approved | no ,
    | well , | in part | partly | partially | for new | that is the plan | kidding
    """
)


def _narrows(atoms: Sequence[Atom]) -> bool:
    """Whether the sentence after a claim restricts it: "Only section 2 is meant."."""
    return phrase_at(atoms, 0, *_NARROWING) is not None
