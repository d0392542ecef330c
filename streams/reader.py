"""Following the log: LISTEN first, then pull, with a fallback poll and reconnection (engine-notes 1.7).

One `LogTail` per process holds the listening connection and wakes everybody who waits for new events.
"""

import asyncio
import contextlib

import psycopg

from ..domain.errors import LethelogError
from .database import Connection, Pool
from .ending import end
from .recollection import CHANNEL, Recollection, read_epoch, say_seen

POLL_SECONDS = 1.0
"""A waiter looks again after this long even if no notification came."""
_RECONNECT_SECONDS = 0.5


class LogTail:
    """Says when there may be something new. Open and use it inside one event loop."""

    def __init__(self, database: Pool, recollection: Recollection | None = None) -> None:
        """``recollection`` is told of erasures, and may keep things only while that works."""
        self._database = database
        self._recollection = recollection or Recollection()
        self._changed = asyncio.Condition()
        self._ticks = 0
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start listening; returns once LISTEN is active, so nothing committed later is missed."""
        listening = asyncio.Event()
        self._task = asyncio.create_task(self._listen(listening), name="lethelog-listen")
        await listening.wait()

    async def close(self) -> None:
        if self._task is not None:
            await end(self._task)
            self._task = None

    @property
    def ticks(self) -> int:
        """Counts notifications; take it *before* pulling and give it to `wait`, and none is lost."""
        return self._ticks

    async def wait(self, seen_ticks: int) -> None:
        """Return when something was notified after ``seen_ticks``, or after the poll interval."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS), self._changed:
                await self._changed.wait_for(lambda: self._ticks != seen_ticks)

    async def wake(self) -> None:
        """Wake every waiter, as a notification does."""
        async with self._changed:
            self._ticks += 1
            self._changed.notify_all()

    async def _listen(self, listening: asyncio.Event) -> None:
        while True:
            connection: Connection | None = None
            try:
                connection = await self._database.connect()
                await connection.execute("listen lethelog")
                await connection.execute(f"listen {CHANNEL}")
                seen = await self._see(connection, None)
                listening.set()
                # Whatever was committed while nobody listened.
                await self.wake()
                while True:
                    async with contextlib.aclosing(connection.notifies()) as heard:
                        async for one in heard:
                            if one.channel == CHANNEL:
                                # At once: until then this process may open what is gone.
                                self._recollection.forget()
                                break
                            await self.wake()
                    seen = await self._see(connection, seen)
                    await self.wake()
            except (psycopg.Error, LethelogError):
                listening.set()
            finally:
                self._recollection.lose()
                if connection is not None:
                    with contextlib.suppress(psycopg.Error):
                        await connection.close()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _see(self, connection: Connection, seen: int | None) -> int:
        """Let go of what was remembered before the present epoch, and say so."""
        while True:
            epoch = await read_epoch(connection)
            if epoch == seen:
                self._recollection.listen(epoch)
                return epoch
            self._recollection.notice(epoch)
            await say_seen(connection, epoch, seen)
            seen = epoch
