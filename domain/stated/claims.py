"""Does a text say, in its own voice, that it replaces, supersedes, retires or closes the older record?

Sentences are read in order. A claim stands only where no other sentence of the same text takes it back, and
where its heading or the words that introduce it do not turn it into a report or an option. Only sentences that
could matter are read closely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from .atoms import Atom, Names
from .lexicon import letters_of, words
from .negation import CONDITION, MOOD, NEGATIVE, REPORT, UNSETTLED, any_of
from .numbering import read_atoms
from .phrases import ANNOUNCING, verb_at
from .reading import Reading, Wording, is_about_older
from .retractions import MAY_RETRACT, narrows, takes_back
from .text import Sentence, sentences, steers, without_quotations
from .wordings import ENDING_WORDS, ending_in

MAX_ATOMS = 400
"""A longer row of words is no statement; this also bounds the work."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One stated ending: how it is worded, whether the record was named by title only, and the sentence."""

    wording: Wording
    titled: bool
    quote: str


def could_claim(texts: Sequence[str]) -> bool:
    """Cheap test of a memory: does any word in it begin a wording of an ending?"""
    return any(not ENDING_WORDS.isdisjoint(letters_of(text)) for text in texts)


def find_claim(texts: Sequence[str], names: Names, now: datetime) -> Claim | None:
    """The first claim of a memory's texts (content, topic) that the memory does not take back elsewhere."""
    titles = tuple(" ".join(title) for title in (*names.older.titles, *names.own.titles))
    found: Claim | None = None
    for text in texts:
        letters = letters_of(text)
        if ENDING_WORDS.isdisjoint(letters) or not names.older.could_be_named_in(text, letters):
            continue
        scan = _Scan(text, without_quotations(text, titles), names, now)
        if not scan.run():
            return None
        found = found or scan.claim
    if found is not None and any(steers(text) for text in texts):
        return None
    return found


class _Scan:
    """One reading of one text."""

    def __init__(self, text: str, masked: str, names: Names, now: datetime) -> None:
        self.claim: Claim | None = None
        self._text = text
        self._masked = masked
        self._names = names
        self._now = now
        self._sentences = list(sentences(masked))
        self._read: dict[int, list[Atom]] = {}
        self._blocked_section = False
        self._blocked_list = False
        self._label: int | None = None
        self._just_claimed = False

    def run(self) -> bool:
        """Read the text; False where a sentence takes back whatever was claimed."""
        named_before = False
        for index, sentence in enumerate(self._sentences):
            span = self._masked[sentence.start : sentence.end]
            letters = letters_of(span)
            named = self._names.older.could_be_named_in(span, letters)
            matters = (
                named
                or self._just_claimed
                or (named_before and not ENDING_WORDS.isdisjoint(letters))
                or not MAY_RETRACT.isdisjoint(letters)
                or span.lstrip().startswith("#")
                or span.rstrip().endswith(":")
            )
            if matters and not self._take(index, sentence):
                return False
            if not matters:
                self._just_claimed = False
                self._label = self._label if sentence.item else None
            named_before = named
            if not (sentence.item or span.rstrip().endswith(":") or self._introduced(index)):
                self._blocked_list = False
        return True

    def _take(self, index: int, sentence: Sentence) -> bool:
        atoms = self._atoms(index)
        if not atoms:
            return True
        if atoms[0].text == "#":
            self._blocked_section = any_of(atoms, _OPTION_WORDS)
        row, start = atoms, sentence.start
        if self._label is not None and sentence.item:
            row, start = [*self._atoms(self._label), *_without_bullet(atoms)], self._sentences[self._label].start
        elif not _is_label(atoms):
            self._label = None
        before = self._atoms(index - 1) if index else []
        reading = Reading(row, self._names, self._now, _is_about_other(before), is_about_older(before))
        listed = self._blocked_list and (sentence.item or self._introduced(index))
        blocked = sentence.question or self._blocked_section or listed
        found = None if blocked else ending_in(reading)
        if takes_back(atoms, found) or (self._just_claimed and narrows(atoms)):
            return False
        if found is not None and self.claim is None:
            self.claim = Claim(found.wording, found.titled, self._text[start : sentence.end].strip())
        self._just_claimed = found is not None
        if _is_label(atoms):
            self._label = index
        if atoms[-1].text == ":":
            self._blocked_list = any_of(atoms, CONDITION, REPORT, NEGATIVE, MOOD, UNSETTLED)
        return True

    def _atoms(self, index: int) -> list[Atom]:
        """The atoms of a sentence; none for one too long to be a statement."""
        known = self._read.get(index)
        if known is None:
            sentence = self._sentences[index]
            known = read_atoms(self._masked, sentence.start, sentence.end, self._names)
            known = [] if len(known) > MAX_ATOMS else _without_own_heading(known, self._masked)
            self._read[index] = known
        return known

    def _introduced(self, index: int) -> bool:
        """Whether the sentence before ends with a colon."""
        if not index:
            return False
        before = self._sentences[index - 1]
        return self._masked[before.start : before.end].rstrip().endswith(":")


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


_OPTION_WORDS = words(
    """
    alternative alternatives option options considered rejected idea ideas question questions example examples
    template todo future proposal proposals draft drafts discarded discussion minutes quote quotes
    """
)


"""A heading with one of these opens a section about what was not decided."""


def _is_about_other(atoms: Sequence[Atom]) -> bool:
    """Whether a sentence has a third record as its subject."""
    first = next((n for n, atom in enumerate(atoms) if atom.kind != "mark"), -1)
    if first < 0 or atoms[first].role != "other":
        return False
    return first + 1 < len(atoms) and atoms[first + 1].kind == "word"
