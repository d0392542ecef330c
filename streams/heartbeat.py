"""The heartbeat of a long handler."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import nats.errors
from faststream.nats.message import NatsMessage


@contextlib.asynccontextmanager
async def kept_alive(message: NatsMessage, every: float | None) -> AsyncGenerator[None]:
    """Tell the broker that a long handler is still at it, or it would deliver the message once more (F43)."""

    async def beat(seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(nats.errors.Error, OSError):
                await message.in_progress()

    task = None if every is None else asyncio.create_task(beat(every))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
