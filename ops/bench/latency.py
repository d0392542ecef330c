"""How soon a write is seen, by readers and by subscribers, while a hundred are written each second."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from ...handlers.access.caller import Caller
from ...handlers.engine import Engine
from ...handlers.memories import MemoryCommands
from ...projections.embedders import open_embedder
from ...projections.progress import wait_for
from ...projections.runner import ProjectionRunner
from ...streams.broker import BrokerSettings
from ...streams.ending import end
from ...streams.follow import follow
from ...streams.payloads import Actor
from ...streams.relay import Relay
from .bench import Bench
from .row import Row, Target, quantile
from .sample import Writer

RATE = 100
"""Writes per second. Each begins when its turn comes, whether or not the ones before it are done."""
_WARM_UP = 50
"""First writes, which are not counted: connections open, plans are made, weights are read."""
_ARRIVAL_SECONDS = 30.0


@dataclass
class _Watched:
    """Seconds on the clock at which each write began, was acknowledged, could be read, and was delivered."""

    began: dict[int, float] = field(default_factory=dict[int, float])
    acknowledged: dict[int, float] = field(default_factory=dict[int, float])
    readable: dict[int, float] = field(default_factory=dict[int, float])
    delivered: dict[int, float] = field(default_factory=dict[int, float])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def milliseconds(self, since: dict[int, float], until: dict[int, float], counted: list[int]) -> list[float]:
        return [1e3 * (until[position] - since[position]) for position in counted]


async def seen(bench: Bench) -> list[Row]:
    """Write to readable and append to subscriber, of the same writes."""
    writes = RATE * bench.pick(20, 3)
    watched = _Watched()
    async with AsyncExitStack() as stack:
        embedder = stack.enter_context(await asyncio.to_thread(open_embedder))
        engine = await stack.enter_async_context(bench.servers.engine(embedder))
        broker = await stack.enter_async_context(bench.servers.broker())
        caller = Caller(uuid4(), Actor("agent", uuid4()))
        await engine.tenants.ensure(caller.tenant, caller.actor)
        await stack.enter_async_context(_running(engine, broker, watched))
        bench.say(f"{writes} writes at {RATE} per second")
        positions = await _write(engine, caller, watched, writes + _WARM_UP)
        async with asyncio.timeout(_ARRIVAL_SECONDS):
            while not watched.delivered.keys() >= set(positions):
                watched.arrived.clear()
                await watched.arrived.wait()
        flush = bench.servers.flush_ms()
    counted = positions[_WARM_UP:]
    acknowledged = watched.milliseconds(watched.began, watched.acknowledged, counted)
    return [
        *_rows(
            "readable",
            watched.milliseconds(watched.began, watched.readable, counted),
            watched.milliseconds(watched.acknowledged, watched.readable, counted),
            says="from the call of remember until a read that waits for it goes on; text, vector, every index",
            acknowledged=acknowledged,
            flush=flush,
            target=Target("at most", 50, of="figure"),
        ),
        *_rows(
            "delivered",
            watched.milliseconds(watched.began, watched.delivered, counted),
            watched.milliseconds(watched.acknowledged, watched.delivered, counted),
            says="from the call of remember until a subscriber has the event, over relay and broker",
            acknowledged=acknowledged,
            flush=flush,
            target=None,
        ),
    ]


def _rows(
    name: str,
    from_call: list[float],
    from_acknowledged: list[float],
    *,
    says: str,
    acknowledged: list[float],
    flush: float | None,
    target: Target | None,
) -> list[Row]:
    """Median and 99th percentile; what is asked for is asked of the latter."""
    detail = {
        "call to acknowledgement, p50 ms": round(quantile(acknowledged, 0.5), 2),
        "p99 ms": round(quantile(acknowledged, 0.99), 2),
        "after the acknowledgement, p50 ms": round(quantile(from_acknowledged, 0.5), 2),
        "p99 then": round(quantile(from_acknowledged, 0.99), 2),
    }
    return [
        Row(
            name=f"{name}.{label}",
            figure=quantile(from_call, share),
            unit="ms",
            says=f"{label} at {RATE} writes per second, {says}",
            target=target if label == "p99" else None,
            flush_ms=flush,
            n=len(from_call),
            detail=detail if label == "p99" else {},
            bound_by="Writer, three read models, relay and subscriber share one interpreter, and each read model "
            "reads, opens and writes a page of its own for every few events.",
        )
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


async def _write(engine: Engine, caller: Caller, watched: _Watched, number: int) -> list[int]:
    """Remember so many texts at the rate; the positions, in the order the writes began."""
    commands = MemoryCommands(engine)

    async def one(text: str) -> int:
        began = time.perf_counter()
        written = await commands.remember(caller, {"topic": text[:60], "content": text})
        watched.began[written.position] = began
        watched.acknowledged[written.position] = time.perf_counter()
        await wait_for(engine.database, engine.live_memory.name, written.position)
        watched.readable[written.position] = time.perf_counter()
        return written.position

    start = time.perf_counter()
    tasks: list[asyncio.Task[int]] = []
    async with asyncio.TaskGroup() as group:
        for turn, text in enumerate(Writer().texts(number)):
            await asyncio.sleep(max(0.0, start + turn / RATE - time.perf_counter()))
            tasks.append(group.create_task(one(text)))
    return [task.result() for task in tasks]


@asynccontextmanager
async def _running(engine: Engine, broker: BrokerSettings, watched: _Watched) -> AsyncGenerator[None]:
    """Read models, relay and a subscriber, in this process as in `Memory.local`."""
    async with AsyncExitStack() as stack:
        relay = Relay(engine.database, engine.tail, broker)
        await relay.open()
        stack.push_async_callback(relay.close)
        await relay.reached(await engine.log.head())
        for projection in engine.projections:
            runner = ProjectionRunner(engine.database, engine.log, engine.tail, projection)
            task = asyncio.create_task(runner.run(), name=f"bench-{projection.name}")
            stack.push_async_callback(end, task)
        following = asyncio.create_task(_follow(broker, watched), name="bench-follow")
        stack.push_async_callback(end, following)
        yield


async def _follow(broker: BrokerSettings, watched: _Watched) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        async with aclosing(follow(broker, names=("memory.*",), start="all")) as events:
            async for event in events:
                watched.delivered[event.position] = time.perf_counter()
                watched.arrived.set()
