"""Connections to PostgreSQL: one bounded asyncio pool per process, with clear errors."""

import select
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from ..domain.errors import Unavailable

APPLICATION = "lethelog_application"
"""The role every connection of the product works as: it may read the log and call ``lethelog.append``, and owns
the read models. It cannot change or delete what is in the log; only migrations work as the owner (ADR 7)."""


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A psycopg connection that takes statements as plain text.

    psycopg asks for literal strings, to catch values pasted into statements. Ours are put together from this
    project's own constants (schema and column names); values always travel as parameters.
    """

    async def execute(  # pyright: ignore[reportIncompatibleMethodOverride] - wider than psycopg's on purpose
        self, query: str, params: Any = None, *, prepare: bool | None = None
    ) -> AsyncCursor[tuple[Any, ...]]:
        return await super().execute(query.encode(), params, prepare=prepare)


class Database:
    """A pool of autocommit connections. Open it inside the event loop that uses it."""

    def __init__(
        self, url: str, *, size: int = 8, wait_seconds: float = 10.0, role: str | None = APPLICATION
    ) -> None:
        """``role`` is set on every connection; None keeps the rights of the login itself."""
        self.url = url
        self._options = session_options(role)
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            connection_class=Connection,
            min_size=0,
            max_size=size,
            timeout=wait_seconds,
            # Between attempts it waits twice as long each time; after this it begins anew, so that a server that
            # was away for long is noticed soon after it is back.
            reconnect_timeout=wait_seconds,
            open=False,
            max_idle=60,
            check=_check,
            kwargs={"autocommit": True, "connect_timeout": 10, "options": self._options},
        )

    async def open(self) -> None:
        """Open the pool and check that the server answers. Raises `Unavailable`."""
        await self._pool.open()
        async with self.connection() as connection:
            await connection.execute("select 1")

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A pooled connection in autocommit mode. A server that does not answer is `Unavailable`."""
        try:
            async with self._pool.connection() as connection:
                yield connection
        except PoolTimeout:
            raise Unavailable("the database does not answer; is PostgreSQL running?") from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not is_outage(error):
                raise
            raise unavailable(error) from error

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A pooled connection inside one transaction: all of it or nothing."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def connect(self) -> Connection:
        """A connection of one's own, outside the pool (LISTEN, session locks). Raises `Unavailable`."""
        try:
            return await Connection.connect(self.url, autocommit=True, connect_timeout=10, options=self._options)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise unavailable(error) from error


def session_options(role: str | None = APPLICATION) -> str:
    """The libpq ``options`` of a connection of the product."""
    return "-c timezone=UTC" + ("" if role is None else f" -c role={role}")


async def _check(connection: Connection) -> None:
    """Refuse a pooled connection whose server has gone, so that the pool gives another one.

    A server that ends closes the socket, which then has something to read. Asking the server each time would be a
    round trip more for every statement, as much as most of them take.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(connection)


_OUTAGES = ("08", "53", "57", "58")
"""SQLSTATE classes of a server that cannot answer: connection, resources, operator intervention, system."""


def is_outage(error: psycopg.Error) -> bool:
    """Whether the server is the trouble, and not what it was asked: psycopg names both operational errors."""
    return error.sqlstate is None or error.sqlstate[:2] in _OUTAGES


def unavailable(error: psycopg.Error) -> Unavailable:
    """The error a caller sees when the database failed under it; carries the SQLSTATE, no statement, no value."""
    if error.sqlstate == "53100":
        return Unavailable("the database's disk is full; nothing was half-done, free some space and try again")
    state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
    return Unavailable(f"the database did not answer{state}; nothing was half-done, try again")
