"""Every past state of every memory, beside the present one in `live_memory`: what as-of reads look at.

A row is a state of a memory with its vector and its words. It held half-open: from ``position``, of the event that
led to it, until ``until_position``, of the one that ended it. So the state of everything at a position of the log
is what stands in `live_memory` since then or before, and what stood here then. ``changed_at`` and ``until_at`` say
the same in instants: of what was moved in they are those of the log it came from (ADR 9).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from ..domain.memory import Memory
from ..streams.arrays import BigintArray, UuidArray
from ..streams.database import Connection
from .memory_columns import (
    COLUMNS,
    DERIVED_COLUMNS,
    NULL,
    bigint_field,
    copied,
    copy_row,
    copy_statement,
    timestamptz_field,
)

State = tuple[Memory, int]
"""A state of a memory, and the position of the event that led to it."""
Key = tuple[UUID, UUID]
"""(tenant, memory)."""
Held = tuple[Key, Sequence[State]]
"""A memory and states that it went through, in order."""


async def create_past(connection: Connection, schema: str, dimensions: int) -> None:
    """Make the table."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    await connection.execute(
        f"create table {schema}.memory_past ({columns}, embedding public.halfvec({dimensions}), "
        "embedding_model text, lexemes tsvector not null, until_position bigint not null, "
        "until_at timestamptz not null, "
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


async def end_present_states(connection: Connection, schema: str, ended_by: Mapping[Key, State]) -> None:
    """Keep the present rows of these memories as past ones; call it before they are overwritten.

    ``ended_by`` is the state that follows the present one.
    """
    await connection.execute(
        f"insert into {schema}.memory_past ({_ALL}, until_position, until_at) "
        f"select {_PRESENT}, x.until_position, x.until_at from {schema}.live_memory m "
        "join unnest(%s, %s, %s, %s::timestamptz[]) x(tenant, memory_id, until_position, until_at) "
        "on m.tenant = x.tenant and m.memory_id = x.memory_id "
        "where m.position < x.until_position on conflict do nothing",
        (
            UuidArray([tenant for tenant, _ in ended_by]),
            UuidArray([memory_id for _, memory_id in ended_by]),
            BigintArray([position for _, position in ended_by.values()]),
            [state.changed_at for state, _ in ended_by.values()],
        ),
    )


def past_rows(tenant: UUID, held: Sequence[State]) -> list[bytes]:
    """All states of a memory but the last, as rows to stage."""
    return [
        copy_row(tenant, *state, NULL, NULL, bigint_field(until), timestamptz_field(after.changed_at))
        for state, (after, until) in pairwise(held)
    ]


async def stage(connection: Connection, rows: Sequence[bytes]) -> None:
    """Hand rows to the server, in a table of this transaction: with a vector, its model, and until when they held.

    The table stays with its connection, so that a page of one event leaves nothing behind in the catalogue.
    """
    await connection.execute(f"create temp table if not exists {STAGED} ({_STAGED_COLUMNS}) on commit delete rows")
    statement = copy_statement(f"pg_temp.{STAGED}", "embedding", "embedding_model", "until_position", "until_at")
    async with connection.cursor() as cursor, cursor.copy(statement) as copy:
        await copy.write(copied(rows))


async def add_staged_past(connection: Connection, schema: str) -> None:
    """Keep the staged states that ended; call it when the last ones are the present rows.

    They get the vector and the words of those, which stand already.
    """
    stated = ", ".join(f"s.{name}" for name in COLUMNS)
    derived = ", ".join(f"m.{name}" for name in DERIVED_COLUMNS)
    await connection.execute(
        f"insert into {schema}.memory_past ({_ALL}, until_position, until_at) "
        f"select {stated}, {derived}, s.until_position, s.until_at "
        f"from pg_temp.{STAGED} s join {schema}.live_memory m "
        "on m.tenant = s.tenant and m.memory_id = s.memory_id "
        "where s.until_position is not null on conflict do nothing"
    )


STAGED = "staged_memories"
_STAGED_COLUMNS = ", ".join(
    [f"{name} {kind}" for name, kind in COLUMNS.items()]
    + ["embedding public.halfvec", "embedding_model text", "until_position bigint", "until_at timestamptz"]
)
_ALL = ", ".join([*COLUMNS, *DERIVED_COLUMNS])
_PRESENT = ", ".join(f"m.{name}" for name in (*COLUMNS, *DERIVED_COLUMNS))
