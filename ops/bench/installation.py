"""An installation to measure at its doors: a database of its own, and the processes of a user."""

import asyncio
import base64
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from ...domain.errors import Unavailable
from ...handlers.access.caller import Permission
from ...streams.broker import BrokerSettings
from ..local import open_memory
from ..settings import Settings
from .bench import Bench

ACTOR = "agent:bench"
_READY_SECONDS = 60.0


@asynccontextmanager
async def installation(bench: Bench, broker: BrokerSettings) -> AsyncGenerator[Settings]:
    """Settings of an empty one on the servers of the run."""
    async with bench.servers.database() as url:
        with tempfile.TemporaryDirectory(prefix="lethelog-bench-") as folder:
            yield Settings.load(
                data_dir=Path(folder),
                database_url=url,
                broker_url=broker.url,
                # Beneath the run's own name, so that it is taken away with that.
                broker_prefix=f"{broker.prefix}_{uuid4().hex[:6]}",
                master_key=base64.b64encode(os.urandom(32)).decode(),
                actor=ACTOR,
            )


def environment(settings: Settings) -> Mapping[str, str]:
    """The settings, for a process."""
    assert settings.database_url and settings.broker_url and settings.master_key
    return {
        **os.environ,
        "LETHELOG_DATA_DIR": str(settings.data_dir),
        "LETHELOG_DATABASE_URL": settings.database_url.get_secret_value(),
        "LETHELOG_BROKER_URL": settings.broker_url.get_secret_value(),
        "LETHELOG_BROKER_PREFIX": settings.broker_prefix,
        "LETHELOG_MASTER_KEY": settings.master_key.get_secret_value(),
        "LETHELOG_ACTOR": settings.actor,
    }


def command(*arguments: str) -> list[str]:
    """The command line tool, as this interpreter runs it."""
    return [sys.executable, "-m", "lethelog", *arguments]


async def token_of(settings: Settings, permissions: tuple[Permission, ...]) -> str:
    """A token of its own tenant."""
    async with await open_memory(settings, ()) as memory:
        return (await memory.tokens.issue(settings.actor, permissions=permissions)).text


@asynccontextmanager
async def served(settings: Settings) -> AsyncGenerator[str]:
    """The address of a server in a process of its own, without a bound on requests."""
    server = await asyncio.create_subprocess_exec(
        *command("serve", "--port", "0", "--rate", "0", "--json"),
        env=environment(settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield await asyncio.wait_for(_said_url(server), _READY_SECONDS)
    finally:
        # One that ended by itself has said why by then.
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        await server.wait()


async def _said_url(server: asyncio.subprocess.Process) -> str:
    assert server.stdout is not None
    said = ""
    while line := await server.stdout.readline():
        said += line.decode()
        try:
            return str(json.loads(said)["url"])
        except ValueError:
            continue
    raise Unavailable("the server ended before it listened")
