"""The log as it is: one tenant's events in order, a page at a time or followed as they come.

Nothing here goes through a read model, so it is never behind: what was written a moment ago is in the answer.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import Field, field_validator

from ...domain.errors import InvalidInput, Unavailable
from ...domain.events import event_names
from ...domain.fields import Id, Input, KnownAt, parse
from ...streams.pages import Selection
from ...streams.payloads import RecordedEvent
from ...streams.sealing import UnusableKey
from ..access.caller import Caller
from ..engine import Engine
from ..kinds import refuse_filter
from ..moments import moment_of
from ..present import NAMED
from .views import EventPage, EventView

PAGE = 200


class _Chosen(Input):
    names: tuple[str, ...] = Field(default=(), max_length=40)
    """Event names, or families such as ``memory.*``; empty for all."""
    stream: Id | None = None
    """Only the events of one memory, proposal or pass."""
    session_run_id: Id | None = None
    """Only the events of writes made in this session run."""

    @field_validator("names")
    @classmethod
    def _each_means_some(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        chosen_names(names)
        return names


class EventsQuery(_Chosen):
    """Which events to read, from ``from_position`` up to ``to``, both inclusive."""

    from_position: int = Field(default=1, ge=1, le=2**62)
    to: KnownAt | None = None
    """A position of the log, or an instant: what was recorded by then."""
    limit: int = Field(default=50, ge=1, le=500)


class TailQuery(_Chosen):
    """Which events to follow: from a position on, or only what comes."""

    from_position: int | None = Field(default=None, ge=1, le=2**62)


class EventLog:
    """Reads for one caller's tenant, from the log itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def page(self, caller: Caller, arguments: Mapping[str, Any]) -> EventPage:
        """Events in order of position; ``next_position`` is where the next page begins."""
        caller.require("stream:read")
        query = parse(EventsQuery, arguments)
        upto = (
            await self._engine.log.head()
            if query.to is None
            else (await moment_of(self._engine.log, "to", query.to)).position
        )
        found = await self._engine.log.read_page(
            query.from_position - 1, query.limit + 1, upto, only=_selection(caller, query)
        )
        page = found[: query.limit]
        if not page:
            await self._check_filter(caller, query)
        more = found[query.limit :]
        return EventPage(
            events=await self._present(caller.tenant, page),
            upto=upto,
            next_position=more[0].position if more else None,
        )

    async def tail(self, caller: Caller, arguments: Mapping[str, Any]) -> AsyncGenerator[EventView]:
        """Events as they are committed, each once and in order, until closed (``contextlib.aclosing``).

        Raises `Unavailable` where the database does not answer at first; once it did, an outage is waited out.
        """
        caller.require("stream:read")
        query = parse(TailQuery, arguments)
        selection = _selection(caller, query)
        await self._check_filter(caller, query)
        position = await self.beginning(query.from_position)
        while True:
            ticks = self._engine.tail.ticks
            try:
                head, found = await self._read_on(position, selection)
                views = await self._present(caller.tenant, found)
            except Unavailable:
                await self._engine.tail.wait(ticks)
                continue
            for view in views:
                yield view
            if len(found) == PAGE:
                position = found[-1].position
                continue
            # What lies between belongs to others, or was not asked for.
            position = max(position, head)
            await self._engine.tail.wait(ticks)

    async def _check_filter(self, caller: Caller, query: _Chosen) -> None:
        await refuse_filter(self._engine.log, caller.tenant, "session_run_id", query.session_run_id, "session")

    async def beginning(self, from_position: int | None) -> int:
        """The position behind which following begins: the log's end where none is named.

        Raises `InvalidInput` for one that lies beyond the next event.
        """
        head = await self._engine.log.head()
        if from_position is None:
            return head
        if from_position > head + 1:
            raise InvalidInput("from_position", f"is beyond the end of the log, which is at position {head}")
        return from_position - 1

    async def _read_on(self, position: int, selection: Selection) -> tuple[int, list[RecordedEvent]]:
        head = await self._engine.log.head()
        if head <= position:
            return head, []
        return head, await self._engine.log.read_page(position, PAGE, head, only=selection)

    async def _present(self, tenant: UUID, found: Sequence[RecordedEvent]) -> tuple[EventView, ...]:
        try:
            ids = {one.envelope.actor.id for one in found}
            names = await self._engine.directory.names(tenant, ids.union(*(_named(one) for one in found)))
        except UnusableKey:
            # What is sealed is carried as broken then; the rest is shown all the same.
            names = dict[UUID, str]()
        return tuple(_view(one, names) for one in found)


def chosen_names(patterns: Sequence[str]) -> tuple[str, ...]:
    """Stored names meant by names and families (``memory.*``). Raises `ValueError` for one that means none."""
    known = event_names()
    chosen: set[str] = set()
    for pattern in patterns:
        family = pattern.removesuffix("*") if pattern.endswith(".*") else None
        meant = {name for name in known if name == pattern or (family and name.startswith(family))}
        if not meant:
            families = ", ".join(sorted({f"{name.partition('.')[0]}.*" for name in known}))
            raise ValueError(f"names no event. Families are: {families}")
        chosen |= meant
    return tuple(sorted(chosen))


def _selection(caller: Caller, query: _Chosen) -> Selection:
    return Selection(caller.tenant, chosen_names(query.names), query.stream, session=query.session_run_id)


def _named(recorded: RecordedEvent) -> set[UUID]:
    """The opaque ids in an event's fields that stand for outside names."""
    return {one for field in NAMED if isinstance(one := getattr(recorded.event, field, None), UUID)}


def _view(recorded: RecordedEvent, names: Mapping[UUID, str]) -> EventView:
    envelope = recorded.envelope
    name = names.get(envelope.actor.id)
    return EventView(
        position=recorded.position,
        event=recorded.name,
        event_id=recorded.event_id,
        stream=recorded.stream,
        version=recorded.version,
        recorded_at=recorded.recorded_at,
        actor=envelope.actor.kind if name is None else f"{envelope.actor.kind}:{name}",
        cause=envelope.cause,
        correlation=envelope.correlation,
        policy=envelope.policy,
        judge=envelope.judge,
        session=envelope.session,
        data=recorded.event.model_dump(mode="json") if recorded.event is not None else None,
        names={str(one): names[one] for one in _named(recorded) if one in names},
        broken=recorded.broken,
        archive=None if envelope.origin is None else envelope.origin.archive,
    )
