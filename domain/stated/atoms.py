"""A sentence as a row of atoms: words, numbers, dates, marks, and the records it names with their role.

A role is seen from one pair: ``older`` (the memory that may be replaced), ``self`` (the memory that speaks), or
``other`` (any third record). The grammar of `claims` only ever looks at these roles.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .mentions import Identity
from .series import GENERIC_SERIES, Key, plain_number, series_name
from .titles import words_of

Kind = Literal["word", "num", "date", "month", "mark", "doc"]
Role = Literal["", "self", "older", "other"]
Naming = Literal["", "id", "bare", "title"]

_TOKEN = re.compile(
    r"(?P<link>\[(?P<label>[^\[\]\n]{1,200})\](?:\((?P<target>[^()\s]{1,300})(?:\s\"[^\"\n]{0,100}\")?\)|\[[^\[\]\n]{0,100}\]))"
    r"|(?P<wiki>\[\[(?P<page>[^\[\]\n]{1,200})\]\])"
    r"|(?P<url>https?://[^\s<>()\"']+)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<file>(?<![\w-])0\d{2,5}-[A-Za-z][A-Za-z0-9-]{1,100}(?:\.(?:md|rst|txt|adoc|html))?(?![\w-]))"
    r"|(?P<date>\b\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])|\b\d{4}/\d{2}/\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b)"
    r"|(?P<poss>['’]s\b)"
    r"|(?P<word>[^\W\d_]+(?:['’](?!s\b)[^\W\d_]+)*)"
    r"|(?P<num>\d+(?:[.,]\d+)*)"
    r"|(?P<mark>[^\w\s]|_)"
)
_DROPPED = frozenset("*_")


@dataclass(slots=True)
class Atom:
    """One readable unit of a sentence."""

    kind: Kind
    text: str
    """Lower-cased."""
    start: int
    end: int
    raw: str
    role: Role = ""
    naming: Naming = ""


@dataclass(frozen=True, slots=True)
class Names:
    """The two records of one question."""

    own: Identity
    older: Identity

    @property
    def same_title(self) -> bool:
        """Whether both memories go by one title, so that only "the earlier note on …" tells them apart."""
        return bool(self.own.titles) and self.own.titles == self.older.titles

    @property
    def series(self) -> tuple[str, ...]:
        """Series words that are known because one of the two records is of them."""
        return tuple({key[0] for key in self.own.keys | self.older.keys})

    def role_of(self, series: str | None, number: str) -> Role:
        """Which of the two a series and number mean; a number alone is of the writer's own series."""
        if series is not None and ((series, number) in self.older.keys or (series, number) in self.own.keys):
            return self._of_key((series, number))
        if series is None or series in GENERIC_SERIES:
            if self.own.series is not None:
                return self._of_key((self.own.series, number))
            if number in self.own.numbers:
                return "self"
            if self.own.numbers and number in self.older.numbers:
                return "older"
        if series in ("adr", "madr") and self.own.series is None and self.own.numbers:
            return self.role_of(None, number)
        return "other"

    def role_of_file(self, name: str) -> Role:
        """Which of the two a file name such as ``0005-use-x.md`` means."""
        stem = re.sub(r"\.(?:md|rst|txt|adoc|html)$", "", name.lower())
        for role, identity in _both(self):
            if stem in identity.files:
                return role
        number, _, slug = stem.partition("-")
        if (role := self.role_of_slug(slug)) != "":
            return role
        if number.isdigit() and self.own.series in (None, "adr", "madr", "decision", "record"):
            return self.role_of(None, plain_number(number))
        return "other"

    def role_of_slug(self, slug: str) -> Role:
        """Which of the two a title written with hyphens means."""
        title = words_of(slug)
        for role, identity in _both(self):
            if title in identity.titles:
                return role
        return ""

    def _of_key(self, key: Key) -> Role:
        if key in self.own.keys:
            return "self"
        return "older" if key in self.older.keys else "other"


def _both(names: Names) -> tuple[tuple[Role, Identity], tuple[Role, Identity]]:
    return ("self", names.own), ("older", names.older)


Resolve = Callable[[Sequence[Atom], Names], list[Atom]]
"""Joins atoms into named records (`numbering.name_records`), for the words of a link."""


def read_tokens(text: str, start: int, end: int, names: Names, resolve: Resolve) -> list[Atom]:
    """Words, numbers, dates and marks; links, addresses and file names already as the records they lead to."""
    atoms: list[Atom] = []
    for found in _TOKEN.finditer(text, start, end):
        kind = found.lastgroup
        raw = found.group()
        first, last = found.span()
        if kind == "word":
            lower = raw.lower().replace("’", "'")
            atoms.append(Atom("word", lower, first, last, raw))
        elif kind == "num":
            atoms.append(Atom("num", raw, first, last, raw))
        elif kind == "date":
            atoms.append(Atom("date", raw.lower(), first, last, raw))
        elif kind == "uuid":
            atoms.append(Atom("doc", raw, first, last, raw, _role_of_uid(raw.lower(), names), "id"))
        elif kind == "file":
            while atoms and atoms[-1].end == first and (atoms[-1].kind == "word" or atoms[-1].text in "/.-"):
                first = atoms.pop().start  # the folders before it
            atoms.append(Atom("doc", raw.lower(), first, last, raw, names.role_of_file(raw), "id"))
        elif kind == "url":
            role, naming = _role_of_place(raw.rstrip(".,;:!?)"), names)
            atoms.append(Atom("doc" if role else "word", raw.lower(), first, last, raw, role, naming))
        elif found["label"] is not None or found["page"] is not None:
            atoms.extend(_read_link(found, names, resolve))
        elif raw not in _DROPPED:
            atoms.append(Atom("mark", "'s" if kind == "poss" else raw, first, last, raw))
    return atoms


def _read_link(found: re.Match[str], names: Names, resolve: Resolve) -> list[Atom]:
    """A link is the record its words name, else the one its target names; else just its words."""
    label = found["label"] or found["page"]
    inner = read_tokens(label, 0, len(label), names, resolve)
    named = [atom for atom in resolve(inner, names) if atom.kind == "doc"]
    if named:
        role, naming = named[0].role, named[0].naming
    else:
        role, naming = _role_of_place(found["target"] or label, names)
    if role and not any(atom.text in ("section", "§", "part", "appendix") for atom in inner):
        return [Atom("doc", label.lower(), found.start(), found.end(), found.group(), role, naming)]
    shift = found.start() + 1
    return [replace(atom, start=atom.start + shift, end=atom.end + shift) for atom in inner]


_PLACE = re.compile(r"([A-Za-z]{2,8})[-_]?(\d{1,6})(?=[./#_-]|$)")


def _role_of_uid(uid: str, names: Names) -> Role:
    if uid == names.older.uid:
        return "older"
    return "self" if uid == names.own.uid else "other"


def _role_of_place(target: str, names: Names) -> tuple[Role, Naming]:
    """The record that a link's target or an address leads to, if its last part names one."""
    last = target.split("#", 1)[0].rstrip("/").rsplit("/", 1)[-1]
    if re.match(r"\d{3,6}-[A-Za-z]", last):
        return names.role_of_file(last), "id"
    found = _PLACE.match(last)
    if found is not None and (series := series_name(found[1].lower(), names.series)) is not None:
        return names.role_of(series[0], plain_number(found[2])), "id"
    role = names.role_of_slug(re.sub(r"\.\w{2,4}$", "", last))
    return role, "title" if role else ""


_TITLE_QUOTES = frozenset("\"'“”‘’«»„`")


def find_named(atoms: Sequence[Atom], names: Names) -> list[Atom]:
    """Join the words of either record's title into one named record."""
    wanted: list[tuple[Role, tuple[str, ...]]] = [("self", title) for title in names.own.titles]
    if not names.same_title:
        wanted.extend(("older", title) for title in names.older.titles)
    if not wanted:
        return list(atoms)
    wanted.sort(key=lambda pair: -len(pair[1]))
    first_words = {title[0] for _, title in wanted}
    out: list[Atom] = []
    at = 0
    while at < len(atoms):
        matched = None
        if atoms[at].text in first_words:
            for role, title in wanted:
                end = _match_title(atoms, at, title)
                if end is not None:
                    matched = role, title, end
                    break
        if matched is None:
            out.append(atoms[at])
            at += 1
            continue
        role, title, end = matched
        quoted = (
            bool(out) and out[-1].text in _TITLE_QUOTES and end < len(atoms) and atoms[end].text in _TITLE_QUOTES
        )
        start = out.pop().start if quoted else atoms[at].start
        stop = atoms[end].end if quoted else atoms[end - 1].end
        name = " ".join(title)
        out.append(Atom("doc", name, start, stop, name, role, "title"))
        at = end + 1 if quoted else end
    return out


def _match_title(atoms: Sequence[Atom], at: int, title: tuple[str, ...]) -> int | None:
    """Index after the title's words if they stand at ``at``, marks between words ignored."""
    start, place = at, 0
    while at < len(atoms) and place < len(title):
        atom = atoms[at]
        if atom.kind == "mark" and place:
            at += 1
            continue
        pieces = words_of(atom.raw)
        if not pieces or title[place : place + len(pieces)] != pieces:
            return None
        place += len(pieces)
        at += 1
    if place < len(title):
        return None
    inside = sum((atom.text == "(") - (atom.text == ")") for atom in atoms[start:at])
    return at + 1 if inside > 0 and at < len(atoms) and atoms[at].text == ")" else at
