"""Building a read model anew beside the current one, and switching or comparing (design.md 5).

The next generation is filled page by page without its indexes, gets them, catches up under the current one's lock
and becomes the current one in one transaction. Readers and writers never wait. What was built is kept when it is
broken off, so that the next rebuild goes on where it stopped.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

from ..domain.errors import Conflict, Unavailable
from ..streams.column_statistics import unsampled_statement
from ..streams.database import Connection, Database
from ..streams.leadership import Leadership, is_led
from ..streams.log import Log
from ..streams.reader import LogTail
from .copy_parking import CopyParking, Failing, newly_parked
from .generations import (
    HOME,
    Generation,
    State,
    drop_if_unread,
    follow_pointers,
    next_schema,
    prepare_home,
    read_generations,
)
from .progress import read_progress
from .projection import Projection
from .protection import lift, protect, refuse_undeclared, shared_tables
from .runner import ProjectionRunner, Report
from .scratch import comparing_schema, discard, drop_leftovers

GRACE = timedelta(seconds=60)
"""How long a retired generation stays, for whoever was sent there just before."""
SWITCH_ATTEMPTS = 50
"""How often the switch is tried while somebody holds the current generation's row."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuild that took its place."""

    position: int
    schema: str
    resumed_at: int | None
    """Where it went on, if one that was broken off was there."""
    parked: int = 0
    """Events it could not apply and holds as parked, with what follows them in their streams."""
    newly_parked: tuple[int, ...] = ()
    """Positions of the first of them in streams that the generation before had not parked."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """One that has not taken its place yet."""

    name: str
    schema: str
    version: str
    position: int
    running: bool
    """Whether somebody is at it; otherwise it was broken off."""


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
    parked: int = 0
    """Streams that either has parked; their rows are left out."""

    @property
    def equal(self) -> bool:
        """Whether both hold the same rows."""
        return all(not d.only_live and not d.only_rebuilt for d in self.differences)


def silent(_position: int, _target: int) -> None:
    """Report to nobody."""


class Rebuilder:
    """Rebuilds and compares one read model."""

    def __init__(
        self, database: Database, log: Log, tail: LogTail, projection: Projection, *, grace: timedelta = GRACE
    ) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projection = projection
        self._grace = grace

    async def rebuild(self, report: Report = silent, *, failing: Failing = "stop") -> Rebuilt:
        """Build the next generation and switch to it. One that is cancelled or fails leaves the current one alone.

        What one that was broken off has built is used, if it is of this version; `cancel` first to start over.
        What the current one has parked and still cannot be applied stays parked. Any other event that cannot be
        applied raises `CannotApply`, or is parked with ``failing="park"``.
        Raises `Conflict` when this read model is being rebuilt already.
        """
        async with self._alone("rebuild", "rebuilt"):
            await drop_leftovers(self._database)
            generation = await self._next_generation(failing)
            runner = self._runner(generation.schema, failing)
            await runner.load(await self._log.head(), report)
            await self._index(generation)
            # What came while the indexes were built, so that little is left to do under the lock.
            await runner.catch_up(await self._log.head())
            position, newly = await self._switch(runner, generation.schema, failing)
            await drop_retired(self._database, self._projection, self._grace)
            parked = (await runner.progress()).parked
            return Rebuilt(position, generation.schema, generation.position or None, parked, newly)

    async def cancel(self) -> list[Generation]:
        """Drop what a rebuild that was broken off has built; returns it. Raises `Conflict` while one runs."""
        async with self._alone("rebuild", "rebuilt"):
            return await self._discard_all("filling", "filled")

    async def compare(self, report: Report = silent) -> Comparison:
        """Build a second copy up to the live view's position and hold both against each other, row by row.

        Streams that either has parked are left out of both, and counted.
        """
        schema = comparing_schema(self._projection.name)
        async with self._alone("compare", "compared"):
            await drop_leftovers(self._database)
            try:
                async with self._database.connection() as connection:
                    progress = await read_progress(connection, self._projection.name)
                runner = await self.build(schema, progress.position, report, indexed=False)
                async with self._database.transaction() as seeing:
                    position = await self._see_both(seeing, runner)
                    parked = await _parked_by_either(seeing, self._projection.name, schema)
                    differences = [
                        await _difference(seeing, self._projection, table, schema)
                        for table in self._projection.tables
                    ]
                return Comparison(self._projection.name, position, tuple(differences), parked)
            finally:
                await discard(self._database, schema)

    async def build(
        self, schema: str, upto: int, report: Report = silent, *, indexed: bool = True
    ) -> ProjectionRunner:
        """Fill a scratch copy in a schema of its own up to a position; returns what can carry it further.

        What the current generation has parked and cannot be applied is parked in it too.
        """
        await discard(self._database, schema)
        generation = await self._create(schema, "scratch")
        runner = self._runner(schema, "stop")
        await runner.load(upto, report)
        async with self._database.transaction() as connection:
            if indexed:
                await self._projection.create_indexes(connection, generation.schema)
            await self._protect(connection, schema)
        return runner

    async def _protect(self, connection: Connection, schema: str) -> None:
        """Only now that it is loaded: COPY is refused under row-level security."""
        await protect(connection, [schema], shared_tables(self._projection))

    def _runner(self, schema: str, failing: Failing) -> ProjectionRunner:
        parking = CopyParking(self._database, self._log, self._projection, schema, failing)
        return ProjectionRunner(
            self._database, self._log, self._tail, self._projection, schema, pass_by=parking.park
        )

    @asynccontextmanager
    async def _alone(self, duty: str, participle: str) -> AsyncGenerator[None]:
        lock = Leadership(self._database, f"{duty}:{self._projection.name}")
        if not await lock.acquire():
            raise Conflict(f"the read model {self._projection.name} is being {participle} already")
        try:
            yield
        finally:
            await lock.release()

    async def _next_generation(self, failing: Failing) -> Generation:
        """The one that was broken off, or a new and empty one.

        One that has parked what the current one has not, or not any more, is not gone on with.
        """
        async with self._database.transaction() as connection:
            await prepare_home(connection)
            present = await read_generations(connection, self._projection.name)
            for one in present:
                if one.state not in ("filling", "filled") or one.version != self._projection.version:
                    continue
                if failing == "park" or not await newly_parked(connection, one.name, one.schema):
                    await lift(connection, one.schema)
                    return one
        await self._discard_all("filling", "filled")
        return await self._create(next_schema(self._projection.name, present), "filling")

    async def _create(self, schema: str, state: State) -> Generation:
        name = self._projection.name
        async with self._database.transaction() as connection:
            await prepare_home(connection)
            await connection.execute(f"create schema {schema}")
            await self._projection.create_tables(connection, schema)
            await refuse_undeclared(connection, self._projection, schema)
            # Loading may take hours, and PostgreSQL analyses in between.
            await connection.execute(unsampled_statement([schema]))
            await connection.execute(
                f"insert into {HOME}.tracking (name, schema, version, position, state) values (%s, %s, %s, 0, %s)",
                (name, schema, self._projection.version, state),
            )
            made = await read_generations(connection, name)
        return next(one for one in made if one.schema == schema)

    async def _index(self, generation: Generation) -> None:
        async with self._database.transaction() as connection:
            if generation.state != "filled":
                await self._projection.create_indexes(connection, generation.schema)
                await _change_state(connection, generation.name, generation.schema, "filled")
            await self._protect(connection, generation.schema)

    async def _switch(
        self, runner: ProjectionRunner, schema: str, failing: Failing
    ) -> tuple[int, tuple[int, ...]]:
        for attempt in range(1, SWITCH_ATTEMPTS + 1):
            try:
                return await self._try_switch(runner, schema, failing)
            except psycopg.errors.LockNotAvailable:
                # Ctrl-C never waits for a lock for long.
                if attempt == SWITCH_ATTEMPTS:
                    break
        raise Unavailable(
            f"the row of {self._projection.name} in {HOME}.tracking is held by somebody, so its rebuild could not "
            "take its place; what was built is kept, try again"
        )

    async def _try_switch(
        self, runner: ProjectionRunner, schema: str, failing: Failing
    ) -> tuple[int, tuple[int, ...]]:
        """Returns the position and what is parked newly."""
        name = self._projection.name
        async with self._database.transaction() as connection:
            await connection.execute("set local lock_timeout = '500ms'")
            cursor = await connection.execute(
                f"select schema, position from {HOME}.tracking where name = %s and state = 'current' "
                "for no key update",
                (name,),
            )
            present = await cursor.fetchone()
            position = await runner.catch_up(await self._log.head())
            newly = await newly_parked(connection, name, schema)
            if newly and failing == "stop":
                raise Conflict(
                    f"the event at position {newly[0]}, parked in the rebuild of {name}, is not parked in the "
                    "present one any more; rebuild it again",
                    read_model=name,
                    position=newly[0],
                )
            if present is not None:
                await _change_state(connection, name, present[0], "retired")
            await _change_state(connection, name, schema, "current")
        return position, newly

    async def _discard_all(self, *states: State) -> list[Generation]:
        async with self._database.transaction() as connection:
            await prepare_home(connection)
            left = [
                one for one in await read_generations(connection, self._projection.name) if one.state in states
            ]
            for one in left:
                await drop_if_unread(connection, one, self._projection.tables)
        return left

    async def _see_both(self, seeing: Connection, runner: ProjectionRunner) -> int:
        """Bring the copy to where the live view is and let ``seeing`` see both as they are at that moment.

        The live view waits while the copy takes the last step, and goes on while the two are compared.
        """
        async with self._database.transaction() as connection:
            cursor = await connection.execute(
                f"select position from {HOME}.tracking where name = %s and state = 'current' for no key update",
                (self._projection.name,),
            )
            row = await cursor.fetchone()
            position = await runner.catch_up(row[0] if row else 0)
            await seeing.execute("set transaction isolation level repeatable read, read only")
            await follow_pointers(seeing)
        return position


async def read_rebuilds(connection: Connection, names: Sequence[str]) -> list[Rebuild]:
    """Rebuilds of these read models that run or were broken off."""
    return [
        Rebuild(name, one.schema, one.version, one.position, await is_led(connection, f"rebuild:{name}"))
        for name in names
        for one in await read_generations(connection, name)
        if one.state in ("filling", "filled")
    ]


async def drop_retired(database: Database, projection: Projection, grace: timedelta = GRACE) -> list[Generation]:
    """Drop generations that were retired longer ago than ``grace`` and that nobody reads; returns them."""
    dropped: list[Generation] = []
    async with database.connection() as connection:
        for one in await read_generations(connection, projection.name):
            if one.state != "retired" or datetime.now(UTC) - one.since < grace:
                continue
            try:
                async with connection.transaction():
                    if await drop_if_unread(connection, one, projection.tables):
                        dropped.append(one)
            except psycopg.errors.LockNotAvailable:
                continue
    return dropped


async def _change_state(connection: Connection, name: str, schema: str, state: State) -> None:
    await connection.execute(
        f"update {HOME}.tracking set state = %s, since = clock_timestamp() where name = %s and schema = %s",
        (state, name, schema),
    )


async def _parked_by_either(connection: Connection, name: str, schema: str) -> int:
    cursor = await connection.execute(
        f"select count(distinct (tenant, stream)) from ({_PARKED_BY_EITHER}) x", {"name": name, "schema": schema}
    )
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def _difference(connection: Connection, projection: Projection, table: str, schema: str) -> Difference:
    # A vector is compared by the model that made it: an endpoint may round another way the second time.
    cursor = await connection.execute(
        "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped "
        "and attname not in ('embedding', 'lexemes')",
        (table,),
    )
    row = await cursor.fetchone()
    assert row is not None
    columns = row[0]
    of_no_stream = table in shared_tables(projection)
    kept = "" if of_no_stream else f"where (tenant, {projection.stream_column}) not in ({_PARKED_BY_EITHER})"
    live = f"select {columns} from {table} {kept}"
    rebuilt = f"select {columns} from {schema}.{table} {kept}"
    cursor = await connection.execute(
        f"select (select count(*) from ({live}) x), "
        f"(select count(*) from ({live} except {rebuilt}) x), "
        f"(select count(*) from ({rebuilt} except {live}) y)",
        {"name": projection.name, "schema": schema},
    )
    counted = await cursor.fetchone()
    assert counted is not None
    return Difference(table, *counted)


_PARKED_BY_EITHER = (
    f"select p.tenant, p.stream from {HOME}.parked p join {HOME}.tracking t on t.name = p.name "
    "and t.schema = p.schema where p.name = %(name)s and (t.state = 'current' or t.schema = %(schema)s)"
)
