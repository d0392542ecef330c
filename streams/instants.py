"""Instants and positions of the log: which event was the newest at a moment."""

from datetime import datetime

from ..domain.errors import InvalidInput
from .database import Database

APPEND_LOCK = 7283460113
"""The advisory lock under which ``lethelog.append`` takes positions and times, until it is committed."""


async def position_at(database: Database, instant: datetime) -> int:
    """Position of the newest event recorded at or before an instant; 0 where there is none.

    The answer is final: what is appended later is recorded later. Raises `InvalidInput` (``instant``) for one that
    lies in the future of the log.
    """
    async with database.transaction() as connection:
        cursor = await connection.execute(
            "select recorded_at > %(at)s, greatest(recorded_at, clock_timestamp()) < %(at)s from lethelog.head",
            {"at": instant},
        )
        row = await cursor.fetchone()
        assert row is not None
        settled, future = row
        if future:
            raise InvalidInput("instant", "lies in the future of the log", "Nothing is on record there yet")
        if not settled:
            # An append that is under way may have its time already, and be recorded before the instant.
            await connection.execute(f"select pg_advisory_xact_lock_shared({APPEND_LOCK})")
        cursor = await connection.execute(_POSITION_AT, {"at": instant})
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
