"""Processes that a test may kill, or lets meet: each does one job of `child.py` and tells how it goes."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("child.py")


class Child:
    """A process with one job; reads what it tells."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []

    @classmethod
    async def start(cls, job: str, **given: Any) -> "Child":
        arguments = json.dumps(given, default=str)
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, str(SCRIPT), job, arguments, stdout=asyncio.subprocess.PIPE
            )
        )

    async def next(self) -> dict[str, Any] | None:
        """What it tells next; None when it ended."""
        assert self.process.stdout is not None
        async with asyncio.timeout(40):
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
        if self.process.returncode is None:
            self.process.kill()
        while await self.next() is not None:
            pass
        await self.process.wait()


Start = Callable[..., Awaitable[Child]]
