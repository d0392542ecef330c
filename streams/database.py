"""Connections to PostgreSQL: a bounded asyncio pool for each role that a process works in, with clear errors.

The roles of ADR 8. What a tenant's door reads or writes goes through `Doors`, where row-level security shows one
tenant; what concerns all tenants goes through `Database`, the worker; the log alone appends.
"""

import select
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from ..domain.errors import Unavailable

DOOR = "lethelog_door"
"""Sees one tenant, by row-level security, and owns nothing."""
APPENDER = "lethelog_appender"
"""May execute ``lethelog.append`` and nothing else."""
WORKER = "lethelog_worker"
"""Reads the log of all tenants; makes and owns the read models."""
FUNCTIONS = "lethelog_functions"
"""Owns the functions that run with more rights than their caller's. Nobody connects as it."""
BACKUP = "lethelog_backup"
"""Reads everything, past row-level security, and writes nothing."""
TENANT_SETTING = "lethelog.tenant"
"""Which tenant a transaction is for. Set for a transaction only, so that nothing stays on a pooled connection."""

Isolation = Literal["read committed", "repeatable read"]


class Connection(AsyncConnection[tuple[Any, ...]]):
    """A psycopg connection that takes statements as plain text.

    psycopg asks for literal strings, to catch values pasted into statements. Ours are put together from this
    project's own constants (schema and column names); values always travel as parameters.
    """

    async def execute(  # pyright: ignore[reportIncompatibleMethodOverride] - wider than psycopg's on purpose
        self, query: str, params: Any = None, *, prepare: bool | None = None
    ) -> AsyncCursor[tuple[Any, ...]]:
        return await super().execute(query.encode(), params, prepare=prepare)


class Pool:
    """Autocommit connections in one role. Open it inside the event loop that uses it."""

    def __init__(self, url: str, *, size: int = 8, wait_seconds: float = 10.0, role: str | None = None) -> None:
        """``role`` is set on every connection; None keeps the rights of the login itself."""
        self.url = url
        self.role = role
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
    async def transaction(self, *, isolation: Isolation = "read committed") -> AsyncGenerator[Connection]:
        """A pooled connection inside one transaction: all of it or nothing.

        Another isolation than the usual one also makes it read-only.
        """
        async with self.connection() as connection, connection.transaction():
            if isolation != "read committed":
                await connection.execute(f"set transaction isolation level {isolation}, read only")
            yield connection

    async def connect(self) -> Connection:
        """A connection of one's own, outside the pool (LISTEN, session locks). Raises `Unavailable`."""
        try:
            return await Connection.connect(self.url, autocommit=True, connect_timeout=10, options=self._options)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise unavailable(error) from error


class Doors(Pool):
    """What a tenant's callers read and write through: one tenant at a time, and without one nothing."""

    @asynccontextmanager
    async def tenant(self, tenant: UUID, *, isolation: Isolation = "read committed") -> AsyncGenerator[Connection]:
        """A connection inside one transaction that sees this tenant alone.

        Another isolation than the usual one also makes it read-only.
        """
        async with self.connection() as connection:
            await connection.execute(_begin(tenant, isolation), prepare=False)
            try:
                yield connection
            except BaseException:
                if not connection.closed:
                    await connection.execute("rollback", prepare=False)
                raise
            await connection.execute("commit", prepare=False)

    async def rows(
        self, tenant: UUID, statement: str, parameters: Any = None, *, binary: bool = False
    ) -> Sequence[tuple[Any, ...]]:
        """The rows of one statement for one tenant, in one round trip and a transaction of its own."""
        async with (
            self.connection() as connection,
            connection.pipeline(),
            connection.cursor(binary=binary) as cursor,
        ):
            # Sent together, the two are one transaction.
            await connection.execute(_FOR_TENANT, (str(tenant),))
            await cursor.execute(statement.encode(), parameters)
            return await cursor.fetchall()


class Database(Pool):
    """The database as this process works in it: the worker's pool, and beside it the doors' and the appender's.

    ``worker_url`` is a login of its own for the worker; otherwise one login has all the roles. The worker's
    connections are made when they are needed, so a process of doors alone needs no right to them.
    """

    def __init__(
        self,
        url: str,
        *,
        worker_url: str | None = None,
        size: int = 8,
        wait_seconds: float = 10.0,
        role: str | None = WORKER,
    ) -> None:
        """``role=None`` keeps the rights of the login itself, everywhere."""
        super().__init__(worker_url or url, size=size, wait_seconds=wait_seconds, role=role)
        self.doors = Doors(url, size=size, wait_seconds=wait_seconds, role=role and DOOR)
        self.appender = Pool(url, size=1, wait_seconds=wait_seconds, role=role and APPENDER)
        """Not opened: the log has one connection of its own."""

    async def open(self) -> None:
        """Open the pools and check that the server answers. Raises `Unavailable`."""
        await self._pool.open()
        await self.doors.open()

    async def close(self) -> None:
        await self.doors.close()
        await super().close()


def session_options(role: str | None = WORKER) -> str:
    """The libpq ``options`` of a connection of the product."""
    return "-c timezone=UTC" + ("" if role is None else f" -c role={role}")


def tenant_statement(tenant: UUID) -> str:
    """SQL that says which tenant the transaction it stands in is for."""
    # Formatted from a UUID, whatever the caller took for one.
    return f"set local {TENANT_SETTING} = '{UUID(bytes=tenant.bytes)}'"


def _begin(tenant: UUID, isolation: Isolation) -> str:
    mode = "" if isolation == "read committed" else f" isolation level {isolation}, read only"
    return f"begin{mode}; {tenant_statement(tenant)}"


_FOR_TENANT = f"select set_config('{TENANT_SETTING}', %s, true)"


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
