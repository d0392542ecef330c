"""Transactions of a test's own that others wait for: races are forced, never slept for."""

import asyncio

import psycopg

APPEND_LOCK = 7283460113
"""What every append takes until its commit."""
HOLD_APPENDS = f"select pg_advisory_xact_lock({APPEND_LOCK})"
_WAITING = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
    "and datname = current_database() and pid <> pg_backend_pid()"
)


def waiting(watcher: psycopg.Connection) -> int:
    """How many sessions of this database wait for a lock."""
    row = watcher.execute(_WAITING.encode()).fetchone()
    assert row is not None
    return row[0]


class Held:
    """Holds what a statement locks, every append where none is given, until it is released."""

    def __init__(self, database_url: str, statement: str = HOLD_APPENDS) -> None:
        self._holder = psycopg.connect(database_url)
        self._watcher = psycopg.connect(database_url, autocommit=True)
        self._holder.execute(statement.encode())

    def waiting(self) -> int:
        """How many sessions wait for a lock of this database."""
        return waiting(self._watcher)

    async def is_waited_for(self) -> None:
        """Return once somebody waits."""
        while not self.waiting():
            await asyncio.sleep(0)

    def release(self) -> None:
        """Let those go on who wait."""
        self._holder.rollback()

    def close(self) -> None:
        self._holder.close()
        self._watcher.close()
