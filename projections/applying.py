"""Applying pages of events to one copy of a read model: exactly once each, with the position in one transaction.

An event is *set aside* instead where an earlier one of its stream is parked. Nothing else is ever passed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from ..domain.errors import LethelogError, Unavailable
from ..domain.events import event_class
from ..streams.database import Connection, Database
from ..streams.payloads import RecordedEvent, WrittenByNewer
from ..streams.recollection import UNKNOWN, Recollection, hold_off, read_epoch
from ..streams.sealing import UnusableKey
from ..streams.unhandled import BEHIND
from .generations import HOME
from .parked import StreamKey, count_troubles, park, parked_streams
from .progress import CHOSEN, chosen, read_progress
from .projection import Projection
from .waiting import waiting_for

_NOT_THE_EVENTS = ("0A", "25", "26", "28", "3F", "42")
"""SQLSTATE classes that say the tables or the session are wrong, whatever the event."""
_PASSING = ("40", "55")
"""SQLSTATE classes of a transaction that lost a race or a lock: the same again may do."""


class CannotApply(LethelogError):
    """An event cannot be applied to a read model. Names the error's class only: its text may hold content."""

    code = "cannot_apply"

    def __init__(self, read_model: str, before: int, event: RecordedEvent, error: Exception) -> None:
        self.before = before
        """The position up to which the read model is built."""
        self.event = event
        self.error_class = error.kind if isinstance(error, _Unfit) else type(error).__name__
        self.reason = f"{event.name}: {self.error_class}"
        self.of_the_event = not isinstance(error, _UnknownName | _NotYet) and not _of_the_database(error)
        """Whether another event would fare better: only then it can be set aside."""
        self.may_pass = self.error_class != UnusableKey.__name__
        """Whether the same again may do: a key that does not open needs somebody to put it back."""
        fix = f"; to build it without, run: lethelog rebuild {read_model} --park" if self.of_the_event else ""
        super().__init__(
            f"the event at position {event.position} cannot be applied to {read_model} ({self.reason}){fix}",
            read_model=read_model,
            position=event.position,
        )


class CannotRead(LethelogError):
    """The log behind a position cannot be read, whatever the cause; what a read model has so far stays."""

    code = "cannot_read"

    def __init__(self, read_model: str, before: int, error: Exception) -> None:
        self.before = before
        """The position up to which the read model is built."""
        self.reason = f"reading the log: {type(error).__name__}"
        super().__init__(
            f"the log behind position {before} cannot be read for {read_model} ({self.reason}); "
            "see: lethelog audit verify",
            read_model=read_model,
            position=before + 1,
        )


class MovedMeanwhile(Exception):
    """The view is not where the page begins: another leader or a rebuild was quicker. Read the position anew.

    Or something was erased since the page was read: read it again.
    """


class _Unfit(Exception):
    """An event that no read model can apply; ``kind`` says why."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class _NotYet(_Unfit):
    """A newer version wrote it."""


class _UnknownName(_Unfit):
    """A name of a namespace that the projection reads, and that this version does not know."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page on its way: what will be applied, and what is set aside."""

    events: Sequence[RecordedEvent]
    wanted: Sequence[RecordedEvent]
    aside: Sequence[RecordedEvent]
    prepared: Any
    epoch: int
    """`Applier.epoch` of before it was read."""

    @property
    def end(self) -> int:
        """The position it leads to."""
        return self.events[-1].position


class Applier:
    """Applies pages to the current generation, or to the copy in ``schema``."""

    def __init__(
        self, database: Database, projection: Projection, schema: str | None, recollection: Recollection
    ) -> None:
        self._database = database
        self._recollection = recollection
        self._projection = projection
        self._schema = schema
        self.namespaces = sorted({name.partition(".")[0] for name in projection.wants})
        """Of events of others it needs the positions only."""
        self._parked: frozenset[StreamKey] = frozenset()

    async def epoch(self) -> int:
        """To be asked for before events are read, and given to `prepare` or `apply` with them.

        What was read under it is only written while nothing was erased since.
        """
        if self._recollection.epoch == UNKNOWN:
            async with self._database.connection() as connection:
                self._recollection.notice(await read_epoch(connection))
        return self._recollection.epoch

    async def prepare(self, events: Sequence[RecordedEvent], epoch: int, by: Projection | None = None) -> Page:
        """Sort a page's events and do what takes long. ``by`` does it in the projection's stead."""
        wanted: list[RecordedEvent] = []
        aside: list[RecordedEvent] = []
        for event in events:
            if not self._concerns(event):
                continue
            if self._parked and (event.tenant, event.stream) in self._parked:
                aside.append(event)
                continue
            check(event)
            wanted.append(event)
        prepared = await (by or self._projection).prepare(wanted) if wanted else None
        return Page(events, wanted, aside, prepared, epoch)

    async def write(self, page: Page, before: int, by: Projection | None = None) -> None:
        """Write a prepared page and move the position; all of it or nothing. Raises `MovedMeanwhile`."""
        async with self._database.transaction() as connection:
            await demand_epoch(connection, self._recollection, page.epoch)
            schema = await self._take_turn(connection, before)
            if page.wanted:
                await (by or self._projection).apply(connection, schema, page.wanted, page.prepared)
            if page.aside:
                await park(connection, self._projection.name, schema, page.aside, BEHIND, 0)
            await self._advance(connection, schema, page.end)
        self._tell(page.end)

    async def apply(self, events: Sequence[RecordedEvent], before: int, epoch: int) -> int:
        """Apply a page; returns the position.

        Raises `CannotApply` for the first event that cannot be applied, once everything before it is.
        """
        try:
            await self.write(await self.prepare(events, epoch), before)
            return events[-1].position
        except (Unavailable, MovedMeanwhile):
            raise
        except psycopg.Error as error:
            if error.sqlstate is not None and error.sqlstate[:2] in _PASSING:
                raise MovedMeanwhile from error
            failed: Exception = error
        except Exception as error:
            failed = error
        if len(events) == 1:
            raise CannotApply(self._projection.name, before, events[0], failed) from failed
        middle = len(events) // 2
        return await self.apply(events[middle:], await self.apply(events[:middle], before, epoch), epoch)

    async def set_aside(self, failed: CannotApply, attempts: int) -> int:
        """Park an event that cannot be applied and pass it; returns the position."""
        async with self._database.transaction() as connection:
            schema = await self._take_turn(connection, failed.before)
            await park(connection, self._projection.name, schema, [failed.event], failed.error_class, attempts)
            await self._advance(connection, schema, failed.event.position)
        self._parked |= {(failed.event.tenant, failed.event.stream)}
        self._tell(failed.event.position)
        return failed.event.position

    async def stall(self, failed: CannotApply | CannotRead) -> None:
        """Say where it stands and why."""
        at = failed.event.position if isinstance(failed, CannotApply) else failed.before + 1
        async with self._database.connection() as connection:
            await connection.execute(
                f"update {HOME}.tracking set stalled_at = %(at)s, error = %(why)s where {CHOSEN}",
                {
                    **chosen(self._projection.name, self._schema),
                    "at": at,
                    "why": failed.reason,
                },
            )

    async def troubles(self) -> int:
        """How many things went wrong that were parked."""
        async with self._database.connection() as connection:
            cursor = await connection.execute(
                f"select schema from {HOME}.tracking where {CHOSEN}", chosen(self._projection.name, self._schema)
            )
            row = await cursor.fetchone()
            return 0 if row is None else await count_troubles(connection, self._projection.name, row[0])

    async def sees_parked(self, event: RecordedEvent) -> bool:
        """Look anew at what is parked; whether the event's stream is, so that the event will be set aside."""
        async with self._database.connection() as connection:
            progress = await read_progress(connection, self._projection.name, self._schema)
            self._parked = await parked_streams(connection, self._projection.name, progress.schema)
        return (event.tenant, event.stream) in self._parked

    def _tell(self, position: int) -> None:
        if self._schema is None:
            waiting_for(self._database.url, self._projection.name).tell(position)

    def _concerns(self, event: RecordedEvent) -> bool:
        if event.name in self._projection.wants:
            return True
        return event_class(event.name) is None and event.name.partition(".")[0] in self.namespaces

    async def _take_turn(self, connection: Connection, before: int) -> str:
        """Lock the tracking row, and refuse the page if anything it rests on moved. Returns where the view stands.

        A rebuild switches under this lock, and parked events are tried again under it. The commit waits for no
        disk: what is lost with the server, rows and position together, is applied again from the log.
        """
        cursor = await connection.execute(_TURN, chosen(self._projection.name, self._schema))
        row = await cursor.fetchone()
        if row is None or row[1] != self._projection.version or row[2] != before:
            raise MovedMeanwhile
        if row[3] or self._parked:
            parked = await parked_streams(connection, self._projection.name, row[0])
            if parked != self._parked:
                self._parked = parked
                raise MovedMeanwhile
        return row[0]

    async def _advance(self, connection: Connection, schema: str, position: int) -> None:
        await connection.execute(
            f"update {HOME}.tracking set position = %s, stalled_at = null, error = null, moved_at = now() "
            "where name = %s and schema = %s",
            (position, self._projection.name, schema),
        )


async def demand_epoch(connection: Connection, recollection: Recollection, epoch: int) -> None:
    """Keep erasures off until the transaction ends. Raises `MovedMeanwhile` if there was one since ``epoch``.

    Then what the process remembered of before is let go, so that reading again gives what is still there.
    """
    present = await hold_off(connection)
    if present != epoch:
        recollection.notice(present)
        raise MovedMeanwhile


_TURN = (
    f"select schema, version, position, exists (select from {HOME}.parked p where p.name = t.name "
    "and p.schema = t.schema), set_config('synchronous_commit', 'off', true) "
    f"from {HOME}.tracking t where {CHOSEN} for no key update of t"
)
"""Whoever takes parked events out holds the row without changing it, so this may see some that are gone; never
overlooks one, since whoever parks moves the position."""


def check(event: RecordedEvent) -> None:
    """Raise for an event that cannot be applied to anything: unreadable, or of a name nobody here knows."""
    if event.broken == WrittenByNewer.__name__:
        raise _NotYet(WrittenByNewer.__name__)
    if event.broken is not None:
        raise _Unfit(event.broken)
    if event.event is None and event_class(event.name) is None:
        raise _UnknownName("UnknownName")


def _of_the_database(error: Exception) -> bool:
    return isinstance(error, psycopg.Error) and (error.sqlstate or "")[:2] in _NOT_THE_EVENTS
