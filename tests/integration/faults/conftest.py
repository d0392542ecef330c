"""Processes that a test may kill."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

CHILD = Path(__file__).with_name("child.py")
APPEND_LOCK = 7283460113


class Child:
    """A process with one job; reads what it tells."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any] | None:
        """What it tells next; None when it ended."""
        assert self.process.stdout is not None
        async with asyncio.timeout(30):
            line = await self.process.stdout.readline()
        if not line:
            return None
        self.told.append(json.loads(line))
        return self.told[-1]

    async def until(self, **said: Any) -> None:
        """Read on until it tells this."""
        while (told := await self.next()) is not None:
            if told.items() >= said.items():
                return
        raise AssertionError(f"it ended without telling {said}: {self.told[-3:]}")

    async def rest(self) -> list[dict[str, Any]]:
        """Everything it tells until it ends."""
        while await self.next() is not None:
            pass
        assert await self.process.wait() == 0, self.told[-3:]
        return self.told

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no clean-up. What it told before is read."""
        self.process.kill()
        while await self.next() is not None:
            pass
        await self.process.wait()


Start = Callable[..., Awaitable[Child]]


@pytest.fixture
async def start() -> AsyncGenerator[Start]:
    """Starts a job of `child.py` in a process of its own."""
    children: list[Child] = []

    async def start(job: str, **given: Any) -> Child:
        arguments = json.dumps(given, default=str)
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), job, arguments, stdout=asyncio.subprocess.PIPE
        )
        children.append(Child(process))
        return children[-1]

    yield start
    for child in children:
        if child.process.returncode is None:
            await child.kill()


class Held:
    """A transaction of the test's own that others wait for."""

    def __init__(self, database_url: str, statement: str) -> None:
        self._holder = psycopg.connect(database_url)
        self._holder.execute(statement.encode())
        self._watcher = psycopg.connect(database_url, autocommit=True)

    def waiting(self) -> int:
        """How many sessions wait for a lock of this database."""
        row = self._watcher.execute(
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
            "and datname = current_database() and pid <> pg_backend_pid()"
        ).fetchone()
        assert row is not None
        return row[0]

    def release(self) -> None:
        self._holder.close()
        self._watcher.close()


@pytest.fixture
def held(database_url: str):
    """Holds the append lock, or what a statement locks, until released."""
    all_held: list[Held] = []

    def hold(statement: str = f"select pg_advisory_xact_lock({APPEND_LOCK})") -> Held:
        all_held.append(Held(database_url, statement))
        return all_held[-1]

    yield hold
    for one in all_held:
        one.release()
