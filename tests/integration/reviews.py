"""What the tests of reviewing share: read models that are kept up to date beside, and reviewers."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from lethelog.handlers.access.caller import Caller
from lethelog.streams.payloads import Actor

T = TypeVar("T")


async def with_views(world, work: Awaitable[T]) -> T:
    """The read models are brought up beside, since the work waits for them."""

    async def views() -> None:
        while True:
            await world.catch_up()
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(views())
    try:
        return await work
    finally:
        beside.cancel()


async def reviewer(world, name: str) -> Caller:
    """Another reviewer of the same tenant."""
    tenant = world.caller.tenant
    return Caller(tenant, Actor("person", await world.engine.directory.register(tenant, "actor", name)))
