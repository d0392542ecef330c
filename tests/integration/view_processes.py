"""Real processes that feed or rebuild read models, for tests that kill them."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

SCRIPT = Path(__file__).with_name("view_worker.py")


class ViewProcess:
    """One of them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, word: str) -> None:
        """Wait until it says this."""
        assert self._process.stdout is not None
        async with asyncio.timeout(40):
            while (line := await self._process.stdout.readline()).decode().strip() != word:
                assert line, f"it ended and never said {word}"

    async def kill(self) -> None:
        """As the system does it, without a goodbye."""
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def view_process(database_url: str, name: str, what: str, hold: int = 0) -> AsyncGenerator[ViewProcess]:
    """Start one; it is ready. ``hold`` is a position whose page it never ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), database_url, name, what, str(hold), stdout=asyncio.subprocess.PIPE
    )
    one = ViewProcess(process)
    try:
        await one.says("ready")
        yield one
    finally:
        if process.returncode is None:
            await one.kill()
