"""What the network costs: fifty clients that remember and search, over REST and in one's own process."""

import asyncio
import base64
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ...domain.errors import Unavailable
from ...handlers.client.client import AsyncClient
from ...handlers.memory import AsyncMemory
from ..local import open_memory
from ..settings import Settings
from .bench import Bench
from .row import Row, quantile
from .sample import Writer

CLIENTS = 50


_READY_SECONDS = 60.0


_Door = AsyncMemory | AsyncClient


@dataclass(frozen=True)
class _Times:
    remember: list[float]
    search: list[float]


async def doors(bench: Bench) -> list[Row]:
    """Remember and search by fifty clients at once; each waits for its answer before it asks again."""
    each = bench.pick(20, 4)
    async with bench.servers.broker() as broker:
        measured: dict[str, _Times] = {}
        for name, opened in (("in process", _in_process), ("over REST", _over_rest)):
            bench.say(f"{CLIENTS} clients, {name}")
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(bench.servers.database())
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="lethelog-bench-doors-"))
                settings = Settings.load(
                    data_dir=Path(folder),
                    database_url=url,
                    broker_url=broker.url,
                    broker_prefix=f"{broker.prefix}_{name[:2]}",
                    master_key=base64.b64encode(os.urandom(32)).decode(),
                    actor="agent:bench",
                )
                clients = await stack.enter_async_context(opened(settings))
                measured[name] = await _times(clients, each, bench.pick(1_000, 60))
        flush = bench.servers.flush_ms()
    mine, theirs = measured["over REST"], measured["in process"]
    return [
        Row(
            name=f"rest.{verb}.{label}",
            figure=quantile(getattr(mine, verb), share),
            unit="ms",
            says=f"{label} of {verb} by {CLIENTS} clients over REST, server and clients in a process each",
            baseline=quantile(getattr(theirs, verb), share),
            against="the same by as many tasks in the process of the memory",
            flush_ms=flush if verb == "remember" else None,
            n=len(getattr(mine, verb)),
        )
        for verb in ("remember", "search")
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


async def _times(clients: Sequence[_Door], each: int, filled: int) -> _Times:
    """Of what ``each`` client asks, where so many memories are there before."""
    writer = Writer()
    filling = list(writer.texts(filled))
    share = len(filling) // len(clients)
    await asyncio.gather(
        *(
            _several([_remembering(client, text) for text in filling[n * share : (n + 1) * share]])
            for n, client in enumerate(clients)
        )
    )
    # Searches wait for what their own client wrote; the first brings every read model up.
    await asyncio.gather(*(client.search("deploys") for client in clients))
    texts = [list(writer.texts(each)) for _ in clients]
    remembered = await asyncio.gather(
        *(_several([_remembering(client, text) for text in texts[n]]) for n, client in enumerate(clients))
    )
    await asyncio.gather(*(client.search("deploys") for client in clients))
    searched = await asyncio.gather(
        *(_several([_searching(client, text) for text in texts[n]]) for n, client in enumerate(clients))
    )
    return _Times(list(chain(*remembered)), list(chain(*searched)))


def _remembering(client: _Door, text: str) -> Callable[[], Awaitable[object]]:
    return lambda: client.remember(text)


def _searching(client: _Door, text: str) -> Callable[[], Awaitable[object]]:
    return lambda: client.search(text[:60])


async def _several(asked: Sequence[Callable[[], Awaitable[object]]]) -> list[float]:
    """Milliseconds of each, one after another."""
    times: list[float] = []
    for ask in asked:
        began = time.perf_counter()
        await ask()
        times.append(1e3 * (time.perf_counter() - began))
    return times


@asynccontextmanager
async def _in_process(settings: Settings) -> AsyncGenerator[Sequence[_Door]]:
    memory = await open_memory(settings)
    try:
        yield [memory] * CLIENTS
    finally:
        await memory.close()


@asynccontextmanager
async def _over_rest(settings: Settings) -> AsyncGenerator[Sequence[_Door]]:
    memory = await open_memory(settings, ())
    issued = await memory.tokens.issue("agent:bench", permissions=["memory:read", "memory:write"])
    await memory.close()
    assert settings.database_url and settings.broker_url and settings.master_key
    environment = {
        "LETHELOG_DATA_DIR": str(settings.data_dir),
        "LETHELOG_DATABASE_URL": settings.database_url.get_secret_value(),
        "LETHELOG_BROKER_URL": settings.broker_url.get_secret_value(),
        "LETHELOG_BROKER_PREFIX": settings.broker_prefix,
        "LETHELOG_MASTER_KEY": settings.master_key.get_secret_value(),
        "LETHELOG_ACTOR": settings.actor,
    }
    command = [sys.executable, "-m", "lethelog", "serve", "--port", "0", "--rate", "0", "--json"]
    server = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with AsyncExitStack() as stack:
            url = await asyncio.wait_for(_said_url(server), _READY_SECONDS)
            yield [await stack.enter_async_context(AsyncClient(url, issued.text)) for _ in range(CLIENTS)]
    finally:
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
