"""Applying parked events after all: sequence by sequence, each in the order of the log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from ..domain.errors import Unavailable
from ..streams.database import Connection, Database
from ..streams.log import Log
from ..streams.payloads import RecordedEvent
from ..streams.recollection import read_epoch
from .applying import CannotApply, MovedMeanwhile, check, demand_epoch
from .generations import HOME
from .parked import StreamKey, next_of_stream, note_attempt, parked_streams, unpark
from .projection import Projection

Report = Callable[[int, int], None]
"""Called with (sequences tried, sequences there are)."""


@dataclass(slots=True)
class Retried:
    """What came of it."""

    applied: int = 0
    left: dict[int, str] = field(default_factory=dict[int, str])
    """Position of the first event of each sequence that stays parked, and why."""


class ParkedEvents:
    """The parked events of one read model."""

    def __init__(self, database: Database, log: Log, projection: Projection) -> None:
        self._database = database
        self._log = log
        self._projection = projection

    async def retry(self, report: Report, sequence: UUID | None = None) -> Retried:
        """Apply what waits, or only the events of one stream. A sequence stops at the first that fails again."""
        async with self._database.connection() as connection:
            schema = await self._lock(connection)
            waiting = sorted(await parked_streams(connection, self._projection.name, schema))
        chosen = [one for one in waiting if sequence is None or one[1] == sequence]
        done = Retried()
        for number, one in enumerate(chosen, 1):
            await self._retry_sequence(one, done)
            report(number, len(chosen))
        return done

    async def _retry_sequence(self, one: StreamKey, done: Retried) -> None:
        while (position := await self._first(one)) is not None:
            async with self._database.connection() as connection:
                epoch = await read_epoch(connection)
            self._log.recollection.notice(epoch)
            [event] = await self._log.read_page(position - 1, 1, position)
            try:
                done.applied += await self._apply(event, epoch)
            except MovedMeanwhile:
                continue
            except Unavailable:
                raise
            except Exception as error:
                failed = CannotApply(self._projection.name, position - 1, event, error)
                done.left[position] = failed.reason
                async with self._database.transaction() as connection:
                    schema = await self._lock(connection)
                    await note_attempt(connection, self._projection.name, schema, position, failed.error_class)
                return

    async def _first(self, one: StreamKey) -> int | None:
        async with self._database.connection() as connection:
            schema = await self._lock(connection)
            waiting = await next_of_stream(connection, self._projection.name, schema, one, 1)
        return waiting[0] if waiting else None

    async def _apply(self, event: RecordedEvent, epoch: int) -> int:
        """Apply one event and take it out; 0 where somebody was quicker."""
        check(event)
        prepared = await self._projection.prepare([event])
        async with self._database.transaction() as connection:
            await demand_epoch(connection, self._log.recollection, epoch)
            schema = await self._lock(connection)
            one = (event.tenant, event.stream)
            if await next_of_stream(connection, self._projection.name, schema, one, 1) != [event.position]:
                return 0
            await self._projection.apply(connection, schema, [event], prepared)
            await unpark(connection, self._projection.name, schema, [event.position])
        return 1

    async def _lock(self, connection: Connection) -> str:
        """Where the current generation stands; nobody feeds it until the transaction ends."""
        cursor = await connection.execute(
            f"select schema, version from {HOME}.tracking where name = %s and state = 'current' for no key update",
            (self._projection.name,),
        )
        row = await cursor.fetchone()
        if row is None or row[1] != self._projection.version:
            raise Unavailable(
                f"the read model {self._projection.name} is not built as {self._projection.version}; run: "
                f"lethelog rebuild {self._projection.name}"
            )
        return row[0]
