"""The past, written out: every memory of a tenant as the log up to some point makes it, or all read models as SQL.

The memories are folded from the log itself, so they prove what a read model should have said then.
"""

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain.events import Event
from ...domain.fields import Input, KnownAt, parse
from ...domain.memory import Memory, evolve
from ...projections.rebuild import Report, silent
from ...projections.replay import Replayer, replay_schema
from ...streams.pages import Selection
from ...streams.payloads import RecordedEvent, UnreadableEvent, WrittenByNewer
from ..access.caller import Caller
from ..engine import Engine
from ..moments import has_moved_in, moment_of
from ..present import present_memory
from .views import MemoryView, Replayed

_PAGE = 500


class ReplayQuery(Input):
    """Up to which point: an instant with a zone, or a position of the log."""

    to: KnownAt


class ReplayIntoQuery(ReplayQuery):
    """Also, the name of the schema it is written to, after ``lethelog_replay_``."""

    name: str = Field(max_length=100)


class Replaying:
    """Replays for one caller."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._replayer = Replayer(engine.database, engine.log, engine.tail, engine.projections)

    async def memories(
        self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent
    ) -> AsyncGenerator[MemoryView]:
        """Every memory of the tenant as it was then, in the order they were remembered; erased ones are absent.

        The first comes once all of the log up to there is read: the states of all memories of the tenant, with
        their texts, are held at once. `into` works page by page, whatever there is.
        Raises `UnreadableEvent` naming the position of an event that cannot be read or is not known: a state
        without it would be no proof.
        """
        caller.require("memory:read")
        to = parse(ReplayQuery, arguments).to
        moment = await moment_of(self._engine.log, "to", to)
        upto, by = moment.position, None
        if not isinstance(to, int) and await has_moved_in(self._engine.log, caller.tenant):
            # What was moved in stands later in this log than in the one it happened in (ADR 9).
            upto, by = await self._engine.log.head(), moment.at
        for memory, position in (await self._fold(caller.tenant, upto, by, report)).values():
            if memory.content is not None:
                yield await present_memory(self._engine, caller.tenant, memory, position, now=moment.at)

    async def into(self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent) -> Replayed:
        """Every read model, of all tenants, as of then, in a schema of its own.

        Raises `Conflict` for a name in use.
        """
        caller.require("installation:admin")
        query = parse(ReplayIntoQuery, arguments)
        replay_schema(query.name)
        moment = await moment_of(self._engine.log, "to", query.to)
        made = await self._replayer.replay(query.name, moment.position, moment.at, report)
        return Replayed(
            name=query.name,
            schema_name=made.schema,
            position=moment.position,
            at=moment.at,
            parked=made.parked,
        )

    async def names(self, caller: Caller) -> tuple[str, ...]:
        """The replays there are."""
        caller.require("installation:admin")
        return await self._replayer.names()

    async def leftovers(self, caller: Caller) -> tuple[str, ...]:
        """Schemas that replays and comparisons left which were killed."""
        caller.require("installation:admin")
        return await self._replayer.leftovers()

    async def drop(self, caller: Caller, name: str) -> None:
        """Drop a replay, or one of the leftovers. Raises `NotFound`, and `Conflict` while it is being written."""
        caller.require("installation:admin")
        await self._replayer.drop(name)

    async def _fold(
        self, tenant: UUID, upto: int, by: datetime | None, report: Report
    ) -> dict[UUID, tuple[Memory, int]]:
        """States after the events up to a position, and of those only what was on record by an instant."""
        states: dict[UUID, tuple[Memory, int]] = {}
        only = Selection(tenant, namespace="memory.")
        position = 0
        while True:
            report(position, upto)
            page = await self._engine.log.read_page(position, _PAGE, upto, only=only)
            for one in page:
                if by is not None and one.recorded_at > by:
                    continue
                before = states.get(one.stream)
                state = evolve(
                    before[0] if before else None,
                    known_event(one),
                    stream=one.stream,
                    version=one.version,
                    recorded_at=one.recorded_at,
                )
                states[one.stream] = (state, one.position)
            if len(page) < _PAGE:
                return states
            position = page[-1].position


def known_event(recorded: RecordedEvent) -> Event:
    """Its payload. Raises `UnreadableEvent` for one that cannot be read or is not known."""
    at = f"the event at position {recorded.position} ({recorded.name})"
    where = {"position": recorded.position, "event": recorded.name}
    if recorded.broken is not None and recorded.broken != WrittenByNewer.__name__:
        raise UnreadableEvent(
            f"{at} cannot be read ({recorded.broken}), so what was on record from there on is not certain; replay "
            f"to {recorded.position - 1} or earlier, or see: lethelog audit verify",
            **where,
        )
    if recorded.event is None:
        raise WrittenByNewer(
            f"{at} was written by a newer version; upgrade, or replay to an earlier point", **where
        )
    return recorded.event
