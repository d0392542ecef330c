"""Vectors for text a model does not know: hashed character n-grams.

A vocabulary ends somewhere. Ethiopic, emoji or a rare ideograph reach a model as one "unknown" token or as bare
bytes, so that everything written in them looks alike; and a fixed vector for such text would make unrelated
memories perfect duplicates. Here two unknown texts are as similar as the letters they share, and in expectation
orthogonal to everything else. That is spelling, not meaning.
"""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .port import unit

RULE = "chars1"
"""Version of the rules below; part of the ``model`` of every embedder that uses them."""

_CHUNK = 4096
"""N-grams expanded at a time: bounds the memory that a long text takes."""
_EDGE = "\U0010ffff"
"""Stands before, between and after words; a code point that Unicode promises never to give a character."""
_LETTERS_PER_TOKEN = 4
"""An English token is about four letters long."""


def character_vector(words: Sequence[str], dimensions: int) -> NDArray[np.float32]:
    """The unit vector of words by their character 1-, 2- and 3-grams, case folded; shape (dimensions,).

    Each n-gram has a direction of its own, a corner of the cube that its hash chooses; the text adds up those of
    its n-grams, each weighing the square root of its count. Deterministic, and up to rounding the same on every
    machine. No words, or only empty ones, give one fixed vector: all blank texts are the same text.
    """
    features, counts = np.unique(_features(words), return_counts=True)
    total = np.zeros(dimensions, dtype=np.float64)
    for start in range(0, len(features), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += np.sqrt(counts[part]) @ _corners(features[part], dimensions)
    if not total.any():
        # Two n-grams with opposite corners and nothing else: hardly ever, but possible. One speaks for both then.
        total = _corners(features[:1], dimensions)[0]
    return unit(total)


def blended(
    known: NDArray[np.floating[Any]], tokens: int, unknown: Sequence[str], dimensions: int
) -> NDArray[np.float32]:
    """The unit vector of a text of which a model knows a part; shape (dimensions,).

    ``known`` is the model's vector, of any length, of the ``tokens`` tokens that it knows; ``unknown`` are the
    words that it does not. Both sides weigh by their number of tokens, an unknown word counting as one per four
    characters begun: so three emoji hardly move a sentence, and a lone English word does not decide what an
    Amharic text is about.
    """
    missing = sum(-(-len(word) // _LETTERS_PER_TOKEN) for word in unknown)
    length = float(np.linalg.norm(known))
    if not tokens or not length:
        return character_vector(unknown, dimensions)
    if not missing:
        return unit(known)
    mixture = (tokens / length) * np.asarray(known, dtype=np.float64)
    return unit(mixture + missing * character_vector(unknown, dimensions).astype(np.float64))


def _features(words: Sequence[str]) -> NDArray[np.uint64]:
    """One 64-bit hash per n-gram within a word; of n-grams that touch an edge, those of 2 and 3 characters."""
    text = _EDGE + _EDGE.join(word for word in words if word) + _EDGE
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = np.frombuffer(folded.encode("utf-32-le"), dtype="<u4").astype(np.uint64)
    edge = letters == ord(_EDGE)
    within = (~edge, ~(edge[:-1] & edge[1:]), ~edge[1:-1])
    found: list[NDArray[np.uint64]] = []
    for length, kept in enumerate(within, start=1):
        state = np.full(len(kept), length, dtype=np.uint64)
        for offset in range(length):
            state = _mixed(state ^ letters[offset : offset + len(kept)])
        found.append(state[kept])
    features = np.concatenate(found)
    return features if len(features) else _mixed(letters[:1])


def _corners(features: NDArray[np.uint64], dimensions: int) -> NDArray[np.float64]:
    """A pseudo-random vector of −1 and 1 for each hash; shape (len(features), dimensions)."""
    words = np.arange(1, -(-dimensions // 64) + 1, dtype=np.uint64)
    bits = _mixed(features[:, None] ^ _mixed(words)[None, :]).astype("<u8")
    signs = np.unpackbits(bits.view(np.uint8), axis=1)[:, :dimensions]
    return signs.astype(np.float64) * 2 - 1


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 step: each bit of the input moves about half of the bits of the output."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
