"""What a memory is called: series and number, file name, distinctive title, or its own id.

"Names" is meant strictly. "PEP 345" and "RFC 345" are different records; a bare "345" belongs to the series of
the record it is written in; a title names a record only when it is distinctive enough.
"""

import re
from dataclasses import dataclass, replace

from ..judging import JudgedMemory, visible
from .lexicon import MONTHS, words
from .series import DOCUMENT_SERIES, MENTION, NUMBER, Key, leading_key, plain_number, series_name
from .titles import distinctive, title_in, without_claim, words_of

_NUMBER_LEAD = re.compile(
    r"^[\W_]*?(?P<number>0\d{1,5}(?=[\W_]|$)|(?<=#)\d{1,6}(?=\W|$)|\d{1,4}(?=[.:)]\s|\s[–—-]\s))"
)
_TAIL = re.compile(
    r"(?:[(\[,:]|\s[–—-])\s*(?P<series>[^\W\d_]{1,24})[\s_#-]{0,2}(?P<number>" + NUMBER + r")\s*[)\]]?\s*\.?\s*$",
    re.I,
)
_FILE = re.compile(r"(?<![\w-])\d{3,6}-[a-z][a-z0-9-]{1,100}\.(?:md|rst|txt|adoc|html)\b", re.IGNORECASE)
_TAG = re.compile(r"^#?(?P<series>[^\W\d_]{2,12})[-_ :#]?(?P<number>\d{1,6})$")
_HEADER = re.compile(
    r"^[ \t*_]*(?P<series>pep|rfc|adr|eip|bip|rep|number|id|decision|record)[ \t*_]*:[ \t*_\"']*"
    r"(?:(?P<inner>[^\W\d_]{2,8})[-_ #]?)?(?P<number>\d{1,6})[\"']?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
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


def identity_of(memory: JudgedMemory) -> Identity:
    """What a memory is called, read from its topic, the head of its content, its tags and its project."""
    topic = visible(memory.topic).strip()
    head = visible(memory.content[:400])
    keys: list[Key] = []
    numbers: set[str] = set()
    title = topic
    if (lead := leading_key(topic)) is not None:
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
    words = words_of(without_claim(title))
    named = distinctive(words)
    if not named:
        words = title_in(head, keys)
    return Identity(
        keys=frozenset(keys),
        series=keys[0][0] if keys else None,
        files=frozenset(files),
        titles=(words,) if distinctive(words) else (),
        numbers=frozenset(numbers),
        uid=str(memory.memory_id),
        title_of_content=not named,
    )


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
    for found in MENTION.finditer(head):
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
