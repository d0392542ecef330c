"""Which memories a forgetting pass asks about, once it is known which ones qualify (behaviour.md 1.16).

Two streams compete for the same memories: *singles*, memories that went stale, and *pairs* of an older and a
newer memory that may not both hold. A memory is judged at most once per run, pairs first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from .policy import PAIR_TYPES, STALE_TYPES


@dataclass(frozen=True, slots=True)
class Stale:
    """A stale memory that may be judged on its own, with its nearest newer neighbours, best first."""

    memory_id: UUID
    memory_type: str
    fresh_at: datetime
    guarded: bool = False
    """Pinned or verified (settlement 10)."""
    newer: tuple[UUID, ...] = ()
    similarity: tuple[float, ...] = ()
    """Cosine of each neighbour."""

    @property
    def askable(self) -> bool:
        """Whether there is a choice beside keep.

        Blockers and guarded memories can only come into conflict with a newer neighbour, so one without any
        is not judged (behaviour.md 1.16, settlement 10).
        """
        return bool(self.newer) or not (self.guarded or self.memory_type == "blocker")


@dataclass(frozen=True, slots=True)
class Pair:
    """An older memory and one of its nearest newer ones, of the same type, scope and project."""

    older: UUID
    newer: UUID
    memory_type: str
    older_stale: bool
    rank: int
    """Place of the newer memory among the nearest of the older one, from 1."""
    similarity: float
    """Cosine."""

    def order(self) -> tuple[bool, int, float, UUID, UUID]:
        """Sort key of settlement 7, made total by the ids."""
        return (not self.older_stale, self.rank, -self.similarity, self.older, self.newer)


@dataclass(frozen=True, slots=True)
class ChosenSingle:
    """A single that is asked about under this reference."""

    ref: str
    single: Stale


@dataclass(frozen=True, slots=True)
class ChosenPair:
    """A pair that is asked about under this reference."""

    ref: str
    pair: Pair


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one run asks: pairs in rank order, singles most stale first."""

    pairs: tuple[ChosenPair, ...]
    singles: tuple[ChosenSingle, ...]


def choose(singles: Iterable[Stale], pairs: Iterable[Pair], *, singles_cap: int, pairs_cap: int) -> Chosen:
    """The items of one run, whatever order they are given in.

    A pair that shares a memory with a better one waits for another run; a single that is part of a chosen pair
    is judged only there (A23). Singles go most stale first (A22). Types that are in neither stream are left out
    whoever offers them, so that no event and no note is ever asked about.
    """
    taken: set[UUID] = set()
    of_pairs: list[Pair] = []
    for pair in sorted(pairs, key=Pair.order):
        if len(of_pairs) == pairs_cap:
            break
        if pair.memory_type in PAIR_TYPES and pair.older != pair.newer and not {pair.older, pair.newer} & taken:
            of_pairs.append(pair)
            taken |= {pair.older, pair.newer}
    of_singles: list[Stale] = []
    for single in sorted(singles, key=lambda one: (one.fresh_at, one.memory_id)):
        if len(of_singles) == singles_cap:
            break
        if single.memory_type in STALE_TYPES and single.askable and single.memory_id not in taken:
            of_singles.append(single)
            taken.add(single.memory_id)
    return Chosen(
        tuple(ChosenPair(f"p{n}", pair) for n, pair in enumerate(of_pairs)),
        tuple(ChosenSingle(f"s{n}", single) for n, single in enumerate(of_singles)),
    )
