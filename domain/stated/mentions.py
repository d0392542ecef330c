"""Which record a text names: by series and number, by a bare number of its own series, or by title.

"Names" is meant strictly. "PEP 345" and "RFC 345" are different records; a bare "345" belongs to the series of
the record it is written in; a title names a record only when it is distinctive enough.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..judging import JudgedMemory, visible

Key = tuple[str, str]
"""A series ("pep") and a number without leading zeros ("345")."""

DOCUMENT_SERIES = frozenset(
    "pep rfc adr eip erc bip rep xep cip nep jep kep dep tep mep gep aip lip slip sip std bcp fyi iso iec ieee "
    "pdr ddr tdr madr rfd rfp issue ticket bug task story pr".split()
)
GENERIC_SERIES = frozenset(
    "decision record proposal document doc memo memorandum entry item standard specification spec note memory "
    "policy rule guideline directive order regulation resolution circular bulletin procedure runbook minute".split()
)
"""Nouns that number records in their own right ("Decision 12") or stand for a record of the writer's series."""
_NUMBER_WORDS = frozenset({"no", "nr", "nos", "number", "numbers", "№"})
_NOT_SERIES = frozenset(
    "http https tls ssl utf sha md ip ipv sql html css xml json http2 cpu gpu ram usb pm am utc gmt est cet pst q fy "
    "h v ver version python java section sections part chapter appendix paragraph clause page line step phase".split()
)
_PLURAL = {"policies": "policy", "entries": "entry", "memories": "memory", "memoranda": "memorandum"}
_ADR_WORDS = frozenset({"architecture", "architectural"})
_STOPWORDS = frozenset(
    "a an the of for to in on and or with by from at as is are be use using our we this that it not no new old".split()
)

_TOPIC_LEAD = re.compile(
    r"^[\W_]*(?:(?:decision|new|accepted|adopted|approved|proposed|final|title|record)\s*:\s*)?"
    r"(?P<series>[^\W\d_]{1,24})s?[\s_#:№-]{0,3}(?:(?:no|nr|number)\b\.?\s*)?(?P<number>\d{1,6}(?:[.-]\d{1,6}){0,2}[a-z]?)"
    r"(?![\w%])(?P<after>\s*(?:[:.,;()\[\]–—-]|$)|\s)",
    re.IGNORECASE,
)
_NUMBER_LEAD = re.compile(r"^[\W_]*(?:0\d{1,5}(?=[\W_])|#\d{1,6}(?=\W|$)|\d{1,4}(?=[.:)]\s|\s[–—-]\s))")
_TOPIC_TAIL = re.compile(
    r"[(\[–—,:-]\s*(?P<series>[^\W\d_]{1,24})[\s_#-]{0,2}(?P<number>\d{1,6}(?:[.-]\d{1,6}){0,2})\s*[)\]]?\s*\.?\s*$"
)
_FILE = re.compile(r"(?<![\w-])(?P<number>\d{3,6})-(?P<slug>[a-z0-9][a-z0-9-]{1,100})\.(?:md|rst|txt|adoc|html)\b", re.I)
_TAG = re.compile(r"^#?(?P<series>[^\W\d_]{2,12})[-_ :]?(?P<number>\d{1,6})$")
_HEADER = re.compile(
    r"^[ \t*_]*(?P<series>pep|rfc|adr|eip|bip|rep|number|id|decision|record)[ \t*_]*:[ \t*_]*"
    r"(?:(?P<inner>[^\W\d_]{2,8})[-_ #]?)?(?P<number>\d{1,6})[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a memory's record is called."""

    keys: frozenset[Key]
    series: str | None
    """The series of its first key; None where only a number or nothing is known."""
    files: frozenset[str]
    titles: tuple[tuple[str, ...], ...]
    """Distinctive titles as words."""
    number_only: frozenset[str] = frozenset()
    """Numbers known without a series ("0005 Use X")."""


def plain_number(text: str) -> str:
    """A number without leading zeros, its parts kept: "0005" -> "5", "2024-003" -> "2024-3"."""
    return "-".join(part.lstrip("0") or "0" for part in re.split(r"[.-]", text.lower()))


def series_name(word: str, also: Iterable[str] = ()) -> tuple[str, bool] | None:
    """The series a word stands for and whether it is a plural, or None where it is no series word."""
    lower = word.lower()
    if lower in also or lower in DOCUMENT_SERIES or lower in GENERIC_SERIES:
        return lower, False
    if lower in _PLURAL:
        return _PLURAL[lower], True
    if lower.endswith("s") and (lower[:-1] in also or lower[:-1] in DOCUMENT_SERIES or lower[:-1] in GENERIC_SERIES):
        return lower[:-1], True
    if lower in _NOT_SERIES:
        return None
    if word.isupper() and 2 <= len(word) <= 8 and word.isascii():
        return lower, False
    if len(word) >= 4 and word[-1] == "s" and word[:-1].isupper() and lower[:-1] not in _NOT_SERIES:
        return lower[:-1], True
    return None


def is_number_word(word: str) -> bool:
    """Whether a word only announces a number ("no.", "number")."""
    return word in _NUMBER_WORDS


def words_of(text: str) -> tuple[str, ...]:
    """Words and numbers of a text, case-folded."""
    return tuple(re.findall(r"[^\W_]+", text.casefold()))


def distinctive(title: tuple[str, ...]) -> bool:
    """Whether a title names one record: at least two words that mean something, ten characters in all."""
    telling = [word for word in title if word not in _STOPWORDS and len(word) > 1]
    return len(telling) >= 2 and sum(map(len, title)) >= 10 and len(title) <= 40


def identity_of(memory: JudgedMemory) -> Identity:
    """What a memory is called, read from its topic, the head of its content, its tags and its project."""
    topic = visible(memory.topic)
    head = visible(memory.content[:400])
    keys: list[Key] = []
    numbers: set[str] = set()
    title = topic
    lead = _lead(topic)
    if lead is not None:
        keys.append(lead[0])
        title = topic[lead[1] :]
    elif (bare := _NUMBER_LEAD.match(topic)) is not None:
        number = plain_number(re.sub(r"\D", "", bare.group()))
        hint = _series_hint(memory)
        if hint is not None:
            keys.append((hint, number))
        else:
            numbers.add(number)
        title = topic[bare.end() :]
    elif (tail := _TOPIC_TAIL.search(topic)) is not None and (found := series_name(tail["series"])) is not None:
        keys.append((found[0], plain_number(tail["number"])))
        title = topic[: tail.start()]
    files = {found.group().lower() for place in (topic, head, *memory.tags) for found in _FILE.finditer(place)}
    for tag in memory.tags:
        found = _TAG.match(tag)
        if found is not None and (series := series_name(found["series"])) is not None and series[0] in DOCUMENT_SERIES:
            keys.append((series[0], plain_number(found["number"])))
    if not keys and not numbers:
        keys.extend(_content_keys(head, topic))
    words = words_of(title)
    titles = (words,) if distinctive(words) else ()
    return Identity(
        keys=frozenset(keys),
        series=keys[0][0] if keys else None,
        files=frozenset(files),
        titles=titles,
        number_only=frozenset(numbers),
    )


def _lead(text: str) -> tuple[Key, int] | None:
    """A key at the very start of a text, and where it ends."""
    found = _TOPIC_LEAD.match(text)
    if found is None:
        return None
    word = found["series"]
    known = series_name(word)
    if known is None:
        # An unknown word is a series only where punctuation sets the number off as a label: "Beschluss 12: …".
        if word.lower() in _NOT_SERIES or not found["after"].strip() or len(word) < 3 or _is_date_word(word):
            return None
        known = (word.lower(), False)
    return (known[0], plain_number(found["number"])), found.end("number")


def _is_date_word(word: str) -> bool:
    return word.lower()[:3] in {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}


def _series_hint(memory: JudgedMemory) -> str | None:
    for name in (*memory.tags, memory.project or ""):
        found = series_name(name.strip("#")) if name else None
        if found is not None and found[0] in DOCUMENT_SERIES:
            return found[0]
    return None


def _content_keys(head: str, topic: str) -> list[Key]:
    header = _HEADER.search(head)
    if header is not None:
        series = (header["inner"] or header["series"]).lower()
        if series not in ("number", "id"):
            return [(series, plain_number(header["number"]))]
    lead = _lead(head)
    if lead is not None and series_name(lead[0][0]) is not None:
        return [lead[0]]
    return []
