"""How far read models got: in events, in seconds, and in one word.

Measured against the log's real head and the database's clock, never against a mark somebody keeps: a frozen mark
reads as no lag at all (engine-notes 3.4).
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..domain.errors import InvalidInput, NotCaughtUp
from ..streams.database import Connection, Pool
from ..streams.leadership import is_led
from .generations import HOME
from .waiting import waiting_for

Standing = Literal["never built", "stalled", "parked", "no worker", "behind", "caught up"]
"""*stalled*: an event fails, or is of a name this version does not know, and is tried again; *parked*: events were
set aside and others go on; *no worker*: there is something to do and nobody does it; *behind*: moving, not
there."""

CHOSEN = (
    "name = %(name)s and case when %(schema)s::text is null then state = 'current' else schema = %(schema)s end"
)
"""SQL for the tracking row of the current generation, or of the one in a schema."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one generation of a read model got."""

    name: str
    schema: str
    version: str
    position: int
    stalled_at: int | None
    """Position of the event that fails."""
    error: str | None
    """Name of that event and class of the error."""
    moved_at: datetime | None
    parked: int = 0
    """Events set aside: those that failed, and later ones of the same streams."""
    lag: int = 0
    """Events of the log that it has not seen."""
    lag_seconds: float = 0.0
    """Age of the oldest of them; 0 where there is none."""
    led: bool = False
    """Whether a worker holds the leadership."""

    @property
    def standing(self) -> Standing:
        """In one word."""
        if not self.version:
            return "never built"
        if self.stalled_at is not None:
            return "stalled"
        if self.parked:
            return "parked"
        if not self.lag:
            return "caught up"
        return "behind" if self.led else "no worker"


def duty(name: str) -> str:
    """The leadership of whoever feeds a read model."""
    return f"projection:{name}"


def chosen(name: str, schema: str | None) -> dict[str, object]:
    """Parameters of `CHOSEN`."""
    return {"name": name, "schema": schema}


async def read_progress(connection: Connection, name: str, schema: str | None = None) -> Progress:
    """How far a read model's current generation got, or the one in ``schema``."""
    cursor = await connection.execute(_PROGRESS, chosen(name, schema))
    row = await cursor.fetchone()
    led = await is_led(connection, duty(name))
    return Progress(*row, led=led) if row is not None else Progress(name, "", "", 0, None, None, None, led=led)


async def read_position(connection: Connection, name: str) -> tuple[int, int]:
    """The position of a read model's current generation, 0 where it was never built; and that of the log."""
    row = await (await connection.execute(_POSITION, (name,))).fetchone()
    assert row is not None
    return row


async def wait_for(database: Pool, name: str, position: int, *, seconds: float = 10.0) -> None:
    """Return once a read model reached a position (read your own write), or raise `NotCaughtUp`.

    Raises `InvalidInput` at once for a position that the log does not have.
    """

    async def look() -> int:
        async with database.connection() as connection:
            reached, head = await read_position(connection, name)
        if head < position:
            raise InvalidInput("after", f"is beyond the end of the log, which is at position {head}")
        return reached

    try:
        async with asyncio.timeout(seconds):
            await waiting_for(database.url, name).reached(position, look)
    except TimeoutError:
        raise NotCaughtUp(
            f"the read model {name} did not reach position {position} within {seconds:g} s; "
            "is a worker running? see: lethelog doctor",
            read_model=name,
            position=position,
        ) from None


_POSITION = f"""
    select coalesce((select position from {HOME}.tracking where name = %s and state = 'current'), 0),
        (select position from lethelog.head)
"""
_PROGRESS = f"""
    select t.name, t.schema, t.version, t.position, t.stalled_at, t.error, t.moved_at,
        (select count(*)::int from {HOME}.parked p where p.name = t.name and p.schema = t.schema),
        greatest(0, (select position from lethelog.head) - t.position),
        coalesce((select greatest(0, extract(epoch from clock_timestamp() - e.recorded_at)::float8)
            from lethelog.events e where e.position = t.position + 1), 0)
    from {HOME}.tracking t where {CHOSEN}
"""
