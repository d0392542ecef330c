"""Running the background roles in this process, until somebody stops it."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ...domain.errors import InvalidInput
from .background import WorkerState
from .signals import until_stopped

if TYPE_CHECKING:
    from ...handlers.operating.workers import Role
    from ...streams.broker import BrokerSettings
    from ..settings import Settings


def roles_of(text: str) -> "frozenset[Role]":
    """Roles by their names, separated by commas; ``all`` is every one."""
    from ...handlers.operating.workers import ALL_ROLES

    names = {part.strip() for part in text.split(",") if part.strip()}
    if names == {"all"}:
        return ALL_ROLES
    unknown = names - ALL_ROLES
    if unknown or not names:
        known = ", ".join(sorted(ALL_ROLES))
        raise InvalidInput("roles", "must be names of roles, separated by commas", f"There are: {known}, all")
    return frozenset(one for one in ALL_ROLES if one in names)


def broker_settings(settings: "Settings") -> "BrokerSettings":
    """How to reach the broker. The embedded one has to be running: join it first."""
    from ...streams.broker import BrokerSettings

    if settings.broker_url is not None:
        return BrokerSettings(settings.broker_url.get_secret_value(), settings.broker_prefix)
    from ..embedded import join

    with join(settings.data_dir) as servers:
        return BrokerSettings(servers.broker_url, settings.broker_prefix)


@asynccontextmanager
async def running_roles(
    settings: "Settings", roles: "Collection[Role]", *, judge_concurrency: int
) -> AsyncGenerator[None]:
    """Servers, memory and these roles, while the block runs."""
    from ...handlers.operating.workers import Workers
    from ...handlers.sessions.closer import CloserSettings
    from ..local import open_memory, open_pass_settings

    async with AsyncExitStack() as stack:
        door = await stack.enter_async_context(await open_memory(settings.of_installation(), ()))
        (await door.caller()).require("installation:admin")
        passes = open_pass_settings(settings, door.engine)
        stack.push_async_callback(passes.judge.close)
        broker = await asyncio.to_thread(broker_settings, settings)
        workers = Workers(
            door.engine,
            broker=broker,
            passes=passes,
            roles=roles,
            judge_concurrency=judge_concurrency,
            commitment_grace=timedelta(days=settings.commitment_expiry_grace_days),
            closer=CloserSettings(passes.judge, settings.session_closer_enabled),
        )
        stack.push_async_callback(workers.close)
        await workers.open()
        yield


async def serve(
    settings: "Settings",
    roles: "Collection[Role]",
    *,
    judge_concurrency: int,
    ready: Callable[[], None],
) -> None:
    """Run the roles until SIGTERM or SIGINT, then let what runs finish."""

    async def run() -> None:
        async with running_roles(settings, roles, judge_concurrency=judge_concurrency):
            ready()
            await asyncio.Event().wait()

    await until_stopped(run())


def state_of_this_process(settings: "Settings", roles: "Collection[Role]", log: str | None) -> WorkerState:
    """What the worker's file says about this process."""
    from importlib.metadata import version

    return WorkerState(
        pid=os.getpid(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("lethelog"),
        roles=tuple(sorted(roles)),
        embedded=settings.database_url is None and settings.broker_url is None,
        log=log,
    )


def log_to_stderr() -> None:
    """Warnings of Lethelog to the error stream; other libraries may log content, so theirs stay out."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger(__name__.partition(".")[0])
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
