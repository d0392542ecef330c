"""Ending a background task for good."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

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


async def until_cancelled(work: Coroutine[Any, Any, T]) -> T:
    """Do it, and let one cancellation of whoever waits for it end it for good."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task})
    finally:
        await end(task)
    return task.result()
