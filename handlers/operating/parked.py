"""What was set aside after failing again and again, as one list: events that read models could not apply, and
messages that consumers on the broker gave up."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from ...domain.errors import InvalidInput, NotFound, Unavailable
from ...domain.fields import Id, Input, parse
from ...projections.parked import list_parked
from ...projections.parked_retry import ParkedEvents
from ...projections.rebuild import Report
from ...streams.broker import BrokerSettings, close, connect
from ...streams.parking_place import PAGE_LIMIT, DropReason, ParkingPlace
from ..access.caller import Caller
from ..engine import Engine
from .views import ParkedLeft, ParkedPage, ParkedView, Retried

BROKER = "broker"
"""Where a message is parked; an event is parked by a read model."""
_MESSAGE = "message"
_Text = Annotated[str, StringConstraints(strict=True, max_length=256)]


class _Places(Input):
    consumer: _Text | None = None
    """Only messages that this consumer gave up."""
    read_model: _Text | None = None
    """Only events that this read model could not apply."""


class ParkedQuery(_Places):
    """Which parked ones to list; ``cursor`` goes on after a page."""

    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT, strict=True)
    cursor: _Text | None = None


class DroppedQuery(Input):
    """Which dropped messages to list."""

    consumer: _Text | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_LIMIT, strict=True)
    cursor: _Text | None = None


class RetryQuery(_Places):
    """Which parked ones to try again; without any field all of them."""

    sequence: Id | None = None
    """Only the events of this memory, proposal or pass."""


class DropCommand(Input):
    """Which message to take out for good, and why: a code, and the number of a ticket, both kept in clear."""

    id: _Text
    reason: DropReason
    ticket: int | None = Field(default=None, ge=1, le=10**12, strict=True)


class Parked:
    """For one caller. What is parked is of all tenants, so all of it is for who administers the installation."""

    def __init__(self, engine: Engine, broker: BrokerSettings | None) -> None:
        self._engine = engine
        self._broker = broker

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ParkedPage:
        """Events first, by read model and position, then messages in the order they were parked.

        Holds names, positions and opaque ids, no content. Raises `Unavailable` where the broker does not answer.
        """
        caller.require("installation:admin")
        query = parse(ParkedQuery, arguments)
        self._check(query)
        after = self._event_of(query.cursor or "")
        number = _number(query.cursor, "cursor") if query.cursor is not None and after is None else 0
        if query.consumer is None and not number:
            events = await self._events(query.read_model, after or ("", 0), query.limit)
            if len(events) == query.limit:
                return ParkedPage(parked=events, next_cursor=events[-1].id)
        else:
            events = ()
        if query.read_model is not None:
            return ParkedPage(parked=events, next_cursor=None)
        async with self._place() as place:
            messages, more = await place.page(
                consumer=query.consumer, after=number, limit=query.limit - len(events)
            )
        views = tuple(ParkedView.model_validate({**one.as_dict(), **_named(one.id)}) for one in messages)
        return ParkedPage(parked=events + views, next_cursor=None if more is None else f"{_MESSAGE}-{more}")

    async def dropped(self, caller: Caller, arguments: Mapping[str, Any]) -> ParkedPage:
        """Messages that were taken out for good, with the reason and when."""
        caller.require("installation:admin")
        query = parse(DroppedQuery, arguments)
        number = 0 if query.cursor is None else _number(query.cursor, "cursor")
        async with self._place() as place:
            records, more = await place.dropped(consumer=query.consumer, after=number, limit=query.limit)
        return ParkedPage(
            parked=tuple(ParkedView.model_validate({**one, **_named(one["id"])}) for one in records),
            next_cursor=None if more is None else f"{_MESSAGE}-{more}",
        )

    async def retry(self, caller: Caller, arguments: Mapping[str, Any], report: Report) -> Retried:
        """Apply parked events, and send parked messages to their consumers again; each sequence in order.

        May be stopped and repeated at any point. Raises `NotFound` where nothing is parked under what was named,
        and `Unavailable` where the broker does not answer and no read model had anything to apply.
        """
        caller.require("installation:admin")
        query = parse(RetryQuery, arguments)
        self._check(query)
        applied, left = 0, list[ParkedLeft]()
        for name in self._read_models(query):
            done = await self._parked_events(name).retry(report, query.sequence)
            applied += done.applied
            left += [ParkedLeft(id=f"{name}-{at}", reason=reason) for at, reason in done.left.items()]
        found = bool(applied or left)
        sent = 0
        if query.read_model is None:
            try:
                sent, stays = await self._send(query, report)
                left, found = [*left, *stays], True
            except NotFound:
                pass  # it may have been parked by read models alone
            except Unavailable as error:
                if not found:
                    raise
                # What read models did is done and is told.
                left.append(ParkedLeft(id=BROKER, reason=error.code))
        named = {name: str(value) for name, value in query.model_dump(exclude_none=True).items()}
        if not found and named.keys() - {"read_model"}:
            what = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named.items())
            raise NotFound(f"nothing is parked under {what}; see: lethelog parked list", **named)
        return Retried(sent=sent, applied=applied, left=tuple(left))

    async def drop(self, caller: Caller, arguments: Mapping[str, Any]) -> ParkedView:
        """Take one message out for good: its consumer never handles it. What waits behind it stays parked.

        Raises `InvalidInput` for an event of a read model, which would be wrong without it, and `NotFound`.
        """
        caller.require("installation:admin")
        command = parse(DropCommand, arguments)
        if self._event_of(command.id) is not None:
            raise InvalidInput(
                "id",
                "is an event that its read model waits for and would be wrong without",
                "Retry it",
            )
        number = _number(command.id, "id")
        async with self._place() as place:
            found = await place.drop(number, command.reason, command.ticket)
        why = command.model_dump(include={"reason", "ticket"})
        return ParkedView.model_validate({**found.as_dict(), **_named(number), **why})

    async def _send(self, query: RetryQuery, report: Report) -> tuple[int, tuple[ParkedLeft, ...]]:
        sequence = None if query.sequence is None else str(query.sequence)
        async with self._place() as place:
            done = await place.retry(consumer=query.consumer, sequence=sequence, progress=report)
        stays = (ParkedLeft(id=f"{_MESSAGE}-{at}", reason=reason) for at, reason in done.left.items())
        return done.sent, tuple(stays)

    async def _events(self, name: str | None, after: tuple[str, int], limit: int) -> tuple[ParkedView, ...]:
        async with self._engine.database.connection() as connection:
            found = await list_parked(connection, name=name, after=after, limit=limit)
        return tuple(
            ParkedView(
                id=f"{one.read_model}-{one.position}",
                where=one.read_model,
                kind="event",
                position=one.position,
                event=one.event,
                sequence=one.stream,
                error=one.error,
                failures=one.attempts,
                parked_at=one.parked_at,
            )
            for one in found
        )

    def _read_models(self, query: RetryQuery) -> Sequence[str]:
        if query.read_model is not None:
            return (query.read_model,)
        return () if query.consumer is not None else [one.name for one in self._engine.projections]

    def _parked_events(self, name: str) -> ParkedEvents:
        projection = self._engine.projection(name)
        assert projection is not None
        return ParkedEvents(self._engine.database, self._engine.log, projection)

    def _check(self, places: _Places) -> None:
        if places.read_model is None:
            return
        known = [one.name for one in self._engine.projections]
        if places.read_model not in known:
            raise InvalidInput("read_model", "is no read model", f"There are: {', '.join(known)}")
        if places.consumer is not None:
            raise InvalidInput("read_model", "cannot be given together with consumer")

    def _event_of(self, text: str) -> tuple[str, int] | None:
        """(read model, position) that an id names; None for the id of something else."""
        name, _, position = text.rpartition("-")
        if self._engine.projection(name) is None or not _is_number(position):
            return None
        return name, int(position)

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[ParkingPlace]:
        if self._broker is None:
            raise Unavailable("this memory was opened without a broker, so it sees no parked messages")
        client = await connect(self._broker, name="parked", reconnect=False)
        try:
            yield ParkingPlace(client, self._broker, self._engine.database)
        finally:
            await asyncio.shield(close(client))


def _named(number: int) -> dict[str, str]:
    return {"id": f"{_MESSAGE}-{number}", "where": BROKER}


def _number(identity: str, field: str) -> int:
    kind, _, digits = identity.rpartition("-")
    if kind != _MESSAGE or not _is_number(digits):
        raise InvalidInput(field, f"must look like {_MESSAGE}-17", "See: lethelog parked list")
    return int(digits)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
