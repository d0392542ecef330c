"""Which newer memories of a group are nearest to each of its memories: arrays only, no database.

Nearness of two memories is a weighted sum of the cosine of their vectors and the cosine of their words
(`Weights`). It depends on nothing but the two of them, it is the same in both directions, and it is computed in
whole numbers (`words.SCALE`): the same to the last bit however the work is cut into blocks. Ties go to the newer
memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .words import SCALE, WORD

BLOCK_CELLS = 2_000_000
"""Scores held at once; bounds the memory of a group of any size to some 150 MB beside its vectors."""
_PLACE_BITS = 20
MOST_MEMBERS = (1 << _PLACE_BITS) - 1
"""Largest group; a place in it shares a number with a score, or with a word and its weight."""

Places = NDArray[np.int64]
"""Indices into a group's members."""
Scores = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """What the two halves of nearness count. Whole numbers, together below 100."""

    vector: int
    words: int


PRODUCT_WEIGHTS = Weights(vector=1, words=2)
"""Chosen on real supersessions, against each half alone and reciprocal rank fusion: docs/reports/candidates.md."""

_WEIGHT_BITS = 12
_NOWHERE = -1
_LOWEST = int(np.iinfo(np.int32).min)


@dataclass(frozen=True, slots=True)
class Lists:
    """The nearest of some members, best first; one row per member, place -1 where there are no more."""

    places: Places
    scores: Scores

    def head(self, count: int) -> "Lists":
        """The first ``count`` of every list."""
        return Lists(self.places[:, :count], self.scores[:, :count])

    @classmethod
    def stacked(cls, parts: Sequence["Lists"], count: int) -> "Lists":
        """The lists of all parts, one after another; each of length ``count``."""
        nothing = np.empty((0, count), np.int64)
        return cls(
            np.concatenate([nothing, *(part.places for part in parts)]),
            np.concatenate([nothing, *(part.scores for part in parts)]),
        )


class Group:
    """Members of one type and scope, in order of (occurred_at, memory_id): whatever stands later is newer.

    ``vectors`` are halfvec values as sent, None where a memory has no vector yet: such a one is compared by its
    words alone, and its similarity is 0. ``projects`` are numbers, equal exactly where the projects are.
    """

    def __init__(
        self,
        vectors: Sequence[bytes | None],
        words: Sequence[bytes],
        projects: Sequence[int],
        weights: Weights = PRODUCT_WEIGHTS,
    ) -> None:
        self.size = len(words)
        if self.size > MOST_MEMBERS:
            raise ValueError(f"a group of {self.size} members; at most {MOST_MEMBERS} can be compared")
        self._counts = weights
        self.projects = np.asarray(projects, np.int64)
        self.one_project = self.size == 0 or bool((self.projects == self.projects[0]).all())
        self._raw = _halves(vectors)
        wide = self._raw.astype(np.float32)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        self._whole = np.rint(wide * (SCALE / np.where(lengths > 0, lengths, 1))).astype(np.float32)
        entries: NDArray[Any] = np.frombuffer(b"".join(words), WORD)
        lengths_of = np.array([len(each) // WORD.itemsize for each in words], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(lengths_of)])
        self._words, self._weights = entries["word"], entries["weight"]
        # Sorting one number per entry is many times faster than sorting places by words.
        packed = self._words.astype(np.uint64) << (_PLACE_BITS + _WEIGHT_BITS)
        packed |= np.repeat(np.arange(self.size, dtype=np.uint64), lengths_of) << _WEIGHT_BITS
        packed |= self._weights
        packed.sort()
        self._posted = ((packed >> _WEIGHT_BITS) & MOST_MEMBERS).astype(np.int64)
        self._posted_weights = (packed & ((1 << _WEIGHT_BITS) - 1)).astype(np.float64)
        self._postings = packed >> _WEIGHT_BITS

    def blocks(self, rows: Places) -> Iterator[Places]:
        """The rows in portions whose scores fit into memory."""
        at_once = max(1, BLOCK_CELLS // max(1, self.size))
        for start in range(0, len(rows), at_once):
            yield rows[start : start + at_once]

    def scores(self, rows: Places, first: int = 0) -> NDArray[np.int32]:
        """Nearness of these members to every member from place ``first`` on."""
        cosines = self._whole[rows] @ self._whole[first:].T
        return self._counts.vector * cosines.astype(np.int32) + self._counts.words * self._text_scores(rows, first)

    def nearest_newer(
        self, rows: Places, scores: NDArray[np.int32], count: int, *, first: int, same_project: bool
    ) -> Lists:
        """The ``count`` nearest newer members of each of these rows, by their `scores` from place ``first`` on."""
        places = np.arange(first, self.size)
        allowed = places > rows[:, None]
        if same_project and not self.one_project:
            allowed &= self.projects[first:] == self.projects[rows, None]
        # One number for score and place: no two are equal, however many scores are.
        keys = np.where(allowed, scores, _LOWEST).astype(np.int64) << _PLACE_BITS
        keys |= places
        if not count:
            keys = keys[:, :0]
        elif count < len(places):
            keys = np.partition(keys, -count, axis=1)[:, -count:]
        keys = np.sort(keys, axis=1)[:, ::-1]
        keys = np.pad(keys, ((0, 0), (0, count - keys.shape[1])), constant_values=_LOWEST << _PLACE_BITS)
        best = keys >> _PLACE_BITS
        found = best != _LOWEST
        return Lists(np.where(found, keys & MOST_MEMBERS, _NOWHERE), np.where(found, best, 0))

    def similarities(self, rows: Places, others: Places) -> NDArray[np.float64]:
        """Cosine of each row with the other at the same index, to six digits; 0 where one has no vector."""
        found = np.zeros(len(rows))
        at_once = max(1, BLOCK_CELLS // max(1, self._raw.shape[1]))
        for start in range(0, len(rows), at_once):
            a = self._raw[rows[start : start + at_once]].astype(np.float64)
            b = self._raw[others[start : start + at_once]].astype(np.float64)
            lengths = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
            found[start : start + at_once] = (a * b).sum(axis=1) / np.where(lengths > 0, lengths, 1)
        return np.round(found, 6)

    def _text_scores(self, rows: Places, first: int) -> NDArray[np.int32]:
        total = np.zeros((len(rows), self.size - first), np.int32)
        lengths = self._starts[rows + 1] - self._starts[rows]
        entries = _spans(self._starts[rows], lengths)
        keys = self._words[entries].astype(np.uint64) << _PLACE_BITS
        starts = np.searchsorted(self._postings, keys + np.uint64(first))
        counts = np.searchsorted(self._postings, keys + np.uint64(self.size)) - starts
        weights = self._weights[entries].astype(np.float64)
        line = np.repeat(np.arange(len(rows)), lengths)
        # In portions of whole rows: a word that many share has as many postings for each of them.
        upto = np.concatenate([[0], np.cumsum(counts)])[np.concatenate([[0], np.cumsum(lengths)])]
        begin = 0
        while begin < len(rows):
            end = max(begin + 1, int(np.searchsorted(upto, upto[begin] + BLOCK_CELLS, side="right")) - 1)
            span = slice(*np.searchsorted(line, [begin, end]).tolist())
            postings = _spans(starts[span], counts[span])
            cells = (line[span] - begin) * total.shape[1] - first
            products = np.repeat(weights[span], counts[span]) * self._posted_weights[postings]
            sums = np.bincount(
                np.repeat(cells, counts[span]) + self._posted[postings], products, (end - begin) * total.shape[1]
            )
            total[begin:end] = sums.reshape(end - begin, -1)
            begin = end
        return total


def _spans(starts: Places, lengths: Places) -> Places:
    """The numbers start, start + 1, … of every span, one span after another."""
    ends = np.cumsum(lengths)
    return np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)


def _halves(vectors: Sequence[bytes | None]) -> NDArray[np.float16]:
    """halfvec_send: dimensions and a spare field of 16 bits each, then the halves, all big-endian."""
    present = next((each for each in vectors if each is not None), None)
    if present is None:
        return np.zeros((len(vectors), 1), np.float16)
    nothing = bytes(len(present) - 4)
    joined = b"".join(nothing if each is None else each[4:] for each in vectors)
    return np.frombuffer(joined, ">f2").reshape(len(vectors), -1).astype(np.float16)


def merged(owners: Places, places: Places, scores: Scores, count: int) -> tuple[Places, Places, Scores]:
    """The best ``count`` entries of each owner out of these, sorted by owner, best first."""
    order = np.lexsort((-places, -scores, owners))
    owners, places, scores = owners[order], places[order], scores[order]
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(owners)]]))
    kept = np.arange(len(owners)) - np.repeat(starts, lengths) < count
    return owners[kept], places[kept], scores[kept]


@dataclass(frozen=True, slots=True)
class Entering:
    """New members that may enter lists of older ones, the owners."""

    owners: Places
    places: Places
    scores: Scores

    @classmethod
    def joined(cls, parts: Sequence["Entering"]) -> "Entering":
        """All of them."""
        nothing = np.empty(0, np.int64)
        return cls(
            np.concatenate([nothing, *(part.owners for part in parts)]),
            np.concatenate([nothing, *(part.places for part in parts)]),
            np.concatenate([nothing, *(part.scores for part in parts)]),
        )


@dataclass(frozen=True, slots=True)
class Found:
    """New lists of some members, and what enters the lists of the others."""

    pair: Lists
    single: Lists
    into_pair: Entering
    into_single: Entering


@dataclass(frozen=True, slots=True)
class Newcomers:
    """Members new to a group, and per member of it the score with which they may enter its lists.

    That is the score of a list's last entry, or any for a list that is not full. At equal score the newer memory
    wins, which merging tells.
    """

    places: Places
    pair_bound: Scores
    single_bound: Scores


def find(
    group: Group, rows: Places, pair_count: int, single_count: int, newcomers: Newcomers | None = None
) -> Found:
    """The lists of ``rows``, which ascend, and how newcomers enter the lists of the other members.

    Pair lists are of the same project, single lists of any. Newcomers are among the rows.
    """
    pairs: list[Lists] = []
    singles: list[Lists] = []
    into_pair: list[Entering] = []
    into_single: list[Entering] = []
    untouched = np.ones(group.size, bool)
    untouched[rows] = False
    for block in group.blocks(rows):
        new = np.isin(block, () if newcomers is None else newcomers.places)
        first = 0 if new.any() else int(block[0]) + 1
        scores = group.scores(block, first)
        if group.one_project:
            most = max(pair_count, single_count)
            both = group.nearest_newer(block, scores, most, first=first, same_project=False)
            pairs.append(both.head(pair_count))
            singles.append(both.head(single_count))
        else:
            pairs.append(group.nearest_newer(block, scores, pair_count, first=first, same_project=True))
            singles.append(group.nearest_newer(block, scores, single_count, first=first, same_project=False))
        if newcomers is not None and new.any():
            entrants, scores = block[new], scores[new]
            older = (np.arange(group.size) < entrants[:, None]) & untouched
            into_single.append(_entering(entrants, scores, older & (scores >= newcomers.single_bound)))
            if pair_count:
                older &= group.projects == group.projects[entrants, None]
                into_pair.append(_entering(entrants, scores, older & (scores >= newcomers.pair_bound)))
    return Found(
        Lists.stacked(pairs, pair_count),
        Lists.stacked(singles, single_count),
        Entering.joined(into_pair),
        Entering.joined(into_single),
    )


def _entering(entrants: Places, scores: NDArray[np.int32], where: NDArray[np.bool_]) -> Entering:
    at, owners = np.nonzero(where)
    return Entering(owners, entrants[at], scores[at, owners].astype(np.int64))
