"""Every past state of every memory, beside the present one in `live_memory`: what as-of reads look at.

A row is a state of a memory with its vector and its words. It held half-open: from ``position``, of the event that
led to it, until ``until_position``, of the one that ended it. So the state of everything at a position of the log
is what stands in `live_memory` since then or before, and what stood here then.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from ..domain.memory import Memory
from ..streams.database import Connection
from .memory_columns import COLUMNS, DERIVED_COLUMNS, TYPED_COLUMNS, memory_values

State = tuple[Memory, int]
"""A state of a memory, and the position of the event that led to it."""
Key = tuple[UUID, UUID]
"""(tenant, memory)."""


async def create_past(connection: Connection, schema: str, dimensions: int) -> None:
    """Make the table."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    await connection.execute(
        f"create table {schema}.memory_past ({columns}, embedding public.halfvec({dimensions}), "
        "embedding_model text, lexemes tsvector not null, until_position bigint not null, "
        "primary key (tenant, memory_id, position))"
    )


async def index_past(connection: Connection, schema: str) -> None:
    """Make the indexes that are cheaper to build after loading."""
    for statement in (
        f"create index memory_past_span on {schema}.memory_past (tenant, until_position, position)",
        f"create index memory_past_lexemes on {schema}.memory_past using gin (lexemes)",
        f"create index memory_past_vectors on {schema}.memory_past "
        "using hnsw (embedding public.halfvec_cosine_ops)",
    ):
        await connection.execute(statement)


async def end_present_states(connection: Connection, schema: str, ended_at: Mapping[Key, int]) -> None:
    """Keep the present rows of these memories as past ones; call it before they are overwritten.

    ``ended_at`` is the position of the event that ends the present state.
    """
    await connection.execute(
        f"insert into {schema}.memory_past ({_ALL}, until_position) select {_PRESENT}, x.until_position "
        f"from {schema}.live_memory m join unnest(%s::uuid[], %s::uuid[], %s::bigint[]) "
        "x(tenant, memory_id, until_position) on m.tenant = x.tenant and m.memory_id = x.memory_id "
        "where m.position < x.until_position on conflict do nothing",
        ([tenant for tenant, _ in ended_at], [memory_id for _, memory_id in ended_at], list(ended_at.values())),
    )


async def add_states_between(connection: Connection, schema: str, states: Mapping[Key, Sequence[State]]) -> None:
    """Keep all states but the last of each memory, in order; call it when the last one is the present row."""
    rows = [
        memory_values(tenant, memory, position) | {"until_position": until}
        for (tenant, _), held in states.items()
        for (memory, position), (_, until) in pairwise(held)
    ]
    if not rows:
        return
    stated = ", ".join(f"r.{name}" for name in COLUMNS)
    derived = ", ".join(f"m.{name}" for name in DERIVED_COLUMNS)
    await connection.execute(
        f"insert into {schema}.memory_past ({_ALL}, until_position) select {stated}, {derived}, r.until_position "
        f"from jsonb_to_recordset(%s::jsonb) as r({TYPED_COLUMNS}, until_position bigint) "
        f"join {schema}.live_memory m on m.tenant = r.tenant and m.memory_id = r.memory_id on conflict do nothing",
        (json.dumps(rows, ensure_ascii=False),),
    )


_ALL = ", ".join([*COLUMNS, *DERIVED_COLUMNS])
_PRESENT = ", ".join(f"m.{name}" for name in (*COLUMNS, *DERIVED_COLUMNS))
