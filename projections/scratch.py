"""Schemas of copies that are made beside the read models: clear text that must not outlive its purpose.

Whoever fills one holds a lock that dies with its process. One whose lock nobody holds was left by a process that
was killed; whoever makes the next copy drops it.
"""

from dataclasses import dataclass

from ..domain.errors import LethelogError
from ..streams.database import Connection, Database
from ..streams.leadership import Leadership, is_led
from .generations import HOME, prepare_home

COMPARING = "lethelog_compare_"
REPLAYING = "lethelog_replaying_"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A schema that nobody fills any more."""

    schema: str
    duty: str
    """What whoever made it was at, and the lock it held: ``compare:live_memory``, ``replay:may``."""


def comparing_schema(name: str) -> str:
    """Where a read model is built to be compared."""
    return COMPARING + name


def replaying_schema(replay: str, name: str) -> str:
    """Where a read model of a replay is built."""
    return f"{REPLAYING}{replay}_{name}"


async def read_leftovers(connection: Connection) -> list[Leftover]:
    """What was left of copies of read models."""
    cursor = await connection.execute(
        "select n.nspname::text, t.name from pg_namespace n "
        f"left join {HOME}.tracking t on t.schema = n.nspname::text and t.state = 'scratch' "
        "where starts_with(n.nspname::text, %s) or starts_with(n.nspname::text, %s) order by 1",
        (COMPARING, REPLAYING),
    )
    found = [Leftover(schema, _duty(schema, name or "")) for schema, name in await cursor.fetchall()]
    return [one for one in found if not await is_led(connection, one.duty)]


async def drop_leftovers(database: Database) -> None:
    """Drop what was left of copies of read models, unless somebody is at it again."""
    async with database.connection() as connection:
        found = await read_leftovers(connection)
    for one in found:
        lock = Leadership(database, one.duty)
        if await lock.acquire():
            try:
                await discard(database, one.schema)
            finally:
                await lock.release()


async def discard(database: Database, schema: str) -> None:
    """Drop a copy, or what is left of it."""
    try:
        async with database.transaction() as connection:
            await prepare_home(connection)
            await connection.execute(f"drop schema if exists {schema} cascade")
            for table in ("parked", "tracking"):
                await connection.execute(f"delete from {HOME}.{table} where schema = %s", (schema,))
    except LethelogError:
        # The server is gone; whoever makes the next copy drops what is left.
        return


def _duty(schema: str, name: str) -> str:
    if schema.startswith(COMPARING):
        return f"compare:{schema.removeprefix(COMPARING)}"
    return f"replay:{schema.removeprefix(REPLAYING).removesuffix(f'_{name}')}"
