"""Where each read model stands: its copies, which of them is current, and how a reader gets there.

Every copy of a read model stands in a schema of its own and has a row in ``lethelog_views.tracking``. The row
whose state is *current* is the pointer that readers follow, in their own transaction; a switch changes two rows.
Measured against renaming tables and against a view (engine-notes 11): no gap, and nobody stands in line.

The first generation stands in ``lethelog_views`` itself, later ones in ``lethelog_views_<name>_<number>``.
"""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.errors import InvalidSchemaName, UndefinedTable

from ..domain.errors import Unavailable
from ..streams.database import TENANT_SETTING, Connection, Doors, Isolation, Pool
from .protection import protect

HOME = "lethelog_views"
"""Holds the tracking table, the first generation of every read model, and the neighbour cache."""

SHARED = ("tracking",)
"""Tables of the home that hold nothing of a tenant: doors read them whole."""

State = Literal["current", "filling", "filled", "retired", "scratch"]
"""*current*: readers see it; *filling* and *filled*: a rebuild that is to take its place, without and with its
indexes; *retired*: was current, to be dropped; *scratch*: a copy beside, to compare or to look at a past state."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One copy of a read model."""

    name: str
    schema: str
    version: str
    position: int
    state: State
    since: datetime
    """Since when it is in this state."""


async def prepare_home(connection: Connection) -> None:
    """Make the tracking table, or bring one of an earlier Lethelog up to date: what it had is generation 1.

    Inside a transaction of the caller's; waits for others that do the same.
    """
    await connection.execute("select pg_advisory_xact_lock(7283460115)")
    await connection.execute(f"create schema if not exists {HOME}")
    await connection.execute(
        f"create table if not exists {HOME}.tracking (name text not null, version text not null, "
        "position bigint not null, stalled_at bigint, error text, moved_at timestamptz not null default now())"
    )
    await connection.execute(_PARKED)
    if not await are_prepared(connection):
        for statement in _TO_GENERATIONS:
            await connection.execute(statement)
    await protect(connection, [HOME], SHARED)


async def are_prepared(connection: Connection) -> bool:
    """Whether the tracking table is there in its present form."""
    cursor = await connection.execute(f"select {_HAS_STATE}")
    return await cursor.fetchone() == (True,)


async def read_generations(connection: Connection, name: str) -> list[Generation]:
    """Every copy of a read model that there is."""
    cursor = await connection.execute(
        f"select name, schema, version, position, state, since from {HOME}.tracking where name = %s "
        "order by schema",
        (name,),
    )
    return [Generation(*row) for row in await cursor.fetchall()]


def next_schema(name: str, taken: Sequence[Generation]) -> str:
    """The schema of a read model's next generation."""
    prefix = f"{HOME}_{name}_"
    numbers = [int(one.schema.removeprefix(prefix)) for one in taken if one.schema.startswith(prefix)]
    return f"{prefix}{max(numbers, default=1) + 1}"


async def follow_pointers(connection: Connection, scratch: str | None = None) -> None:
    """Let unqualified names mean the current read models until the end of the transaction that is open here.

    With ``scratch``, those of that schema. Until then none of the copies can be dropped (`drop_if_unread`).
    """
    if scratch is None:
        await connection.execute(_FOLLOW)
    else:
        await connection.execute(_FOLLOW_SCRATCH, (scratch,))


def read_models(
    database: Pool, *, scratch: str | None = None, isolation: Isolation = "read committed"
) -> AbstractAsyncContextManager[Connection]:
    """A connection inside one transaction, in which unqualified table names mean the current read models.

    ``scratch`` reads the copies in that schema instead. Raises `Unavailable` where a read model was never built.
    """
    return _following(database.transaction(isolation=isolation), scratch)


def tenant_read_models(
    doors: Doors, tenant: UUID, *, scratch: str | None = None, isolation: Isolation = "read committed"
) -> AbstractAsyncContextManager[Connection]:
    """The same for one tenant's door, which sees that tenant's rows and no others."""
    return _following(doors.tenant(tenant, isolation=isolation), scratch)


@asynccontextmanager
async def _following(
    opened: AbstractAsyncContextManager[Connection], scratch: str | None
) -> AsyncGenerator[Connection]:
    with _unavailable_where_missing():
        async with opened as connection:
            await follow_pointers(connection, scratch)
            yield connection


@asynccontextmanager
async def read_at_once(
    doors: Doors, tenant: UUID, *, scratch: str | None = None, settings: Mapping[str, str] | None = None
) -> AsyncGenerator[Connection]:
    """As `tenant_read_models`, for those who count round trips: what leads up to a statement is sent with it.

    Nothing is waited for until something is fetched. What is fetched after the end costs one round trip in all;
    each fetch before it costs one more. ``settings`` hold until the end.
    """
    with _unavailable_where_missing():
        # What is sent up to the end of a pipeline is one transaction, without being told so.
        async with doors.connection() as connection, connection.pipeline():
            await follow_pointers(connection, scratch)
            taken = {TENANT_SETTING: str(tenant), **(settings or {})}
            calls = ", ".join(["set_config(%s, %s, true)"] * len(taken))
            await connection.execute(f"select {calls}", [part for one in taken.items() for part in one])
            yield connection


@contextmanager
def _unavailable_where_missing() -> Generator[None]:
    try:
        yield
    except (UndefinedTable, InvalidSchemaName):
        raise Unavailable(
            "a read model is not there: it was never built, or was being replaced; try again, or see: "
            "lethelog doctor"
        ) from None


async def drop_if_unread(connection: Connection, generation: Generation, tables: Sequence[str]) -> bool:
    """Drop a copy and its row unless a reader may still look at it; True when it is gone.

    Inside a transaction of the caller's, who knows that nobody is sent there any more. Waits for nobody for long.
    """
    await connection.execute("set local lock_timeout = '1s'")
    cursor = await connection.execute(
        f"select pg_try_advisory_xact_lock({_reader_lock('%s', '%s')})", (generation.name, generation.schema)
    )
    if await cursor.fetchone() != (True,):
        return False
    if generation.schema == HOME:
        for table in tables:
            await connection.execute(f"drop table if exists {HOME}.{table}")
    else:
        await connection.execute(f"drop schema if exists {generation.schema} cascade")
    for table in ("parked", "tracking"):
        await connection.execute(
            f"delete from {HOME}.{table} where name = %s and schema = %s", (generation.name, generation.schema)
        )
    return True


def _reader_lock(name: str, schema: str) -> str:
    """SQL of the advisory lock that the readers of one copy share."""
    return f"hashtextextended('lethelog:readers:' || {name}::text || ':' || {schema}::text, 0)"


_HAS_STATE = (
    f"exists (select from pg_attribute where attrelid = to_regclass('{HOME}.tracking') and attname = 'state')"
)
_TO_GENERATIONS = (
    f"alter table {HOME}.tracking drop constraint if exists tracking_pkey",
    f"alter table {HOME}.tracking add column schema text not null default '{HOME}', "
    "add column state text not null default 'current' "
    "check (state in ('current', 'filling', 'filled', 'retired', 'scratch')), "
    "add column since timestamptz not null default now(), add primary key (name, schema)",
    f"create unique index tracking_pointer on {HOME}.tracking (name) where state = 'current'",
)
_PARKED = (
    f"create table if not exists {HOME}.parked (name text, schema text, tenant uuid not null, "
    "stream uuid not null, position bigint, event text not null, error text not null, attempts int not null, "
    "parked_at timestamptz not null default now(), primary key (name, schema, position))"
)
# The home comes last: a retired first generation stands there until it is dropped, and must not be found first.
_FOLLOW = (
    "select set_config('search_path', coalesce(string_agg(distinct quote_ident(schema), ', ') "
    f"filter (where schema <> '{HOME}') || ', ', '') || '{HOME}, pg_catalog', true), "
    f"count(pg_advisory_xact_lock_shared({_reader_lock('name', 'schema')})) "
    f"from {HOME}.tracking where state = 'current'"
)
_FOLLOW_SCRATCH = (
    "select set_config('search_path', coalesce(quote_ident(min(schema)) || ', ', '') || 'pg_catalog', true), "
    f"count(pg_advisory_xact_lock_shared({_reader_lock('name', 'schema')})) "
    f"from {HOME}.tracking where schema = %s"
)
