"""What the network costs: fifty clients that remember and search, over REST and in one's own process."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import chain

from ...handlers.client.client import AsyncClient
from ...handlers.memory import AsyncMemory
from ..local import open_memory
from ..settings import Settings
from .bench import Bench
from .installation import installation, served, token_of
from .row import Row, quantile
from .sample import Writer

CLIENTS = 50
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
            async with installation(bench, broker) as settings, opened(settings) as clients:
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
    token = await token_of(settings, permissions=("memory:read", "memory:write"))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(settings))
        yield [await stack.enter_async_context(AsyncClient(url, token)) for _ in range(CLIENTS)]
