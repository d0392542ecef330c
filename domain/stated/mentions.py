"""What a memory is called: series and number, file name, distinctive title, or its own id.

"Names" is meant strictly. "PEP 345" and "RFC 345" are different records; a bare "345" belongs to the series of
the record it is written in; a title names a record only when it is distinctive enough.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..judging import JudgedMemory, visible
from .lexicon import MONTHS, words
from .text import CLAIMING

Key = tuple[str, str]
"""A series ("pep") and a number without leading zeros ("345")."""

DOCUMENT_SERIES = words(
    """
    pep rfc adr eip erc bip rep xep cip nep jep kep dep tep mep gep aip lip slip sip std bcp fyi iso iec ieee
    pdr ddr tdr madr rfd rfp prd issue ticket bug task story pr
    """
)
GENERIC_SERIES = words(
    """
    decision record proposal document doc memo memorandum entry item standard specification spec note memory
    policy rule guideline directive order regulation resolution circular bulletin procedure runbook minute
    """
)
"""Nouns that number records in their own right ("Decision 12") or stand for a record of the writer's series."""
_NUMBER_WORDS = frozenset({"no", "nr", "nos", "number", "numbers", "№"})
_NOT_SERIES = MONTHS | words(
    """
    http https tls ssl utf sha md ip ipv sql html css xml json cpu gpu ram usb pm am utc gmt est cet pst q
    fy h v ver version python java section sections part chapter appendix paragraph clause page line step
    phase sprint day in of on at to by the from since until for with and or about over under than
    """
)
_PLURAL = {"policies": "policy", "entries": "entry", "memories": "memory", "memoranda": "memorandum"}
_STOPWORDS = words(
    """
    a an the of for to in on and or with by from at as is are be use using our we this that it not no new old
    """
)
_NUMBER = r"\d{1,6}(?:[.-]\d{1,6}){0,2}[a-z]{0,4}"
_LEAD = re.compile(
    r"^[\W_]*(?:(?:decision|new|accepted|adopted|approved|proposed|final|title|record)\s*:\s*)?"
    r"(?P<series>[^\W\d_]{1,24})[\s_#:№-]{0,3}(?:(?:no|nr|number)\b\.?\s*)?(?P<number>" + _NUMBER + r")"
    r"(?![\w%])(?P<after>\s*[:.,;()\[\]–—|-]|\s*$|\s)",
    re.IGNORECASE,
)
_NUMBER_LEAD = re.compile(
    r"^[\W_]*?(?P<number>0\d{1,5}(?=[\W_]|$)|(?<=#)\d{1,6}(?=\W|$)|\d{1,4}(?=[.:)]\s|\s[–—-]\s))"
)
_TAIL = re.compile(
    r"(?:[(\[,:]|\s[–—-])\s*(?P<series>[^\W\d_]{1,24})[\s_#-]{0,2}(?P<number>" + _NUMBER + r")\s*[)\]]?\s*\.?\s*$",
    re.I,
)
_FILE = re.compile(r"(?<![\w-])\d{3,6}-[a-z][a-z0-9-]{1,100}\.(?:md|rst|txt|adoc|html)\b", re.IGNORECASE)
_TAG = re.compile(r"^#?(?P<series>[^\W\d_]{2,12})[-_ :#]?(?P<number>\d{1,6})$")
_HEADER = re.compile(
    r"^[ \t*_]*(?P<series>pep|rfc|adr|eip|bip|rep|number|id|decision|record)[ \t*_]*:[ \t*_\"']*"
    r"(?:(?P<inner>[^\W\d_]{2,8})[-_ #]?)?(?P<number>\d{1,6})[\"']?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_MENTION = re.compile(r"(?<![\w-])(?P<series>[A-Za-z]{2,12})[\s_#-]{0,2}(?P<number>" + _NUMBER + r")(?![\w%])")
_INTRODUCES = MONTHS | words(
    """
    a an the new newly final we our team council they python internet community editors working group adopt
    adopts adopted accept accepts accepted approve approved publish published issue issued record recorded
    file filed number numbered know known register registered enter entered went out into came appeared
    became becomes is now was as of on in from since at by dated date decision decided record document
    proposal standard standards track process informational experimental best current practice memo note
    policy rule title kind type category status st nd rd th today
    """
)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a memory is called."""

    keys: frozenset[Key]
    series: str | None
    """The series of its first key; None where only a number or nothing is known."""
    files: frozenset[str]
    """File names without their ending."""
    titles: tuple[tuple[str, ...], ...]
    """A distinctive title, as words."""
    numbers: frozenset[str]
    """Numbers known without a series ("0005 Use X")."""
    uid: str
    """The memory's id, which a text may name too."""
    title_of_content: bool = False
    """Whether the title was only found in the content."""

    def beside(self, older: "Identity") -> "Identity":
        """The identity as told apart from an older one: a title quoted at the head of a content is not its own."""
        return replace(self, titles=()) if self.title_of_content and self.titles == older.titles else self

    def could_be_named_in(self, text: str, letters: frozenset[str]) -> bool:
        """Whether a text (and the words in it) could name this record at all: a cheap test before it is read."""
        for _, number in self.keys:
            if number.partition("-")[0] in text:
                return True
        for number in self.numbers:
            if number in text:
                return True
        for title in self.titles:
            if all(word in letters or not word.isalpha() for word in title):
                return True
        # A number inside a range ("PEPs 5 to 9") is not written out; an id is.
        return self.uid in text.lower() or (bool(self.keys) and _RANGE.search(text) is not None)


_RANGE = re.compile(r"\d\s?(?:[-–—]|to|through|thru)\s?\d")


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
    if lower[-1] == "s" and ((stem := lower[:-1]) in also or stem in DOCUMENT_SERIES or stem in GENERIC_SERIES):
        return stem, True
    if lower in _NOT_SERIES:
        return None
    if word.isascii() and word.isupper() and 2 <= len(word) <= 8:
        return lower, False
    if len(word) >= 4 and word[-1] == "s" and word[:-1].isupper() and lower[:-1] not in _NOT_SERIES:
        return lower[:-1], True
    return None


def is_number_word(word: str) -> bool:
    """Whether a word only announces a number ("no.", "number")."""
    return word in _NUMBER_WORDS


def words_of(text: str) -> tuple[str, ...]:
    """Words and numbers of a text, case-folded; "v1.1" is three of them, however it is written."""
    return tuple(re.findall(r"[^\W\d_]+|\d+", text.casefold()))


def distinctive(title: tuple[str, ...]) -> bool:
    """Whether a title names one record: at least two words that mean something, ten characters in all."""
    telling = [word for word in title if word not in _STOPWORDS and len(word) > 1]
    return len(telling) >= 2 and sum(map(len, title)) >= 10 and len(title) <= 40


def identity_of(memory: JudgedMemory) -> Identity:
    """What a memory is called, read from its topic, the head of its content, its tags and its project."""
    topic = visible(memory.topic).strip()
    head = visible(memory.content[:400])
    keys: list[Key] = []
    numbers: set[str] = set()
    title = topic
    if (lead := _lead(topic)) is not None:
        keys.append(lead[0])
        title = topic[lead[1] :]
    elif (bare := _NUMBER_LEAD.match(topic)) is not None:
        number = plain_number(bare["number"])
        hint = _series_hint(memory)
        if hint is not None:
            keys.append((hint, number))
        else:
            numbers.add(number)
        title = topic[bare.end() :]
    elif (tail := _TAIL.search(topic)) is not None and (found := series_name(tail["series"])) is not None:
        keys.append((found[0], plain_number(tail["number"])))
        title = topic[: tail.start()]
    labels = [*memory.tags, memory.project or ""]
    for label in labels:
        tagged = _TAG.match(label)
        if (
            tagged is not None
            and (series := series_name(tagged["series"])) is not None
            and series[0] in DOCUMENT_SERIES
        ):
            keys.append((series[0], plain_number(tagged["number"])))
    if not keys and not numbers:
        keys.extend(_content_keys(head, topic))
    files = {
        found.group().lower().rsplit(".", 1)[0] for place in (topic, *labels) for found in _FILE.finditer(place)
    }
    words = words_of(_without_claim(title))
    named = distinctive(words)
    if not named:
        words = _title_in(head, keys)
    return Identity(
        keys=frozenset(keys),
        series=keys[0][0] if keys else None,
        files=frozenset(files),
        titles=(words,) if distinctive(words) else (),
        numbers=frozenset(numbers),
        uid=str(memory.memory_id),
        title_of_content=not named,
    )


def _lead(text: str) -> tuple[Key, int] | None:
    """A key at the very start of a text, and where it ends."""
    found = _LEAD.match(text)
    if found is None:
        return None
    word = found["series"]
    known = series_name(word)
    if known is None:
        # An unknown word is a series only where a mark sets the number off as a label: "Beschluss 12: …".
        if (
            word.lower() in _NOT_SERIES
            or len(word) < 3
            or found["after"].strip() not in (":", "–", "—", "-", "|", ".")
        ):
            return None
        known = (word.lower(), False)
    return (known[0], plain_number(found["number"])), found.end("number")


def _without_claim(title: str) -> str:
    """A title without what it says of another record: "Metadata 1.2 (replaces PEP 314)" -> "Metadata 1.2"."""
    claim = CLAIMING.search(title)
    if claim is None or all(series_name(found["series"]) is None for found in _MENTION.finditer(title)):
        return title
    return re.split(r"[(\[;–—|]|\s-\s|\.\s", title[: claim.start()])[0]


_TITLE_RUN = re.compile(
    r"[A-Z][\w'’/.-]*(?:[ \t]+(?:\(?[A-Z][\w'’/.)-]*|\d[\w.]*|for|of|in|the|and|to|a|an|with|on|from|by))*"
)


def _title_in(head: str, keys: list[Key]) -> tuple[str, ...]:
    """The title at the head of a content whose topic has none: its first run of capitalised words.

    Three telling words at least, so that a person's name is no title; and no wording of an ending.
    """
    lead = _lead(head)
    start = lead[1] if lead is not None and lead[0] in keys else 0
    found = _TITLE_RUN.match(head[start:].lstrip(" \t\n:,.;–—-(\"“”'*_"))
    if found is None or CLAIMING.search(found.group()):
        return ()
    if any(series_name(named["series"]) is not None for named in _MENTION.finditer(found.group())):
        return ()
    run = list(words_of(found.group()))
    while run and run[-1] in _STOPWORDS:
        run.pop()
    telling = [word for word in run if len(word) > 3 and word not in _STOPWORDS]
    dated = any(word in MONTHS for word in run)
    return tuple(run) if len(telling) >= 3 and len(run) <= 20 and not dated else ()


def _series_hint(memory: JudgedMemory) -> str | None:
    """The series that a tag or the project names, for a topic that only has a number."""
    for name in (*memory.tags, memory.project or ""):
        found = series_name(name.strip("#")) if name.strip("#") else None
        if found is not None and found[0] in DOCUMENT_SERIES:
            return found[0]
    return None


def _content_keys(head: str, topic: str) -> list[Key]:
    """The key that a record's first sentence or its header gives it.

    "Our proxies follow RFC 2616" is a memory about proxies, not RFC 2616: before the key only words that
    introduce a record may stand, or the memory's own topic.
    """
    header = _HEADER.search(head)
    if header is not None:
        series = (header["inner"] or header["series"]).lower()
        if series not in ("number", "id"):
            return [(series, plain_number(header["number"]))]
    for found in _MENTION.finditer(head):
        known = series_name(found["series"])
        if known is None or known[1]:
            continue
        before = words_of(head[: found.start()])
        about = set(words_of(topic))
        if all(word in _INTRODUCES or word in about or word.isdigit() for word in before):
            after = words_of(head[found.end() : found.end() + 24])[:1]
            if before or not after or after[0] not in _ABOUT_IT:
                return [(known[0], plain_number(found["number"]))]
        return []
    return []


_ABOUT_IT = words(
    """
    has had says said requires required needs needed does did support supports compliant compatible compliance
    style section sections parser client clients server servers and or vs versus
    """
)
"""After a key at the start of a memory: words showing that it talks about the record and is not it."""
