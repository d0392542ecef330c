"""Search over live memory: legs gather candidates, the fusion ranks them (behaviour.md 1.11).

The vector leg is exact for whoever has few rows under the filter and uses the HNSW index above that: an
index scan under a narrow filter silently returns next to nothing (engine-notes 7). What is few is the planner's
guess; an index that brings too little is not believed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ..domain import ranking
from ..domain.ranking import PRODUCT_WEIGHTS, Legs, Weights
from ..streams.database import Connection, Database
from .embedders import Embedder
from .filters import MemoryFilter
from .generations import read_models
from .rows import MEMORY_COLUMNS, MemoryRow, memory_row

EXACT_UP_TO = 10_000
"""Rows under the filter up to which every vector is compared, and nothing is missed."""
INDEX_SHARE = 0.25
"""Share of the whole table from which on the index is used above that: under a narrower filter it misses much."""
HNSW_EF_SEARCH = 400
HNSW_MAX_SCAN_TUPLES = 200_000
_DISTANCE = "embedding operator(public.<=>) %(vector)s::public.halfvec"


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
        database: Database,
        embedder: Embedder,
        *,
        scratch: str | None = None,
        exact_up_to: int = EXACT_UP_TO,
        index_share: float = INDEX_SHARE,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._scratch = scratch
        self._exact_up_to = exact_up_to
        self._index_share = index_share

    async def search(
        self, query: str, matching: MemoryFilter, limit: int, weights: Weights = PRODUCT_WEIGHTS
    ) -> list[Hit]:
        """The best ``limit`` memories, score descending, then id ascending."""
        vector: str | None = None
        if weights.vector:
            embedded = await asyncio.to_thread(self._embedder.embed, [query])
            vector = "[" + ",".join(map(repr, embedded[0].tolist())) + "]"
        pool = ranking.pool_size(limit)
        async with read_models(self._database, scratch=self._scratch) as connection:
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
                age_days=ranking.age_in_days(row.recorded_at, matching.as_of.now),
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
            f"select memory_id, ts_rank(lexemes, q.words, 1) as rank from {matching.as_of.source}, q "
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
            "model": self._embedder.model,
        }
        nearest: dict[UUID, float] = {}
        # The present first: a state that becomes a past one between the two is then met twice, and never missed.
        for table, source in matching.as_of.tables.items():
            nearest |= await self._nearest(connection, matching, table, source, values)
        best = sorted(nearest.items(), key=lambda one: (one[1], one[0]))[:pool]
        return {memory_id for memory_id, _ in best}

    async def _nearest(
        self, connection: Connection, matching: MemoryFilter, table: str, source: str, values: Mapping[str, Any]
    ) -> dict[UUID, float]:
        """The nearest rows of one table with their distances, as many as the pool holds."""
        # Vectors of another model are never compared, not even in the moment of a rebuild (F40).
        where = f"{matching.where()} and embedding_model = %(model)s"
        if not await self._few(connection, matching, table, source):
            await connection.execute(f"set local hnsw.ef_search = {HNSW_EF_SEARCH}")
            await connection.execute("set local hnsw.iterative_scan = strict_order")
            await connection.execute(f"set local hnsw.max_scan_tuples = {HNSW_MAX_SCAN_TUPLES}")
            cursor = await connection.execute(
                f"select memory_id, {_DISTANCE} from {source} where {where} order by {_DISTANCE} limit %(pool)s",
                values,
            )
            found = dict(await cursor.fetchall())
            if len(found) == values["pool"]:
                return found
            # The index gave up early, or there are fewer than was thought.
        # The fence keeps the planner from answering a filtered query out of the vector index.
        bounded = f"select memory_id, embedding from {source} where {where} offset 0"
        cursor = await connection.execute(
            f"select memory_id, {_DISTANCE} as distance from ({bounded}) bounded "
            "order by distance, memory_id limit %(pool)s",
            values,
        )
        return dict(await cursor.fetchall())

    async def _few(self, connection: Connection, matching: MemoryFilter, table: str, source: str) -> bool:
        """Whether to compare every vector under the filter: they are few, or a small share of the table.

        The planner's guess, since counting takes many times as long as the search.
        """
        cursor = await connection.execute(
            f"explain (format json) select from {source} where {matching.where()}", matching.values()
        )
        row = await cursor.fetchone()
        assert row is not None
        rows: float = row[0][0]["Plan"]["Plan Rows"]
        if rows <= self._exact_up_to:
            return True
        cursor = await connection.execute("select reltuples from pg_class where oid = %s::regclass", (table,))
        row = await cursor.fetchone()
        return row is not None and rows < self._index_share * row[0]

    async def _topic_leg(self, connection: Connection, query: str, matching: MemoryFilter, pool: int) -> set[UUID]:
        cursor = await connection.execute(
            f"select memory_id from {matching.as_of.source} where strpos(lower(topic), lower(%(query)s)) > 0 "
            f"and {matching.where()} order by occurred_at desc, memory_id limit %(pool)s",
            {**matching.values(), "query": query.strip(), "pool": pool},
        )
        return {memory_id for (memory_id,) in await cursor.fetchall()}

    async def _load(
        self, connection: Connection, found: Sequence[UUID], vector: str | None, matching: MemoryFilter
    ) -> list[tuple[MemoryRow, float | None, bool]]:
        as_of = matching.as_of
        # The whole filter again: a memory may have been hidden or moved since its leg found it.
        cursor = await connection.execute(
            f"select {MEMORY_COLUMNS}, case when embedding_model = %(model)s then {_DISTANCE} end, {as_of.closed} "
            f"from {as_of.source} where memory_id = any(%(found)s) and {matching.where()}",
            {
                **matching.values(),
                "vector": vector,
                "found": list(found),
                "model": self._embedder.model,
            },
        )
        return [(memory_row(row), row[-2], row[-1]) for row in await cursor.fetchall()]
