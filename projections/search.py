"""Search over live memory: legs gather candidates, the fusion ranks them (behaviour.md 1.11).

The vector leg is exact for whoever has few rows under the filter and uses the HNSW index above that: an
index scan under a narrow filter silently returns next to nothing (engine-notes 7). What is few is the planner's
guess; an index that brings too little is not believed.

A search is two round trips: the candidates with no more than ranking asks (`legs`), and the rows of the best.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from psycopg import AsyncCursor

from ..domain import ranking
from ..domain.ranking import PRODUCT_WEIGHTS, Legs, Weights
from ..streams.arrays import UuidArray
from ..streams.database import Connection, Doors
from .embedders import Embedder
from .estimates import Estimates
from .filters import MemoryFilter
from .generations import read_at_once
from .half_vector import HalfVector
from .legs import Asked, Candidate, gather, too_little
from .rows import MEMORY_COLUMNS, MemoryRow, memory_row

EXACT_UP_TO = 10_000
"""Rows under the filter up to which every vector is compared, and nothing is missed."""
INDEX_SHARE = 0.25
"""Share of the whole table from which on the index is used above that: under a narrower filter it misses much."""
Rows = AsyncCursor[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the memory, its score, and what each leg said."""

    row: MemoryRow
    score: float
    legs: Legs


class Search:
    """Runs searches against the current read models, or those in the schema ``scratch``."""

    def __init__(
        self,
        doors: Doors,
        embedder: Embedder,
        *,
        scratch: str | None = None,
        exact_up_to: int = EXACT_UP_TO,
        index_share: float = INDEX_SHARE,
    ) -> None:
        self._doors = doors
        self._embedder = embedder
        self._scratch = scratch
        self._exact_up_to = exact_up_to
        self._index_share = index_share
        self._estimates = Estimates(doors, scratch)

    async def search(
        self, query: str, matching: MemoryFilter, limit: int, weights: Weights = PRODUCT_WEIGHTS
    ) -> list[Hit]:
        """The best ``limit`` memories, score descending, then id ascending."""
        asked = Asked(
            query=query,
            vector=await self._vector(query) if weights.vector else None,
            model=self._embedder.model,
            matching=matching,
            pool=ranking.pool_size(limit),
            weights=weights,
        )
        if asked.vector is not None:
            asked = replace(asked, indexed=await self._indexed(matching))
        async with self._reading(matching, asked.settings()) as connection:
            legs = _legs(asked, await self._candidates(connection, asked))
            best = ranking.ranked((one, ranking.score(said, weights)) for one, said in legs.items())
            loading = await self._load(connection, [one for one, _ in best[:limit]], matching)
        rows = await _by_id(loading)
        if len(rows) < min(limit, len(best)):
            # Some were hidden or moved since they were found; the next ones take their place.
            async with self._reading(matching) as connection:
                loading = await self._load(connection, [one for one, _ in best], matching)
            rows = await _by_id(loading)
        return [Hit(rows[one], score, legs[one]) for one, score in best if one in rows][:limit]

    def _reading(
        self, matching: MemoryFilter, settings: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[Connection]:
        return read_at_once(self._doors, matching.tenant, scratch=self._scratch, settings=settings)

    async def _vector(self, query: str) -> HalfVector:
        embed = self._embedder.embed
        [vector] = embed([query]) if self._embedder.quick else await asyncio.to_thread(embed, [query])
        return HalfVector(vector)

    async def _indexed(self, matching: MemoryFilter) -> frozenset[str]:
        """The tables whose vectors to ask the index for."""
        return frozenset([table for table in matching.as_of.tables if not await self._few(matching, table)])

    async def _few(self, matching: MemoryFilter, table: str) -> bool:
        """Whether to compare every vector under the filter: they are few, or a small share of the table."""
        if (await self._estimates.of_tenant(matching, table)).rows <= self._exact_up_to:
            return True
        kept = await self._estimates.of_filter(matching, table)
        return kept.rows <= self._exact_up_to or kept.rows < self._index_share * kept.table

    async def _candidates(self, connection: Connection, asked: Asked) -> list[Candidate]:
        statement = asked.statement()
        if statement is None:
            return []
        cursor = await connection.execute(statement, asked.values())
        rows = await cursor.fetchall()
        if disbelieved := too_little(asked, rows):
            return await self._candidates(connection, replace(asked, indexed=asked.indexed - disbelieved))
        return gather(asked, rows)

    async def _load(self, connection: Connection, found: Sequence[UUID], matching: MemoryFilter) -> Rows:
        # The whole filter again: a memory may have been hidden or moved since its leg found it.
        return await connection.execute(
            f"select {MEMORY_COLUMNS} from {matching.as_of.source} "
            f"where memory_id = any(%(found)s) and {matching.where()}",
            {**matching.values(), "found": UuidArray(found)},
        )


async def _by_id(loading: Rows) -> Mapping[UUID, MemoryRow]:
    return {row.memory_id: row for row in map(memory_row, await loading.fetchall())}


def _legs(asked: Asked, candidates: Sequence[Candidate]) -> dict[UUID, Legs]:
    """What the legs say about each candidate."""
    weights, now = asked.weights, asked.matching.as_of.now
    ranks = {one.memory_id: one.rank for one in candidates if one.rank is not None}
    normalised = ranking.normalise_text_ranks(ranks)
    return {
        one.memory_id: Legs(
            text=normalised.get(one.memory_id, 0.0) if ranks else 0.0,
            vector=ranking.vector_score(one.distance) if weights.vector else 0.0,
            topic=ranking.topic_score(asked.query, one.topic) if weights.topic else 0.0,
            age_days=ranking.age_in_days(one.recorded_at, now),
            closed=one.closed,
        )
        for one in candidates
    }
