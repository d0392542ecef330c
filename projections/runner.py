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
from .generations import HOME, prepare_home
from .projection import Projection

PAGE = 500
RETRY_SECONDS = (0.2, 1.0, 5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a projection got, as `doctor` shows it."""

    name: str
    schema: str
    version: str
    position: int
    stalled_at: int | None
    error: str | None
    moved_at: datetime | None


async def ensure_tables(database: Database, projections: Sequence[Projection]) -> None:
    """Make what is missing, and refuse what another version made.

    Raises `Misconfigured` naming the rebuild command when a stored version differs, for instance because its
    vectors come from another embedding model: they are never mixed (F40).
    """
    async with database.transaction() as connection:
        await prepare_home(connection)
        cursor = await connection.execute(f"select name, version from {HOME}.tracking where state = 'current'")
        stored = dict(await cursor.fetchall())
        for projection in projections:
            present = stored.get(projection.name)
            if present is None:
                await projection.create_tables(connection, HOME)
                await projection.create_indexes(connection, HOME)
                await connection.execute(
                    f"insert into {HOME}.tracking (name, version, position) values (%s, %s, 0)",
                    (projection.name, projection.version),
                )
            elif present != projection.version:
                raise Misconfigured(
                    f"the read model {projection.name} was built as {present} and this process builds "
                    f"{projection.version}; run: lethelog rebuild {projection.name}",
                    read_model=projection.name,
                )


class ProjectionRunner:
    """Runs one projection. `run` goes on until cancelled; `catch_up` once to a position.

    It feeds the current generation, whichever that is, or with ``schema`` the one that stands there.
    """

    def __init__(
        self, database: Database, log: Log, tail: LogTail, projection: Projection, schema: str | None = None
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
            schema = await self._take_turn(connection, before)
            if wanted:
                await self._projection.apply(connection, schema, wanted, prepared)
            await connection.execute(
                f"update {HOME}.tracking set position = %s, stalled_at = null, error = null, "
                "moved_at = now() where name = %s and schema = %s",
                (page[-1].position, self._projection.name, schema),
            )

    async def _take_turn(self, connection: Connection, before: int) -> str:
        """Lock the tracking row, and refuse the page if the view moved meanwhile. Returns where it stands.

        A rebuild switches under this lock.
        """
        cursor = await connection.execute(
            f"select schema, version, position from {HOME}.tracking where {_CHOSEN} for no key update",
            _chosen(self._projection.name, self._schema),
        )
        row = await cursor.fetchone()
        if row is None or row[1] != self._projection.version or row[2] != before:
            raise _MovedMeanwhile
        return row[0]

    async def _stall(self, poison: "_Poisoned") -> None:
        async with self._database.connection() as connection:
            await connection.execute(
                f"update {HOME}.tracking set stalled_at = %(at)s, error = %(why)s where {_CHOSEN}",
                {
                    **_chosen(self._projection.name, self._schema),
                    "at": poison.event.position,
                    "why": poison.reason,
                },
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


_CHOSEN = (
    "name = %(name)s and case when %(schema)s::text is null then state = 'current' else schema = %(schema)s end"
)
"""SQL for the tracking row of the current generation, or of the one in a schema."""


def _chosen(name: str, schema: str | None) -> dict[str, object]:
    return {"name": name, "schema": schema}


async def read_progress(connection: Connection, name: str, schema: str | None = None) -> Progress:
    """How far a read model's current generation got, or the one in ``schema``; position 0 if never built."""
    cursor = await connection.execute(
        "select name, schema, version, position, stalled_at, error, moved_at "
        f"from {HOME}.tracking where {_CHOSEN}",
        _chosen(name, schema),
    )
    row = await cursor.fetchone()
    return Progress(*row) if row is not None else Progress(name, "", "", 0, None, None, None)


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
