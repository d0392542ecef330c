"""Titles of records, and when one is distinctive enough to name a record by itself."""

import re

from .lexicon import MONTHS, words
from .series import MENTION, Key, leading_key, series_name
from .text import CLAIMING

_STOPWORDS = words(
    """
    a an the of for to in on and or with by from at as is are be use using our we this that it not no new old
    """
)


def words_of(text: str) -> tuple[str, ...]:
    """Words and numbers of a text, case-folded; "v1.1" is three of them, however it is written."""
    return tuple(re.findall(r"[^\W\d_]+|\d+", text.casefold()))


def distinctive(title: tuple[str, ...]) -> bool:
    """Whether a title names one record: at least two words that mean something, ten characters in all."""
    telling = [word for word in title if word not in _STOPWORDS and len(word) > 1]
    return len(telling) >= 2 and sum(map(len, title)) >= 10 and len(title) <= 40


def without_claim(title: str) -> str:
    """A title without what it says of another record: "Metadata 1.2 (replaces PEP 314)" -> "Metadata 1.2"."""
    claim = CLAIMING.search(title)
    if claim is None or all(series_name(found["series"]) is None for found in MENTION.finditer(title)):
        return title
    return re.split(r"[(\[;–—|]|\s-\s|\.\s", title[: claim.start()])[0]


_TITLE_RUN = re.compile(
    r"[A-Z][\w'’/.-]*(?:[ \t]+(?:\(?[A-Z][\w'’/.)-]*|\d[\w.]*|for|of|in|the|and|to|a|an|with|on|from|by))*"
)


def title_in(head: str, keys: list[Key]) -> tuple[str, ...]:
    """The title at the head of a content whose topic has none: its first run of capitalised words.

    Three telling words at least, so that a person's name is no title; and no wording of an ending.
    """
    lead = leading_key(head)
    start = lead[1] if lead is not None and lead[0] in keys else 0
    found = _TITLE_RUN.match(head[start:].lstrip(" \t\n:,.;–—-(\"“”'*_"))
    if found is None or CLAIMING.search(found.group()):
        return ()
    if any(series_name(named["series"]) is not None for named in MENTION.finditer(found.group())):
        return ()
    run = list(words_of(found.group()))
    while run and run[-1] in _STOPWORDS:
        run.pop()
    telling = [word for word in run if len(word) > 3 and word not in _STOPWORDS]
    dated = any(word in MONTHS for word in run)
    return tuple(run) if len(telling) >= 3 and len(run) <= 20 and not dated else ()
