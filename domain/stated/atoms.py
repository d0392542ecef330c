"""A sentence as a row of atoms: words, numbers, dates, marks, and the records it names with their role.

A role is seen from one pair: ``older`` (the memory that may be replaced), ``self`` (the memory that speaks), or
``other`` (any third record). The grammar of `claims` only ever looks at these roles.
"""

import re
from dataclasses import dataclass
from typing import Literal

from .mentions import GENERIC_SERIES, Identity, Key, is_number_word, plain_number, series_name, words_of

Kind = Literal["word", "num", "date", "mark", "doc"]
Role = Literal["", "self", "older", "other"]
Naming = Literal["", "id", "bare", "title"]

_TOKEN = re.compile(
    r"(?P<link>\[(?P<label>[^\[\]\n]{1,200})\](?:\((?P<target>[^()\s]{1,300})(?:\s\"[^\"\n]{0,100}\")?\)|\[[^\[\]\n]{0,100}\]))"
    r"|(?P<wiki>\[\[(?P<page>[^\[\]\n]{1,200})\]\])"
    r"|(?P<url>https?://[^\s<>()\"']+[^\s<>()\"'.,;:!?])"
    r"|(?P<file>(?<![\w-])\d{3,6}-[A-Za-z0-9][A-Za-z0-9-]{1,100}(?:\.(?:md|rst|txt|adoc|html))?(?![\w-]))"
    r"|(?P<date>\b\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?\b|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b)"
    r"|(?P<poss>['’]s\b)"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)"
    r"|(?P<num>\d+(?:[.,]\d+)*)"
    r"|(?P<mark>[^\w\s]|_)"
)
_RANGE_MARKS = frozenset({"-", "–", "—"})
_RANGE_WORDS = frozenset({"to", "through", "thru"})
_LIST_WORDS = frozenset({"and", "&", "/", "plus", "or"})
_MAX_RANGE = 50


@dataclass(slots=True)
class Atom:
    """One readable unit of a sentence."""

    kind: Kind
    text: str
    """Lower-cased."""
    start: int
    end: int
    role: Role = ""
    naming: Naming = ""
    upper: bool = False
    """Whether it starts with a capital letter."""


@dataclass(frozen=True, slots=True)
class Names:
    """The two records of one question."""

    own: Identity
    older: Identity

    def role_of(self, series: str | None, number: str) -> Role:
        """Which of the two a series and number mean; a number alone is of the writer's own series."""
        key: Key | None = (series, number) if series is not None else None
        if key is not None and (key in self.older.keys or key in self.own.keys):
            return self._of_key(key)
        if series is None or series in GENERIC_SERIES:
            if self.own.series is not None:
                return self._of_key((self.own.series, number))
            if number in self.own.number_only:
                return "self"
            if self.own.number_only and number in self.older.number_only:
                return "older"
        if series in ("adr", "madr") and self.own.series is None and self.own.number_only:
            return self.role_of(None, number)
        return "other"

    def role_of_file(self, name: str) -> Role:
        """Which of the two a file name such as ``0005-use-x.md`` means."""
        lower = name.lower()
        stem = lower.rsplit(".", 1)[0] if lower.endswith((".md", ".rst", ".txt", ".adoc", ".html")) else lower
        for role, identity in (("self", self.own), ("older", self.older)):
            if any(known.rsplit(".", 1)[0] == stem for known in identity.files):
                return role
        number, _, slug = stem.partition("-")
        title = words_of(slug)
        for role, identity in (("self", self.own), ("older", self.older)):
            if any(title == known for known in identity.titles):
                return role
        if self.own.series in (None, "adr", "madr", "decision", "record"):
            return self.role_of(None, plain_number(number))
        return "other"

    def _of_key(self, key: Key) -> Role:
        if key in self.own.keys:
            return "self"
        return "older" if key in self.older.keys else "other"

    @property
    def series(self) -> tuple[str, ...]:
        """Series words that are known because one of the two records is of them."""
        return tuple({key[0] for key in self.own.keys | self.older.keys})


def read_atoms(text: str, start: int, end: int, names: Names) -> list[Atom]:
    """The atoms of ``text[start:end]`` with records named and given their role."""
    return _with_numbers(_with_titles(_tokens(text, start, end, names), names), names)


def _tokens(text: str, start: int, end: int, names: Names) -> list[Atom]:
    atoms: list[Atom] = []
    for found in _TOKEN.finditer(text, start, end):
        kind = found.lastgroup
        raw = found.group()
        if found["link"] is not None or found["wiki"] is not None:
            label = found["label"] or found["page"]
            role, naming = _role_of_place(found["target"] or "", names)
            inner = read_atoms(label, 0, len(label), names)
            docs = [atom for atom in inner if atom.kind == "doc"]
            if docs:
                role, naming = docs[0].role, docs[0].naming
            elif not role and names.role_of_file(label.rsplit("/", 1)[-1]) != "other" and re.match(r"[\w./-]*\d", label):
                role, naming = names.role_of_file(label.rsplit("/", 1)[-1]), "id"
            if role:
                atoms.append(Atom("doc", label.lower(), found.start(), found.end(), role, naming))
            else:
                shift = found.start() + 1
                atoms.extend(
                    Atom(a.kind, a.text, a.start + shift, a.end + shift, a.role, a.naming, a.upper) for a in inner
                )
        elif kind == "url":
            role, naming = _role_of_place(raw, names)
            atoms.append(Atom("doc" if role else "word", raw.lower(), found.start(), found.end(), role, naming))
        elif kind == "file":
            atoms.append(Atom("doc", raw.lower(), found.start(), found.end(), names.role_of_file(raw), "id"))
        elif kind == "date":
            atoms.append(Atom("date", raw.lower(), found.start(), found.end()))
        elif kind == "word":
            atoms.append(Atom("word", raw.lower().replace("’", "'"), found.start(), found.end(), upper=raw[0].isupper()))
        elif kind == "num":
            atoms.append(Atom("num", raw, found.start(), found.end()))
        elif raw not in "*_":
            atoms.append(Atom("mark", "'s" if kind == "poss" else raw, found.start(), found.end()))
    return atoms


_PLACE = re.compile(r"([A-Za-z]{2,8})[-_]?(\d{1,6})(?:[./#-]|$)")


def _role_of_place(target: str, names: Names) -> tuple[Role, Naming]:
    """The record that a link's target or an address leads to, if its last part names one."""
    last = target.split("#", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    if re.match(r"\d{3,6}-\w", last):
        return names.role_of_file(last), "id"
    found = _PLACE.match(last)
    if found is not None and (series := series_name(found[1].lower(), names.series)) is not None:
        return names.role_of(series[0], plain_number(found[2])), "id"
    return "", ""


def _with_numbers(atoms: list[Atom], names: Names) -> list[Atom]:
    """Join "PEP 345", "ADR-0005", "decision no. 12", "PEPs 241, 314 and 345", "#12" into named records."""
    out: list[Atom] = []
    also = names.series
    at, count = 0, len(atoms)
    while at < count:
        atom = atoms[at]
        number_at = None
        series: str | None = None
        plural = False
        if atom.kind == "word":
            found = series_name(atom.text.upper() if atom.upper and _capitals(atom, atoms, at) else atom.text, also)
            if found is not None:
                series, plural = found
                number_at = _number_after(atoms, at + 1)
            elif is_number_word(atom.text):
                number_at = _number_after(atoms, at + 1)
        elif atom.text == "#" and at + 1 < count and atoms[at + 1].kind == "num" and atoms[at + 1].start == atom.end:
            number_at = at + 1
        if number_at is None:
            out.append(atom)
            at += 1
            continue
        at = _append_numbers(out, atoms, at, number_at, series, plural, names)
    return out


def _capitals(atom: Atom, atoms: list[Atom], at: int) -> bool:
    return atom.end - atom.start <= 8 and atom.upper and at + 1 < len(atoms)


def _number_after(atoms: list[Atom], at: int) -> int | None:
    """Index of the number that a series word at ``at - 1`` announces."""
    hops = 0
    while at < len(atoms) and hops < 3:
        atom = atoms[at]
        if atom.kind == "num":
            return at if "," not in atom.text else None
        joins = (atom.kind == "mark" and atom.text in "-#_.№" and (atom.text != "." or hops)) or is_number_word(atom.text)
        if not joins:
            return None
        hops += 1
        at += 1
    return None


def _append_numbers(
    out: list[Atom], atoms: list[Atom], first: int, at: int, series: str | None, plural: bool, names: Names
) -> int:
    """Append the record(s) announced at ``first`` whose first number is at ``at``; return the next index."""
    start = atoms[first].start
    while True:
        number, end_at = atoms[at].text, at + 1
        # "ADR-2024-003" is one number; "PEPs 241-314" is a range.
        if (
            not plural
            and end_at + 1 < len(atoms)
            and atoms[end_at].text == "-"
            and atoms[end_at].start == atoms[at].end
            and atoms[end_at + 1].kind == "num"
            and atoms[end_at + 1].start == atoms[end_at].end
        ):
            number += "-" + atoms[end_at + 1].text
            end_at += 2
        if end_at < len(atoms) and atoms[end_at].kind == "word" and atoms[end_at].start == atoms[end_at - 1].end:
            number += atoms[end_at].text  # "2616bis" is another record than 2616
            end_at += 1
        role = names.role_of(series, plain_number(number))
        last = _range_end(atoms, end_at)
        if last is not None and number.isdigit() and 0 < int(atoms[last].text) - int(number) <= _MAX_RANGE:
            roles = {names.role_of(series, str(n)) for n in range(int(number), int(atoms[last].text) + 1)}
            role = "older" if "older" in roles and "self" not in roles else "other"
            end_at = last + 1
        out.append(Atom("doc", number, start, atoms[end_at - 1].end, role, "id" if series else "bare"))
        following = _list_number(atoms, end_at)
        if following is None:
            return end_at
        out.extend(atoms[end_at:following])
        at = following
        start = atoms[at].start


def _range_end(atoms: list[Atom], at: int) -> int | None:
    if at + 1 >= len(atoms) or atoms[at + 1].kind != "num" or not atoms[at + 1].text.isdigit():
        return None
    return at + 1 if atoms[at].text in _RANGE_MARKS or atoms[at].text in _RANGE_WORDS else None


def _list_number(atoms: list[Atom], at: int) -> int | None:
    """Index of a bare number that continues a list ("PEPs 241, 314 and 345"), if one stands there."""
    seen = False
    while at < len(atoms) and (atoms[at].text == "," or atoms[at].text in _LIST_WORDS):
        seen = True
        at += 1
    if not seen or at >= len(atoms) or not ends_number(atoms, at):
        return None
    return at


_AFTER_NUMBER = frozenset(
    "and & or plus as in entirely fully completely altogether outright because since which with from on now "
    "effective for by is are was were has have no to at once hereby after so that through".split()
)


def ends_number(atoms: list[Atom], at: int) -> bool:
    """Whether a plain number stands at ``at`` and counts nothing ("345 lines" counts)."""
    if atoms[at].kind != "num" or not atoms[at].text.isdigit() or len(atoms[at].text) > 6:
        return False
    if at + 1 == len(atoms):
        return True
    after = atoms[at + 1]
    return (after.kind == "mark" and after.text not in "%$€£°") or after.text in _AFTER_NUMBER


_TITLE_QUOTES = frozenset("\"'“”‘’«»„`")


def _with_titles(atoms: list[Atom], names: Names) -> list[Atom]:
    """Join the words of either record's title into one named record."""
    wanted: list[tuple[Role, tuple[str, ...]]] = []
    for title in names.older.titles:
        if title not in names.own.titles:
            wanted.append(("older", title))
    wanted.extend(("self", title) for title in names.own.titles)
    if not wanted:
        return atoms
    wanted.sort(key=lambda pair: -len(pair[1]))
    words = [atom.text.replace("'", "") for atom in atoms]
    first_words = {title[0] for _, title in wanted}
    out: list[Atom] = []
    at = 0
    while at < len(atoms):
        if words[at] in first_words:
            for role, title in wanted:
                end = _match_title(atoms, at, title)
                if end is None:
                    continue
                quoted = bool(out and out[-1].text in _TITLE_QUOTES and end < len(atoms) and atoms[end].text in _TITLE_QUOTES)
                start = out.pop().start if quoted else atoms[at].start
                stop = atoms[end].end if quoted else atoms[end - 1].end
                out.append(Atom("doc", " ".join(title), start, stop, role, "title", upper=quoted))
                at = end + 1 if quoted else end
                break
            else:
                out.append(atoms[at])
                at += 1
        else:
            out.append(atoms[at])
            at += 1
    return out


def _match_title(atoms: list[Atom], at: int, title: tuple[str, ...]) -> int | None:
    """Index after the title's words if they stand at ``at``, marks between words ignored."""
    place = 0
    while at < len(atoms) and place < len(title):
        atom = atoms[at]
        if atom.kind == "mark" and place:
            at += 1
            continue
        pieces = words_of(atom.text)
        if not pieces or title[place : place + len(pieces)] != pieces:
            return None
        place += len(pieces)
        at += 1
    return at if place == len(title) else None
