"""Instants and positions of the log: which event was the newest at a moment."""

import asyncio
from datetime import datetime

from ..domain.errors import InvalidInput
from .database import Database

APPEND_LOCK = 7283460113
"""The advisory lock under which ``lethelog.append`` takes positions and times, until it is committed."""


SKEW_SECONDS = 2.0
"""How far the clock of whoever asks may be ahead of the server's: so much of the future is waited for."""


async def position_at(database: Database, instant: datetime) -> int:
    """Position of the newest event recorded at or before an instant; 0 where there is none.

    The answer is final: what is appended later is recorded later. With one exception: the log's time never goes
    back, so while the server's clock was set back and stands behind the newest event, what is appended carries
    exactly that event's time. For this one instant the answer then grows, until the clock has passed it.

    An instant up to `SKEW_SECONDS` ahead of the server's clock is waited for; raises `InvalidInput` (``instant``)
    for one further in the future.
    """
    while (ahead := await _seconds_ahead(database, instant)) > 0:
        if ahead > SKEW_SECONDS:
            raise InvalidInput(
                "instant",
                f"lies in the future of the log: more than {SKEW_SECONDS:g} s ahead of the server's clock",
                "Nothing is on record there yet",
            )
        await asyncio.sleep(ahead)
    async with database.transaction() as connection:
        cursor = await connection.execute("select recorded_at > %s from lethelog.head", (instant,))
        if await cursor.fetchone() != (True,):
            # An append that is under way may have its time already, and be recorded before the instant.
            await connection.execute(f"select pg_advisory_xact_lock_shared({APPEND_LOCK})")
        cursor = await connection.execute(_POSITION_AT, {"at": instant})
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def _seconds_ahead(database: Database, instant: datetime) -> float:
    """How far an instant is ahead of the log's time, which is the server's clock and never goes back."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select extract(epoch from %s - greatest(recorded_at, clock_timestamp()))::float8 from lethelog.head",
            (instant,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def recorded_at(database: Database, position: int) -> datetime | None:
    """When the event at a position was recorded; None where there is no such event."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select recorded_at from lethelog.events where position = %s", (position,)
        )
        row = await cursor.fetchone()
    return None if row is None else row[0]


_POSITION_AT = """
    with recursive search(low, high) as (
        select 0::bigint, position from lethelog.head
        union all
        select case when earlier then middle else low end, case when earlier then high else middle - 1 end
        from (
            select low, high, middle,
                (select e.recorded_at from lethelog.events e where e.position = middle) <= %(at)s as earlier
            from (select low, high, (low + high + 1) / 2 as middle from search where low < high) halved
        ) compared
    )
    select low from search where low = high
"""
"""Positions have no gap and the log's time never goes back, so half of what is left falls out at each step."""
