"""Word lists written as plain text, so that they read as lists of words, and the words of a text."""

import re

_LETTERS = re.compile(r"[^\W\d_]+")


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Phrases separated by bars, as rows of words: "instead of | in lieu of"."""
    return tuple(tuple(phrase.split()) for phrase in text.split("|"))


def letters_of(text: str) -> frozenset[str]:
    """The words of a text in lower case, numbers and marks left out: a cheap view of what it could be about."""
    return frozenset(_LETTERS.findall(text.lower()))


MONTHS = words(
    """
    january february march april may june july august september october november december jan feb mar apr jun jul
    aug sep sept oct nov dec
    """
)
