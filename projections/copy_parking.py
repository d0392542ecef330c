"""What a copy that is being built does with an event it cannot apply (ADR 5).

What the current generation has parked already is parked in the copy too, at the same position. Anything else stops
the build, unless whoever asked for it said that it may be parked.
"""

from collections.abc import Sequence
from typing import Literal

from ..domain.errors import Unavailable
from ..streams.database import Connection, Database
from ..streams.log import Log, Selection
from ..streams.payloads import RecordedEvent
from ..streams.recollection import read_epoch
from ..streams.unhandled import BEHIND
from .applying import CannotApply, MovedMeanwhile, check, demand_epoch
from .generations import HOME
from .parked import first_parked, park
from .projection import Projection

Failing = Literal["stop", "park"]
"""What becomes of an event that only the copy cannot apply."""
LONGEST_STREAM = 100_000
"""Events of one stream that are looked at."""


class CopyParking:
    """Parks events in one copy of a read model."""

    def __init__(
        self, database: Database, log: Log, projection: Projection, schema: str, failing: Failing
    ) -> None:
        self._database = database
        self._log = log
        self._projection = projection
        self._schema = schema
        self._failing = failing

    async def park(self, failed: CannotApply) -> int:
        """Park a stream from its first event that cannot be applied, and pass it; returns the position.

        A copy that is loaded writes a stream's rows late, so the first that fails may stand before the one that
        was met. Raises `CannotApply` for it where it may not be parked, and `MovedMeanwhile`.
        """
        event = failed.event
        async with self._database.connection() as connection:
            epoch = await read_epoch(connection)
        self._log.recollection.notice(epoch)
        only = Selection(event.tenant, stream=event.stream)
        read = await self._log.read_page(0, LONGEST_STREAM, event.position, only=only)
        stream = [one for one in read if one.name in self._projection.wants or one.position == event.position]
        good, first = await self._first_failing(stream, failed)
        if not await self._may_park(first):
            raise first from failed
        prepared = await self._projection.prepare(stream[:good]) if good else None
        name, schema = self._projection.name, self._schema
        async with self._database.transaction() as connection:
            await demand_epoch(connection, self._log.recollection, epoch)
            await self._take_turn(connection, failed.before)
            if good:
                await self._projection.apply(connection, schema, stream[:good], prepared)
            await park(connection, name, schema, [first.event], first.error_class, 1)
            await park(connection, name, schema, stream[good + 1 :], BEHIND, 0)
            await connection.execute(
                f"update {HOME}.tracking set position = %s, stalled_at = null, error = null, moved_at = now() "
                "where name = %s and schema = %s",
                (event.position, name, schema),
            )
        return event.position

    async def _first_failing(
        self, stream: Sequence[RecordedEvent], failed: CannotApply
    ) -> tuple[int, CannotApply]:
        """How many of the stream's events can be applied, and the failure of the next."""
        good, bad, first = 0, len(stream), failed
        while good < bad - 1:
            middle = (good + bad) // 2
            error = await self._try(stream[:middle])
            if error is None:
                good = middle
            else:
                bad = middle
                first = CannotApply(self._projection.name, failed.before, stream[middle - 1], error)
        return bad - 1, first

    async def _try(self, events: Sequence[RecordedEvent]) -> Exception | None:
        """Apply a stream's beginning and undo it; returns what fails."""
        try:
            for one in events:
                check(one)
            prepared = await self._projection.prepare(events)
            async with (
                self._database.transaction() as connection,
                connection.transaction(force_rollback=True),
            ):
                await self._projection.apply(connection, self._schema, events, prepared)
        except Unavailable:
            raise
        except Exception as error:
            return error
        return None

    async def _may_park(self, first: CannotApply) -> bool:
        if not first.of_the_event:
            return False
        if self._failing == "park":
            return True
        async with self._database.connection() as connection:
            parked = await first_parked(connection, self._projection.name)
        return parked.get((first.event.tenant, first.event.stream)) == first.event.position

    async def _take_turn(self, connection: Connection, before: int) -> None:
        cursor = await connection.execute(
            f"select position from {HOME}.tracking where name = %s and schema = %s for no key update",
            (self._projection.name, self._schema),
        )
        if await cursor.fetchone() != (before,):
            raise MovedMeanwhile


async def newly_parked(connection: Connection, name: str, schema: str) -> tuple[int, ...]:
    """Positions from which a copy has parked streams that the current generation has not parked from there."""
    present = await first_parked(connection, name)
    copy = await first_parked(connection, name, schema)
    return tuple(sorted(position for stream, position in copy.items() if present.get(stream) != position))
