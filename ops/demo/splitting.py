"""Cuts text that is too long for one memory into several, at the best places there are, losing nothing."""

import re
from collections.abc import Sequence
from itertools import pairwise

# Strongest first: before a heading, at blank lines, at line ends, after a sentence, at spaces.
_PLACES = (
    re.compile(r"\n(?=#{1,6}\s)"),
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…。！？])\s+"),
    re.compile(r"\s+"),
)


def split(text: str, limit: int) -> list[str]:
    """The text in parts of at most ``limit`` characters, trimmed, none of them blank.

    Text that fits is one part. Longer text is cut before headings; a piece still too long is cut at blank lines,
    then at line ends, between sentences, between words, and last between characters. Neighbouring pieces are put
    together again as far as they fit. Only white space at a cut is lost.
    """
    return _split(text.strip(), limit, _PLACES)


def _split(text: str, limit: int, places: Sequence[re.Pattern[str]]) -> list[str]:
    if len(text) <= limit:
        return [text] if text else []
    if not places:
        parts = (text[start : start + limit].strip() for start in range(0, len(text), limit))
        return [part for part in parts if part]
    return [part for group in _packed(text, limit, places[0]) for part in _split(group, limit, places[1:])]


def _packed(text: str, limit: int, place: re.Pattern[str]) -> list[str]:
    """Stretches of the text between cuts, each as long as fits; one that cannot fit stands alone."""
    cuts = [0, *(match.end() for match in place.finditer(text)), len(text)]
    groups: list[str] = []
    start = cuts[0]
    for previous, cut in pairwise(cuts[1:]):
        if len(text[start:cut].strip()) > limit:
            groups.append(text[start:previous].strip())
            start = previous
    groups.append(text[start:].strip())
    return [group for group in groups if group]
