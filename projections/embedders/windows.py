"""Text longer than a model's window: cut into overlapping windows, each embedded, then pooled. Nothing is dropped.

The rule, version ``RULE``: as few windows as fit, of equal length, evenly spread, neighbours sharing at least an
eighth of the size. The vector of the text is the mean of the windows' unit vectors, each weighing as much as it
is long, scaled to length 1. Sizes are counted in the model's tokens, or, where its tokenizer is out of reach, in
bytes of UTF-8: a token is at least one byte, so a window of n bytes is never more than n tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .port import unit

RULE = "windows1"
"""Version of the rule above; part of the ``model`` of every embedder that has a window."""

_SHARED = 8
"""Neighbours share one part in so many."""


def spans(length: int, size: int) -> list[tuple[int, int]]:
    """Half-open spans of at most ``size`` that cover 0…length, both counted in the same unit."""
    if length <= size:
        return [(0, length)]
    overlap = size // _SHARED
    count = -(-(length - overlap) // (size - overlap))
    width = -(-(length + (count - 1) * overlap) // count)
    starts = [index * (length - width) // (count - 1) for index in range(count)]
    return [(start, start + width) for start in starts]


def slices(text: str, costs: NDArray[np.int64], size: int) -> list[tuple[str, int]]:
    """The text in windows that cost at most ``size``, each with its cost.

    ``costs`` says what each character costs, shape (len(text),); one of 0 belongs to the character before it. A
    cut is moved to white space where there is some within half the overlap, so that words stay whole and
    neighbours still meet.
    """
    ends = np.cumsum(costs)
    total = int(ends[-1]) if len(text) else 0
    if total <= size:
        return [(text, total)]
    reach = size // _SHARED // 2
    found: list[tuple[str, int]] = []
    for start, end in spans(total, size):
        first, last = _first_from(ends, costs, start), int(np.searchsorted(ends, end, side="right"))
        if start:
            first = _after_space(text, first, _first_from(ends, costs, start + reach))
        if end < total:
            last = _before_space(text, last, int(np.searchsorted(ends, end - reach, side="right")))
        found.append((text[first:last], int(costs[first:last].sum())))
    return found


def utf8_costs(text: str) -> NDArray[np.int64]:
    """Bytes of UTF-8 per character; shape (len(text),)."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    return 1 + (points > 0x7F).astype(np.int64) + (points > 0x7FF) + (points > 0xFFFF)


def pooled(vectors: Sequence[NDArray[np.floating[Any]]], lengths: Sequence[int]) -> NDArray[np.float64]:
    """The vector of a text by those of its windows; not yet of length 1. One window is taken as it is."""
    if len(vectors) == 1:
        return np.asarray(vectors[0], dtype=np.float64)
    total = np.zeros(vectors[0].shape, dtype=np.float64)
    for vector, length in zip(vectors, lengths, strict=True):
        total += length * unit(vector).astype(np.float64)
    return total


def _first_from(ends: NDArray[np.int64], costs: NDArray[np.int64], start: int) -> int:
    """The first character that begins at ``start`` or after: one that begins before would exceed the window."""
    place = int(np.searchsorted(ends, start, side="right"))
    return place + int(ends[place] - costs[place] < start)


def _after_space(text: str, start: int, limit: int) -> int:
    """The first place from ``start`` up to ``limit`` where a word begins, else ``start``."""
    for place in range(start, limit):
        if text[place - 1].isspace():
            return place
    return start


def _before_space(text: str, end: int, limit: int) -> int:
    """The last place from ``end`` down to ``limit`` where a word ends, else ``end``."""
    for place in range(end, limit, -1):
        if text[place].isspace():
            return place
    return end
