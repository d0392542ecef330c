"""One leader, others on standby: a session-level advisory lock that dies with its connection."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable

import psycopg

from .database import Connection, Database

RETRY_SECONDS = 0.5
RELEASE_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


def lock_number(name: str) -> int:
    """The advisory lock of a duty, stable over processes."""
    return int.from_bytes(hashlib.sha256(f"lethelog:{name}".encode()).digest()[:8], "big", signed=True)


class Leadership:
    """The right to do one duty. Whoever holds it does it; the lock's connection is its only proof."""

    def __init__(self, database: Database, duty: str) -> None:
        self._database = database
        self._duty = duty
        self._number = lock_number(duty)
        self._connection: Connection | None = None

    async def acquire(self) -> bool:
        """Try once; True when this process leads now."""
        if self._connection is not None:
            return await self.still_held()
        connection = await self._database.connect()
        try:
            row = await (await connection.execute("select pg_try_advisory_lock(%s)", (self._number,))).fetchone()
        except psycopg.Error:
            await connection.close()
            return False
        if row is None or not row[0]:
            await connection.close()
            return False
        self._connection = connection
        return True

    async def still_held(self) -> bool:
        """Whether the lock's connection is alive; a dead one has lost the lock."""
        if self._connection is None:
            return False
        try:
            await self._connection.execute("select 1")
        except psycopg.Error:
            await self.release()
            return False
        return True

    async def release(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(psycopg.Error, TimeoutError):
                # The server notices a closed connection a moment later; whoever asks next must not find it held.
                async with asyncio.timeout(RELEASE_SECONDS):
                    await connection.execute("select pg_advisory_unlock(%s)", (self._number,))
            with contextlib.suppress(psycopg.Error):
                await connection.close()

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lock, do ``work`` while holding it, and start over when either fails. Ends by cancel."""
        try:
            while True:
                try:
                    if await self.acquire():
                        await work()
                except Exception as error:
                    # A duty never ends by itself: whatever went wrong, it starts over, and says so.
                    _LOG.warning("the duty %s starts over after %s", self._duty, type(error).__name__)
                    await self.release()
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            await self.release()


async def is_led(connection: Connection, duty: str) -> bool:
    """Whether anybody does this duty now, as the server knows it."""
    number = lock_number(duty) & (2**64 - 1)
    cursor = await connection.execute(
        "select exists (select from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock' and granted "
        "and database = (select oid from pg_database where datname = current_database()) "
        "and classid = %s::bigint::oid and objid = %s::bigint::oid and objsubid = 1)",
        (number >> 32, number & (2**32 - 1)),
    )
    return await cursor.fetchone() == (True,)
