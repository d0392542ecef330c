"""Signals that end a process: from its first moment on, and never without clearing away what was opened."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run it; a signal cancels it once, and it is waited for.

    Work that ends in a way of its own when it is told to puts handlers of its own in place of these.
    """
    task = asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await task
