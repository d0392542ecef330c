"""Events that a read model could not apply, set aside in sequence (F44).

An event that fails for good is parked, and every later one of its stream behind it, so that a memory is never
shown in a state that skips what happened to it; other streams go on. The rows stand beside the tracking row and
are written in the transaction that moves the position, so nothing is passed without being either applied or
parked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ..domain.errors import EventParked
from ..streams.database import Connection
from ..streams.payloads import RecordedEvent
from ..streams.sealing import UnusableKey
from ..streams.unhandled import BEHIND
from .generations import HOME

StreamKey = tuple[UUID, UUID]
"""Tenant and stream."""


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """One event that waits. Carries no content: the error is a class name."""

    read_model: str
    tenant: UUID
    stream: UUID
    position: int
    event: str
    error: str
    attempts: int
    parked_at: datetime


async def parked_streams(connection: Connection, name: str, schema: str) -> frozenset[StreamKey]:
    """(tenant, stream) of every sequence that waits."""
    cursor = await connection.execute(
        f"select distinct tenant, stream from {HOME}.parked where name = %s and schema = %s", (name, schema)
    )
    return frozenset(await cursor.fetchall())


async def first_parked(connection: Connection, name: str, schema: str | None = None) -> dict[StreamKey, int]:
    """Position of the first parked event of each sequence in a schema, or in the current generation."""
    cursor = await connection.execute(
        f"select p.tenant, p.stream, min(p.position) from {HOME}.parked p join {HOME}.tracking t "
        "on t.name = p.name and t.schema = p.schema where t.name = %(name)s and "
        "case when %(schema)s::text is null then t.state = 'current' else t.schema = %(schema)s end "
        "group by p.tenant, p.stream",
        {"name": name, "schema": schema},
    )
    return {(tenant, stream): position for tenant, stream, position in await cursor.fetchall()}


async def park(
    connection: Connection, name: str, schema: str, events: Sequence[RecordedEvent], error: str, attempts: int
) -> None:
    """Set events aside, inside the transaction that passes them."""
    await connection.execute(
        f"insert into {HOME}.parked (name, schema, tenant, stream, position, event, error, attempts) "
        "select %s, %s, x.tenant, x.stream, x.position, x.event, %s, %s "
        "from unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[]) x(tenant, stream, position, event)",
        (
            name,
            schema,
            error,
            attempts,
            [one.tenant for one in events],
            [one.stream for one in events],
            [one.position for one in events],
            [one.name for one in events],
        ),
    )


async def count_troubles(connection: Connection, name: str, schema: str) -> int:
    """How many things went wrong: each stream that waits is one, those of one tenant's keys are one together."""
    cursor = await connection.execute(
        "select count(distinct case when error = %s then tenant else stream end) "
        f"from {HOME}.parked where name = %s and schema = %s and error <> %s",
        (UnusableKey.__name__, name, schema, BEHIND),
    )
    row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def list_parked(
    connection: Connection, *, name: str | None = None, after: tuple[str, int] = ("", 0), limit: int = 100
) -> list[ParkedEvent]:
    """Parked events of the current generations, by read model and position; ``after`` is the last of a page."""
    cursor = await connection.execute(
        "select p.name, p.tenant, p.stream, p.position, p.event, p.error, p.attempts, p.parked_at "
        f"from {HOME}.parked p join {HOME}.tracking t on t.name = p.name and t.schema = p.schema "
        "where t.state = 'current' and (%(name)s::text is null or p.name = %(name)s) "
        "and (p.name, p.position) > (%(after_name)s, %(after_position)s) "
        "order by p.name, p.position limit %(limit)s",
        {"name": name, "after_name": after[0], "after_position": after[1], "limit": limit},
    )
    return [ParkedEvent(*row) for row in await cursor.fetchall()]


async def refuse_parked(
    connection: Connection, name: str, tenant: UUID, streams: Sequence[UUID], upto: int | None = None
) -> None:
    """Raise `EventParked` where an event of these streams waits in the current generation, at most at ``upto``.

    For whoever finds nothing of what is on record.
    """
    cursor = await connection.execute(
        f"select p.stream, p.position from {HOME}.parked p join {HOME}.tracking t "
        "on t.name = p.name and t.schema = p.schema where t.state = 'current' and p.name = %s and p.tenant = %s "
        "and p.stream = any(%s) and (%s::bigint is null or p.position <= %s) order by p.position limit 1",
        (name, tenant, list(streams), upto, upto),
    )
    row = await cursor.fetchone()
    if row is not None:
        raise EventParked(
            f"{row[0]} is on record, but the read model {name} could not apply its event at position {row[1]} and "
            f"set it aside; see: lethelog parked list --read-model {name}",
            id=row[0],
            read_model=name,
            position=row[1],
        )


async def next_of_stream(connection: Connection, name: str, schema: str, one: StreamKey, limit: int) -> list[int]:
    """Positions of the first events that wait in a sequence, in order; locked until the transaction ends."""
    cursor = await connection.execute(
        f"select position from {HOME}.parked where name = %s and schema = %s and tenant = %s and stream = %s "
        "order by position limit %s for update",
        (name, schema, *one, limit),
    )
    return [position for (position,) in await cursor.fetchall()]


async def unpark(connection: Connection, name: str, schema: str, positions: Sequence[int]) -> None:
    """Take events out, inside the transaction that applies them."""
    await connection.execute(
        f"delete from {HOME}.parked where name = %s and schema = %s and position = any(%s)",
        (name, schema, list(positions)),
    )


async def note_attempt(connection: Connection, name: str, schema: str, position: int, error: str) -> None:
    """Say that an event failed again."""
    await connection.execute(
        f"update {HOME}.parked set attempts = attempts + 1, error = %s "
        "where name = %s and schema = %s and position = %s",
        (error, name, schema, position),
    )
