"""Ranking by words, fusing two rankings, and how sure a measured share is."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
"""One number per document; the higher, the nearer."""


class Lexical:
    """BM25 over words in lower case, k1 = 1.2 and b = 0.75."""

    def __init__(self, texts: Sequence[str]) -> None:
        bags = [Counter(_words(text)) for text in texts]
        self._lengths = np.array([bag.total() for bag in bags], dtype=np.float64)
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, bag in enumerate(bags):
            for word, count in bag.items():
                postings[word].append((place, count))
        self._postings = postings

    def scores(self, query: str) -> Scores:
        total = np.zeros(len(self._lengths))
        norms = 1.2 * (0.25 + 0.75 * self._lengths / self._lengths.mean())
        for word in _words(query):
            hits = self._postings.get(word)
            if not hits:
                continue
            places = np.array([place for place, _ in hits])
            counts = np.array([count for _, count in hits], dtype=np.float64)
            rarity = math.log(1 + (len(total) - len(hits) + 0.5) / (len(hits) + 0.5))
            total[places] += rarity * counts * 2.2 / (counts + norms[places])
        return total


def fused(by_vector: Scores, by_words: Scores) -> Scores:
    """Reciprocal rank fusion with k = 60; of two that come out equal, the one nearer by vector stands first."""
    total = np.zeros(len(by_vector))
    for scores, weight in ((by_vector, 1 + 1e-9), (by_words, 1.0)):
        ranks = np.empty(len(scores))
        ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
        total += weight / (60 + ranks)
    return total


def sign_test(only_first: int, only_second: int) -> float:
    """Two-sided probability of a split at least as uneven, were both equally good."""
    n, few = only_first + only_second, min(only_first, only_second)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(few + 1)) / 2**n)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
