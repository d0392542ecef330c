"""Vectors for text a model does not know: hashed character n-grams.

A vocabulary ends somewhere. Ethiopic, emoji or a rare ideograph reach a model as one "unknown" token or as bare bytes,
so that everything written in them would look alike; a fixed vector for such text would make unrelated memories
perfect duplicates. Here two unknown texts are as similar as the letters they share, and in expectation orthogonal to
everything else. That is spelling, not meaning, and it is honest about it.
"""

import unicodedata

import numpy as np
from numpy.typing import NDArray

from .port import unit

RULE = "chars1"
"""Version of the rule below; part of the ``model`` of every embedder that uses it."""

_LENGTHS = (1, 2, 3)
_PLACES = 4
_EDGE = 0x110000
"""Marks the start and end of a word; one past the last code point, so no text contains it."""


def character_vector(words: list[str], dimensions: int) -> NDArray[np.float32]:
    """The unit vector of some words by their character 1-, 2- and 3-grams, case folded; shape (dimensions,).

    Deterministic, the same on every machine. No words, or only empty ones, give one fixed vector: all blank texts are
    the same text.
    """
    features = np.concatenate([_features(_folded(word)) for word in words or [""]])
    total = np.zeros(dimensions, dtype=np.float64)
    for place in range(_PLACES):
        part = (features >> np.uint64(16 * place)) & np.uint64(0xFFFF)
        sign = np.where(part & np.uint64(1), 1.0, -1.0)
        total += np.bincount(
            (part >> np.uint64(1)).astype(np.int64) % dimensions, weights=sign, minlength=dimensions
        )
    if not total.any():
        # Opposite signs met at every place: possible, if hardly ever. One place stands for the whole text then.
        total[int(features.sum() % np.uint64(dimensions))] = 1.0
    return unit(total)


def blended(
    known: NDArray[np.floating], tokens: float, unknown: list[str], dimensions: int
) -> NDArray[np.float32]:
    """The unit vector of a text of which a model knows only a part.

    ``known`` is the model's vector (any length but 0) of ``tokens`` tokens it knows; ``unknown`` are the words it does
    not. Each side weighs as many tokens as it has, an unknown character counting as one, so that one emoji does not
    move a sentence and one English word does not decide an Amharic text.
    """
    characters = sum(map(len, unknown))
    length = float(np.linalg.norm(known))
    if not characters and length > 0:
        return unit(known)
    if not tokens or length == 0:
        return character_vector(unknown, dimensions)
    mixture = (tokens / length) * np.asarray(known, dtype=np.float64)
    return unit(mixture + characters * character_vector(unknown, dimensions).astype(np.float64))


def _folded(word: str) -> NDArray[np.uint64]:
    letters = unicodedata.normalize("NFKC", word.casefold())
    return np.array([_EDGE, *map(ord, letters), _EDGE], dtype=np.uint64)


def _features(letters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One 64-bit hash per n-gram. Single characters are taken without the edges, which every word has."""
    found: list[NDArray[np.uint64]] = []
    for length in _LENGTHS:
        source = letters[1:-1] if length == 1 else letters
        count = len(source) - length + 1
        if count < 1:
            continue
        state = np.full(count, length, dtype=np.uint64)
        for offset in range(length):
            state = _mixed(state ^ source[offset : offset + count])
        found.append(state)
    return np.concatenate(found)


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser: every bit of the input moves about half of the bits of the output."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
