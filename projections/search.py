"""Search over live memory: legs gather candidates, the fusion ranks them (behaviour.md 1.11).

The vector leg is exact for whoever has few rows under the filter and uses the HNSW index above that: an
index scan under a narrow filter silently returns next to nothing (engine-notes 7).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..domain import ranking
from ..domain.ranking import PRODUCT_WEIGHTS, Legs, Weights
from ..streams.database import Connection, Database
from .embedders import Embedder
from .filters import CLOSED, MemoryFilter
from .projection import LIVE_SCHEMA
from .rows import MEMORY_COLUMNS, MemoryRow, memory_row

EXACT_UP_TO = 5_000
"""Rows under the filter up to which every vector is compared; measured in docs/reports and engine-notes 7."""
HNSW_EF_SEARCH = 200


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: the memory, its score, and what each leg said."""

    row: MemoryRow
    score: float
    legs: Legs


class Search:
    """Runs searches against one set of read models."""

    def __init__(
        self, database: Database, embedder: Embedder, *, schema: str = LIVE_SCHEMA, exact_up_to: int = EXACT_UP_TO
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._schema = schema
        self._exact_up_to = exact_up_to

    async def search(
        self, query: str, matching: MemoryFilter, limit: int, weights: Weights = PRODUCT_WEIGHTS
    ) -> list[Hit]:
        """The best ``limit`` memories, score descending, then id ascending."""
        vector: str | None = None
        if weights.vector:
            embedded = await asyncio.to_thread(self._embedder.embed, [query])
            vector = "[" + ",".join(map(repr, embedded[0].tolist())) + "]"
        pool = ranking.pool_size(limit)
        async with self._database.transaction() as connection:
            text_ranks = await self._text_leg(connection, query, matching, pool) if weights.text else {}
            found = set(text_ranks)
            if vector is not None:
                found |= await self._vector_leg(connection, vector, matching, pool)
            if weights.topic and ranking.topic_leg_applies(query):
                found |= await self._topic_leg(connection, query, matching, pool)
            rows = await self._load(connection, list(found), vector, matching)
        normalised = ranking.normalise_text_ranks(text_ranks)
        legs = {
            row.memory_id: Legs(
                text=normalised.get(row.memory_id, 0.0),
                vector=ranking.vector_score(distance) if weights.vector else 0.0,
                topic=ranking.topic_score(query, row.topic) if weights.topic else 0.0,
                age_days=ranking.age_in_days(row.recorded_at, matching.now),
                closed=closed,
            )
            for row, distance, closed in rows
        }
        by_id = {row.memory_id: row for row, _, _ in rows}
        best = ranking.ranked((one, ranking.score(said, weights)) for one, said in legs.items())[:limit]
        return [Hit(by_id[one], score, legs[one]) for one, score in best]

    async def _text_leg(
        self, connection: Connection, query: str, matching: MemoryFilter, pool: int
    ) -> dict[UUID, float]:
        # Any of the words may match: a question holds many that no memory repeats.
        cursor = await connection.execute(
            # In small letters first: the parser drops words that are too long by their length as given.
            "with q as (select replace(plainto_tsquery('english', lower(%(query)s))::text, $$' & '$$, $$' | '$$)"
            "::tsquery words) "
            f"select memory_id, ts_rank(lexemes, q.words, 1) as rank from {self._schema}.live_memory, q "
            f"where lexemes @@ q.words and {matching.where()} order by rank desc, memory_id limit %(pool)s",
            {**matching.values(), "query": query, "pool": pool},
        )
        return {memory_id: float(rank) for memory_id, rank in await cursor.fetchall()}

    async def _vector_leg(
        self, connection: Connection, vector: str, matching: MemoryFilter, pool: int
    ) -> set[UUID]:
        values: dict[str, Any] = {
            **matching.values(),
            "vector": vector,
            "pool": pool,
            "bound": self._exact_up_to + 1,
        }
        cursor = await connection.execute(
            f"select count(*) from (select 1 from {self._schema}.live_memory where {matching.where()} "
            "limit %(bound)s) bounded",
            values,
        )
        counted = await cursor.fetchone()
        assert counted is not None
        if counted[0] <= self._exact_up_to:
            # The fence keeps the planner from answering a filtered query out of the vector index.
            statement = (
                f"select memory_id from (select memory_id, embedding from {self._schema}.live_memory "
                f"where {matching.where()} and embedding is not null offset 0) bounded "
                "order by embedding operator(public.<=>) %(vector)s::public.halfvec, memory_id limit %(pool)s"
            )
        else:
            await connection.execute(f"set local hnsw.ef_search = {HNSW_EF_SEARCH}")
            await connection.execute("set local hnsw.iterative_scan = strict_order")
            statement = (
                f"select memory_id from {self._schema}.live_memory "
                f"where {matching.where()} and embedding is not null "
                "order by embedding operator(public.<=>) %(vector)s::public.halfvec limit %(pool)s"
            )
        cursor = await connection.execute(statement, values)
        return {memory_id for (memory_id,) in await cursor.fetchall()}

    async def _topic_leg(self, connection: Connection, query: str, matching: MemoryFilter, pool: int) -> set[UUID]:
        cursor = await connection.execute(
            f"select memory_id from {self._schema}.live_memory where strpos(lower(topic), lower(%(query)s)) > 0 "
            f"and {matching.where()} order by occurred_at desc, memory_id limit %(pool)s",
            {**matching.values(), "query": query.strip(), "pool": pool},
        )
        return {memory_id for (memory_id,) in await cursor.fetchall()}

    async def _load(
        self, connection: Connection, found: Sequence[UUID], vector: str | None, matching: MemoryFilter
    ) -> list[tuple[MemoryRow, float | None, bool]]:
        cursor = await connection.execute(
            f"select {MEMORY_COLUMNS}, embedding operator(public.<=>) %(vector)s::public.halfvec, {CLOSED} "
            f"from {self._schema}.live_memory where tenant = %(tenant)s and memory_id = any(%(found)s)",
            {"tenant": matching.tenant, "now": matching.now, "vector": vector, "found": list(found)},
        )
        return [(memory_row(row), row[-2], row[-1]) for row in await cursor.fetchall()]
