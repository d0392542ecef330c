"""Ending a background task for good."""

import asyncio
from typing import Any

_AGAIN_SECONDS = 1.0


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return when it has ended, whatever it ended with.

    One request is not always enough: before Python 3.12 ``asyncio.wait_for`` drops a cancellation that comes at
    the moment its own wait is over, and the client libraries wait so while they connect.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()
