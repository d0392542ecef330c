"""Feeds projections from the log: pages, one transaction each, position written with the rows.

One process leads per projection, the others stand by. A page that fails is bisected to the one event that
fails; that event is tried again with a delay, and the projection says that it is stalled, and where, until it
works. It never skips silently (engine-notes 1.8, F44).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..domain.errors import Misconfigured, NotCaughtUp, Unavailable
from ..streams.database import Connection, Database
from ..streams.leadership import Leadership
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from ..streams.reader import LogTail
from .projection import LIVE_SCHEMA, Projection

PAGE = 500
RETRY_SECONDS = (0.2, 1.0, 5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a projection got, as `doctor` shows it."""

    name: str
    version: str
    position: int
    stalled_at: int | None
    error: str | None
    moved_at: datetime | None


async def create_schema(connection: Connection, schema: str) -> None:
    """The schema of a set of read models, with their tracking table."""
    await connection.execute(f"create schema if not exists {schema}")
    await connection.execute(
        f"create table if not exists {schema}.tracking (name text primary key, version text not null, "
        "position bigint not null, stalled_at bigint, error text, moved_at timestamptz not null default now())"
    )


async def ensure_tables(database: Database, projections: Sequence[Projection]) -> None:
    """Make what is missing, and refuse what another version made.

    Raises `Misconfigured` naming the rebuild command when a stored version differs, for instance because its
    vectors come from another embedding model: they are never mixed (F40).
    """
    async with database.transaction() as connection:
        await connection.execute("select pg_advisory_xact_lock(7283460115)")
        await create_schema(connection, LIVE_SCHEMA)
        cursor = await connection.execute(f"select name, version from {LIVE_SCHEMA}.tracking")
        stored = dict(await cursor.fetchall())
        for projection in projections:
            present = stored.get(projection.name)
            if present is None:
                await projection.create_tables(connection, LIVE_SCHEMA)
                await projection.create_indexes(connection, LIVE_SCHEMA)
                await connection.execute(
                    f"insert into {LIVE_SCHEMA}.tracking (name, version, position) values (%s, %s, 0)",
                    (projection.name, projection.version),
                )
            elif present != projection.version:
                raise Misconfigured(
                    f"the read model {projection.name} was built as {present} and this process builds "
                    f"{projection.version}; run: lethelog rebuild {projection.name}",
                    read_model=projection.name,
                )


class ProjectionRunner:
    """Runs one projection. `run` goes on until cancelled; `catch_up` once to a position."""

    def __init__(
        self, database: Database, log: Log, tail: LogTail, projection: Projection, schema: str = LIVE_SCHEMA
    ) -> None:
        self._database = database
        self._log = log
        self._tail = tail
        self._projection = projection
        self._schema = schema
        self.leadership = Leadership(database, f"projection:{projection.name}")

    async def run(self) -> None:
        """Lead when nobody else does, and follow the log."""
        await self.leadership.lead(self._follow)

    async def position(self) -> int:
        """Up to where the read model is built."""
        return (await self.progress()).position

    async def progress(self) -> Progress:
        async with self._database.connection() as connection:
            return await read_progress(connection, self._projection.name, self._schema)

    async def _current_position(self) -> int:
        progress = await self.progress()
        if progress.version != self._projection.version:
            raise Unavailable(
                f"the read model {progress.name} is built as {progress.version} now; restart this process"
            )
        return progress.position

    async def catch_up(self, target: int) -> int:
        """Apply pages until the target position; for whoever holds the leadership. Returns the position."""
        position = await self.position()
        while position < target:
            try:
                position = await self._step(position, upto=target)
            except _MovedMeanwhile:
                position = await self._current_position()
        return position

    async def _follow(self) -> None:
        position = await self.position()
        failures = 0
        while await self.leadership.still_held():
            ticks = self._tail.ticks
            try:
                advanced = await self._step(position)
            except _Poisoned as poison:
                position = poison.good_position
                await self._stall(poison)
                await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
                failures += 1
                continue
            except _MovedMeanwhile:
                position = await self._current_position()
                continue
            failures = 0
            if advanced == position:
                await self._tail.wait(ticks)
            position = advanced

    async def _step(self, position: int, upto: int | None = None) -> int:
        page = await self._log.read_page(position, PAGE, upto)
        if not page:
            return position
        await self._apply(page, position)
        return page[-1].position

    async def _apply(self, page: Sequence[RecordedEvent], before: int) -> None:
        try:
            await self._apply_once(page, before)
        except (Unavailable, _MovedMeanwhile):
            raise
        except Exception as error:
            if len(page) == 1:
                raise _Poisoned(before, page[0], error) from error
            middle = len(page) // 2
            await self._apply(page[:middle], before)
            await self._apply(page[middle:], page[middle - 1].position)

    async def _apply_once(self, page: Sequence[RecordedEvent], before: int) -> None:
        wanted = [event for event in page if event.name in self._projection.wants]
        for event in wanted:
            if event.broken is not None:
                raise _Unreadable(event.broken)
        prepared = await self._projection.prepare(wanted) if wanted else None
        async with self._database.transaction() as connection:
            await self._take_turn(connection, before)
            if wanted:
                await self._projection.apply(connection, self._schema, wanted, prepared)
            await connection.execute(
                f"update {self._schema}.tracking set position = %s, stalled_at = null, error = null, "
                "moved_at = now() where name = %s",
                (page[-1].position, self._projection.name),
            )

    async def _take_turn(self, connection: Connection, before: int) -> None:
        """Lock the tracking row first, and refuse the page if the view moved meanwhile.

        A rebuild switches tables under this lock; taking it before any table keeps the two from a deadlock.
        """
        cursor = await connection.execute(
            f"select version, position from {self._schema}.tracking where name = %s for update",
            (self._projection.name,),
        )
        row = await cursor.fetchone()
        if row is None or row[0] != self._projection.version or row[1] != before:
            raise _MovedMeanwhile

    async def _stall(self, poison: "_Poisoned") -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                f"update {self._schema}.tracking set stalled_at = %s, error = %s where name = %s",
                (poison.event.position, poison.reason, self._projection.name),
            )


class _Unreadable(Exception):
    """The body of an event cannot be read; carries the class of the error that said so."""


class _MovedMeanwhile(Exception):
    """The view is not where the page begins: another leader or a rebuild was quicker. Read the position anew."""


class _Poisoned(Exception):
    """One event that cannot be applied. Carries the error's class only: its text may hold content."""

    def __init__(self, good_position: int, event: RecordedEvent, error: Exception) -> None:
        super().__init__(f"event {event.name} at position {event.position} cannot be applied")
        self.good_position = good_position
        self.event = event
        what = str(error) if isinstance(error, _Unreadable) else type(error).__name__
        self.reason = f"{event.name}: {what}"


async def read_progress(connection: Connection, name: str, schema: str = LIVE_SCHEMA) -> Progress:
    """The tracking row of a projection; position 0 where it was never built."""
    cursor = await connection.execute(
        f"select name, version, position, stalled_at, error, moved_at from {schema}.tracking where name = %s",
        (name,),
    )
    row = await cursor.fetchone()
    return Progress(*row) if row is not None else Progress(name, "", 0, None, None, None)


async def wait_for(database: Database, name: str, position: int, *, seconds: float = 10.0) -> None:
    """Return once a read model reached a position (read your own write), or raise `NotCaughtUp`."""
    try:
        async with asyncio.timeout(seconds):
            delay = 0.001
            while True:
                async with database.connection() as connection:
                    progress = await read_progress(connection, name)
                if progress.position >= position:
                    return
                await asyncio.sleep(delay)
                delay = min(delay * 1.5, 0.05)
    except TimeoutError:
        raise NotCaughtUp(
            f"the read model {name} did not reach position {position} within {seconds:g} s; "
            "is a worker running? see: lethelog doctor",
            read_model=name,
            position=position,
        ) from None
