"""Instants and positions of the log: which event was the newest at a moment."""

import asyncio
from datetime import datetime

from ..domain.errors import InvalidInput
from .database import Pool

APPEND_LOCK = 7283460113
"""The advisory lock under which ``lethelog.append`` takes positions and times, until it is committed."""


SKEW_SECONDS = 2.0
"""How far the clock of whoever asks may be ahead of the server's: so much of the future is waited for."""


async def position_at(database: Pool, instant: datetime) -> int:
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
        cursor = await connection.execute("select lethelog.position_at(%s)", (instant,))
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def _seconds_ahead(database: Pool, instant: datetime) -> float:
    """How far an instant is ahead of the log's time, which is the server's clock and never goes back."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select extract(epoch from %s - greatest(recorded_at, clock_timestamp()))::float8 from lethelog.head",
            (instant,),
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0]


async def recorded_at(database: Pool, position: int) -> datetime | None:
    """When the event at a position was recorded; None where there is no such event."""
    async with database.connection() as connection:
        row = await (await connection.execute("select lethelog.recorded_at(%s)", (position,))).fetchone()
    assert row is not None
    return row[0]
