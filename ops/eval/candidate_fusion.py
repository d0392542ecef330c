"""A rival to the weighted sum of `nearest`: reciprocal rank fusion of vector and words, over the same data."""

from collections import defaultdict
from typing import Any
from uuid import UUID

import numpy as np

from ...domain.policy import PAIR_TYPES
from ...projections.generations import read_models
from ...projections.nearest import Group, Weights
from .candidate_store import Store
from .ranking import fused


async def reciprocal_ranks(store: Store) -> dict[UUID, list[tuple[UUID, float]]]:
    """Every memory's five nearest newer ones of its type, scope and project by fused rank; cosines stand as 1."""
    async with read_models(store.engine.database) as connection, connection.cursor(binary=True) as cursor:
        await cursor.execute(
            (
                b"select memory_id, n.memory_type, n.scope, n.project, public.halfvec_send(embedding), words "
                b"from candidate_neighbours n join live_memory l "
                b"using (tenant, memory_id) where tenant = %s and n.memory_type = any(%s) "
                b"order by occurred_at, memory_id"
            ),
            (store.tenant, list(PAIR_TYPES)),
        )
        rows = await cursor.fetchall()
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows:
        groups[row[1:4]].append(row)
    lists: dict[UUID, list[tuple[UUID, float]]] = {}
    for members in groups.values():
        ids: list[UUID] = [row[0] for row in members]
        halves = [
            Group([row[4] for row in members], [row[5] for row in members], [0] * len(ids), weights)
            for weights in (Weights(1, 0), Weights(0, 1))
        ]
        for place, memory_id in enumerate(ids):
            by_vector, by_words = (
                half.scores(np.array([place]), place + 1)[0].astype(np.float64) for half in halves
            )
            best = np.argsort(-fused(by_vector, by_words), kind="stable")[:5]
            lists[memory_id] = [(ids[place + 1 + at], 1.0) for at in best.tolist()]
    return lists
