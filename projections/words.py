"""A memory's words as a small sparse vector: the full-text half of nearness.

Words stand as 32-bit hashes, so that what is stored of them needs no dictionary. They are derived from the text
all the same and as private as it: they live in read models only, and go when the memory goes.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

SCALE = 4_000
"""Length of a vector after scaling to whole numbers. Products of two such vectors add up to less than 2**24, so
their sums are exact in single precision whatever the order of adding: the same two memories score the same to the
last bit, alone or among thousands."""
STEM = 6
"""Letters of a word that count: a stem that needs no language. Measured in docs/reports/candidates.md."""
WORDS_PER_MEMORY = 32
"""How many of a memory's words are kept, the most telling first."""
READ_CHARACTERS = 32_768
"""The words are taken from this many first characters."""

WORD = np.dtype([("word", "<u4"), ("weight", "<u2")])
"""One stored word: its hash, and its share of the vector times `SCALE`."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts written without spaces; their runs are read as overlapping pairs of characters."""
_RUN = re.compile(f"([{_UNSPACED}]+)|([^\\W_{_UNSPACED}]+)")


def words_of(text: str) -> list[str]:
    """The words of a text in any script, compatibility forms and case folded away, cut to their first letters."""
    words: list[str] = []
    for unspaced, word in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word:
            words.append(word[:STEM])
        else:
            words += [unspaced[at : at + 2] for at in range(max(1, len(unspaced) - 1))]
    return words


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often which words occur in some memories: flat arrays, memory after memory."""

    words: NDArray[np.uint32]
    counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Number of distinct words of each memory."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> "WordCounts":
        """Count the words of these texts."""
        words: list[int] = []
        counts: list[int] = []
        lengths: list[int] = []
        for text in texts:
            found = Counter(words_of(text[:READ_CHARACTERS]))
            words += [crc32(word.encode()) for word in found]
            counts += found.values()
            lengths.append(len(found))
        return cls(np.array(words, np.uint32), np.array(counts, np.int64), np.array(lengths, np.int64))

    @classmethod
    def joined(cls, parts: Sequence["WordCounts"]) -> "WordCounts":
        """One after another."""
        if not parts:
            return cls.of([])
        return cls(
            np.concatenate([part.words for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Rarity:
    """In how many of a group's memories each word occurred when that was last counted.

    Frozen on purpose: the nearness of two memories then depends on these two alone, so that a list which is kept
    up to date equals one made anew. Counted again whenever the group is recomputed as a whole.
    """

    members: int
    words: NDArray[np.uint32]
    """Ascending."""
    occurrences: NDArray[np.uint32]

    @classmethod
    def of(cls, counted: WordCounts) -> "Rarity":
        """The statistics of these memories."""
        words, occurrences = np.unique(counted.words, return_counts=True)
        return cls(len(counted.lengths), words, occurrences.astype(np.uint32))

    def vectors(self, counted: WordCounts) -> list[bytes]:
        """Each memory's words as a `WORD` array in bytes: (1 + ln tf) · idf, of length `SCALE`."""
        place = np.searchsorted(self.words, counted.words)
        place[place == len(self.words)] = 0
        known = self.words[place] == counted.words if len(self.words) else np.zeros(len(place), bool)
        occurred = np.where(known, self.occurrences[place] if len(self.words) else 0, 0).astype(np.float64)
        idf = np.log1p((self.members - occurred + 0.5) / (occurred + 0.5))
        # Whole numbers from here on, so that no result hangs on the order in which it is added up.
        weights = np.rint((1 + np.log(counted.counts)) * idf * 1_000).astype(np.int64)
        owners = np.repeat(np.arange(len(counted.lengths)), counted.lengths)
        order = np.lexsort((counted.words, -weights, owners))
        starts = np.cumsum(counted.lengths) - counted.lengths
        order = order[np.arange(len(order)) - starts[owners] < WORDS_PER_MEMORY]
        owners, weights, words = owners[order], weights[order], counted.words[order]
        squares = np.zeros(len(counted.lengths), np.int64)
        np.add.at(squares, owners, weights**2)
        kept = np.empty(len(order), WORD)
        kept["word"] = words
        kept["weight"] = np.rint(SCALE * weights / np.sqrt(np.maximum(squares, 1))[owners])
        ends = np.cumsum(np.minimum(counted.lengths, WORDS_PER_MEMORY)).tolist()
        return [kept[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False)]
