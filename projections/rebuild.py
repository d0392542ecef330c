"""Building a read model anew beside the live one, and switching or comparing (design.md 5).

The copy is filled page by page without its indexes, gets them, catches up under the live one's lock and takes
its place in one transaction. Readers wait for that switch only; writers never wait.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from ..domain.errors import Conflict, LethelogError, Unavailable
from ..streams.database import Connection, Database
from ..streams.leadership import Leadership
from ..streams.log import Log
from ..streams.reader import LogTail
from .projection import LIVE_SCHEMA, Projection
from .runner import ProjectionRunner, create_schema, read_progress

SWITCH_ATTEMPTS = 50
"""How often the switch is tried while long reads hold the old tables."""
Report = Callable[[int, int], None]
"""Called with (position reached, position to reach)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a comparison found in one table: rows only the live view has, rows only the rebuilt one has."""

    table: str
    rows: int
    only_live: int
    only_rebuilt: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A read model against its rebuild, both at one position."""

    name: str
    position: int
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether both hold the same rows."""
        return all(not d.only_live and not d.only_rebuilt for d in self.differences)


def silent(_position: int, _target: int) -> None:
    """Report to nobody."""


class Rebuilder:
    """Rebuilds and compares one read model."""

    def __init__(self, database: Database, log: Log, tail: LogTail, projection: Projection) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projection = projection

    async def rebuild(self, report: Report = silent) -> int:
        """Build anew and switch; returns the position. One that is cancelled or fails leaves the live one alone.

        Raises `Conflict` when this read model is being rebuilt already.
        """
        lock = Leadership(self._database, f"rebuild:{self._projection.name}")
        if not await lock.acquire():
            raise Conflict(f"the read model {self._projection.name} is being rebuilt already")
        schema = f"lethelog_rebuild_{self._projection.name}"
        try:
            runner = await self.build(schema, await self._log.head(), report)
            # What came while the indexes were built, so that little is left to do under the lock.
            await runner.catch_up(await self._log.head())
            for attempt in range(1, SWITCH_ATTEMPTS + 1):
                try:
                    return await self._switch_over(runner, schema)
                except psycopg.errors.LockNotAvailable:
                    # A long read holds a table. Waiting in line would hold up every read behind this one.
                    if attempt == SWITCH_ATTEMPTS:
                        raise Unavailable(
                            f"{self._projection.name} was read without a pause, so its rebuild could not take "
                            "its place; nothing changed, try again"
                        ) from None
                    await asyncio.sleep(0.2)
            raise AssertionError("unreachable")
        finally:
            await self._drop(schema)
            await lock.release()

    async def compare(self, report: Report = silent) -> Comparison:
        """Build a second copy up to the live view's position and hold both against each other, row by row."""
        schema = f"lethelog_compare_{self._projection.name}"
        lock = Leadership(self._database, f"compare:{self._projection.name}")
        if not await lock.acquire():
            raise Conflict(f"the read model {self._projection.name} is being compared already")
        try:
            async with self._database.connection() as connection:
                progress = await read_progress(connection, self._projection.name)
            runner = await self.build(schema, progress.position, report, indexed=False)
            async with self._database.transaction() as connection:
                cursor = await connection.execute(
                    f"select position from {LIVE_SCHEMA}.tracking where name = %s for update",
                    (self._projection.name,),
                )
                row = await cursor.fetchone()
                position = row[0] if row else 0
                await runner.catch_up(position)
                differences = [await _difference(connection, table, schema) for table in self._projection.tables]
            return Comparison(self._projection.name, position, tuple(differences))
        finally:
            await self._drop(schema)
            await lock.release()

    async def build(
        self, schema: str, upto: int, report: Report = silent, *, indexed: bool = True
    ) -> ProjectionRunner:
        """Fill a copy in a schema of its own up to a position; returns what can carry it further."""
        await self._drop(schema)
        async with self._database.transaction() as connection:
            await create_schema(connection, schema)
            await self._projection.create_tables(connection, schema)
            await connection.execute(
                f"insert into {schema}.tracking (name, version, position) values (%s, %s, 0)",
                (self._projection.name, self._projection.version),
            )
        runner = ProjectionRunner(self._database, self._log, self._tail, self._projection, schema)
        position = 0
        while position < upto:
            position = await runner.catch_up(min(position + 2_000, upto))
            report(position, upto)
        if indexed:
            async with self._database.transaction() as connection:
                await self._projection.create_indexes(connection, schema)
        return runner

    async def _switch_over(self, runner: ProjectionRunner, schema: str) -> int:
        async with self._database.transaction() as connection:
            # For every lock it takes, so that nobody stands in line behind it and Ctrl-C never waits for a lock.
            await connection.execute("set local lock_timeout = '500ms'")
            await create_schema(connection, LIVE_SCHEMA)
            await connection.execute(
                f"select 1 from {LIVE_SCHEMA}.tracking where name = %s for update", (self._projection.name,)
            )
            position = await runner.catch_up(await self._log.head())
            await self._switch(connection, schema, position)
        return position

    async def _switch(self, connection: Connection, schema: str, position: int) -> None:
        for table in self._projection.tables:
            await connection.execute(f"drop table if exists {LIVE_SCHEMA}.{table}")
            await connection.execute(f"alter table {schema}.{table} set schema {LIVE_SCHEMA}")
        await connection.execute(
            f"insert into {LIVE_SCHEMA}.tracking (name, version, position) values (%s, %s, %s) "
            "on conflict (name) do update set version = excluded.version, position = excluded.position, "
            "stalled_at = null, error = null, moved_at = now()",
            (self._projection.name, self._projection.version, position),
        )

    async def _drop(self, schema: str) -> None:
        try:
            async with self._database.connection() as connection:
                await connection.execute(f"drop schema if exists {schema} cascade")
        except LethelogError:
            # The server is gone; the next rebuild drops what is left before it begins.
            return


async def _difference(connection: Connection, table: str, schema: str) -> Difference:
    # A vector is compared by the model that made it: an endpoint may round another way the second time.
    cursor = await connection.execute(
        "select string_agg(quote_ident(column_name), ', ' order by ordinal_position) "
        "from information_schema.columns where table_schema = %s and table_name = %s "
        "and column_name not in ('embedding', 'lexemes')",
        (LIVE_SCHEMA, table),
    )
    row = await cursor.fetchone()
    assert row is not None
    columns = row[0]
    live = f"select {columns} from {LIVE_SCHEMA}.{table}"
    rebuilt = f"select {columns} from {schema}.{table}"
    cursor = await connection.execute(
        f"select (select count(*) from {LIVE_SCHEMA}.{table}), "
        f"(select count(*) from ({live} except {rebuilt}) x), (select count(*) from ({rebuilt} except {live}) y)"
    )
    counted = await cursor.fetchone()
    assert counted is not None
    return Difference(table, *counted)
