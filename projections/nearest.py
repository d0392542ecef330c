"""Which newer memories of a group are nearest to each of its memories: arrays only, no database.

Nearness of two memories = cosine of their vectors + `TEXT_WEIGHT` · cosine of their words. It depends on nothing
but the two of them, it is the same in both directions, and it is computed in whole numbers (`words.SCALE`), so it
is the same to the last bit however the work is cut into blocks. Ties go to the newer memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .words import SCALE, WORD

TEXT_WEIGHT = 2
"""Weight of the words beside the vector, whose own weight is 1; measured in docs/reports/candidates.md."""
BLOCK_CELLS = 2_000_000
"""Scores held at once; bounds the memory of a group of any size to some 150 MB beside its vectors."""

Places = NDArray[np.int64]
"""Indices into a group's members."""
Scores = NDArray[np.int64]

_NOWHERE = -1
_LOWEST = np.iinfo(np.int64).min
_PLACES = 1 << 24
"""More than any group has members: score and place share one sortable number."""


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
        self, vectors: Sequence[bytes | None], words: Sequence[bytes], projects: Sequence[int] | NDArray[np.int64]
    ) -> None:
        self.size = len(words)
        self.projects = np.asarray(projects, np.int64)
        self.one_project = self.size == 0 or bool((self.projects == self.projects[0]).all())
        self._raw = _halves(vectors)
        wide = self._raw.astype(np.float32)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        self._whole = np.rint(wide * (SCALE / np.where(lengths > 0, lengths, 1))).astype(np.float32)
        entries = np.frombuffer(b"".join(words), WORD)
        lengths_of = np.array([len(each) // WORD.itemsize for each in words], np.int64)
        self._starts = np.concatenate([[0], np.cumsum(lengths_of)])
        terms, term_of = np.unique(entries["word"], return_inverse=True)
        order = np.argsort(term_of, kind="stable")
        self._term_of = term_of
        self._weights = entries["weight"].astype(np.float64)
        self._posted = np.repeat(np.arange(self.size), lengths_of)[order]
        self._posted_weights = self._weights[order]
        self._frequency = np.bincount(term_of, minlength=len(terms))
        self._posting_starts = np.cumsum(self._frequency) - self._frequency

    def blocks(self, rows: Places) -> Iterator[Places]:
        """The rows in portions whose scores fit into memory."""
        at_once = max(1, BLOCK_CELLS // max(1, self.size))
        for start in range(0, len(rows), at_once):
            yield rows[start : start + at_once]

    def scores(self, rows: Places) -> Scores:
        """Nearness of these members to every member; shape (len(rows), size)."""
        cosines = self._whole[rows] @ self._whole.T
        return cosines.astype(np.int64) + TEXT_WEIGHT * self._text_scores(rows)

    def nearest_newer(self, rows: Places, scores: Scores, count: int, *, same_project: bool) -> Lists:
        """The ``count`` nearest newer members of each of these rows, by their `scores`."""
        places = np.arange(self.size)
        allowed = places > rows[:, None]
        if same_project and not self.one_project:
            allowed &= self.projects == self.projects[rows, None]
        keys = np.where(allowed, scores * _PLACES + places, _LOWEST)
        most = min(count, self.size)
        if 0 < most < self.size:
            best = np.argpartition(keys, self.size - most, axis=1)[:, self.size - most :]
        else:
            best = np.broadcast_to(places[:most], (len(rows), most))
        best_keys = np.take_along_axis(keys, best, axis=1)
        order = np.argsort(-best_keys, axis=1)
        best, best_keys = np.take_along_axis(best, order, axis=1), np.take_along_axis(best_keys, order, axis=1)
        found = best_keys != _LOWEST
        return Lists(
            _padded(np.where(found, best, _NOWHERE), count),
            _padded(np.where(found, np.take_along_axis(scores, best, axis=1), 0), count),
        )

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

    def _text_scores(self, rows: Places) -> Scores:
        total = np.zeros((len(rows), self.size), np.int64)
        per_row = np.array([self._frequency[self._terms(row)].sum() for row in rows], np.int64)
        begin = 0
        while begin < len(rows):
            sums = np.cumsum(per_row[begin:])
            end = begin + max(1, int(np.searchsorted(sums, BLOCK_CELLS, side="right")))
            total[begin:end] = self._text_scores_of(rows[begin:end])
            begin = end
        return total

    def _terms(self, row: np.int64) -> NDArray[np.int64]:
        return self._term_of[self._starts[row] : self._starts[row + 1]]

    def _text_scores_of(self, rows: Places) -> Scores:
        lengths = self._starts[rows + 1] - self._starts[rows]
        entries = np.arange(lengths.sum()) + np.repeat(
            self._starts[rows] - (np.cumsum(lengths) - lengths), lengths
        )
        terms = self._term_of[entries]
        counts = self._frequency[terms]
        postings = np.arange(counts.sum()) + np.repeat(
            self._posting_starts[terms] - (np.cumsum(counts) - counts), counts
        )
        line = np.repeat(np.repeat(np.arange(len(rows)), lengths), counts)
        products = np.repeat(self._weights[entries], counts) * self._posted_weights[postings]
        cells = np.bincount(line * self.size + self._posted[postings], products, len(rows) * self.size)
        return cells.reshape(len(rows), self.size).astype(np.int64)


def _halves(vectors: Sequence[bytes | None]) -> NDArray[np.float16]:
    """halfvec_send: dimensions and a spare field of 16 bits each, then the halves, all big-endian."""
    present = next((each for each in vectors if each is not None), None)
    if present is None:
        return np.zeros((len(vectors), 1), np.float16)
    nothing = bytes(len(present) - 4)
    joined = b"".join(nothing if each is None else each[4:] for each in vectors)
    return np.frombuffer(joined, ">f2").reshape(len(vectors), -1).astype(np.float16)


def _padded(rows: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    missing = count - rows.shape[1]
    return rows if missing <= 0 else np.pad(rows, ((0, 0), (0, missing)), constant_values=_NOWHERE)


def merged(owners: Places, places: Places, scores: Scores, count: int) -> tuple[Places, Places, Scores]:
    """The best ``count`` entries of each owner out of these, sorted by owner, best first."""
    order = np.lexsort((-places, -scores, owners))
    owners, places, scores = owners[order], places[order], scores[order]
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(owners)]]))
    kept = np.arange(len(owners)) - np.repeat(starts, lengths) < count
    return owners[kept], places[kept], scores[kept]
